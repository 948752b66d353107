//! Transactions and overlays on one thread, interleaved with writes, flushes, merges and reopenings.
//!
//! Up to four transactions are open at a time, on few keys. The judge keeps the state at which each one began, what it wrote, and what it read.
//! So it knows what each read must return, and the outcome of each commit:
//!
//! - A commit must conflict if a key that was read has another version now than when the transaction began.
//! - It may conflict if a key that was read was written meanwhile: a key that came and went, or a blind delete.
//! - Otherwise it must succeed.
//!
//! An excise counts as a delete of each key in its ranges (`transactions/excises.rs`).
//!
//! Bursts of writes overrun the ring of recent writes. Then the commit compares versions in memory and tables.

mod excises;

use super::Case;
use crate::client::{Client, Trouble};
use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict};
use crate::machine::Machine;
use crate::model::{State, apply, differences, show_bytes};
use crate::report::Tally;
use crate::rng::Rng;
use crate::workload::{Bytes, Change, FAMILIES, Span};
use braidb::{Error, Overlay, OverlayIter, Transaction, Value};
use braidb_storage::sim::SimFs;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Transactions, and iterators over overlays, that may be open at a time.
const MOST_OPEN: usize = 4;
/// Keys of a case, in each family.
const KEYS: u64 = 24;
/// Writes of a burst, more than most rings remember.
const BURST: u64 = 1_200;

type Place = (usize, Bytes);
type Entries = Vec<(Bytes, Bytes)>;

/// A range of a family whose keys were read.
type ReadRange = (usize, Bound<Vec<u8>>, Bound<Vec<u8>>);

/// An open transaction, and what it must see.
struct Open {
    transaction: Transaction,
    /// The number of the last write before the transaction began.
    begun: u64,
    /// The state when it began, and the state with its writes.
    base: State,
    seen: State,
    writes: Vec<Change>,
    points: BTreeSet<Place>,
    ranges: Vec<ReadRange>,
    /// The ranges that were excised since the transaction began, by family.
    excised: Vec<(usize, Span)>,
    /// A read met excised keys. So the commit must conflict.
    met_excised: bool,
}

/// The iterator of an overlay, and the entries that it must still give.
struct OpenIter {
    iter: OverlayIter,
    left: std::collections::VecDeque<(Bytes, Bytes)>,
}

/// The case: the database, its model, and what is open.
struct Trial {
    fs: SimFs,
    machine: Machine,
    client: Client,
    case: Case,
    rng: Rng,
    state: State,
    /// The number of the last write of each key.
    written: BTreeMap<Place, u64>,
    number: u64,
    open: Vec<Open>,
    overlay: Overlay,
    staged: Vec<Change>,
    iters: Vec<OpenIter>,
    tally: Tally,
}

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let fs = SimFs::new();
    let (machine, client) = start(&fs, case, &mut rng)?;
    let overlay = client.db.overlay();
    let mut trial = Trial {
        fs,
        machine,
        client,
        case: *case,
        rng,
        state: State::default(),
        written: BTreeMap::new(),
        number: 0,
        open: Vec::new(),
        overlay,
        staged: Vec::new(),
        iters: Vec::new(),
        tally: Tally::default(),
    };
    for op in 1..=case.ops {
        trial.machine.call();
        trial.step().map_err(|failure| failure.at(format_args!("operation {op}")))?;
    }
    trial.compare()?;
    Ok(trial.tally)
}

fn start(fs: &SimFs, case: &Case, rng: &mut Rng) -> Verdict<(Machine, Client)> {
    let machine = Machine::new(fs, rng.bits());
    let set = OptionSet::draw(case.preset, rng);
    // The handles of the last life still hold files while the next one opens, so there are no few descriptors.
    let set = OptionSet { slow_tiers: 0, open_files: set.open_files.max(64), ..set };
    let mut client = machine.open(&set).and_then(Client::new).map_err(failed)?;
    for family in 0..FAMILIES.len() {
        client.create(family).map_err(failed)?;
    }
    Ok((machine, client))
}

fn failed(error: Error) -> Failure {
    Failure::new(format!("fails: {error}"))
}

