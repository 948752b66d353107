//! Long-lived readers: snapshots and iterators that stay open while the database changes. Each knows what it must still show. A
//! scan may take entries from both ends in any mixture, and is compared with the model.

use crate::client::Client;
use crate::model::{State, show_bytes};
use crate::workload::{Bytes, FAMILIES, Scan};
use braidb::{Iter, Snapshot};
use std::collections::VecDeque;

/// How many snapshots, and how many iterators, may be open at a time. Then the oldest one is dropped before another is opened.
const MOST: usize = 4;

/// The snapshots that are open.
#[derive(Debug, Default)]
pub struct Snapshots(Vec<(Snapshot, State)>);

impl Snapshots {
    /// Takes a snapshot. Drops the oldest one if `MOST` are open.
    pub fn take(&mut self, client: &Client, state: &State) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push((client.db.snapshot(), state.clone()));
    }

    /// The snapshot that `which` chooses, modulo their number.
    pub fn choose(&self, which: u64) -> Option<&(Snapshot, State)> {
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

    /// All snapshots, each with the state that it must show.
    pub fn iter(&self) -> impl Iterator<Item = &(Snapshot, State)> {
        self.0.iter()
    }
}

/// An iterator and the entries that it must still give.
#[derive(Debug)]
pub struct Expected {
    iter: Iter,
    entries: VecDeque<(Bytes, Bytes)>,
    scan: Scan,
}

impl Expected {
    /// Starts `scan`. `state` is what `snapshot` contains, or without a snapshot what the database contains now.
    pub fn start(client: &Client, scan: &Scan, snapshot: Option<&Snapshot>, state: &State) -> Expected {
        let entries = state[scan.family]
            .iter()
            .filter(|(key, _)| scan.span.contains(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        Expected { iter: client.scan(scan.family, &scan.span, snapshot), entries, scan: scan.clone() }
    }

    /// Takes `steps` entries and compares them. A bit of `directions` chooses the end for each. `Ok(false)` means that the
    /// iterator is done. The inner result passes an error of the database on.
    #[allow(
        clippy::type_complexity,
        reason = "the outer result is the judge's, the inner one the database's"
    )]
    pub fn advance(&mut self, directions: u64, steps: usize) -> Result<Result<bool, braidb::Error>, String> {
        for step in 0..steps {
            let from_back = directions >> (step % 64) & 1 == 1;
            let got = if from_back { self.iter.next_back() } else { self.iter.next() };
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
            match expected.iter.next() {
                Some(Err(error)) if is_expected(&error) => {}
                // The range was empty from the start.
                None if expected.entries.is_empty() => {}
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
