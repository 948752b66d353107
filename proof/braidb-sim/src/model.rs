//! The model: what the database must contain, and what it may contain after a crash.
//!
//! The contents of all families are plain maps. Writes have *positions*: position 0 is the empty database. Each write that may
//! have happened adds one. The model keeps the writes since the last point that no crash can undo, each with its undo. Walking
//! back rebuilds the state at any position in between.
//!
//! After a crash a database must equal the model at ONE position. This excludes holes, half batches and resurrected entries.
//! The contract in docs/crash-safety.md defines the allowed positions:
//!
//! ```text
//!        first ........... power floor ....... kill floor ........... end (+1: a write under way)
//!                              │                   │                    │
//!              everything up to here       up to here survives     nothing beyond here
//!              survives lost power         a killed process        was ever asked for
//! ```
//!
//! * A write acknowledged in `Sync`, and `persist(Sync)`, `flush`, `compact` and `close` move both floors to the end.
//! * A write acknowledged in `Buffer`, and `persist(Buffer)`, move the kill floor. All earlier writes precede it in the log.
//! * A write in `None` moves neither floor.
//! * A failed write is *doubtful*: the next opening may find it, and no read before shows it. If a later write is acknowledged,
//!   the doubtful write never happened.
//! * A successful opening has synced what it found: both floors move to the found position.
//!
//! Every batch stores its number under [`COUNTER_KEY`]. The number quickly tells the position of a database. Numbers are never
//! reused, so a write that a crash took back cannot pass for a later one.

use crate::workload::{Bytes, COUNTER_KEY, Change, FAMILIES};
use braidb::Durability;
use braidb_storage::sim::Crash;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The contents of every family.
pub type State = [BTreeMap<Bytes, Bytes>; FAMILIES.len()];

/// Applies `change` and returns the change that undoes it.
pub fn apply(state: &mut State, change: &Change) -> Change {
    let Change { family, key, value } = change;
    let old = match value {
        Some(value) => state[*family].insert(key.clone(), value.clone()),
        None => state[*family].remove(key),
    };
    Change { family: *family, key: key.clone(), value: old }
}

#[derive(Clone, Debug)]
struct Write {
    changes: Arc<[Change]>,
    /// The changes that restore the previous state, in the order in which to apply them. Empty until the write is applied.
    undo: Arc<[Change]>,
}

impl Write {
    fn apply(&mut self, state: &mut State) {
        let mut undo: Vec<Change> = self.changes.iter().map(|change| apply(state, change)).collect();
        undo.reverse();
        self.undo = undo.into();
    }
}

/// The expected contents of the database.
#[derive(Clone, Debug, Default)]
pub struct Model {
    state: State,
    /// The position before the oldest write in `history`.
    first: u64,
    history: VecDeque<Write>,
    under_way: Option<Write>,
    doubtful: Vec<Write>,
    kill_floor: u64,
    power_floor: u64,
    last_number: u64,
    /// For each family: whether it exists, may exist, or does not.
    created: Families,
}

/// What the model knows of every family.
pub type Families = [Existence; FAMILIES.len()];

/// Whether a family exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    #[default]
    No,
    /// The creation is under way, or failed.
    Perhaps,
    Yes,
}

/// A recovered state and its position.
#[derive(Clone, Debug)]
pub struct Recovered {
    pub position: u64,
    pub state: State,
}

impl Model {
    /// An empty database. The default family always exists.
    pub fn new() -> Model {
        let mut model = Model::default();
        model.created[0] = Existence::Yes;
        model
    }

    /// The state that reads see now.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The position of the last acknowledged write.
    pub fn end(&self) -> u64 {
        self.first + self.history.len() as u64
    }

    /// The positions that a database may be at if `crash` happened now.
    pub fn allowed(&self, crash: Crash) -> RangeInclusive<u64> {
        let floor = match crash {
            Crash::Process => self.kill_floor,
            Crash::PowerAllLost | Crash::PowerTorn => self.power_floor,
        };
        floor..=self.end() + u64::from(self.under_way.is_some()) + self.doubtful.len() as u64
    }

    /// The number of the last batch.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Begins a write and returns its changes. If `counted`, adds a change that stores the write's number.
    pub fn begin(&mut self, mut changes: Vec<Change>, counted: bool) -> Arc<[Change]> {
        assert!(self.under_way.is_none(), "one write at a time");
        if counted {
            self.last_number += 1;
            let number = self.last_number.to_le_bytes();
            let at = self.last_number as usize % (changes.len() + 1);
            let counter = Change { family: 0, key: COUNTER_KEY.into(), value: Some(number[..].into()) };
            changes.insert(at, counter);
        }
        let changes: Arc<[Change]> = changes.into();
        self.under_way = Some(Write { changes: changes.clone(), undo: Arc::new([]) });
        changes
    }

    /// Records that the write under way was acknowledged.
    pub fn acknowledge(&mut self, durability: Durability) {
        let mut write = self.under_way.take().expect("a write is under way");
        write.apply(&mut self.state);
        self.history.push_back(write);
        self.doubtful.clear();
        self.persisted(durability);
    }

