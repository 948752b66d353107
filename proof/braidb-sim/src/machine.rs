//! The machine under the database: a simulated file system, a stepped runtime, seeded randomness and a clock that stands still.
//!
//! A machine stands for one process: it opens the database on files that outlive it. A crash leaves only these files. The
//! machine knows what the engine is doing: opening, a background job of one lane, or neither. A judge that stops the machine at
//! one storage operation reports what it interrupted.
//!
//! On one thread, a wait for work that no job does would last for ever. The machine detects it between announced calls
//! ([`Machine::call`]): the engine asks for help `PATIENCE` times, no job runs and no file is touched.

use crate::draw::OptionSet;
use braidb::stats::VerifyReport;
use braidb::{Db, Options};
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::sim::SimFs;
use braidb_storage::{Env, Job, Lane, Runtime};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The directory of the database on every simulated file system.
pub const DIR: &str = "/db";

/// The directories of the slow devices that a machine may have in addition to the first device.
pub const SLOW_DEVICES: [&str; 2] = ["/slow-1", "/slow-2"];

/// The directories of slow tiers, one on each slow device. Each is a directory below its device's, so that a crash can lose its name.
pub const SLOW_DIRS: [&str; 2] = ["/slow-1/db", "/slow-2/db"];

/// Consecutive requests for help without effect after which the engine counts as hanging.
const PATIENCE: u32 = 30;

/// What the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A call by the user.
    Call,
    /// Opening the database.
    Opening,
    /// A background job.
    Job(Lane, Begun),
}

/// The state of the machine when a job began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// The job's number, unique on its machine.
    pub number: u64,
    /// How often logs of the file system had been read when the job began.
    pub log_reads: u64,
}

/// Tells what the engine is doing. The machine and its observers share it.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Mutex<Doing>>);

impl Watch {
    /// What the engine is doing now.
    pub fn doing(&self) -> Doing {
        *self.0.lock()
    }

    fn set(&self, doing: Doing) -> Doing {
        std::mem::replace(&mut *self.0.lock(), doing)
    }
}

/// How many descriptors a process may have if its options set `open_files` to the minimum of 16.
const FEW_DESCRIPTORS: u64 = 48;

/// Adds the slow devices if the options name slow tiers and the machine lacks the devices. If the options set `open_files` to 16, the
/// process may have only `FEW_DESCRIPTORS` descriptors.
pub fn attach(fs: &SimFs, set: &OptionSet) {
    fs.set_descriptor_limit((set.open_files == 16).then_some(FEW_DESCRIPTORS));
    if set.slow_tiers > 0 && fs.device_dirs().len() == 1 {
        for dir in SLOW_DEVICES {
            fs.add_device(Path::new(dir)).expect("only devices have these directories");
        }
    }
}

/// The `TIER` files of a machine: one in the directory of each slow tier.
pub fn tier_files(fs: &SimFs) -> Vec<PathBuf> {
    fs.files().into_iter().filter(|path| is_named(path, "TIER")).collect()
}

/// Whether the last name of a path is `name`.
pub fn is_named(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|last| last == name)
}

/// One life of a process.
#[derive(Debug)]
pub struct Machine {
    inline: Arc<Inline>,
    watch: Watch,
    waits: Arc<Waits>,
    env: Env,
}

impl Machine {
    /// A machine over the files of `fs`. Its random numbers depend on `seed` alone.
    pub fn new(fs: &SimFs, seed: u64) -> Machine {
        let clock = Arc::new(StepClock::new());
        let inline = Arc::new(Inline::new(clock.clone()));
        let watch = Watch(Arc::new(Mutex::new(Doing::Call)));
        let waits = Arc::new(Waits { fs: fs.clone(), in_vain: Mutex::default() });
        let jobs = AtomicU64::new(1);
        let runtime = Watched { inline: inline.clone(), watch: watch.clone(), waits: waits.clone(), jobs };
        let env = Env {
            fs: Arc::new(fs.clone()),
            clock,
            random: Arc::new(SeededRandom::new(seed)),
            runtime: Arc::new(runtime),
        };
        Machine { inline, watch, waits, env }
    }

    /// Announces a call of the engine on the only thread. A wait that cannot end panics from now on.
    pub fn call(&self) {
        *self.waits.in_vain.lock() = Some((0, self.waits.fs.ops()));
    }

    /// Opens the database with these options.
    pub fn open(&self, set: &OptionSet) -> Result<Db, braidb::Error> {
        let before = self.watch.set(Doing::Opening);
        let opened = self.options(set).open(DIR);
        self.watch.set(before);
        opened
    }

    /// Opens the database with these options, to read it.
    pub fn open_read_only(&self, set: &OptionSet) -> Result<Db, braidb::Error> {
        self.options(set).open_read_only(DIR)
    }

    /// Verifies the database without opening it.
    pub fn verify(&self, set: &OptionSet) -> Result<VerifyReport, braidb::Error> {
        self.options(set).verify(DIR)
    }

    /// The options of `set` on this machine, which gets the devices that they need.
    pub fn options(&self, set: &OptionSet) -> Options {
        attach(&self.waits.fs, set);
        set.options(self.env.clone())
    }

    /// What carries out the jobs, for jobs of a judge.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        self.env.runtime.clone()
    }

    /// Tells what the engine is doing.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Runs one background job; `false` if there is none.
    pub fn step(&self) -> bool {
        self.env.runtime.help()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A dead process does no more work. Pending jobs may hold the engine alive.
        self.inline.drop_pending();
    }
}

/// Detects a wait that cannot end.
#[derive(Debug)]
struct Waits {
    fs: SimFs,
    /// Consecutive requests for help without effect, and the count of file operations at the last one. `None` until
    /// [`Machine::call`] says that there is only one thread.
    in_vain: Mutex<Option<(u32, u64)>>,
}

impl Waits {
    fn helped(&self, helped: bool) {
        let mut in_vain = self.in_vain.lock();
        let Some((times, ops)) = &mut *in_vain else { return };
        let now = self.fs.ops();
        *times = if helped || now != *ops { 0 } else { *times + 1 };
        *ops = now;
        assert!(*times < PATIENCE, "the engine waits, and no job is left that would end the wait");
    }
}

/// The stepped runtime. It records the lane and number of the running job.
#[derive(Debug)]
struct Watched {
    inline: Arc<Inline>,
    watch: Watch,
    waits: Arc<Waits>,
    /// The number of the next job, from 1.
    jobs: AtomicU64,
}

impl Runtime for Watched {
    fn submit(&self, lane: Lane, job: Job) {
        let watch = self.watch.clone();
        let number = self.jobs.fetch_add(1, Ordering::Relaxed);
        let fs = self.waits.fs.clone();
        let watched = move || {
            let before = watch.set(Doing::Job(lane, Begun { number, log_reads: fs.log_reads() }));
            job();
            watch.set(before);
        };
        self.inline.submit(lane, Box::new(watched));
    }

    fn help(&self) -> bool {
        let helped = self.inline.help();
        self.waits.helped(helped);
        helped
    }

    fn is_stepped(&self) -> bool {
        true
    }

    fn pause_us(&self, us: u64) {
        self.inline.pause_us(us);
    }
}
