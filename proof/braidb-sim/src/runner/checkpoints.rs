//! Checkpoints of the open database, and what becomes of them beside it.

use super::*;
use crate::model::State;
use std::path::Path;

/// The directory that holds all checkpoints.
pub const COPIES: &str = "/copies";

/// Whether a checkpoint has this file. Its slow tiers are in directories of this name, too, each on the device of the tier.
pub fn is_of_copy(path: &Path) -> bool {
    path.components().any(|part| Path::new("/").join(part) == Path::new(COPIES))
}

/// The directory of a checkpoint, and what it must hold.
#[derive(Debug)]
pub struct Copy {
    pub dir: String,
    pub state: State,
}

/// The options with which a checkpoint is opened: it remembers its slow tiers.
fn options_of(set: &OptionSet) -> OptionSet {
    OptionSet { slow_tiers: 0, open_files: set.open_files.max(64), ..set.clone() }
}

impl Runner {
    /// Makes a checkpoint in `dir`, whose slow tiers are beside those of the database. `None` if the database is not open.
    pub fn checkpoint(&mut self, dir: &str) -> Verdict<Option<Copy>> {
        self.begin_operation();
        let Some(client) = &self.client else { return Ok(None) };
        let tiers = client.db.stats().tiers.into_iter().filter(|tier| tier.id > 0).map(|tier| tier.path);
        let beside = |old: &Path| old.with_file_name(dir.trim_start_matches('/'));
        let tiers: Vec<_> = tiers.map(|old| (beside(&old), old)).collect();
        let pairs: Vec<_> = tiers.iter().map(|(new, old)| (old.as_path(), new.as_path())).collect();
        match client.db.checkpoint_to(dir, &pairs) {
            Ok(report) => {
                self.tally.add("checkpoints", 1);
                self.tally.add("checkpoints with slow tiers", u64::from(!tiers.is_empty()));
                self.tally.add("linked bytes", report.linked_bytes);
                Ok(Some(Copy { dir: dir.to_owned(), state: self.model.state().clone() }))
            }
            Err(error) => Err(Failure::new(format!("a checkpoint in {dir} fails: {error}"))),
        }
    }

    /// Fails unless the checkpoint, as it lies on `fs`, is whole and holds its state.
    pub fn check_copy(&self, fs: &SimFs, copy: &Copy, seed: u64) -> Verdict {
        let fail = |what: String| Failure::new(what).at(format!("the checkpoint in {}", copy.dir));
        let (machine, set) = (Machine::new(fs, seed), options_of(&self.set));
        let verified = machine.options(&set).verify(&copy.dir).map(|report| report.damages);
        if !matches!(&verified, Ok(damages) if damages.is_empty()) {
            return Err(fail(format!("is not whole: {verified:?}")));
        }
        let opened = machine.options(&set).open_read_only(&copy.dir).and_then(Client::new);
        let client = opened.map_err(|error| fail(error.to_string()))?;
        let state = client.read_all(None, &self.probes).map_err(|trouble| fail(trouble.to_string()))?;
        match state == copy.state {
            true => Ok(()),
            false => Err(fail(format!("differs: {}", differences(&copy.state, &state)))),
        }
    }

    /// Writes into a checkpoint, and lets it merge, while the source is open.
    pub fn use_copy(&mut self, copy: &mut Copy) -> Verdict {
        let fail = |error: Error| {
            Failure::new(error.to_string()).at(format!("using the checkpoint in {}", copy.dir))
        };
        let (machine, set) = (Machine::new(&self.fs, self.rng.bits()), options_of(&self.set));
        let mut client = machine.options(&set).open(&copy.dir).and_then(Client::new).map_err(fail)?;
        client.create(0).map_err(fail)?;
        for _ in 0..self.rng.between(1, 40) {
            let key = self.probes[self.rng.below(self.probes.len() as u64) as usize].clone();
            let value = Bytes::from(vec![7; self.rng.below(300) as usize]);
            let change = Change { family: 0, key, value: self.rng.one_in(2).then_some(value) };
            client.write_plainly(&change).map_err(fail)?;
            crate::model::apply(&mut copy.state, &change);
        }
        let changed = if self.rng.one_in(2) { client.db.compact() } else { client.db.flush() };
        changed.and_then(|()| client.db.close()).map_err(fail)?;
        self.tally.add("checkpoints used", 1);
        Ok(())
    }

    /// Deletes a checkpoint.
    pub fn destroy_copy(&mut self, copy: &Copy) -> Verdict {
        let machine = Machine::new(&self.fs, self.rng.bits());
        let destroyed = machine.options(&options_of(&self.set)).destroy(&copy.dir);
        destroyed.map_err(|error| Failure::new(format!("deleting {}: {error}", copy.dir)))
    }

    /// Whether the image of a crash has no database in `dir`, as its open says.
    pub fn is_refused(&self, image: &SimFs, dir: &str, seed: u64) -> bool {
        let options = Machine::new(image, seed).options(&options_of(&self.set)).create_if_missing(false);
        matches!(options.open(Path::new(dir)), Err(Error::Missing { .. } | Error::Corruption { .. }))
    }
}