    /// Records that the write under way failed. A later opening may still find it.
    pub fn doubt(&mut self) {
        self.doubtful.extend(self.under_way.take());
    }

    /// Records that the write under way was refused. It did not happen.
    pub fn refuse(&mut self) {
        self.under_way = None;
    }

    /// Failed writes since the last acknowledged one.
    pub fn doubts(&self) -> usize {
        self.doubtful.len()
    }

    /// Records that all acknowledged writes now have `durability`.
    pub fn persisted(&mut self, durability: Durability) {
        if durability >= Durability::Buffer {
            self.kill_floor = self.end();
        }
        if durability >= Durability::Sync {
            self.power_floor = self.end();
        }
    }

    /// Records a crash. A power failure leaves only stable data. A kill leaves the stability of data unchanged.
    pub fn crashed(&mut self, crash: Crash) {
        if crash != Crash::Process {
            self.kill_floor = self.power_floor;
        }
    }

    /// Forgets the undo of writes below the power floor. Must not run while an image from before the last move of the floor is
    /// unchecked.
    pub fn trim(&mut self) {
        while self.first < self.power_floor {
            self.history.pop_front();
            self.first += 1;
        }
    }

    /// What the model knows of every family.
    pub fn families(&self) -> Families {
        self.created
    }

    /// Restores an earlier knowledge of the families.
    pub fn set_families(&mut self, families: Families) {
        self.created = families;
    }

    /// Whether the family exists.
    pub fn existence(&self, family: usize) -> Existence {
        self.created[family]
    }

    /// Sets whether a family exists.
    pub fn set_existence(&mut self, family: usize, existence: Existence) {
        self.created[family] = existence;
    }

    /// Restarts the model after an opening found `recovered`, whose position is stable from now on. `families` decides for
    /// every doubtful family whether it exists.
    pub fn restart(&mut self, recovered: Recovered, families: &[String]) {
        for (existence, name) in self.created.iter_mut().zip(FAMILIES) {
            *existence =
                if families.iter().any(|family| family == name) { Existence::Yes } else { Existence::No };
        }
        self.state = recovered.state;
        self.first = recovered.position;
        self.history.clear();
        self.doubtful.clear();
        self.under_way = None;
        self.kill_floor = self.first;
        self.power_floor = self.first;
    }

    /// Whether the existing `families` are possible: every created family, and none that was never created.
    pub fn check_families(&self, families: &[String]) -> Result<(), String> {
        for (existence, name) in self.created.iter().zip(FAMILIES) {
            let found = families.iter().any(|family| family == name);
            match existence {
                Existence::Yes if !found => return Err(format!("the column family {name:?} is lost")),
                Existence::No if found => {
                    return Err(format!("the column family {name:?} was never created"));
                }
                _ => {}
            }
        }
        match families.iter().find(|family| !FAMILIES.contains(&family.as_str())) {
            Some(name) => Err(format!("there is an unknown column family {name:?}")),
            None => Ok(()),
        }
    }

    /// Finds the allowed position that `actual` equals, the latest if several do. Otherwise describes the error.
    pub fn find(&self, actual: &State, allowed: &RangeInclusive<u64>) -> Result<Recovered, String> {
        assert!(*allowed.start() >= self.first, "the model has forgotten the state at {}", allowed.start());
        assert!(
            self.under_way.is_none(),
            "an image is checked when the write that it interrupted is decided"
        );
        let found = |position, state| Ok(Recovered { position, state });
        if *allowed.end() > self.end() {
            // Any subset of the doubtful writes may have happened, in their order.
            for chosen in (1_u32..1 << self.doubtful.len()).rev() {
                let mut state = self.state.clone();
                for (i, write) in self.doubtful.iter().enumerate() {
                    if chosen & (1 << i) != 0 {
                        write.clone().apply(&mut state);
                    }
                }
                if state == *actual {
                    return found(self.end() + 1, state);
                }
            }
        }
        let counter = |state: &State| state[0].get(COUNTER_KEY).cloned();
        let wanted = counter(actual);
        let mut state = self.state.clone();
        let mut same_number = None;
        for position in (*allowed.start()..=self.end()).rev() {
            if position <= *allowed.end() && counter(&state) == wanted {
                if state == *actual {
                    return found(position, state);
                }
                same_number = Some((position, differences(&state, actual)));
            }
            if position > *allowed.start() {
                for change in &*self.history[(position - 1 - self.first) as usize].undo {
                    apply(&mut state, change);
                }
            }
        }
        Err(match same_number {
            Some((position, what)) => {
                format!(
                    "the state is no state that ever was: it has the number of position {position}, but {what}"
                )
            }
            None => self.misplaced(wanted, allowed),
        })
    }

