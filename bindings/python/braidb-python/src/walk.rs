//! The class `Walk`: iterators over keys, values, or both.
//!
//! An iterator fetches entries in chunks, with the interpreter's lock released, and hands them out one by one. A chunk has 16 entries at first,
//! twice as many each time, and at most 1,024 entries or 256 KiB. Reading ahead changes nothing, as an iterator reads one moment. Signals are
//! looked at between chunks, so Ctrl-C also ends a loop that runs in C, such as `list(db.items())`.
//!
//! An iterator of a transaction fetches one entry at a time. The transaction conflicts with later writes where its iterators have read, and
//! its own later writes must show.

use crate::blocks;
use crate::errors::{Failure, Result};
use crate::held::Held;
use crate::place::{Entries, Staged};
use braidb::{Cursor, PageLimit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ops::{Bound as Edge, Range};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Entries of the first chunk: few, for loops that end soon.
const FIRST_CHUNK: usize = 16;
/// Bytes in front of the key of an entry of a page: the lengths of key and value.
const HEAD_BYTES: usize = 8;

/// In which order an iterator goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Forward,
    Backward,
}

impl Order {
    pub fn of(reverse: bool) -> Order {
        if reverse { Order::Backward } else { Order::Forward }
    }
}

/// What an iterator returns of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Items,
    Keys,
    Values,
}

/// An iterator over entries of one moment, or of a transaction.
#[pyclass(frozen, generic, module = "braidb")]
#[derive(Debug)]
pub struct Walk {
    order: Order,
    part: Part,
    state: Mutex<State>,
    opened: Held,
}

#[derive(Debug)]
struct State {
    source: Source,
    /// The entries of the chunk, in the form of `braidb::Cursor::next_page`. Iterators over keys leave the values empty.
    page: Vec<u8>,
    /// Where the next entry begins in the page.
    at: usize,
    /// The key that was returned last, in the page.
    last: Range<usize>,
    /// Entries of the next chunk, at most.
    room: usize,
    /// What comes behind the page: an error, the end, or a further chunk.
    then: Then,
}

#[derive(Debug)]
enum Source {
    Cursor(Box<Cursor>),
    Staged(Box<Staged>),
    /// The iterator needs no more.
    None,
}

#[derive(Debug)]
enum Then {
    Chunk,
    End,
    Failed(Failure),
    Closed,
}

/// What a look at the chunk found.
enum Found<'py> {
    /// The key and the value, as far as the iterator returns them.
    Entry(Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>),
    End,
    /// The next chunk has to be fetched.
    Nothing,
}

impl Walk {
    pub fn new(opened: Held, entries: Entries, order: Order, part: Part) -> Walk {
        let (source, room) = match entries {
            Entries::Read(iter) => (Source::Cursor(Box::new(iter.cursor())), FIRST_CHUNK),
            Entries::Staged(staged) => (Source::Staged(Box::new(staged)), 1),
        };
        let state = State { source, page: Vec::new(), at: 0, last: 0..0, room, then: Then::Chunk };
        Walk { order, part, state: Mutex::new(state), opened }
    }

    /// Makes the first chunk one entry, of an iterator that returns no second one.
    pub fn only_first(mut self) -> Walk {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).room = 1;
        self
    }

    /// The next entry; `None` at the end.
    pub fn step<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            self.opened.check().map_err(Failure::from)?;
            // The state is free again before an object is made that the collector of garbage tracks. Collecting may run a finalizer that uses the
            // iterator: Python 3.11 collects within the call that makes an object.
            let found = self.try_state().map_or(Ok(Found::Nothing), |mut state| state.take(py, self.part));
            match found? {
                Found::Entry(Some(key), Some(value)) => {
                    return Ok(Some((key, value).into_pyobject(py)?.into_any()));
                }
                Found::Entry(key, value) => return Ok(key.or(value).map(Bound::into_any)),
                Found::End => return Ok(None),
                Found::Nothing => {}
            }
            py.check_signals()?;
            py.detach(|| self.state().fill(self.order, self.part));
        }
    }

    /// The state, with a wait for a thread that fetches a chunk. The caller has released the interpreter's lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless another thread fetches a chunk.
    fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[pymethods]
impl Walk {
    fn __iter__(slf: Py<Walk>) -> Py<Walk> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py)
    }

    /// The key of the entry that was returned last. `None` before the first one, and after the end.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyBytes>>> {
        self.opened.check()?;
        let state = self.try_state().ok_or_else(|| Failure::invalid("another thread uses the iterator"))?;
        Ok((state.at > 0).then(|| PyBytes::new(py, &state.page[state.last.clone()])))
    }

    /// Lets the moment go. A second call does nothing.
    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| {
            self.opened.check_process()?;
            self.state().end(Then::Closed);
            Ok(())
        })
    }

    fn __enter__(slf: Py<Walk>) -> Py<Walk> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        blocks::ended(kind, value, self.close(py))
    }
}

