//! Runs operations against the database and the model together, and compares.
//!
//! A runner owns the files, the machine over them, the model and the open database. Without faults every operation must succeed
//! and agree with the model. With faults (the error judge), an operation may fail once a fault has struck. Then the error must
//! be clear, and successful reads must still be right. A failed write is doubtful. The runner reopens a database that stays
//! poisoned.
//!
//! An observer, such as the crash explorer, sees each storage operation. The runner tells it what the engine was doing and
//! which positions a crash at that moment may leave. The runner keeps the whole model until the next operation begins. So
//! images can be judged after the call that they interrupted.

mod bounds;
mod checkpoints;
mod forks;
mod forms;
mod intruder;
mod lives;
mod outage;
mod ranges;
mod rest;
pub use checkpoints::{COPIES, Copy};
pub use forms::{FORM_COUNTS, Form};
use lives::crash_name;
pub use outage::Outage;

use crate::client::{Client, Trouble};
use crate::draw::{OptionSet, Preset};
use crate::failure::{Failure, Verdict};
use crate::machine::{self, DIR, Doing, Machine};
use crate::model::{Existence, Families, Model, Recovered, differences, show};
use crate::readers::{Expected, Iterators, Snapshots, Taken, Values};
use crate::report::Tally;
use crate::rng::Rng;
use crate::workload::{Bytes, COUNTER_KEY, CRASHES, Change, FAMILIES, Op, Scan, Span, Workload};
use braidb::stats::FamilyTree;
use braidb::{Durability, Error, Overlay};
use braidb_storage::sim::{self, Crash, SimFs};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

/// The circumstances of a storage operation.
#[derive(Clone, Debug)]
pub struct Moment {
    pub doing: Doing,
    pub may: May,
}

/// What a crash may leave.
#[derive(Clone, Debug)]
pub struct May {
    /// The positions allowed after each of [`CRASHES`].
    pub allowed: [RangeInclusive<u64>; 3],
    pub families: Families,
}

impl May {
    fn of(model: &Model) -> May {
        May { allowed: CRASHES.map(|crash| model.allowed(crash)), families: model.families() }
    }
}

/// Called for each storage operation that changes something, before it takes effect.
pub type Observer = Arc<Mutex<dyn FnMut(&SimFs, &sim::Op, Moment) + Send>>;

/// The open database. A function, not a method, so that other fields of the runner stay free to borrow.
fn opened(client: &Option<Client>) -> &Client {
    client.as_ref().expect("the database is open")
}

/// The tables that slices refer to.
fn tables_of(trees: &[FamilyTree]) -> BTreeSet<u64> {
    let cells = trees.iter().flat_map(|tree| &tree.levels).flat_map(|level| &level.cells);
    let slices = cells.flat_map(|cell| &cell.runs).flat_map(|run| &run.slices);
    slices.map(|slice| slice.table).collect()
}

/// What the runner may expect of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// Every operation succeeds.
    Good,
    /// Operations may fail once a fault of the file system has struck.
    Faulty,
    /// The device may be full at any time.
    Small,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("set", &self.set).field("device", &self.device).finish_non_exhaustive()
    }
}

/// The name in the tally of operations after which some cell was on a slow tier.
pub const SLOW_STEPS: &str = "steps with slow cells";

/// Doubtful writes at a time. After 3 the runner reopens the database before it tries another write.
const MOST_DOUBTS: usize = 3;

/// Drives one database through its lives.
pub struct Runner {
    fs: SimFs,
    set: OptionSet,
    preset: Preset,
    rng: Rng,
    model: Model,
    // Declared before the machine, so that the client and its readers are dropped first. Their drop may wait for jobs that the
    // machine's drop loses.
    client: Option<Client>,
    snapshots: Snapshots,
    iterators: Iterators,
    values: Values,
    /// The last overlay of this life whose commit a full device refused, and its batch.
    refused: Option<(Overlay, Vec<Change>)>,
    machine: Machine,
    /// What the last opening found. It becomes the model when the next operation begins.
    found: Option<(Recovered, Vec<String>)>,
    may: Arc<Mutex<May>>,
    observer: Option<Observer>,
    device: Device,
    /// Whether the database has reported that it is poisoned.
    poisoned: bool,
    /// Whether some batches are committed by transactions and overlays.
    mixes_forms: bool,
    /// The form of the batch that this operation writes.
    form: Option<Form>,
    /// Every key that may be written. Used to look up keys that must be absent.
    probes: Vec<Bytes>,
    tally: Tally,
    /// Whether the runner prints what it does.
    trace: bool,
    operations: u64,
}