    /// Describes a state whose number belongs to no allowed position.
    fn misplaced(&self, number: Option<Bytes>, allowed: &RangeInclusive<u64>) -> String {
        let shown = |number: &Bytes| match <[u8; 8]>::try_from(&number[..]) {
            Ok(bytes) => u64::from_le_bytes(bytes).to_string(),
            Err(_) => format!("{:?}", number.escape_ascii().to_string()),
        };
        let wrote = |write: &Write| {
            write.changes.iter().any(|change| &*change.key == COUNTER_KEY && change.value == number)
        };
        let position = self.history.iter().rposition(wrote).map(|i| self.first + i as u64 + 1);
        let what = match (&number, position) {
            (None, _) => "it has no number, as if no batch had ever been written".to_owned(),
            (Some(number), None) => format!("its number is {}, of no write that it may show", shown(number)),
            (Some(number), Some(position)) => {
                format!("its number is {}, of position {position}", shown(number))
            }
        };
        format!(
            "the state is at none of the allowed positions {} to {} (the last acknowledged is {}): {what}",
            allowed.start(),
            allowed.end(),
            self.end()
        )
    }
}

/// Describes the first 3 differences between two states.
pub fn differences(expected: &State, actual: &State) -> String {
    let mut told = Vec::new();
    for (family, name) in FAMILIES.iter().enumerate() {
        let keys: std::collections::BTreeSet<&Bytes> =
            expected[family].keys().chain(actual[family].keys()).collect();
        for key in keys {
            let (wanted, got) = (expected[family].get(key), actual[family].get(key));
            if wanted != got {
                told.push(format!(
                    "{name} {:?} should be {} and is {}",
                    show_bytes(key),
                    show(wanted),
                    show(got)
                ));
            }
        }
    }
    let more = told.len().saturating_sub(3);
    told.truncate(3);
    match (told.is_empty(), more) {
        (true, _) => "there is no difference".to_owned(),
        (_, 0) => told.join("; "),
        _ => format!("{}; and {more} more", told.join("; ")),
    }
}

/// A value or its absence, shortened.
pub fn show(value: Option<&Bytes>) -> String {
    value.map_or("absent".to_owned(), |value| format!("{:?}", show_bytes(value)))
}

/// Bytes, escaped and shortened.
pub fn show_bytes(bytes: &[u8]) -> String {
    let head = bytes[..bytes.len().min(24)].escape_ascii().to_string();
    if bytes.len() > 24 { format!("{head}… ({} bytes)", bytes.len()) } else { head }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Vec<Change> {
        vec![Change { family: 1, key: key.as_bytes().into(), value: Some(value.as_bytes().into()) }]
    }

    fn written(model: &mut Model, key: &str, value: &str, durability: Durability) -> State {
        model.begin(put(key, value), true);
        model.acknowledge(durability);
        model.state().clone()
    }

    #[test]
    fn floors_follow_the_contract() {
        let mut model = Model::new();
        written(&mut model, "a", "1", Durability::Sync);
        written(&mut model, "a", "2", Durability::Buffer);
        written(&mut model, "a", "3", Durability::None);
        model.begin(put("a", "4"), true);
        assert_eq!(model.allowed(Crash::Process), 2..=4);
        assert_eq!(model.allowed(Crash::PowerTorn), 1..=4);
        model.acknowledge(Durability::None);
        model.persisted(Durability::Buffer);
        assert_eq!((model.allowed(Crash::Process), model.allowed(Crash::PowerAllLost)), (4..=4, 1..=4));
    }

    #[test]
    fn a_state_is_found_at_its_position_only() {
        let mut model = Model::new();
        let states: Vec<State> =
            (0..5).map(|i| written(&mut model, "k", &i.to_string(), Durability::None)).collect();
        for (i, state) in states.iter().enumerate() {
            assert_eq!(model.find(state, &(0..=5)).unwrap().position, i as u64 + 1);
        }
        assert_eq!(model.find(&State::default(), &(0..=5)).unwrap().position, 0);
        assert!(model.find(&states[0], &(2..=5)).unwrap_err().contains("position 1"));
        // A hole: the newest number is there, and an older write is missing.
        let mut hole = states[4].clone();
        hole[1].clear();
        assert!(model.find(&hole, &(0..=5)).unwrap_err().contains("no state that ever was"));
    }

    #[test]
    fn doubt_lasts_until_the_next_acknowledgement() {
        let mut model = Model::new();
        let before = written(&mut model, "k", "old", Durability::Buffer);
        model.begin(put("k", "doubtful"), false);
        model.doubt();
        let mut with = before.clone();
        with[1].insert(b"k"[..].into(), b"doubtful"[..].into());
        assert_eq!(model.state(), &before);
        assert_eq!(model.find(&with, &model.allowed(Crash::Process)).unwrap().position, 2);
        assert_eq!(model.find(&before, &model.allowed(Crash::Process)).unwrap().position, 1);
        written(&mut model, "other", "new", Durability::Buffer);
        with[1].insert(b"other"[..].into(), b"new"[..].into());
        with[0] = model.state()[0].clone();
        assert!(model.find(&with, &model.allowed(Crash::Process)).is_err());
    }
}