impl Trial {
    fn step(&mut self) -> Verdict {
        match self.rng.below(100) {
            0..12 => self.begin(),
            12..22 => self.get(),
            22..34 => self.scan(),
            34..48 => self.write_in_transaction(),
            48..58 => self.commit(),
            58..60 => self.drop_one(),
            60..74 => self.write_plainly(),
            74..76 => self.burst(),
            76..79 => self.pop(),
            79..82 => self.update(),
            82..92 => self.use_overlay(),
            92..94 => self.conflict_then_commit(),
            94 => self.client.db.flush().map_err(failed),
            98 => self.excise(),
            97 => self.read_keys(),
            95 if self.rng.one_in(4) => self.client.db.compact().map_err(failed),
            95 => self.compare(),
            96 if self.rng.one_in(3) => self.reopen(),
            _ => {
                self.machine.step();
                Ok(())
            }
        }
    }

    fn draw_place(&mut self) -> Place {
        let key = format!("{:02}", self.rng.below(KEYS)).into_bytes();
        (self.rng.below(FAMILIES.len() as u64) as usize, key.into())
    }

    fn draw_change(&mut self) -> Change {
        let (family, key) = self.draw_place();
        let value = (!self.rng.one_in(3)).then(|| {
            let bytes = self.rng.pick(&[1, 8, 60, 300]);
            format!("{:bytes$}", self.number).into_bytes().into()
        });
        Change { family, key, value }
    }

    fn draw_span(&mut self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let mut bound = || {
            let key = format!("{:02}", self.rng.below(KEYS)).into_bytes();
            match self.rng.below(4) {
                0 => Bound::Unbounded,
                1 => Bound::Excluded(key),
                _ => Bound::Included(key),
            }
        };
        (bound(), bound())
    }

    fn begin(&mut self) -> Verdict {
        if self.open.len() < MOST_OPEN {
            let transaction = self.client.db.transaction().map_err(failed)?;
            self.open.push(Open {
                transaction,
                begun: self.number,
                base: self.state.clone(),
                seen: self.state.clone(),
                writes: Vec::new(),
                points: BTreeSet::new(),
                ranges: Vec::new(),
                excised: Vec::new(),
                met_excised: false,
            });
        }
        Ok(())
    }

    fn draw_open(&mut self) -> Option<usize> {
        let count = self.open.len() as u64;
        (count > 0).then(|| self.rng.below(count) as usize)
    }

    fn get(&mut self) -> Verdict {
        let (Some(at), place) = (self.draw_open(), self.draw_place()) else { return Ok(()) };
        let (family, key) = (&place.0, &place.1);
        let open = &mut self.open[at];
        let wanted = open.seen[*family].get(key);
        let family_handle = self.client.family(*family);
        let is_own = open.writes.iter().any(|change| (change.family, &change.key) == (*family, key));
        let key_alone = Span::Range(Bound::Included(key.to_vec()), Bound::Included(key.to_vec()));
        if !is_own && open.lacks(*family, &key_alone) {
            open.met_excised = true;
            excises::conflicts(open.transaction.contains_key_in(family_handle, key))?;
            return excises::conflicts(open.transaction.get_in(family_handle, key));
        }
        let got = open.transaction.get_in(family_handle, key).map_err(failed)?;
        let is_there = open.transaction.contains_key_in(family_handle, key).map_err(failed)?;
        if got.as_deref() != wanted.map(|value| &value[..]) || is_there != wanted.is_some() {
            return Err(Failure::new(format!(
                "a transaction reads {:?} of {:?} wrongly",
                got,
                show_bytes(key)
            )));
        }
        // What the transaction wrote itself depends on no other write.
        if !is_own {
            open.points.insert(place);
        }
        Ok(())
    }

    fn scan(&mut self) -> Verdict {
        let (Some(at), span) = (self.draw_open(), self.draw_span()) else { return Ok(()) };
        let family = self.rng.below(FAMILIES.len() as u64) as usize;
        let steps = if self.rng.one_in(3) { usize::MAX } else { self.rng.below(6) as usize };
        let mixed = self.rng.bits();
        let directions = self.rng.pick(&[0, u64::MAX, mixed]);
        let open = &mut self.open[at];
        let mut wanted: std::collections::VecDeque<_> =
            entries_of(&open.seen, family, &Span::Range(span.0.clone(), span.1.clone())).into();
        if open.lacks(family, &Span::Range(span.0.clone(), span.1.clone())) {
            open.met_excised = true;
            let first = open.transaction.range_in(self.client.family(family), span).next();
            return excises::conflicts(first.transpose());
        }
        let mut entries = open.transaction.range_in(self.client.family(family), span.clone());
        let (mut front, mut back, mut has_ended) = (None, None, false);
        for step in 0..steps {
            let from_back = directions >> (step % 64) & 1 == 1;
            let got = if from_back { entries.next_back() } else { entries.next() };
            let next = if from_back { wanted.pop_back() } else { wanted.pop_front() };
            compare_entry(got, next.as_ref(), "a scan of a transaction")?;
            let Some((key, _)) = next else {
                has_ended = true;
                break;
            };
            *(if from_back { &mut back } else { &mut front }) = Some(key.to_vec());
        }
        drop(entries);
        let mut note = |low, high| open.ranges.push((family, low, high));
        if has_ended {
            note(span.0, span.1);
        } else {
            if let Some(front) = front {
                note(span.0, Bound::Included(front));
            }
            if let Some(back) = back {
                note(Bound::Included(back), span.1);
            }
        }
        self.tally.add("transaction scans", 1);
        Ok(())
    }

