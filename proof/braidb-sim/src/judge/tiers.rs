//! The judge of tiers: two copies of a database at one slow directory, older copies of single directories, the directory of another
//! database, and power failures around files on a slow tier.
//!
//! A *copy* has the database id of the original, so epochs alone tell the two apart. An open dies before each operation that changes
//! something. Then one of the two opens, and lives a little. Whatever happened: the original opens unless the copy has taken the tier
//! over; at most one of the two opens afterwards; and the one that does has every record. A refused open changes no file.
//!
//! The fast share is 0, so everything that can leave the fast tier does.

use super::Case;
use crate::draw::OptionSet;
use crate::env_over;
use crate::failure::{Failure, Verdict};
use crate::report::Tally;
use crate::rng::Rng;
use braidb::{Db, Error};
use braidb_storage::inline::Inline;
use braidb_storage::sim::{Crash, Hook, SimFs};
use braidb_storage::{FileSystem, Random, inline::SeededRandom};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ORIGINAL: &str = "/db";
const COPY: &str = "/copy";
const OTHER: &str = "/other";
const SLOW: &str = "/slow";
const OTHER_SLOW: &str = "/slow-of-another";

/// Rounds of writes before each compaction. The tables of two rounds overlap, so that a merge must write new tables.
const ROUNDS: u64 = 2;

/// Most images of one open or compaction.
const MOST_IMAGES: u64 = 60;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Judges a case: every `stride`-th operation of an open is a place where it dies.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let set = OptionSet { slow_tiers: 0, ..OptionSet::draw(case.preset, &mut rng) };
    let judge = Tiers { set, case, seeds: SeededRandom::new(rng.bits()), tally: Mutex::default() };
    judge.copies()?;
    judge.older_copies()?;
    judge.another_database()?;
    judge.power_failures()?;
    Ok(judge.tally.into_inner())
}

/// An open database. A dead process does none of its pending jobs.
struct Life {
    db: Db,
    runtime: Arc<Inline>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.runtime.drop_pending();
    }
}

struct Tiers<'a> {
    set: OptionSet,
    case: &'a Case,
    /// Each open has random numbers of its own.
    seeds: SeededRandom,
    tally: Mutex<Tally>,
}

