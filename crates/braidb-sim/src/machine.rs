//! The machine under the database: a simulated file system, a stepped runtime, seeded chance, a clock that stands still.
//!
//! A machine is what a process is to the real thing: it opens the database on files that outlive it, and a crash leaves
//! nothing of it but those files. It knows what the engine is doing (opening, a background job of one lane, neither),
//! because a judge that stops it at one storage operation wants to know what it interrupted.

use crate::draw::OptionSet;
use crate::fs::SimFs;
use braidb::{Db, VerifyReport};
use braidb_storage::inline::{Inline, SeededRandom, StepClock};
use braidb_storage::{Env, Job, Lane, Runtime};
use parking_lot::Mutex;
use std::sync::Arc;

/// The directory of the database on every simulated file system.
pub const DIR: &str = "/db";

/// What the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A call of the user.
    Call,
    /// Opening the database.
    Opening,
    /// A background job.
    Job(Lane),
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
    env: Env,
}

impl Machine {
    /// A machine over those files. Its chance depends on `seed` alone.
    pub fn new(fs: &SimFs, seed: u64) -> Machine {
        let clock = Arc::new(StepClock::new());
        let inline = Arc::new(Inline::new(clock.clone()));
        let watch = Watch(Arc::new(Mutex::new(Doing::Call)));
        let env = Env {
            fs: Arc::new(fs.clone()),
            clock,
            random: Arc::new(SeededRandom::new(seed)),
            runtime: Arc::new(Watched { inline: inline.clone(), watch: watch.clone() }),
        };
        Machine { inline, watch, env }
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

/// The stepped runtime, telling which lane the job that runs came from.
#[derive(Debug)]
struct Watched {
    inline: Arc<Inline>,
    watch: Watch,
}

impl Runtime for Watched {
    fn submit(&self, lane: Lane, job: Job) {
        let watch = self.watch.clone();
        let watched = move || {
            let before = watch.set(Doing::Job(lane));
            job();
            watch.set(before);
        };
        self.inline.submit(lane, Box::new(watched));
    }

    fn help(&self) -> bool {
        self.inline.help()
    }

    fn is_stepped(&self) -> bool {
        true
    }

    fn pause_us(&self, us: u64) {
        self.inline.pause_us(us);
    }
}