    fn write_in_transaction(&mut self) -> Verdict {
        let (Some(at), change) = (self.draw_open(), self.draw_change()) else { return Ok(()) };
        let open = &mut self.open[at];
        let family = self.client.family(change.family);
        match &change.value {
            Some(value) => open.transaction.put_in(family, &change.key, value),
            None => open.transaction.delete_in(family, &change.key),
        }
        .map_err(failed)?;
        apply(&mut open.seen, &change);
        open.writes.push(change);
        Ok(())
    }

    /// Whether a commit must conflict, and whether it may.
    fn forecast(&self, open: &Open) -> (bool, bool) {
        let is_read = |(family, key): &Place| {
            open.points.contains(&(*family, key.clone()))
                || open.ranges.iter().any(|(of, low, high)| {
                    of == family && Span::Range(low.clone(), high.clone()).contains(key)
                })
        };
        let mut touched =
            self.written.iter().filter(|(place, number)| **number > open.begun && is_read(place));
        let may = open.met_excised || open.has_read_excised() || touched.clone().next().is_some();
        let exists = |state: &State, (family, key): &Place| state[*family].contains_key(key);
        let must = open.met_excised
            || touched.any(|(place, _)| exists(&open.base, place) || exists(&self.state, place));
        (must, may)
    }

    fn commit(&mut self) -> Verdict {
        let Some(at) = self.draw_open() else { return Ok(()) };
        let open = self.open.remove(at);
        let (must, may) = self.forecast(&open);
        let has_writes = !open.writes.is_empty();
        match open.transaction.commit() {
            Ok(()) if must && has_writes => {
                Err(Failure::new("a transaction commits though a write changed what it read"))
            }
            Ok(()) => {
                self.tally.add("commits", 1);
                self.apply(&open.writes);
                Ok(())
            }
            Err(Error::Conflict) if may && has_writes => {
                self.tally.add("conflicts", 1);
                Ok(())
            }
            Err(error) => Err(failed(error).at("a transaction whose reads no write concerned")),
        }
    }

    fn drop_one(&mut self) -> Verdict {
        if let Some(at) = self.draw_open() {
            self.open.remove(at);
        }
        Ok(())
    }

    fn apply(&mut self, changes: &[Change]) {
        self.number += 1;
        for change in changes {
            apply(&mut self.state, change);
            self.written.insert((change.family, change.key.clone()), self.number);
        }
    }

    fn write(&mut self, changes: &[Change]) -> Verdict {
        self.client.write(changes, None).map_err(failed)?;
        self.apply(changes);
        Ok(())
    }

    fn write_plainly(&mut self) -> Verdict {
        let count = self.rng.between(1, 4);
        let changes: Vec<Change> = (0..count).map(|_| self.draw_change()).collect();
        self.write(&changes)
    }

    /// Overruns the ring with writes that no transaction reads.
    fn burst(&mut self) -> Verdict {
        let family = self.rng.below(FAMILIES.len() as u64) as usize;
        let key = |number: u64| Bytes::from(format!("~{}", number % 8).into_bytes());
        let changes: Vec<Change> = (0..BURST)
            .map(|number| Change { family, key: key(number), value: Some(Bytes::from(&b""[..])) })
            .collect();
        self.tally.add("bursts", 1);
        self.write(&changes)
    }