impl State {
    /// Takes the next entry out of the chunk. A failure is told again and again.
    fn take<'py>(&mut self, py: Python<'py>, part: Part) -> Result<Found<'py>> {
        if self.at == self.page.len() {
            return match &self.then {
                Then::Chunk => Ok(Found::Nothing),
                Then::End => {
                    self.end(Then::End);
                    Ok(Found::End)
                }
                Then::Failed(failure) => {
                    let failure = failure.clone();
                    self.end(Then::Failed(failure.clone()));
                    Err(failure)
                }
                Then::Closed => Err(Failure::closed("the iterator was closed; make another one")),
            };
        }
        let length = |at: usize| -> usize {
            let bytes = self.page[at..at + 4].try_into().expect("a head has two lengths of 4 bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let key = self.at + HEAD_BYTES..self.at + HEAD_BYTES + length(self.at);
        let value = key.end..key.end + length(self.at + 4);
        let bytes = |range: &Range<usize>| PyBytes::new(py, &self.page[range.clone()]);
        let found = Found::Entry(
            (part != Part::Values).then(|| bytes(&key)),
            (part != Part::Keys).then(|| bytes(&value)),
        );
        self.at = value.end;
        self.last = key;
        Ok(found)
    }

    /// Fetches the next chunk, if the last one is used up.
    fn fill(&mut self, order: Order, part: Part) {
        if self.at < self.page.len() || !matches!(self.then, Then::Chunk) {
            return;
        }
        self.page.clear();
        (self.at, self.last) = (0, 0..0);
        let most = PageLimit::default();
        let limit = PageLimit { entries: self.room.min(most.entries), bytes: most.bytes };
        // An iterator of a transaction fetches one entry at a time: writes that are staged meanwhile must show, and what was not returned must
        // not conflict.
        if !matches!(self.source, Source::Staged(_)) {
            self.room = limit.entries * 2;
        }
        let fetched = match &mut self.source {
            Source::Cursor(cursor) => fetch(cursor, &mut self.page, limit, order, part),
            Source::Staged(staged) => staged.fetch(&mut self.page, limit, order),
            Source::None => Ok(0),
        };
        match fetched {
            Ok(entries) if entries < limit.entries && self.page.len() < limit.bytes => self.then = Then::End,
            Ok(_) => return,
            Err(failure) => self.then = Then::Failed(failure),
        }
        self.source = Source::None;
    }

    /// Ends the iteration.
    fn end(&mut self, then: Then) {
        self.source = Source::None;
        self.page = Vec::new();
        (self.at, self.last) = (0, 0..0);
        self.then = then;
    }
}

/// Adds the next entries of a cursor to a page. Returns their number. Entries before an error are in the page.
fn fetch(
    cursor: &mut Cursor,
    page: &mut Vec<u8>,
    limit: PageLimit,
    order: Order,
    part: Part,
) -> Result<usize> {
    if part != Part::Keys {
        return Ok(match order {
            Order::Forward => cursor.next_page(page, limit),
            Order::Backward => cursor.prev_page(page, limit),
        }?);
    }
    let mut entries = 0;
    while entries < limit.entries && page.len() < limit.bytes {
        let is_entry = match order {
            Order::Forward => cursor.next(),
            Order::Backward => cursor.prev(),
        }?;
        if !is_entry {
            break;
        }
        push(page, cursor.key().expect("the cursor stands on an entry"), &[]);
        entries += 1;
    }
    Ok(entries)
}

fn push(page: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    page.extend_from_slice(&(key.len() as u32).to_le_bytes());
    page.extend_from_slice(&(value.len() as u32).to_le_bytes());
    page.extend_from_slice(key);
    page.extend_from_slice(value);
}

impl Staged {
    /// Adds the next entries to a page, as the transaction sees them now. Returns their number. The range shrinks by what was read.
    fn fetch(&mut self, page: &mut Vec<u8>, limit: PageLimit, order: Order) -> Result<usize> {
        let (family, edges) = (self.family.as_ref(), self.edges.clone());
        let (mut entries, mut last) = (0, None);
        let outcome = self.running.with(|transaction| {
            let mut iter = match family {
                None => transaction.range(edges),
                Some(family) => transaction.range_in(family, edges),
            };
            while entries < limit.entries && page.len() < limit.bytes {
                let item = match order {
                    Order::Forward => iter.next(),
                    Order::Backward => iter.next_back(),
                };
                let Some((key, value)) = item.transpose()? else { break };
                push(page, &key, &value);
                (entries, last) = (entries + 1, Some(key));
            }
            Ok(entries)
        });
        match (last, order) {
            (Some(key), Order::Forward) => self.edges.0 = Edge::Excluded(key),
            (Some(key), Order::Backward) => self.edges.1 = Edge::Excluded(key),
            (None, _) => {}
        }
        outcome
    }
}
