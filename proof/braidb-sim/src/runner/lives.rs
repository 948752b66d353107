//! The lives of a database under a [`Runner`]. A life ends closed, dropped or crashed. The next life begins by reading
//! everything and finding one allowed position of the model.

use super::*;
use crate::model::State;
use std::path::PathBuf;

impl Runner {
    /// Opens the database for the first time.
    pub fn start(&mut self) -> Verdict {
        let allowed = self.model.allowed(Crash::Process);
        self.open(&allowed)
    }

    /// Opens what a crash left. The database must be at one of the `allowed` positions.
    pub fn start_at(&mut self, allowed: &RangeInclusive<u64>) -> Verdict {
        self.open(allowed)
    }

    /// Opens the database to read, as another process would before this life begins, and returns what it reads. All files must stay as they
    /// are, to the byte. A missing `LOCK` may be made. `None` if the database has not been created yet.
    pub fn read_beside(&self, seed: u64) -> Verdict<Option<State>> {
        let bytes = || -> Vec<(PathBuf, Vec<u8>)> {
            let files = self.fs.files().into_iter().filter(|path| !path.ends_with("LOCK"));
            files.map(|path| (path.clone(), self.fs.read_file(&path).expect("it was listed"))).collect()
        };
        let before = bytes();
        let fail = |what: String| Failure::new(what).at("opening to read");
        let db = match Machine::new(&self.fs, seed).open_read_only(&self.set) {
            Err(Error::Missing { .. }) if before.iter().all(|(path, _)| !path.ends_with("CURRENT")) => {
                return Ok(None);
            }
            opened => opened.map_err(|error| fail(error.to_string()))?,
        };
        let refused =
            [db.put("k", "v"), db.delete("k"), db.flush(), db.compact(), db.persist(Durability::Sync)];
        for outcome in refused {
            if !matches!(outcome, Err(Error::ReadOnly { .. })) {
                return Err(fail(format!("a write returned {outcome:?}")));
            }
        }
        let client = Client::new(db).map_err(|error| fail(error.to_string()))?;
        let state = client.read_all(None, &self.probes).map_err(|trouble| fail(trouble.to_string()))?;
        client.db.close().map_err(|error| fail(error.to_string()))?;
        if bytes() != before {
            return Err(fail("files were changed".to_owned()));
        }
        Ok(Some(state))
    }

