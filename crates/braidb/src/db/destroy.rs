//! Deleting a database from its directory.
//!
//! A crash on the way must not leave a database that opens with a part of its data. So the manifest goes first: an open refuses a `CURRENT`
//! without its manifest. `CURRENT` goes last: while it is there, another call recognizes the database and goes on. Each step is stable before
//! the next one begins.

use super::database::Db;
use super::directory::hold;
use super::options::Options;
use crate::base::error::{Error, Result};
use crate::base::names::{self, Kind};
use crate::version::{DirLock, Found, current, examine};
use braidb_storage::FileSystem;
use std::path::Path;

impl Db {
    /// Deletes the database in the directory `path`, which must not be open: all its files but an empty `LOCK`. Other files, and the directory
    /// itself, stay. So do directories of slow tiers; delete them yourself. If the call fails halfway, the database does not open any more, and
    /// another call goes on.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-destroy-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// let db = braidb::Db::open(&dir)?;
    /// db.put("k", "v")?;
    /// assert!(matches!(braidb::Db::destroy(&dir), Err(braidb::Error::Locked { .. })));
    /// db.close()?;
    /// braidb::Db::destroy(&dir)?;
    /// assert!(braidb::Db::open(&dir)?.get("k")?.is_none(), "a new database");
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Missing`](crate::Error::Missing): there is no database. [`NotADatabase`](crate::Error::NotADatabase),
    /// [`Locked`](crate::Error::Locked), [`Io`](crate::Error::Io).
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        destroy(path.as_ref(), &Options::new())
    }
}

impl Options {
    /// As [`Db::destroy`], with the machine of these options.
    ///
    /// ```
    /// let refused = braidb::Options::new().background_threads(0).destroy("nowhere");
    /// assert!(matches!(refused, Err(braidb::Error::InvalidOption { option: "background_threads", .. })));
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::destroy`], and [`InvalidOption`](crate::Error::InvalidOption).
    pub fn destroy(self, path: impl AsRef<Path>) -> Result<()> {
        self.check()?;
        destroy(path.as_ref(), &self)
    }
}

fn destroy(dir: &Path, options: &Options) -> Result<()> {
    let mut env = options.env_or_real(dir)?;
    expect_database(env.fs.as_ref(), dir)?;
    hold(&mut env, dir)?;
    let _lock = DirLock::take(env.fs.as_ref(), dir)?;
    // Before this process had the lock, another one may have deleted the database.
    expect_database(env.fs.as_ref(), dir)?;
    remove_files(env.fs.as_ref(), dir)
}

/// Refuses a directory without a database, and one of another store: LevelDB's files `CURRENT` and `NNNNNN.log` have the names of BraidDB's.
/// A `CURRENT` that is damaged is no obstacle.
fn expect_database(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    match examine(fs, dir)? {
        Found::Nothing => Err(Error::Missing { path: dir.to_owned() }),
        Found::Database => match current::read(fs, dir) {
            Err(error @ Error::NotADatabase { .. }) => Err(error),
            _ => Ok(()),
        },
    }
}

/// Removes the files of a database from a directory that the caller has locked, in the order that the head of this file tells.
pub(super) fn remove_files(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let entries = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    for step in [is_manifest, is_data, is_current] {
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            if names::parse(&entry.name).is_some_and(step) {
                let path = dir.join(&entry.name);
                fs.unlink(&path).map_err(|error| Error::io("delete", &path, error))?;
            }
        }
        fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
    }
    Ok(())
}

fn is_manifest(kind: Kind) -> bool {
    matches!(kind, Kind::Manifest(_))
}

fn is_data(kind: Kind) -> bool {
    matches!(kind, Kind::Log(_) | Kind::Table(_) | Kind::Values(_) | Kind::CurrentTmp | Kind::Measure)
}

fn is_current(kind: Kind) -> bool {
    kind == Kind::Current
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::Env;
    use braidb_storage::inline::{Inline, SeededRandom, StepClock};
    use braidb_storage::locks::Mutex;
    use braidb_storage::sim::{Crash, SimFs};
    use std::sync::Arc;

    fn options(fs: &SimFs) -> Options {
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        Options::new().env(Env {
            fs: Arc::new(fs.clone()),
            clock,
            random: Arc::new(SeededRandom::new(1)),
            runtime,
        })
    }

    #[test]
    fn a_database_of_another_store_is_left_alone() {
        let fs = SimFs::new();
        fs.create_dir_all(Path::new("/db")).unwrap();
        let theirs = ["CURRENT", "LOCK", "MANIFEST-000005", "000004.log", "000003.ldb"];
        theirs
            .iter()
            .for_each(|name| fs.write_file(&Path::new("/db").join(name), b"MANIFEST-000005\n").unwrap());
        let refused = options(&fs).destroy("/db").unwrap_err();
        assert!(matches!(refused, Error::NotADatabase { .. }), "{refused}");
        let left = fs.list(Path::new("/db")).unwrap();
        assert_eq!(left.len(), theirs.len(), "{left:?}");
    }

    #[test]
    fn a_crash_leaves_the_whole_database_or_one_that_does_not_open() {
        let fs = SimFs::new();
        let db = options(&fs).open("/db").unwrap();
        for number in 0..200_u32 {
            db.put(number.to_be_bytes(), [7; 100]).unwrap();
            if number % 50 == 49 {
                db.flush().unwrap();
            }
        }
        db.put("in the log", "").unwrap();
        db.close().unwrap();
        drop(db);
        let images = Arc::new(Mutex::new(Vec::new()));
        let kept = images.clone();
        fs.set_hook(Some(Box::new(move |fs: &SimFs, _| {
            for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn] {
                let seed = kept.lock().len() as u64;
                kept.lock().push(fs.crash_image(crash, seed));
            }
        })));
        options(&fs).destroy("/db").unwrap();
        fs.set_hook(None);
        let (mut whole, mut refused, mut gone) = (0, 0, 0);
        for image in images.lock().drain(..) {
            match options(&image).create_if_missing(false).open("/db") {
                Ok(db) => {
                    assert_eq!(db.iter().count(), 201);
                    whole += 1;
                }
                Err(Error::Missing { .. }) => gone += 1,
                Err(_) => refused += 1,
            }
            match options(&image).destroy("/db") {
                Ok(()) | Err(Error::Missing { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            assert!(options(&image).open("/db").unwrap().iter().next().is_none());
        }
        assert!(whole > 0 && refused > 3 && gone > 0, "{whole} {refused} {gone}");
    }
}
