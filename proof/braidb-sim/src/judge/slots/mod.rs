//! Many stores in one database, as an application of Kafka Streams has them, through kills and power failures.
//!
//! The judge plays the part of Kafka: it keeps the changelog of each store, commits transactions, aborts them, moves tasks away, and restores
//! stores from their changelogs. The stores follow the protocol of [`app`]. During one operation in 6 the judge takes images of crashes. On
//! each image, and after each crash that the case goes on with:
//!
//! - `verify` finds no damage;
//! - a store's entries are those of its changelog up to its offset, unless its status says that they may be ahead;
//! - a kill of the process loses no commit;
//! - a new slot is empty, and after a sweep no other slot is there than those of open stores;
//! - a restored store has what all of its changelog says.

mod app;

use super::Case;
use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict};
use crate::machine::Machine;
use crate::report::Tally;
use crate::rng::Rng;
use crate::workload::CRASHES;
pub use app::Planted;
use app::{App, Entries, Kind, Record, Store};
use braidb::{Durability, Error};
use braidb_storage::sim::{Crash, Op as FileOp, SimFs};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The stores of an application.
const KINDS: [Kind; 5] =
    [Kind::Staged, Kind::ExactlyOnce, Kind::AtLeastOnce, Kind::Staged, Kind::ExactlyOnce];
/// Keys of a store.
const KEYS: u64 = 24;
/// One operation in 6 is watched, and one storage operation in 8 of it becomes an image.
const WATCH_ONE_IN: u64 = 6;
const IMAGE_ONE_IN: u64 = 8;
/// Operations of a life that begins on an image.
const GO_ON: u64 = 8;

/// What Kafka knows of a store.
#[derive(Clone, Debug, Default)]
struct Topic {
    /// The changelog, as readers of commits see it.
    records: Vec<Record>,
    /// Records of the open transaction.
    pending: Vec<Record>,
    /// The slot, and the offset of the last commit in it that has ended.
    committed: (u32, u64),
}

impl Topic {
    /// What the changelog says up to an offset.
    fn entries(&self, offset: u64) -> Entries {
        let mut entries = Entries::new();
        self.records[..offset as usize].iter().for_each(|record| apply(&mut entries, record));
        entries
    }

    fn end(&self) -> u64 {
        self.records.len() as u64
    }
}

fn apply(entries: &mut Entries, (key, value): &Record) {
    match value {
        Some(value) => _ = entries.insert(key.clone(), value.clone()),
        None => _ = entries.remove(key),
    }
}

fn failed(error: Error) -> Failure {
    Failure::new(format!("fails: {error}"))
}

/// Images of crashes during one operation.
struct Images {
    rng: Rng,
    taken: Vec<(Crash, SimFs)>,
}

/// One life of the application.
struct Trial {
    case: Case,
    planted: Option<Planted>,
    rng: Rng,
    fs: SimFs,
    set: OptionSet,
    machine: Machine,
    topics: Vec<Topic>,
    // Behind `stores`, whose overlays hold the database.
    stores: Vec<Store>,
    app: App,
    tally: Tally,
}

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    judge_planted(case, None)
}

/// As [`judge`], with a wrong protocol.
pub fn judge_planted(case: &Case, planted: Option<Planted>) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let topics = vec![Topic::default(); KINDS.len()];
    let mut trial = Trial::begin(*case, planted, &SimFs::new(), topics, &mut rng)?;
    for number in 1..=case.ops {
        trial.watched_step().map_err(|failure| failure.at(format_args!("operation {number}")))?;
        if trial.rng.one_in(25) {
            trial = trial.crash().map_err(|failure| failure.at(format_args!("after operation {number}")))?;
        }
    }
    trial.compare()?;
    Ok(trial.tally)
}

impl Trial {
    /// Opens the database that is on `fs`, and all stores.
    fn begin(
        case: Case,
        planted: Option<Planted>,
        fs: &SimFs,
        topics: Vec<Topic>,
        rng: &mut Rng,
    ) -> Verdict<Trial> {
        let machine = Machine::new(fs, rng.bits());
        let set = OptionSet::draw(case.preset, rng);
        // The stores write with `Durability::Buffer`. The handles of the last life still hold files while the next one opens.
        let open_files = set.open_files.max(64);
        let set = OptionSet { slow_tiers: 0, durability: Durability::Buffer, open_files, ..set };
        let app = App::new(machine.open(&set).map_err(failed)?, fs, planted);
        let mut trial = Trial {
            case,
            planted,
            rng: rng.fork(),
            fs: fs.clone(),
            set,
            machine,
            topics,
            stores: Vec::new(),
            app,
            tally: Tally::default(),
        };
        for store in 0..KINDS.len() {
            let opened = trial.open(store)?;
            trial.stores.push(opened);
        }
        trial.compare()?;
        Ok(trial)
    }

