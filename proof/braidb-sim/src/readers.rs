//! Long-lived readers: snapshots, iterators and cursors that stay open while the database changes. Each knows what it must still show. A
//! scan may take entries from both ends in any mixture, or move a cursor at will, and is compared with the model.

use crate::client::Client;
use crate::model::{State, show_bytes};
use crate::rng::Rng;
use crate::workload::{Bytes, FAMILIES, Scan, Span};
use braidb::{Cursor, Iter, Snapshot, Value};
use std::collections::VecDeque;

/// How many snapshots, and how many iterators and cursors, may be open at a time. Then the oldest one is dropped before another is opened.
const MOST: usize = 4;

/// A snapshot that is open.
#[derive(Debug)]
pub struct Taken {
    pub snapshot: Snapshot,
    /// What it must show.
    pub state: State,
    /// The ranges that were excised since, by family. Reads there must fail.
    excised: Vec<(usize, Span)>,
}

impl Taken {
    /// Whether a read of the key must fail.
    pub fn lacks(&self, family: usize, key: &[u8]) -> bool {
        self.excised.iter().any(|(of, span)| *of == family && span.contains(key))
    }

    /// Whether a scan of the span must fail.
    pub fn lacks_some(&self, family: usize, span: &Span) -> bool {
        self.excised.iter().any(|(of, excised)| *of == family && excised.meets(span))
    }
}

/// The snapshots that are open.
#[derive(Debug, Default)]
pub struct Snapshots(Vec<Taken>);

impl Snapshots {
    /// Takes a snapshot. Drops the oldest one if `MOST` are open.
    pub fn take(&mut self, client: &Client, state: &State) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(Taken { snapshot: client.db.snapshot(), state: state.clone(), excised: Vec::new() });
    }

    /// Ranges of a family were excised.
    pub fn excised(&mut self, family: usize, spans: &[Span]) {
        for taken in &mut self.0 {
            taken.excised.extend(spans.iter().map(|span| (family, span.clone())));
        }
    }

    /// The snapshot that `which` chooses, modulo their number.
    pub fn choose(&self, which: u64) -> Option<&Taken> {
        let count = self.0.len() as u64;
        (count > 0).then(|| &self.0[(which % count) as usize])
    }

    /// Drops the snapshot that `which` chooses.
    pub fn drop_one(&mut self, which: u64) {
        if !self.0.is_empty() {
            let at = (which % self.0.len() as u64) as usize;
            self.0.remove(at);
        }
    }

    /// Drops all snapshots.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = &Taken> {
        self.0.iter()
    }
}

/// How many values are held at a time: 24. A small cache has evicted the oldest one's block by then, and merges have deleted its table.
const MOST_VALUES: usize = 24;

/// Values that gets returned, each with its bytes. A value stays as it is while its block is evicted, its file deleted and the database closed.
#[derive(Debug, Default)]
pub struct Values(VecDeque<(Value, Bytes)>);

impl Values {
    /// Holds a value that is equal to `bytes` now. Compares and drops the oldest one if `MOST_VALUES` are held.
    pub fn hold(&mut self, value: Value, bytes: Bytes) -> Result<(), String> {
        let oldest = if self.0.len() == MOST_VALUES { self.0.pop_front() } else { None };
        self.0.push_back((value, bytes));
        oldest.map_or(Ok(()), compare)
    }

    /// Compares and drops all values.
    pub fn release(&mut self) -> Result<u64, String> {
        let count = self.0.len() as u64;
        self.0.drain(..).try_for_each(compare).map(|()| count)
    }
}

fn compare((value, bytes): (Value, Bytes)) -> Result<(), String> {
    if value[..] == *bytes {
        return Ok(());
    }
    Err(format!("a value that is held was {:?} and became {:?}", show_bytes(&bytes), show_bytes(&value)))
}

/// The most movements of a cursor in one operation. An iterator comes to its end; a cursor never does.
const MOST_MOVES: usize = 200;

/// An iterator and the entries that it must still give, or a cursor and the entries among which it moves.
#[derive(Debug)]
pub struct Expected {
    reader: Reader,
    entries: VecDeque<(Bytes, Bytes)>,
    scan: Scan,
}

#[derive(Debug)]
enum Reader {
    Iter(Box<Iter>),
    Cursor(Box<Cursor>, Spot),
}

