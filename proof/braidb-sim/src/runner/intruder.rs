//! Two processes at one database: the locks of an open database are removed, and a second process opens it. The first process
//! must notice the lost locks before it deletes a file. Then the second process has all entries.
//!
//! The directory of each slow tier has a lock too. One of them that is left keeps the second process out.

use super::*;
use crate::machine::is_named;
use braidb::storage::FileSystem;
use std::path::PathBuf;

/// Operations of the first process before the second one opens. They leave something to flush, merge and delete.
const OPERATIONS: u64 = 60;

impl Runner {
    /// Opens the database of a finished run in two processes at once, and closes both.
    pub fn intruded(&mut self, workload: &mut Workload) -> Verdict {
        self.new_machine();
        self.start()?;
        for _ in 0..OPERATIONS {
            match workload.next_op() {
                Op::Reopen { .. } | Op::Crash(_) => {}
                op => self.run(&op)?,
            }
        }
        // The second process finds what the first gave to the operating system.
        self.run(&Op::Persist(Durability::Buffer))?;
        self.remove_locks()?;
        let machine = Machine::new(&self.fs, self.rng.bits());
        let second = machine.open(&self.set).and_then(Client::new);
        let second = second.map_err(|error| Failure::new(format!("the second cannot open: {error}")))?;
        self.compare_second(&second, "the second opens")?;

        let (what, refused) = self.first_goes_on();
        self.compare_second(&second, &format!("the first {what}"))?;
        let finished = second.db.compact().and_then(|()| second.db.close());
        finished.map_err(|error| Failure::new(format!("the second cannot finish: {error}")))?;
        drop((second, machine));

        let machine = Machine::new(&self.fs, self.rng.bits());
        let verified = machine.verify(&self.set).map(|report| report.damages);
        if !matches!(&verified, Ok(damages) if damages.is_empty()) {
            return Err(Failure::new(format!("after both have closed: {verified:?}")));
        }
        let third = machine.open(&self.set).and_then(Client::new);
        let third = third.map_err(|error| Failure::new(format!("after both have closed: {error}")))?;
        self.compare_second(&third, "both have closed")?;
        if !refused.as_ref().is_err_and(is_lock_lost) {
            return Err(Failure::new(format!("the first has lost its lock, {what}, and gets {refused:?}")));
        }
        self.tally.add("intruders", 1);
        Ok(())
    }

    /// Removes the lock of each directory of the open database. As long as one is left, a second process is refused.
    fn remove_locks(&mut self) -> Verdict {
        let files = self.fs.files().into_iter().filter(|path| is_named(path, "LOCK"));
        let mut held: Vec<PathBuf> = files.filter(|path| self.fs.lock(path).is_err()).collect();
        if held.len() > 1 {
            let first = self.rng.below(held.len() as u64) as usize;
            held.rotate_left(first);
        }
        for (removed, lock) in held.iter().enumerate() {
            self.fs.unlink(lock).expect("the database is open");
            if removed + 1 == held.len() {
                break;
            }
            match Machine::new(&self.fs, self.rng.bits()).open(&self.set).map(drop) {
                Err(Error::Locked { .. }) => self.tally.add("intruders before a lock of a tier", 1),
                opened => {
                    let left = &held[removed + 1..];
                    return Err(Failure::new(format!("{left:?} are locked, and the second gets {opened:?}")));
                }
            }
        }
        Ok(())
    }

    /// Makes the first process do one call that should notice the lost lock, and ends the process. Returns the call's name and
    /// outcome.
    fn first_goes_on(&mut self) -> (&'static str, Result<(), Error>) {
        self.machine.call();
        let client = opened(&self.client).clone();
        let lost = Change { family: 0, key: COUNTER_KEY.into(), value: Some(b"lost"[..].into()) };
        // The write may succeed: it goes to the first process's log, which the second process does not read.
        let _ = client.write_plainly(&lost);
        let (what, refused) = match self.rng.below(4) {
            0 => ("flushes", client.db.flush()),
            1 => ("compacts", client.db.compact()),
            2 => ("syncs", client.db.persist(Durability::Sync)),
            _ => ("closes", client.db.close()),
        };
        self.iterators.clear();
        self.snapshots.clear();
        while self.machine.step() {}
        let _ = client.db.close();
        self.client = None;
        (what, refused)
    }

    fn compare_second(&self, client: &Client, when: &str) -> Verdict {
        let told = match client.read_all(None, &self.probes) {
            Ok(actual) if actual == *self.model.state() => return Ok(()),
            Ok(actual) => differences(self.model.state(), &actual),
            Err(trouble) => trouble.to_string(),
        };
        Err(Failure::new(format!("when {when}: {told}")))
    }
}

fn is_lock_lost(error: &Error) -> bool {
    match error {
        Error::LockLost { .. } => true,
        Error::Poisoned { cause } => is_lock_lost(cause),
        _ => false,
    }
}