    /// Deletes the first entries of a family and scans it, so that gaps arise.
    fn pop(&mut self) -> Verdict {
        let family = self.rng.below(FAMILIES.len() as u64) as usize;
        let entries = entries_of(&self.state, family, &Span::All);
        let count = self.rng.between(1, 8) as usize;
        let changes: Vec<Change> =
            entries.into_iter().take(count).map(|(key, _)| Change { family, key, value: None }).collect();
        if !changes.is_empty() {
            self.write(&changes)?;
        }
        let first = self.client.scan(family, &Span::All, None).next().transpose().map_err(failed)?;
        let wanted = self.state[family].keys().next();
        if first.as_ref().map(|(key, _)| &key[..]) != wanted.map(|key| &key[..]) {
            return Err(Failure::new("the first entry after a pop is wrong"));
        }
        Ok(())
    }

    fn update(&mut self) -> Verdict {
        let Change { family, key, value } = self.draw_change();
        let old = self.state[family].get(&key).cloned();
        let handle = self.client.family(family);
        let got = match self.rng.below(3) {
            0 => handle.update(&key, |_| value.as_deref()).map_err(failed)?,
            1 => {
                let got = handle.put_if_absent(&key, value.as_deref().unwrap_or_default()).map_err(failed)?;
                if old.is_none() {
                    let value = Some(value.unwrap_or_else(|| Bytes::from(&b""[..])));
                    self.apply(&[Change { family, key, value }]);
                }
                return same(got.as_deref(), old.as_deref(), "put_if_absent");
            }
            _ => {
                let guess = if self.rng.one_in(2) { old.as_deref() } else { Some(&b"no such value"[..]) };
                let swapped = handle.compare_and_swap(&key, guess, value.as_deref()).map_err(failed)?;
                if swapped != (guess == old.as_deref()) {
                    return Err(Failure::new("compare_and_swap decides wrongly"));
                }
                if swapped {
                    self.apply(&[Change { family, key, value }]);
                }
                return Ok(());
            }
        };
        self.apply(&[Change { family, key, value }]);
        same(got.as_deref(), old.as_deref(), "update")
    }

    /// A plain write between read and commit conflicts; the second run of the work commits.
    fn conflict_then_commit(&mut self) -> Verdict {
        let (first, second) = (self.draw_change(), self.draw_change());
        let client = self.client.clone();
        let mut runs = 0;
        let outcome = client.db.transact(|transaction| {
            runs += 1;
            transaction.get_in(client.family(first.family), &first.key)?;
            if runs == 1 {
                client
                    .write(&[Change { value: Some(Bytes::from(&b"between"[..])), ..first.clone() }], None)?;
            }
            match &second.value {
                Some(value) => transaction.put_in(client.family(second.family), &second.key, value),
                None => transaction.delete_in(client.family(second.family), &second.key),
            }
        });
        outcome.map_err(failed)?;
        self.apply(&[Change { value: Some(Bytes::from(&b"between"[..])), ..first }]);
        self.apply(&[second]);
        if runs == 2 {
            Ok(())
        } else {
            Err(Failure::new(format!("a transaction ran {runs} times instead of 2")))
        }
    }

    /// The state with the overlay's writes.
    fn overlaid(&self) -> State {
        let mut state = self.state.clone();
        self.staged.iter().for_each(|change| drop(apply(&mut state, change)));
        state
    }

    fn use_overlay(&mut self) -> Verdict {
        match self.rng.below(10) {
            0..4 => {
                let change = self.draw_change();
                let family = self.client.family(change.family);
                match &change.value {
                    Some(value) => self.overlay.put_in(family, &change.key, value),
                    None => self.overlay.delete_in(family, &change.key),
                }
                .map_err(failed)?;
                self.staged.push(change);
                Ok(())
            }
            4 => {
                let (family, key) = self.draw_place();
                let got = self.overlay.get_in(self.client.family(family), &key).map_err(failed)?;
                same(got.as_deref(), self.overlaid()[family].get(&key).map(|value| &**value), "an overlay")
            }
            5 => {
                let family = self.rng.below(FAMILIES.len() as u64) as usize;
                let span = self.draw_span();
                let left = entries_of(&self.overlaid(), family, &Span::Range(span.0.clone(), span.1.clone()));
                let iter = self.overlay.range_in(self.client.family(family), span);
                if self.iters.len() == MOST_OPEN {
                    self.iters.remove(0);
                }
                self.iters.push(OpenIter { iter, left: left.into() });
                Ok(())
            }
            6..9 => self.step_iter(),
            _ => {
                match self.rng.one_in(3) {
                    true => self.overlay.clear(),
                    false => {
                        self.overlay.commit().map_err(failed)?;
                        let staged = self.staged.clone();
                        self.apply(&staged);
                        self.tally.add("overlay commits", 1);
                    }
                }
                self.staged.clear();
                if self.overlay.is_empty() {
                    Ok(())
                } else {
                    Err(Failure::new("an overlay keeps its writes"))
                }
            }
        }
    }