/// Where a cursor must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    New,
    BeforeFirst,
    At(usize),
    BehindLast,
}

impl Expected {
    /// Starts `scan`. `state` is what `snapshot` contains, or without a snapshot what the database contains now. A cursor carries out one in
    /// nine scans.
    pub fn start(client: &Client, scan: &Scan, snapshot: Option<&Snapshot>, state: &State) -> Expected {
        let entries = state[scan.family]
            .iter()
            .filter(|(key, _)| scan.span.contains(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let iter = client.scan(scan.family, &scan.span, snapshot);
        let reader = match scan.directions % 3 {
            1 => Reader::Cursor(Box::new(iter.cursor()), Spot::New),
            _ => Reader::Iter(Box::new(iter)),
        };
        Expected { reader, entries, scan: scan.clone() }
    }

    /// Takes `steps` entries and compares them. A cursor moves `steps` times, but at most `MOST_MOVES` times. `directions` chooses the
    /// movements. `Ok(false)` means that the iterator is done. The inner result passes an error of the database on.
    #[allow(
        clippy::type_complexity,
        reason = "the outer result is the judge's, the inner one the database's"
    )]
    pub fn advance(&mut self, directions: u64, steps: usize) -> Result<Result<bool, braidb::Error>, String> {
        match &mut self.reader {
            Reader::Iter(_) => self.advance_iter(directions, steps),
            Reader::Cursor(..) => self.move_cursor(directions, steps.min(MOST_MOVES)),
        }
    }

    /// A bit of `directions` chooses the end for each step.
    #[allow(clippy::type_complexity, reason = "as for `advance`")]
    fn advance_iter(&mut self, directions: u64, steps: usize) -> Result<Result<bool, braidb::Error>, String> {
        let Reader::Iter(iter) = &mut self.reader else { unreachable!("`advance` looked") };
        for step in 0..steps {
            let from_back = directions >> (step % 64) & 1 == 1;
            let got = if from_back { iter.next_back() } else { iter.next() };
            let wanted = if from_back { self.entries.pop_back() } else { self.entries.pop_front() };
            match (got, wanted) {
                (Some(Err(error)), _) => return Ok(Err(error)),
                (None, None) => return Ok(Ok(false)),
                (Some(Ok((key, value))), Some(wanted)) if key[..] == *wanted.0 && value[..] == *wanted.1 => {}
                (got, wanted) => {
                    let shown = |entry: Option<(&[u8], &[u8])>| match entry {
                        Some((key, value)) => format!("{:?} = {:?}", show_bytes(key), show_bytes(value)),
                        None => "the end".to_owned(),
                    };
                    let got = got.and_then(Result::ok);
                    return Err(format!(
                        "{}, step {step} from the {}: it should give {} and gives {}",
                        self.describe(),
                        if from_back { "back" } else { "front" },
                        shown(wanted.as_ref().map(|(key, value)| (&**key, &**value))),
                        shown(got.as_ref().map(|(key, value)| (&key[..], &value[..])))
                    ));
                }
            }
        }
        Ok(Ok(true))
    }