    /// Opens a store as Kafka Streams does, and restores it from its changelog.
    fn open(&mut self, store: usize) -> Verdict<Store> {
        self.open_checked(store)
            .map_err(|failure| failure.at(format_args!("store {store} ({:?})", KINDS[store])))
    }

    fn open_checked(&mut self, number: usize) -> Verdict<Store> {
        let mut store = self.app.open(number, KINDS[number]).map_err(failed)?;
        let is_unknown =
            !store.is_new && store.offset.is_none() && !store.entries(&self.app).map_err(failed)?.is_empty();
        let is_wiped = store.is_dirty && store.kind != Kind::AtLeastOnce;
        if is_wiped || is_unknown {
            self.tally.add(if is_wiped { "wipes" } else { "entries without an offset" }, 1);
            self.app.condemn(&store).map_err(failed)?;
            store = self.app.open(number, KINDS[number]).map_err(failed)?;
        }
        self.check_opened(number, &store)?;
        let topic = &self.topics[number];
        let mut from = store.offset.unwrap_or(0);
        self.tally.add("restored records", topic.end() - from);
        while from < topic.end() {
            let to = (from + self.rng.between(1, 6)).min(topic.end());
            store.restore(&self.app, &topic.records[from as usize..to as usize], Some(to)).map_err(failed)?;
            from = to;
        }
        if store.entries(&self.app).map_err(failed)? != topic.entries(topic.end()) {
            return Err(Failure::new("differs from its changelog after it was restored"));
        }
        self.topics[number].committed = (store.slot, store.offset.unwrap_or(0));
        Ok(store)
    }

    /// Checks what an opening found, before anything is restored.
    fn check_opened(&mut self, number: usize, store: &Store) -> Verdict {
        let topic = &self.topics[number];
        if store.is_new && self.app.has_any(store.slot).map_err(failed)? {
            return Err(Failure::new(format!("the new slot {} has entries", store.slot)));
        }
        let offset = store.offset.unwrap_or(0);
        if offset > topic.end() {
            return Err(Failure::new(format!(
                "has offset {offset} of a changelog of {} records",
                topic.end()
            )));
        }
        // Entries of an at-least-once store may be ahead of its offset.
        if !store.is_dirty && store.entries(&self.app).map_err(failed)? != topic.entries(offset) {
            return Err(Failure::new(format!("its entries are not those of offset {offset}")));
        }
        Ok(())
    }

    /// One operation, and the images of crashes in it.
    fn watched_step(&mut self) -> Verdict {
        if !self.rng.one_in(WATCH_ONE_IN) {
            return self.step();
        }
        let images = Arc::new(Mutex::new(Images { rng: self.rng.fork(), taken: Vec::new() }));
        let seen = images.clone();
        self.fs.set_hook(Some(Box::new(move |fs: &SimFs, _: &FileOp| {
            let Images { rng, taken } = &mut *seen.lock();
            if rng.one_in(IMAGE_ONE_IN) {
                let crash = rng.pick(&CRASHES);
                taken.push((crash, image(fs, crash, rng)));
            }
        })));
        let before = self.topics.clone();
        let stepped = self.step();
        self.fs.set_hook(None);
        stepped?;
        let taken = std::mem::take(&mut images.lock().taken);
        // A transaction is committed before its stores write the commit.
        let mut topics = self.topics.clone();
        for (topic, before) in topics.iter_mut().zip(before) {
            topic.committed = before.committed;
        }
        for (crash, image) in taken {
            self.tally.add("images", 1);
            let mut life = self.next_life(&image, crash, topics.clone())?;
            for number in 1..=GO_ON {
                life.step().map_err(|failure| failure.at(format_args!("operation {number} on the image")))?;
            }
            life.compare()?;
        }
        Ok(())
    }

    /// The application after a crash that left `fs`.
    fn next_life(&mut self, fs: &SimFs, crash: Crash, mut topics: Vec<Topic>) -> Verdict<Trial> {
        let at = |failure: Failure| failure.at(format_args!("after a crash ({crash:?})"));
        topics.iter_mut().for_each(|topic| topic.pending.clear());
        let verified = Machine::new(fs, self.rng.bits()).verify(&self.set).map_err(failed).map_err(at)?;
        if !verified.damages.is_empty() {
            return Err(at(Failure::new(format!("verify finds damage: {:?}", verified.damages))));
        }
        let committed: Vec<_> = topics.iter().map(|topic| topic.committed).collect();
        let machine = Machine::new(fs, self.rng.bits());
        if crash == Crash::Process {
            self.check_commits(fs, &machine, &committed).map_err(at)?;
        }
        drop(machine);
        let mut life = Trial::begin(self.case, self.planted, fs, topics, &mut self.rng).map_err(at)?;
        life.sweep().map_err(at)?;
        let slots = life.app.slots().map_err(failed)?;
        let open: BTreeSet<u32> = life.stores.iter().map(|store| store.slot).collect();
        if !slots.is_subset(&open) {
            return Err(at(Failure::new(format!("slots {slots:?} have entries, and {open:?} are open"))));
        }
        self.tally.merge(&std::mem::take(&mut life.tally));
        Ok(life)
    }