    /// Fails unless an open that only read found what this life has found.
    pub fn agrees_with(&self, read: &State) -> Verdict {
        let Some((found, _)) = &self.found else { return Ok(()) };
        match *read == found.state {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "an open to read differs from the open behind it: {}",
                differences(&found.state, read)
            ))),
        }
    }

    /// Adds the engine's counts of this life to the tally. Drops the refused overlay, which would keep the database open.
    pub(super) fn end_life(&mut self) {
        self.refused = None;
        if let Some(client) = &self.client {
            let counts = client.db.stats().counts;
            // Maxima have no sum.
            for (name, count) in counts.named().into_iter().filter(|(name, _)| !name.starts_with("most_")) {
                self.tally.add(name, count);
            }
        }
    }

    /// Ends this life and begins the next on the same files. If `close`, the runner calls `close`, after which open iterators fail.
    /// Otherwise it drops the last handle, which closes the database too. Before the drop it releases the iterators, because they would
    /// keep the database open.
    pub(super) fn reopen(&mut self, close: bool) -> Verdict {
        self.tally.add(if close { "close" } else { "drop" }, 1);
        match close {
            true => self.close()?,
            false => {
                self.iterators.clear();
                self.snapshots.clear();
                self.end_life();
                let was_open = self.client.take().is_some();
                // Dropping closes the database without reporting errors.
                if was_open && self.fs.faults_struck() == 0 && self.device != Device::Small {
                    self.model.persisted(Durability::Sync);
                    self.publish();
                }
            }
        }
        self.redraw();
        self.new_machine();
        // The operating system keeps what the process wrote.
        let allowed = self.model.allowed(Crash::Process);
        self.open(&allowed)
    }

    /// Kills the process or fails the power, and begins the next life on the files that this leaves.
    pub(super) fn crash(&mut self, crash: Crash) -> Verdict {
        self.tally.add(crash_name(crash), 1);
        let outage = Outage::draw(&self.fs, crash, &mut self.rng);
        self.tally.add("crashes of devices apart", u64::from(outage.is_apart()));
        if self.trace {
            println!("    {outage}");
        }
        let image = outage.image(&self.fs, self.rng.bits());
        let allowed = self.model.allowed(crash);
        self.model.crashed(crash);
        self.publish();
        self.die();
        self.fs = image;
        self.redraw();
        self.new_machine();
        self.open(&allowed)
    }

    /// Ends the dead process: no hook observes what it still does.
    fn die(&mut self) {
        self.fs.set_hook(None);
        self.end_life();
        self.iterators.clear();
        self.snapshots.clear();
        self.client = None;
    }

    /// Draws new options for the next life in half of the cases.
    fn redraw(&mut self) {
        if self.rng.one_in(2) {
            self.set = OptionSet::draw(self.preset, &mut self.rng);
        }
        // The manifest remembers the tiers that an earlier life named.
        if self.preset == Preset::Tiers && self.rng.one_in(3) {
            self.set.slow_tiers = 0;
        }
    }

    pub(super) fn new_machine(&mut self) {
        self.machine = Machine::new(&self.fs, self.rng.bits());
        self.watch_files();
    }

    fn open(&mut self, allowed: &RangeInclusive<u64>) -> Verdict {
        self.poisoned = false;
        if self.trace {
            println!("    opening with {}; it may be at {allowed:?}", self.set);
        }
        let opened = self.machine.open(&self.set).and_then(Client::new);
        let Some(client) = self.succeeded(opened, "opening")? else { return Ok(()) };
        let families = client.db.column_families();
        self.model.check_families(&families).map_err(|what| Failure::new(what).at("after opening"))?;
        match client.read_all(None, &self.probes) {
            Ok(state) => {
                let found = self
                    .model
                    .find(&state, allowed)
                    .map_err(|what| Failure::new(what).at("after opening"))?;
                self.found = Some((found, families));
                self.client = Some(client);
                self.power_fails_beside()
            }
            // A device that fails for ever: a later opening reads what was recovered.
            Err(Trouble::Failed(error)) => self.forgive(&error, "reading all after opening"),
            Err(trouble) => Err(Failure::new(format!("after opening: {trouble}"))),
        }
    }

    /// After an opening that follows a fault, checks what a power failure now would leave: all that the opening has found. The
    /// check runs on an image, and this life goes on.
    fn power_fails_beside(&mut self) -> Verdict {
        if self.device != Device::Faulty || self.fs.faults_struck() == 0 {
            return Ok(());
        }
        let (found, families) = self.found.clone().expect("an opening has found something");
        let mut model = self.model.clone();
        model.restart(found, &families);
        for crash in [Crash::PowerAllLost, Crash::PowerTorn] {
            let outage = Outage::draw(&self.fs, crash, &mut self.rng);
            let image = outage.image(&self.fs, self.rng.bits());
            let allowed = model.allowed(crash);
            let (set, rng) = (self.set.clone(), self.rng.fork());
            let mut life = Runner::over(image, self.preset, set, rng, model.clone(), &self.probes);
            let opened = life.start_at(&allowed);
            opened
                .map_err(|failure| failure.at(format!("{outage} after an opening that followed a fault")))?;
        }
        Ok(())
    }

    /// Compares the state read from the live database with the model. An error is forgiven if a fault may have caused it.
    pub(super) fn compare_live(&mut self, read: Result<crate::model::State, Trouble>) -> Verdict {
        match read {
            Ok(actual) if actual == *self.model.state() => Ok(()),
            Ok(actual) => Err(Failure::new(format!(
                "everything was read, and {}",
                differences(self.model.state(), &actual)
            ))),
            Err(Trouble::Failed(error)) => self.forgive(&error, "reading all"),
            Err(trouble) => Err(Failure::new(trouble.to_string())),
        }
    }
}

/// The name of a crash in reports.
pub(super) fn crash_name(crash: Crash) -> &'static str {
    match crash {
        Crash::Process => "kill",
        Crash::PowerAllLost => "power lost",
        Crash::PowerTorn => "power torn",
    }
}