impl Tiers<'_> {
    fn count(&self, what: &'static str, count: u64) {
        self.tally.lock().add(what, count);
    }

    /// Opens the database in `dir`, with a slow path if there is one.
    fn open(&self, fs: &SimFs, dir: &str, slow: Option<&str>) -> Result<Life, Error> {
        let (env, runtime) = env_over(Arc::new(fs.clone()), self.seeds.next_u64());
        let options = self.set.options(env).fast_share(0);
        let options = match slow {
            Some(slow) => options.slow_path(slow),
            None => options,
        };
        let opened = options.open(dir);
        if opened.is_err() {
            runtime.drop_pending();
        }
        opened.map(|db| Life { db, runtime })
    }

    /// Opens a database that must open.
    fn must_open(&self, fs: &SimFs, dir: &str, slow: Option<&str>) -> Verdict<Life> {
        self.open(fs, dir, slow).map_err(|error| Failure::new(format!("{dir} does not open: {error}")))
    }

    /// Checks that the tier refuses the database in `dir`, and that the refused open changes no file.
    fn must_refuse(&self, fs: &SimFs, dir: &str, slow: Option<&str>) -> Verdict {
        let before = files(fs);
        match self.open(fs, dir, slow) {
            Err(Error::Tier { .. }) if files(fs) == before => {
                self.count("refusals", 1);
                Ok(())
            }
            Err(Error::Tier { .. }) => {
                Err(Failure::new(format!("the refused open of {dir} at {slow:?} changes files")))
            }
            Err(error) => Err(Failure::new(format!("{dir} is refused at {slow:?}, but with: {error}"))),
            Ok(_) => Err(Failure::new(format!("{dir} opens at {slow:?}, which is not its tier now"))),
        }
    }

    /// Writes, compacts and closes. Returns what the database holds then.
    fn live(&self, life: &Life, mut content: Content) -> Verdict<Content> {
        let told = |error: Error| Failure::new(format!("a call fails without a fault: {error}"));
        for round in 0..ROUNDS {
            for number in 0..40_u64 {
                let key = (number * 3 % 40).to_be_bytes().to_vec();
                let value = vec![round as u8 + content.len() as u8; 20 + 10 * number as usize];
                life.db.put(&key, &value).map_err(told)?;
                content.insert(key, value);
            }
            life.db.flush().map_err(told)?;
        }
        life.db.compact().and_then(|()| life.db.settle()).map_err(told)?;
        check(&life.db, &content)?;
        let report = life.db.verify().map_err(told)?;
        match report.damages.first() {
            Some(damage) => Err(Failure::new(format!("a healthy database is damaged: {damage:?}"))),
            None => Ok(content),
        }
    }

    /// Creates a database in `dir`, lets cells move to its slow tier, and closes it. Returns what the database holds.
    fn at_rest(&self, fs: &SimFs, dir: &str, slow: &str) -> Verdict<Content> {
        let life = self.must_open(fs, dir, Some(slow))?;
        let content = self.live(&life, Content::new())?;
        life.db.close().map_err(|error| Failure::new(format!("{dir} does not close: {error}")))?;
        let is_slow = |path: &&PathBuf| path.starts_with(slow) && path.extension().is_some();
        self.count("files on slow tiers", fs.files().iter().filter(is_slow).count() as u64);
        Ok(content)
    }

    /// Runs `act`, and takes an image before every `stride`-th of its operations and one at its end. In turns, the process is killed or the
    /// power fails.
    fn images(&self, fs: &SimFs, act: impl FnOnce() -> Verdict) -> Verdict<Vec<SimFs>> {
        let images: Arc<Mutex<Vec<SimFs>>> = Arc::default();
        let (taken, stride, seed) = (images.clone(), self.case.stride.max(1), self.case.seed);
        let mut number = 0;
        let hook: Hook = Box::new(move |fs, _| {
            number += 1;
            if number % stride == 0 && number / stride <= MOST_IMAGES {
                let crash = if number % 2 == 0 { Crash::Process } else { Crash::PowerTorn };
                taken.lock().push(fs.crash_image(crash, seed + number));
            }
        });
        fs.set_hook(Some(hook));
        let acted = act();
        fs.set_hook(None);
        acted?;
        let mut images = std::mem::take(&mut *images.lock());
        images.push(fs.crash_image(Crash::PowerAllLost, 0));
        self.count("images", images.len() as u64);
        Ok(images)
    }

    /// Two copies of a database, and one slow directory.
    fn copies(&self) -> Verdict {
        let fs = SimFs::new();
        let content = self.at_rest(&fs, ORIGINAL, SLOW)?;
        copy(&fs, ORIGINAL, COPY);
        self.must_refuse(&fs, COPY, None)?;
        let opening = fs.crash_image(Crash::Process, 0);
        let images = self.images(&opening, || self.must_open(&opening, ORIGINAL, Some(SLOW)).map(drop))?;
        for (number, image) in images.iter().enumerate() {
            let judged = self.one_of_two(image, &content);
            judged.map_err(|failure| failure.at(format!("the original's open dies at point {number}")))?;
        }
        Ok(())
    }

    /// An open of the original died and left `image`.
    fn one_of_two(&self, image: &SimFs, content: &Content) -> Verdict {
        let fs = image.crash_image(Crash::Process, 0);
        self.must_refuse(&fs, COPY, None)?;
        let original = self.must_open(&fs, ORIGINAL, None)?;
        check(&original.db, content)?;
        self.live(&original, content.clone())?;
        drop(original);
        self.must_refuse(&fs.crash_image(Crash::Process, 0), COPY, Some(SLOW))?;

        let fs = image.crash_image(Crash::Process, 0);
        match self.open(&fs, COPY, Some(SLOW)) {
            Ok(taken) => {
                self.count("takeovers", 1);
                check(&taken.db, content)?;
                let content = self.live(&taken, content.clone())?;
                drop(taken);
                let fs = fs.crash_image(Crash::Process, 0);
                self.must_refuse(&fs, ORIGINAL, None)?;
                let taken = self.must_open(&fs, COPY, None)?;
                check(&taken.db, &content)
            }
            Err(Error::Tier { .. }) => {
                let original = self.must_open(&fs, ORIGINAL, None)?;
                check(&original.db, content)
            }
            Err(error) => Err(Failure::new(format!("the copy is refused, but with: {error}"))),
        }
    }

    /// A user goes back to older copies of some directories of a database with two slow tiers, and keeps the others.
    fn older_copies(&self) -> Verdict {
        let closed = |life: Life| {
            life.db.close().map_err(|error| Failure::new(format!("{ORIGINAL} does not close: {error}")))
        };
        let fs = SimFs::new();
        let content = self.at_rest(&fs, ORIGINAL, SLOW)?;
        closed(self.must_open(&fs, ORIGINAL, Some(OTHER_SLOW))?)?;
        let older = fs.crash_image(Crash::Process, 0);
        let life = self.must_open(&fs, ORIGINAL, None)?;
        let content = self.live(&life, content)?;
        closed(life)?;
        for dirs in [&[ORIGINAL][..], &[SLOW], &[ORIGINAL, SLOW]] {
            let mixed = fs.crash_image(Crash::Process, 0);
            go_back(&mixed, &older, dirs);
            let judged = self.must_refuse(&mixed, ORIGINAL, None);
            judged.map_err(|failure| failure.at(format!("{dirs:?} are older copies")))?;
            self.count("older copies", 1);
        }
        let original = self.must_open(&fs, ORIGINAL, None)?;
        check(&original.db, &content)
    }

    /// Two databases, and the slow directory of the one is given to the other.
    fn another_database(&self) -> Verdict {
        let fs = SimFs::new();
        let content = self.at_rest(&fs, ORIGINAL, SLOW)?;
        self.at_rest(&fs, OTHER, OTHER_SLOW)?;
        self.must_refuse(&fs, ORIGINAL, Some(OTHER_SLOW))?;
        let original = self.must_open(&fs, ORIGINAL, None)?;
        check(&original.db, &content)
    }

    /// A life in which cells leave the fast tier, and a crash at any of its operations.
    fn power_failures(&self) -> Verdict {
        let fs = SimFs::new();
        let content = self.at_rest(&fs, ORIGINAL, SLOW)?;
        let life = self.must_open(&fs, ORIGINAL, None)?;
        let images = self.images(&fs, || {
            let told = |error: Error| Failure::new(format!("a call fails without a fault: {error}"));
            // The writes put the values that the records already have, so that each image must show all of them.
            for _ in 0..ROUNDS {
                content.iter().try_for_each(|(key, value)| life.db.put(key, value)).map_err(told)?;
                life.db.flush().map_err(told)?;
            }
            life.db.compact().and_then(|()| life.db.settle()).map_err(told)
        })?;
        for (number, image) in images.iter().enumerate() {
            let opened = self.must_open(image, ORIGINAL, None);
            let judged = opened.and_then(|life| check(&life.db, &content));
            judged.map_err(|failure| failure.at(format!("power fails at point {number} of a compaction")))?;
        }
        Ok(())
    }
}