    /// A killed process loses no commit that had ended.
    fn check_commits(&self, fs: &SimFs, machine: &Machine, committed: &[(u32, u64)]) -> Verdict {
        let app = App::new(machine.open(&self.set).map_err(failed)?, fs, None);
        for (number, (slot, offset)) in committed.iter().enumerate() {
            let store = app.open(number, KINDS[number]).map_err(failed)?;
            if store.slot == *slot && store.offset.unwrap_or(0) < *offset {
                return Err(Failure::new(format!(
                    "store {number} has lost a commit: {:?} instead of {offset}",
                    store.offset
                )));
            }
        }
        app.db.close().map_err(failed)
    }

    fn step(&mut self) -> Verdict {
        self.machine.call();
        match self.rng.below(100) {
            0..62 => self.write(),
            62..74 => self.commit(),
            74..76 => self.abort(),
            76..79 => self.move_away(),
            79..83 => self.sweep(),
            83 => self.app.db.flush().map_err(failed),
            84 if self.rng.one_in(3) => self.app.db.compact().map_err(failed),
            84 => self.compare(),
            _ => {
                self.machine.step();
                Ok(())
            }
        }
    }

    fn write(&mut self) -> Verdict {
        let number = self.rng.below(KINDS.len() as u64) as usize;
        let topic = &mut self.topics[number];
        let key = format!("{:02}", self.rng.below(KEYS)).into_bytes();
        let bytes = self.rng.pick(&[1, 30, 200, 1_500]);
        let place = topic.end() + topic.pending.len() as u64;
        let value = (!self.rng.one_in(4)).then(|| format!("{number} {place:bytes$}").into_bytes());
        let record = (key, value);
        let store = &mut self.stores[number];
        match store.kind {
            Kind::AtLeastOnce => topic.records.push(record.clone()),
            Kind::Staged | Kind::ExactlyOnce => topic.pending.push(record.clone()),
        }
        store.write(&self.app, &record).map_err(failed)
    }

    /// Commits the transaction, and then each store.
    fn commit(&mut self) -> Verdict {
        for topic in &mut self.topics {
            topic.records.append(&mut topic.pending);
        }
        for (topic, store) in self.topics.iter_mut().zip(&mut self.stores) {
            store.commit(&self.app, topic.end()).map_err(failed)?;
            topic.committed = (store.slot, topic.end());
            if store.uncommitted_bytes() > 0 {
                return Err(Failure::new("an overlay has bytes after its commit"));
            }
        }
        self.tally.add("commits", 1);
        Ok(())
    }

    /// Aborts the transaction. All stores close and open again.
    fn abort(&mut self) -> Verdict {
        self.topics.iter_mut().for_each(|topic| topic.pending.clear());
        self.stores.clear();
        for number in 0..KINDS.len() {
            let opened = self.open(number)?;
            self.stores.push(opened);
        }
        self.tally.add("aborts", 1);
        Ok(())
    }

    /// Another machine takes a task, whose directory is deleted here, and gives it back later.
    fn move_away(&mut self) -> Verdict {
        self.commit()?;
        let number = self.rng.below(KINDS.len() as u64) as usize;
        self.app.condemn(&self.stores[number]).map_err(failed)?;
        self.stores[number] = self.open(number)?;
        self.tally.add("moves", 1);
        Ok(())
    }

    fn sweep(&mut self) -> Verdict {
        let open = self.stores.iter().map(|store| store.slot).collect();
        let swept = self.app.sweep(&open).map_err(failed)?;
        self.tally.add("slots swept", swept as u64);
        Ok(())
    }

    /// Compares what the open stores see.
    fn compare(&self) -> Verdict {
        for (number, (topic, store)) in self.topics.iter().zip(&self.stores).enumerate() {
            let mut wanted = topic.entries(topic.end());
            topic.pending.iter().for_each(|record| apply(&mut wanted, record));
            if store.entries(&self.app).map_err(failed)? != wanted {
                return Err(Failure::new(format!(
                    "store {number} ({:?}) differs from its changelog",
                    store.kind
                )));
            }
        }
        Ok(())
    }

    /// Ends this life with a crash. Returns the next one.
    fn crash(mut self) -> Verdict<Trial> {
        let crash = self.rng.pick(&CRASHES);
        let left = image(&self.fs, crash, &mut self.rng);
        let topics = self.topics.clone();
        let mut life = self.next_life(&left, crash, topics)?;
        life.tally.merge(&self.tally);
        life.tally.add("crashes", 1);
        Ok(life)
    }
}

/// What a crash leaves of `fs`.
fn image(fs: &SimFs, crash: Crash, rng: &mut Rng) -> SimFs {
    match crash {
        Crash::Process => fs.without_process(),
        Crash::PowerAllLost | Crash::PowerTorn => fs.crash_image(crash, rng.bits()),
    }
}
