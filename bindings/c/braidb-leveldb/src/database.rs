//! The handle of a database: opening and closing. Deleting and repairing a database in its directory.

use crate::failure::{ErrorOut, Failure, Result, guard, need};
use crate::options::OptionsHandle;
use braidb::stats::Damage;
use braidb::{Db, Error, Options};
use braidb_ffi::memory::{Text, give};
use braidb_ffi::panics::quiet;
use rustix::fs::stat;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `leveldb_t`.
#[derive(Debug)]
pub struct Database {
    pub db: Db,
    /// A number that no other open in this process has.
    pub id: u64,
}

/// Refuses a path below a directory that is missing. LevelDB makes the last directory of a path alone, and BraidDB would make all.
fn check_parent(path: &Path) -> Result<()> {
    let Some(parent) = path.parent().filter(|_| stat(path).is_err()) else { return Ok(()) };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    match stat(parent) {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::io(format_args!(
            "{}: the directory {} cannot be reached: {error}; create it first, or check the path",
            path.display(),
            parent.display()
        ))),
    }
}

fn open(options: &OptionsHandle, path: &Path) -> Result<Database> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let translated = options.translated()?;
    check_parent(path)?;
    let db = translated.open(path)?;
    if options.is_impossible() {
        return Err(Error::Exists { path: path.to_owned() }.into());
    }
    Ok(Database { db, id: OPENED.fetch_add(1, Ordering::Relaxed) })
}

/// Leaves a database alone that verifies. LevelDB would make one of what is left of a damaged database. It would not say what it left out.
fn repair(path: &Path) -> Result<()> {
    let report = match Options::new().verify(path) {
        Err(Error::Missing { path }) => {
            return Err(Failure::invalid(format_args!(
                "{}: does not exist, so there is nothing to repair; check the path",
                path.display()
            )));
        }
        report => report?,
    };
    let Some(Damage { path: file, offset, what, .. }) = report.damages.first() else { return Ok(()) };
    Err(Failure::not_implemented(format_args!(
        "{} damaged places, the first one in {} at byte {offset}: {what}; nothing was changed: `braidb verify {dir}` lists all, and \
         `braidb dump --skip-damaged {dir}` writes what can be proved, as rows for `braidb load` into a new directory",
        report.damages.len(),
        file.display(),
        dir = path.display()
    )))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_open(
    options: Option<&OptionsHandle>,
    name: Text,
    errptr: ErrorOut<'_>,
) -> *mut Database {
    guard("leveldb_open", errptr, ptr::null_mut(), || {
        Ok(give(open(need(options, "options")?, name.path("name")?)?))
    })
}

/// Iterators and snapshots that are left keep their memory, and their calls fail. LevelDB's function returns no error, so this one cannot.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_close(db: Option<Box<Database>>) {
    quiet("leveldb_close", (), || {
        if let Some(db) = db {
            let _ = db.db.close();
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_destroy_db(_options: Option<&OptionsHandle>, name: Text, errptr: ErrorOut<'_>) {
    guard("leveldb_destroy_db", errptr, (), || match Db::destroy(name.path("name")?) {
        // LevelDB's function succeeds where there is nothing.
        Err(Error::Missing { .. }) => Ok(()),
        outcome => Ok(outcome?),
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_repair_db(_options: Option<&OptionsHandle>, name: Text, errptr: ErrorOut<'_>) {
    guard("leveldb_repair_db", errptr, (), || repair(name.path("name")?));
}