/// Checks that the database holds `content` and nothing else.
fn check(db: &Db, content: &Content) -> Verdict {
    let mut found = Content::new();
    for entry in db.iter() {
        let (key, value) = entry.map_err(|error| Failure::new(format!("a scan fails: {error}")))?;
        found.insert(key.to_vec(), value.to_vec());
    }
    if found != *content {
        return Err(Failure::new(format!("{} entries of {} differ", found.len(), content.len())));
    }
    for (key, value) in content {
        let got = db.get(key).map_err(|error| Failure::new(format!("a get fails: {error}")))?;
        if got.as_deref() != Some(value.as_slice()) {
            return Err(Failure::new(format!("a get of {key:?} finds another value")));
        }
    }
    Ok(())
}

/// Copies the files of a directory to a new one.
pub fn copy(fs: &SimFs, from: &str, to: &str) {
    fs.create_dir_all(Path::new(to)).expect("no fault is planned");
    for path in fs.files().into_iter().filter(|path| path.parent() == Some(Path::new(from))) {
        let bytes = fs.read_file(&path).expect("it was listed");
        let name = path.file_name().expect("a file has a name");
        fs.write_file(&Path::new(to).join(name), &bytes).expect("no fault is planned");
    }
}

/// Makes some directories hold what they held in `older`.
fn go_back(fs: &SimFs, older: &SimFs, dirs: &[&str]) {
    let is_meant = |path: &PathBuf| dirs.iter().any(|dir| path.starts_with(dir));
    for path in fs.files().into_iter().filter(is_meant) {
        fs.unlink(&path).expect("it was listed");
    }
    for (path, bytes) in files(older).into_iter().filter(|(path, _)| is_meant(path)) {
        fs.write_file(&path, &bytes).expect("no fault is planned");
    }
}

/// All files and their bytes, without the empty lock files.
fn files(fs: &SimFs) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs.files().into_iter().filter(|path| !path.ends_with("LOCK"));
    paths.map(|path| (path.clone(), fs.read_file(&path).expect("it was listed"))).collect()
}