    /// `seed` draws the movements.
    #[allow(clippy::type_complexity, reason = "as for `advance`")]
    fn move_cursor(&mut self, seed: u64, moves: usize) -> Result<Result<bool, braidb::Error>, String> {
        let described = self.describe();
        let Reader::Cursor(cursor, spot) = &mut self.reader else { unreachable!("`advance` looked") };
        let (entries, mut rng) = (&self.entries, Rng::new(seed));
        let at = |index: usize| if index < entries.len() { Spot::At(index) } else { Spot::BehindLast };
        let before = |end: usize| end.checked_sub(1).map_or(Spot::BeforeFirst, Spot::At);
        for _ in 0..moves {
            let came_from = *spot;
            let mut probe = match entries.len() as u64 {
                0 => Vec::new(),
                count => entries[rng.below(count) as usize].0.to_vec(),
            };
            match rng.below(4) {
                0 => probe.push(rng.bits() as u8),
                1 => probe.truncate(rng.below(8) as usize),
                _ => {}
            }
            let (name, moved, wanted) = match rng.below(16) {
                0..=6 => {
                    let wanted = match came_from {
                        Spot::New | Spot::BeforeFirst => at(0),
                        Spot::At(index) => at(index + 1),
                        Spot::BehindLast => Spot::BehindLast,
                    };
                    ("next", cursor.next(), wanted)
                }
                7..=11 => {
                    let wanted = match came_from {
                        Spot::New | Spot::BehindLast => before(entries.len()),
                        Spot::At(index) => before(index),
                        Spot::BeforeFirst => Spot::BeforeFirst,
                    };
                    ("prev", cursor.prev(), wanted)
                }
                12 => (
                    "seek",
                    cursor.seek(&probe),
                    at(entries.partition_point(|entry| entry.0[..] < probe[..])),
                ),
                13 => {
                    let wanted = before(entries.partition_point(|entry| entry.0[..] <= probe[..]));
                    ("seek_for_prev", cursor.seek_for_prev(&probe), wanted)
                }
                14 => ("first", cursor.first(), at(0)),
                _ => ("last", cursor.last(), before(entries.len())),
            };
            *spot = wanted;
            let wanted = match wanted {
                Spot::At(index) => Some(&entries[index]),
                _ => None,
            };
            let is_there = match moved {
                Ok(is_there) => is_there,
                Err(error) => return Ok(Err(error)),
            };
            let is_right = is_there == wanted.is_some()
                && cursor.key() == wanted.map(|(key, _)| &key[..])
                && match rng.below(4) {
                    // A walk over keys alone.
                    0 => true,
                    _ => match cursor.value() {
                        Ok(value) => value == wanted.map(|(_, value)| &value[..]),
                        Err(error) => return Ok(Err(error)),
                    },
                };
            if !is_right {
                let shown = cursor.key().map(show_bytes);
                let wanted = wanted.map(|(key, _)| show_bytes(key));
                return Err(format!(
                    "{described}: a cursor at {came_from:?} went by `{name}` ({:?}) to {shown:?} instead of {wanted:?}",
                    show_bytes(&probe)
                ));
            }
        }
        Ok(Ok(true))
    }

    fn describe(&self) -> String {
        let of = if self.scan.snapshot.is_some() { "a snapshot of " } else { "" };
        format!("a scan of {:?} in {of}{}", self.scan.span, FAMILIES[self.scan.family])
    }
}

/// The iterators that are open.
#[derive(Debug, Default)]
pub struct Iterators(Vec<Expected>);

impl Iterators {
    /// Keeps an iterator. Drops the oldest one if `MOST` are open.
    pub fn keep(&mut self, iterator: Expected) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(iterator);
    }

    /// Advances the iterator that `which` chooses. An iterator that is done or failed is dropped. Errors are as in
    /// [`Expected::advance`].
    pub fn advance(
        &mut self,
        which: u64,
        directions: u64,
        steps: usize,
    ) -> Result<Result<(), braidb::Error>, String> {
        if self.0.is_empty() {
            return Ok(Ok(()));
        }
        let at = (which % self.0.len() as u64) as usize;
        match self.0[at].advance(directions, steps)? {
            Ok(true) => Ok(Ok(())),
            Ok(false) => {
                self.0.remove(at);
                Ok(Ok(()))
            }
            Err(error) => {
                self.0.remove(at);
                Ok(Err(error))
            }
        }
    }

    /// Drops the iterator that `which` chooses.
    pub fn drop_one(&mut self, which: u64) {
        if !self.0.is_empty() {
            let at = (which % self.0.len() as u64) as usize;
            self.0.remove(at);
        }
    }

    /// Expects every iterator to end with this error, and drops them.
    pub fn expect_ended(
        &mut self,
        is_expected: impl Fn(&braidb::Error) -> bool,
        when: &str,
    ) -> Result<(), String> {
        for mut expected in self.0.drain(..) {
            let given = match &mut expected.reader {
                Reader::Iter(iter) => iter.next().map(|entry| entry.map(|_| ())),
                Reader::Cursor(cursor, _) => {
                    cursor.first().map(|is_there| is_there.then_some(())).transpose()
                }
            };
            match given {
                Some(Err(error)) if is_expected(&error) => {}
                other => return Err(format!("{} gives {other:?} {when}", expected.describe())),
            }
        }
        Ok(())
    }

    /// Drops all iterators.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether no iterator is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
