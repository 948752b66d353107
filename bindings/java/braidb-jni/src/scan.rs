//! The native part of the Java class `Scan`: entries of a range as an overlay or a transaction sees them, in one order.
//!
//! A scan of an overlay shows the moment when it began, and reads ahead. A scan of a transaction reads one entry at a time: the transaction
//! conflicts with later writes where its scans have read, and its own later writes show.

use crate::bytes::{self, Edges};
use crate::failure::{Failure, Result};
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use crate::page::{self, Filled, Page, Pushed};
use crate::staged::{self, Staged, Writes};
use braidb::{ColumnFamily, OverlayIter, Value};
use jni::objects::JByteArray;
use jni::sys::{jboolean, jint, jlong};
use std::ops::Bound as Edge;
use std::sync::{Arc, Mutex, PoisonError};

type Entry = (Vec<u8>, Value);

/// What a Java scan owns.
#[derive(Debug)]
struct Shell {
    staged: Arc<Staged>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    source: Source,
    is_backward: bool,
    /// An entry that was read and is in no page yet.
    waiting: Option<Entry>,
    /// What the next page returns: entries before the error were handed out.
    failed: Option<Failure>,
}

#[derive(Debug)]
enum Source {
    Overlay(Box<OverlayIter>),
    /// What a transaction has not read yet.
    Transaction {
        family: ColumnFamily,
        left: Edges,
    },
}

native! {
    /// A scan over a range of a family.
    fn Java_io_github_braidb_Native_scan<'local>(
        env,
        staged: jlong,
        home: jlong,
        range: JByteArray<'local>,
        is_backward: jboolean,
    ) -> jlong {
        let staged = Staged::lent(staged)?;
        let family = &Home::lent(home)?.family;
        let range = bytes::range(&bytes::take(env, &range)?)?;
        let source = match &staged.writes {
            Writes::Overlay(overlay) => Source::Overlay(Box::new(overlay.range_in(family, range))),
            Writes::Transaction(_) => Source::Transaction { family: family.clone(), left: range },
        };
        let state = State { source, is_backward, waiting: None, failed: None };
        Ok(handles::give(Shell { staged: staged.clone(), state: Mutex::new(state) }))
    }
}

native! {
    /// Fills the first `room` bytes of a buffer. Returns what `page` says.
    fn Java_io_github_braidb_Native_scanFill<'local>(
        env,
        scan: jlong,
        buffer: JByteArray<'local>,
        room: jint,
    ) -> jint {
        let shell: &Shell = handles::lent(scan);
        shell.staged.check()?;
        let mut state = shell.state.lock().unwrap_or_else(PoisonError::into_inner);
        page::fill(env, &buffer, room, |page| state.fill(&shell.staged, page))
    }
}

native! {
    fn Java_io_github_braidb_Native_freeScan<'local>(_env, scan: jlong) -> () {
        handles::free::<Shell>(scan);
        Ok(())
    }
}

impl State {
    fn fill(&mut self, staged: &Staged, page: &mut Page<'_>) -> Result<Filled> {
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        loop {
            let next = match self.waiting.take() {
                Some(entry) => Ok(Some(entry)),
                None => self.source.next(staged, self.is_backward),
            };
            let (key, value) = match next {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(Filled::Done),
                Err(failure) if page.is_empty() => return Err(failure),
                Err(failure) => {
                    self.failed = Some(failure);
                    return Ok(Filled::Done);
                }
            };
            match page.push(&key, &value) {
                Pushed::Taken if self.source.reads_ahead() => {}
                Pushed::Taken => return Ok(Filled::Done),
                Pushed::Full => {
                    self.waiting = Some((key, value));
                    return Ok(Filled::Done);
                }
                Pushed::TooLarge(bytes) => {
                    self.waiting = Some((key, value));
                    return Ok(Filled::Needs(bytes));
                }
            }
        }
    }
}

impl Source {
    fn reads_ahead(&self) -> bool {
        matches!(self, Source::Overlay(_))
    }

    fn next(&mut self, staged: &Staged, is_backward: bool) -> Result<Option<Entry>> {
        match (self, &staged.writes) {
            (Source::Overlay(iter), _) => {
                Ok(if is_backward { iter.next_back() } else { iter.next() }.transpose()?)
            }
            (Source::Transaction { family, left }, Writes::Transaction(transaction)) => {
                let entry = staged::with(transaction, |running| {
                    let mut iter = running.range_in(family, left.clone());
                    if is_backward { iter.next_back() } else { iter.next() }.transpose()
                })?;
                match (&entry, is_backward) {
                    (Some((key, _)), false) => left.0 = Edge::Excluded(key.clone()),
                    (Some((key, _)), true) => left.1 = Edge::Excluded(key.clone()),
                    (None, _) => {}
                }
                Ok(entry)
            }
            (Source::Transaction { .. }, Writes::Overlay(_)) => Ok(None),
        }
    }
}
