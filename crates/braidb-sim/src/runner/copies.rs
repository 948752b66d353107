//! Copies of a database with slow tiers: at most one of two copies goes on, and no other database gets the tiers (rule 12).
//!
//! A user goes back to an older copy of one directory and keeps the others. Or a user names the tier of one database to another
//! database. Each such open must be refused with `Error::Tier` before it changes a file of a slow tier. Then the database opens as
//! if nothing had happened.

use super::*;
use crate::machine::{SLOW_DIRS, is_named, tier_files};
use braidb_storage::FileSystem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Operations between the older copies and the newer ones.
const OPERATIONS: u64 = 15;

/// A database that has nothing to do with the one under test, and the directory of its slow tier. Both are on the first device.
const OTHER_DIR: &str = "/other";
const OTHER_SLOW_DIR: &str = "/other-slow";

impl Runner {
    /// Opens mixtures of copies of the database of a finished run. The database gets a slow tier if it has none yet.
    pub fn copied(&mut self, workload: &mut Workload) -> Verdict {
        self.set.slow_tiers = self.set.slow_tiers.max(1);
        self.one_more_life(workload, 0)?;
        let older = self.fs.crash_image(Crash::PowerAllLost, 0);
        self.one_more_life(workload, OPERATIONS)?;
        self.expect_refused(&older, &[DIR], "the database is an older copy")?;
        self.expect_refused(&older, &SLOW_DIRS, "the slow tiers are older copies")?;
        self.offer_to_another()?;
        self.tally.add("refused copies", 1);
        self.one_more_life(workload, 0)
    }

    /// Opens the database, runs some operations that leave it open, compares, and closes it.
    fn one_more_life(&mut self, workload: &mut Workload, operations: u64) -> Verdict {
        self.new_machine();
        self.start()?;
        for _ in 0..operations {
            match workload.next_op() {
                Op::Reopen { .. } | Op::Crash(_) => {}
                op => self.run(&op)?,
            }
        }
        self.run(&Op::Verify)?;
        self.compare_all()?;
        self.close()
    }

    /// Opens the newest files with those of some directories replaced by their `older` ones.
    fn expect_refused(&mut self, older: &SimFs, dirs: &[&str], when: &str) -> Verdict {
        let mixed = self.fs.crash_image(Crash::PowerAllLost, 0);
        for (path, bytes) in files_in(older, dirs) {
            mixed.write_file(&path, &bytes).map_err(|error| Failure::new(error.to_string()))?;
        }
        for path in files_in(&mixed, dirs).into_keys() {
            if older.file_len(&path).is_err() {
                mixed.unlink(&path).map_err(|error| Failure::new(error.to_string()))?;
            }
        }
        let before = files_in(&mixed, &SLOW_DIRS);
        let opened = Machine::new(&mixed, self.rng.bits()).open(&self.set).map(drop);
        is_refused(opened, when)?;
        unchanged(&before, &mixed, when)
    }

    /// Names a slow tier of this database to another one, which has a slow tier of its own.
    fn offer_to_another(&mut self) -> Verdict {
        let fs = self.fs.crash_image(Crash::PowerAllLost, 0);
        let set = OptionSet { slow_tiers: 0, ..self.set.clone() };
        let machine = Machine::new(&fs, self.rng.bits());
        let other = machine.options(&set).slow_path(OTHER_SLOW_DIR).open(OTHER_DIR);
        let closed = other.and_then(|other| other.close());
        closed.map_err(|error| Failure::new(format!("another database beside this one: {error}")))?;
        drop(machine);

        let before = files_in(&fs, &SLOW_DIRS);
        for tier in tier_files(&fs).iter().filter_map(|file| file.parent()) {
            if tier != Path::new(OTHER_SLOW_DIR) {
                let machine = Machine::new(&fs, self.rng.bits());
                let opened = machine.options(&set).slow_path(tier).open(OTHER_DIR).map(drop);
                is_refused(opened, "another database names a tier of this one")?;
                unchanged(&before, &fs, "another database names a tier of this one")?;
            }
        }
        Ok(())
    }
}

/// The files in some directories, without the locks, which every open may make.
fn files_in(fs: &SimFs, dirs: &[&str]) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs.files().into_iter().filter(|path| dirs.iter().any(|dir| path.starts_with(dir)));
    let paths = paths.filter(|path| !is_named(path, "LOCK"));
    paths.filter_map(|path| fs.read_file(&path).ok().map(|bytes| (path, bytes))).collect()
}

fn is_refused(opened: Result<(), Error>, when: &str) -> Verdict {
    match opened {
        Err(Error::Tier { .. }) => Ok(()),
        Err(error) => Err(Failure::new(format!("{when}, and the open tells something else: {error}"))),
        Ok(()) => Err(Failure::new(format!("{when}, and it opens"))),
    }
}

fn unchanged(before: &BTreeMap<PathBuf, Vec<u8>>, fs: &SimFs, when: &str) -> Verdict {
    let after = files_in(fs, &SLOW_DIRS);
    if after == *before {
        return Ok(());
    }
    let changed = before.keys().chain(after.keys()).find(|path| before.get(*path) != after.get(*path));
    Err(Failure::new(format!("{when}, and the refused open changes {changed:?}")))
}