    fn step_iter(&mut self) -> Verdict {
        for _ in 0..self.rng.below(6) {
            let count = self.iters.len() as u64;
            if count == 0 {
                return Ok(());
            }
            let OpenIter { iter, left } = &mut self.iters[self.rng.below(count) as usize];
            let (got, wanted) = match self.rng.one_in(2) {
                true => (iter.next_back(), left.pop_back()),
                false => (iter.next(), left.pop_front()),
            };
            compare_entry(got, wanted.as_ref(), "an iterator of an overlay")?;
            self.tally.add("overlay steps", 1);
        }
        Ok(())
    }

    /// Reads the keys of a range alone, from both ends, of a snapshot too.
    fn read_keys(&mut self) -> Verdict {
        let (family, (low, high)) = (self.rng.below(FAMILIES.len() as u64) as usize, self.draw_span());
        let span = Span::Range(low, high);
        let snapshot = self.client.db.snapshot();
        let mut keys = self.client.scan(family, &span, self.rng.one_in(2).then_some(&snapshot)).keys();
        let mut wanted: std::collections::VecDeque<_> = entries_of(&self.state, family, &span).into();
        loop {
            let (got, wanted) = match self.rng.one_in(2) {
                true => (keys.next_back(), wanted.pop_back()),
                false => (keys.next(), wanted.pop_front()),
            };
            let got = got.transpose().map_err(failed)?;
            same(got.as_deref(), wanted.as_ref().map(|(key, _)| &key[..]), "an iterator of keys")?;
            let Some(key) = got else { break };
            if !snapshot.contains_key_in(self.client.family(family), key).map_err(failed)? {
                return Err(Failure::new("a snapshot lacks a key that it shows"));
            }
            self.tally.add("keys", 1);
        }
        Ok(())
    }

    fn compare(&mut self) -> Verdict {
        let actual =
            self.client.read_all(None, &[]).map_err(|trouble: Trouble| Failure::new(trouble.to_string()))?;
        if actual != self.state {
            return Err(Failure::new(differences(&self.state, &actual)));
        }
        self.get_many()
    }

    /// Gets all keys of each family together, and a few that are missing.
    fn get_many(&mut self) -> Verdict {
        let keys: Vec<_> = (0..KEYS + 4).map(|number| format!("{number:02}").into_bytes()).collect();
        for (family, state) in self.state.iter().enumerate() {
            let got = self.client.family(family).get_many(&keys).map_err(failed)?;
            for (key, got) in keys.iter().zip(got) {
                let wanted = state.get(&key[..]).map(|value| &**value);
                same(got.as_deref(), wanted, "get_many")?;
            }
            self.tally.add("keys got together", keys.len() as u64);
        }
        Ok(())
    }

    /// Closes the database, and opens it with other options.
    fn reopen(&mut self) -> Verdict {
        self.compare()?;
        self.open.clear();
        self.iters.clear();
        self.staged.clear();
        self.client.db.close().map_err(failed)?;
        (self.machine, self.client) = start(&self.fs, &self.case, &mut self.rng)?;
        self.overlay = self.client.db.overlay();
        self.tally.add("reopenings", 1);
        self.compare()
    }
}

fn entries_of(state: &State, family: usize, span: &Span) -> Entries {
    let within = state[family].iter().filter(|(key, _)| span.contains(key));
    within.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn same(got: Option<&[u8]>, wanted: Option<&[u8]>, what: &str) -> Verdict {
    if got == wanted {
        return Ok(());
    }
    let shown = |value: Option<&[u8]>| value.map_or("nothing".to_owned(), show_bytes);
    Err(Failure::new(format!("{what} gives {} instead of {}", shown(got), shown(wanted))))
}

fn compare_entry(
    got: Option<Result<(Vec<u8>, Value), Error>>,
    wanted: Option<&(Bytes, Bytes)>,
    what: &str,
) -> Verdict {
    let got = got.transpose().map_err(failed)?;
    let wanted_key = wanted.map(|(key, _)| &key[..]);
    same(got.as_ref().map(|(key, _)| &key[..]), wanted_key, what)?;
    same(got.as_ref().map(|(_, value)| &value[..]), wanted.map(|(_, value)| &value[..]), what)
}