impl Runner {
    /// A runner over an empty file system. The option set and every choice of the runner come from `rng`.
    pub fn new(preset: Preset, mut rng: Rng, probes: &[Bytes]) -> Runner {
        let set = OptionSet::draw(preset, &mut rng);
        let fs = SimFs::new();
        machine::attach(&fs, &set);
        fs.set_unlinked_are_gone(rng.one_in(2));
        Runner::over(fs, preset, set, rng, Model::new(), probes)
    }

    /// A runner over existing files. `model` knows what they may hold.
    pub fn over(
        fs: SimFs,
        preset: Preset,
        set: OptionSet,
        mut rng: Rng,
        model: Model,
        probes: &[Bytes],
    ) -> Runner {
        Runner {
            machine: Machine::new(&fs, rng.bits()),
            fs,
            set,
            preset,
            rng,
            may: Arc::new(Mutex::new(May::of(&model))),
            model,
            client: None,
            snapshots: Snapshots::default(),
            iterators: Iterators::default(),
            values: Values::default(),
            refused: None,
            found: None,
            observer: None,
            device: Device::Good,
            poisoned: false,
            mixes_forms: false,
            form: None,
            probes: probes.to_vec(),
            tally: Tally::default(),
            trace: false,
            operations: 0,
        }
    }

