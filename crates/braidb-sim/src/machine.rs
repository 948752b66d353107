//! The machine under the database: a simulated file system, a stepped runtime, seeded chance, a clock that stands still.
//!
//! A machine is what a process is to the real thing: it opens the database on files that outlive it, and a crash leaves
//! nothing of it but those files. It knows what the engine is doing (opening, a background job of one lane, neither),
//! because a judge that stops it at one storage operation wants to know what it interrupted.
//!
//! On one thread a wait that nobody pays would last for ever. Between calls that it is told of ([`Machine::call`]) the machine
//! notices one: the engine asks for help again and again, and neither does a job run nor is a file touched.

use crate::draw::OptionSet;
use crate::fs::SimFs;
use braidb::{Db, VerifyReport};
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::{Env, Job, Lane, Runtime};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The directory of the database on every simulated file system.
pub const DIR: &str = "/db";

/// So often in a row the engine asks for help in vain before it is said to hang.
const PATIENCE: u32 = 30;

/// What the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A call of the user.
    Call,
    /// Opening the database.
    Opening,
    /// A background job.
    Job(Lane, Begun),
}

/// The beginning of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Each job of a machine has its own.
    pub number: u64,
    /// How often a log had been read.
    pub log_reads: u64,
}

/// Tells what the engine is doing; shared by a machine and who watches it.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Mutex<Doing>>);

impl Watch {
    /// What it is doing now.
    pub fn doing(&self) -> Doing {
        *self.0.lock()
    }

    fn set(&self, doing: Doing) -> Doing {
        std::mem::replace(&mut *self.0.lock(), doing)
    }
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
    /// A machine over those files. Its chance depends on `seed` alone.
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

    /// A call of the engine begins, on the one thread that there is. Should it wait for ever, that is a panic.
    pub fn call(&self) {
        *self.waits.in_vain.lock() = Some((0, self.waits.fs.ops()));
    }

    /// Opens the database with these options.
    pub fn open(&self, set: &OptionSet) -> Result<Db, braidb::Error> {
        let before = self.watch.set(Doing::Opening);
        let opened = set.options(self.env.clone()).open(DIR);
        self.watch.set(before);
        opened
    }

    /// Verifies the database without opening it.
    pub fn verify(&self, set: &OptionSet) -> Result<VerifyReport, braidb::Error> {
        set.options(self.env.clone()).verify(DIR)
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
        // A dead process does no more work; jobs may hold the engine, and so keep it alive.
        self.inline.drop_pending();
    }
}

/// Notices a wait that nobody pays.
#[derive(Debug)]
struct Waits {
    fs: SimFs,
    /// How often in a row help was asked for in vain, and the operations on files at the last time; `None` if nobody said
    /// that there is one thread only.
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

/// The stepped runtime, telling which lane the job that runs came from.
#[derive(Debug)]
struct Watched {
    inline: Arc<Inline>,
    watch: Watch,
    waits: Arc<Waits>,
    /// The number of the next one, from 1.
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