    /// Shows `observer` every later storage operation that changes something.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
        self.watch_files();
    }

    /// Removes the observer.
    pub fn unobserve(&mut self) {
        self.observer = None;
        self.fs.set_hook(None);
    }

    /// Prints every operation and every forgiven error to standard output.
    pub fn trace(&mut self, on: bool) {
        self.trace = on;
    }

    /// Sets what the runner may expect of the device from now on.
    pub fn expect(&mut self, device: Device) {
        self.device = device;
    }

    /// Whether a fault of the device may have caused an error.
    fn may_fail(&self) -> bool {
        match self.device {
            Device::Good => false,
            Device::Faulty => self.fs.faults_struck() > 0,
            Device::Small => true,
        }
    }

    pub fn fs(&self) -> &SimFs {
        &self.fs
    }

    pub fn set(&self) -> &OptionSet {
        &self.set
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn probes(&self) -> &[Bytes] {
        &self.probes
    }

    /// The counts of what was done so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The position that the last opening found.
    pub fn found(&self) -> Option<u64> {
        self.found.as_ref().map(|(recovered, _)| recovered.position)
    }

    /// Runs one operation.
    pub fn run(&mut self, op: &Op) -> Verdict {
        self.operations += 1;
        if self.trace {
            println!("  {}: {}", self.operations, op.brief());
        }
        self.run_op(op).and_then(|()| self.check_tiers()).map_err(|failure| {
            failure.at(format!("operation {} ({}) with {}", self.operations, op.name(), self.set))
        })
    }

    fn run_op(&mut self, op: &Op) -> Verdict {
        self.machine.call();
        self.form = None;
        self.begin_operation();
        if self.client.is_none() || self.model.doubts() >= MOST_DOUBTS {
            self.reopen(false)?;
        }
        if self.client.is_none() || matches!(op, Op::Reopen { .. } | Op::Crash(_)) {
            return match op {
                Op::Reopen { close } => self.reopen(*close),
                Op::Crash(crash) => self.crash(*crash),
                _ => Ok(()), // A fault keeps the database from opening.
            };
        }
        self.begin_operation();
        self.tally.add(op.name(), 1);
        match op {
            Op::Write(changes, durability) => self.write(changes.clone(), *durability, true),
            Op::Plain(change) => self.write(vec![change.clone()], None, false),
            Op::Get { family, key, snapshot } => self.get(*family, key, *snapshot),
            Op::Scan(_) | Op::OpenIter(_) => self.scan(op),
            Op::StepIter { which, directions, steps } => {
                let advanced = self.iterators.advance(*which, *directions, *steps)?;
                self.succeeded(advanced, "an open iterator").map(|_| ())
            }
            Op::DropIter(which) => {
                self.iterators.drop_one(*which);
                Ok(())
            }
            Op::Pop { family, from_back, entries, at_once } => {
                self.pop(*family, *from_back, *entries, *at_once)
            }
            Op::Excise { family, spans } => self.excise(*family, spans),
            Op::CompactRange { family, span } => self.compact_range(*family, span),
            Op::TakeSnapshot => {
                self.snapshots.take(opened(&self.client), self.model.state());
                Ok(())
            }
            Op::DropSnapshot(which) => {
                self.snapshots.drop_one(*which);
                Ok(())
            }
            Op::Persist(durability) => {
                let persisted = opened(&self.client).db.persist(*durability);
                self.promoted(persisted, *durability, "persist")
            }
            Op::Flush => {
                let flushed = opened(&self.client).db.flush();
                self.promoted(flushed, Durability::Sync, "flush")
            }
            Op::Compact => {
                let compacted = opened(&self.client).db.compact();
                self.promoted(compacted, Durability::Sync, "compact")
            }
            Op::Settle => self.settle(),
            Op::Step(jobs) => {
                for _ in 0..*jobs {
                    self.machine.step();
                }
                Ok(())
            }
            Op::CreateFamily(family) => self.create_family(*family).map(|_| ()),
            Op::Verify => self.verify(),
            Op::Reopen { .. } | Op::Crash(_) => unreachable!("done above"),
        }
    }

    /// Whether the machine has slow devices.
    fn has_slow_devices(&self) -> bool {
        self.fs.device_dirs().len() > 1
    }

    /// Checks which cells are slow.
    fn check_tiers(&mut self) -> Verdict {
        if let Some(client) = self.client.as_ref().filter(|_| self.has_slow_devices()) {
            let slow_slices = bounds::check_tiers(&client.db.tree())?;
            self.tally.add(SLOW_STEPS, u64::from(slow_slices > 0));
        }
        Ok(())
    }

    /// Ends a run: compares everything, also the snapshots, and closes the database.
    pub fn finish(&mut self) -> Verdict {
        self.run(&Op::Verify)?;
        self.compare_all()?;
        self.run(&Op::Reopen { close: true })?;
        self.begin_operation();
        self.run(&Op::Settle)?;
        self.compare_all()?;
        self.close()?;
        self.tally.add("values held", self.values.release().map_err(Failure::new)?);
        Ok(())
    }

    /// Closes the database at the end of the run.
    pub fn close(&mut self) -> Verdict {
        self.snapshots.clear();
        self.end_life();
        let Some(client) = self.client.take() else { return Ok(()) };
        let closed = client.db.close();
        if self.succeeded(closed, "close")?.is_some() {
            self.model.persisted(Durability::Sync);
        }
        self.iterators.expect_ended(|error| matches!(error, Error::Closed), "after close")?;
        drop(client);
        self.publish();
        Ok(())
    }

    /// Makes what the last opening found the state of the model, and trims the model below the power floor.
    fn begin_operation(&mut self) {
        if let Some((recovered, families)) = self.found.take() {
            self.model.restart(recovered, &families);
        }
        self.model.trim();
        self.publish();
    }

    fn publish(&self) {
        *self.may.lock() = May::of(&self.model);
    }

    fn watch_files(&self) {
        let Some(observer) = self.observer.clone() else { return };
        let (may, watch) = (self.may.clone(), self.machine.watch());
        self.fs.set_hook(Some(Box::new(move |fs: &SimFs, op: &sim::Op| {
            let moment = Moment { doing: watch.doing(), may: may.lock().clone() };
            (observer.lock())(fs, op, moment);
        })));
    }

    /// Judges the result of a call. `None` means that it failed and was allowed to.
    fn succeeded<T>(&mut self, result: Result<T, Error>, what: &str) -> Verdict<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.forgive(&error, what)?;
                Ok(None)
            }
        }
    }

    /// Forgives an error if a fault may have caused it and the error is clear. Otherwise the error is a failure.
    fn forgive(&mut self, error: &Error, what: &str) -> Verdict {
        if !self.may_fail() {
            return Err(Failure::new(format!("{what} fails though no fault has struck: {error}")));
        }
        let told = error.to_string();
        if self.trace {
            println!("    {what} fails: {told}");
        }
        self.poisoned |= matches!(error, Error::Poisoned { .. });
        // The paths of slow tiers contain this name too.
        if !told.contains(DIR) {
            return Err(Failure::new(format!("{what} fails with an error that names no file: {told}")));
        }
        if matches!(error, Error::Tier { .. }) {
            return Err(Failure::new(format!("{what} takes a failing device for a wrong tier: {told}")));
        }
        if error.is_corruption() {
            return Err(Failure::new(format!("{what} takes a failing device for damaged data: {told}")));
        }
        Ok(())
    }

    fn promoted(&mut self, result: Result<(), Error>, durability: Durability, what: &str) -> Verdict {
        if self.succeeded(result, what)?.is_some() {
            self.model.persisted(durability);
            self.publish();
        }
        Ok(())
    }

    /// Creates a family unless it exists. Returns whether it exists now.
    fn create_family(&mut self, family: usize) -> Verdict<bool> {
        let client = self.client.as_mut().expect("the database is open");
        if !client.has(family) {
            if self.model.existence(family) == Existence::No {
                self.model.set_existence(family, Existence::Perhaps);
                *self.may.lock() = May::of(&self.model);
            }
            let created = client.create(family);
            if self.succeeded(created, "creating a column family")?.is_none() {
                return Ok(false);
            }
            self.model.set_existence(family, Existence::Yes);
        }
        Ok(true)
    }

    fn write(&mut self, changes: Vec<Change>, durability: Option<Durability>, counted: bool) -> Verdict {
        for change in &changes {
            if !self.create_family(change.family)? {
                return Ok(());
            }
        }
        let changes = self.model.begin(changes, counted);
        self.publish();
        let was_poisoned = self.poisoned;
        let written = match counted {
            true => self.commit(&changes, durability)?,
            false => Some(opened(&self.client).write_plainly(&changes[0])),
        };
        match written {
            None => self.model.refuse(),
            Some(Ok(())) => self.model.acknowledge(durability.unwrap_or(self.set.durability)),
            Some(Err(error)) => {
                self.forgive(&error, "a write")?;
                // A database that was poisoned before refuses the write. A full device refuses it before a byte is written.
                match was_poisoned || matches!(error, Error::Full { .. }) {
                    true => self.model.refuse(),
                    false => self.model.doubt(),
                }
                self.publish();
                self.has_nothing_of(&changes)?;
            }
        }
        self.publish();
        Ok(())
    }

    /// Demands that reads show nothing of a write that failed.
    fn has_nothing_of(&mut self, changes: &[Change]) -> Verdict {
        for change in changes {
            self.get(change.family, &change.key, None).map_err(|f| f.at("after a failed write"))?;
        }
        Ok(())
    }

    fn get(&mut self, family: usize, key: &[u8], snapshot: Option<u64>) -> Verdict {
        let client = opened(&self.client);
        if !client.has(family) {
            return Ok(());
        }
        let snapshot = snapshot.and_then(|which| self.snapshots.choose(which));
        let state = snapshot.map_or(self.model.state(), |taken| &taken.state);
        let wanted = state[family].get(key).cloned();
        let got = client.get(family, key, snapshot.map(|taken| &taken.snapshot));
        if snapshot.is_some_and(|taken| taken.lacks(family, key)) {
            return ranges::fails_by_name(got.map(|_| ()), family);
        }
        let is_there = snapshot.is_none().then(|| client.contains(family, key)).transpose();
        let Some(got) = self.succeeded(got, "get")? else { return Ok(()) };
        let Some(is_there) = self.succeeded(is_there, "contains_key")? else { return Ok(()) };
        if is_there.is_some_and(|is_there| is_there != wanted.is_some()) {
            let key = crate::model::show_bytes(key);
            let what = if wanted.is_some() { "is not there" } else { "is there" };
            return Err(Failure::new(format!("{} {key:?} {what} for contains_key", FAMILIES[family])));
        }
        if got.as_deref() == wanted.as_deref() {
            let held = got.zip(wanted).map_or(Ok(()), |(value, bytes)| self.values.hold(value, bytes));
            return held.map_err(Failure::new);
        }
        let got = got.map(|value| Bytes::from(&value[..]));
        Err(Failure::new(format!(
            "get of {} {:?} should give {} and gives {}",
            FAMILIES[family],
            crate::model::show_bytes(key),
            show(wanted.as_ref()),
            show(got.as_ref())
        )))
    }

    fn scan(&mut self, op: &Op) -> Verdict {
        let (Op::Scan(scan) | Op::OpenIter(scan)) = op else { unreachable!("only scans come here") };
        let client = opened(&self.client);
        if !client.has(scan.family) {
            return Ok(());
        }
        let mut scan = scan.clone();
        let snapshot = scan.snapshot.and_then(|which| self.snapshots.choose(which));
        if snapshot.is_none() {
            scan.snapshot = None;
        }
        if let Some(taken) = snapshot.filter(|taken| taken.lacks_some(scan.family, &scan.span)) {
            let first = client.scan(scan.family, &scan.span, Some(&taken.snapshot)).next();
            return ranges::fails_by_name(first.transpose().map(|_| ()), scan.family);
        }
        let state = snapshot.map_or(self.model.state(), |taken| &taken.state);
        let mut expected = Expected::start(client, &scan, snapshot.map(|taken| &taken.snapshot), state);
        if let Op::OpenIter(_) = op {
            self.iterators.keep(expected);
            return Ok(());
        }
        let advanced = expected.advance(scan.directions, scan.steps)?;
        self.succeeded(advanced, "a scan").map(|_| ())
    }

    /// Compares the first `entries` entries of a family, or the last ones, and deletes them. [`COUNTER_KEY`] and all keys before it stay.
    fn pop(&mut self, family: usize, from_back: bool, entries: usize, at_once: bool) -> Verdict {
        let span = Span::Range(Bound::Excluded(COUNTER_KEY.to_vec()), Bound::Unbounded);
        let directions = if from_back { u64::MAX } else { 0 };
        let steps = if at_once { entries } else { 1 };
        let scan = Op::Scan(Scan { family, span: span.clone(), snapshot: None, directions, steps });
        for _ in 0..entries / steps {
            self.scan(&scan)?;
            if self.client.is_none() || self.poisoned {
                return Ok(());
            }
            let living = self.model.state()[family].keys().filter(|key| span.contains(key)).cloned();
            let keys: Vec<Bytes> =
                if from_back { living.rev().take(steps).collect() } else { living.take(steps).collect() };
            if keys.is_empty() {
                return Ok(());
            }
            let changes = keys.into_iter().map(|key| Change { family, key, value: None });
            self.write(changes.collect(), None, at_once)?;
        }
        Ok(())
    }

    /// Waits until no work is left. Then only files in use may exist, and the tree is within its bounds.
    fn settle(&mut self) -> Verdict {
        let db = &opened(&self.client).db;
        let settled = db.settle();
        if settled.is_ok() && self.device == Device::Good {
            bounds::check(db, &self.set)?;
            if self.has_slow_devices() {
                bounds::check_places(db, &self.fs)?;
            }
        }
        if settled.is_ok() && self.iterators.is_empty() && self.device == Device::Good {
            let known = tables_of(&db.tree()).len();
            let files: Vec<_> =
                self.fs.files().into_iter().filter(|path| !checkpoints::is_of_copy(path)).collect();
            let count =
                |ending: &str| files.iter().filter(|path| path.to_string_lossy().ends_with(ending)).count();
            let value_files = db.stats().value_files as usize;
            if count(".table") != known || count(".values") != value_files || count(".manifest") != 1 {
                return Err(Failure::new(format!(
                    "settled, with {known} tables and {value_files} value files in use, but the files are {files:?}"
                )));
            }
        }
        self.succeeded(settled, "settle").map(|_| ())
    }

    fn verify(&mut self) -> Verdict {
        let verified = opened(&self.client).db.verify();
        match self.succeeded(verified, "verify")? {
            Some(report) if !report.damages.is_empty() && self.device == Device::Good => {
                Err(Failure::new(format!("verify finds damage: {:?}", report.damages)))
            }
            _ => Ok(()),
        }
    }

    /// Reads everything, from the database and each snapshot, in every way, and compares.
    pub fn compare_all(&mut self) -> Verdict {
        self.begin_operation();
        let Some(client) = self.client.clone() else { return Ok(()) };
        self.compare_live(client.read_all(None, &self.probes))?;
        for (i, taken) in self.snapshots.iter().enumerate() {
            let is_whole = |family| !taken.lacks_some(family, &Span::All);
            let read = client.read_families(Some(&taken.snapshot), &self.probes, is_whole);
            let mut expected = taken.state.clone();
            for family in (0..FAMILIES.len()).filter(|&family| client.has(family) && !is_whole(family)) {
                self.compare_rest(&client, taken, family)?;
                expected[family].clear();
            }
            match read {
                Ok(actual) if actual == expected => {}
                Ok(actual) => {
                    let what = differences(&expected, &actual);
                    return Err(Failure::new(format!("snapshot {i} has changed: {what}")));
                }
                Err(Trouble::Failed(_)) if self.may_fail() => {}
                Err(trouble) => return Err(Failure::new(format!("snapshot {i}: {trouble}"))),
            }
        }
        Ok(())
    }
}
