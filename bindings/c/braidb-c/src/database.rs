//! The handle of a database: opening, closing, and what concerns a whole database.

use crate::failure::{Failure, Result, without_nul};
use crate::family::Family;
use crate::guard::{ErrorOut, guard, quiet};
use crate::options::OptionsHandle;
use crate::pointers::{Out, Text, give, give_text, need, out};
use braidb::{ColumnFamily, Db, Durability, Options};
use braidb_bindings::code::Code;
use braidb_bindings::opened::Opened;
use braidb_bindings::reports;
use std::ffi::{CString, c_char};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// What all handles of one open database share.
#[derive(Debug)]
pub struct Shared {
    opened: Opened,
    /// The family that NULL stands for.
    default: ColumnFamily,
}

impl Deref for Shared {
    type Target = Opened;

    fn deref(&self) -> &Opened {
        &self.opened
    }
}

impl Shared {
    /// The column family of a handle. NULL is the default family.
    #[inline]
    pub fn family<'a>(&'a self, family: Option<&'a Family>) -> &'a ColumnFamily {
        family.map_or(&self.default, |family| &family.family)
    }
}

/// Gives the caller the text of a report, if the caller wants it.
pub fn give_json<R: ToString>(json: Option<&mut *mut c_char>, report: impl FnOnce() -> R) {
    if let Some(json) = json {
        *json = give_text(&report().to_string());
    }
}

/// `braidb_t`.
#[derive(Debug)]
pub struct Database {
    pub shared: Arc<Shared>,
    path: CString,
}

/// The database of a handle, if calls may reach it.
#[inline]
pub fn usable(db: Option<&Database>) -> Result<&Arc<Shared>> {
    let shared = &need(db, "db")?.shared;
    shared.check()?;
    Ok(shared)
}

/// The durability that a number of C stands for; `None` for that of the options.
pub fn durability(number: i32) -> Result<Option<Durability>> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Durability::None)),
        2 => Ok(Some(Durability::Buffer)),
        3 => Ok(Some(Durability::Sync)),
        _ => Err(Failure::invalid(format!("{number} is no durability"))),
    }
}

/// Opens a database by `how`.
fn open(
    path: Text,
    options: Option<&OptionsHandle>,
    db: Out<'_, *mut Database>,
    how: impl FnOnce(Options, &Path) -> braidb::Result<Db>,
) -> Result<Code> {
    let db = out(db, "db", ptr::null_mut())?;
    let unregistered = |error| Failure::new(Code::IO, format!("could not register for forks: {error}"));
    let opened = Opened::new(unregistered, || Ok(how(OptionsHandle::of(options), path.path("path")?)?))?;
    let path = without_nul(opened.db.path().as_os_str().as_bytes());
    let default = opened.db.column_family("default")?;
    *db = give(Database { shared: Arc::new(Shared { opened, default }), path });
    Ok(Code::OK)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_open(
    path: Text,
    options: Option<&OptionsHandle>,
    db: Out<'_, *mut Database>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_open", err, || open(path, options, db, |options, path| options.open(path)))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_open_read_only(
    path: Text,
    options: Option<&OptionsHandle>,
    db: Out<'_, *mut Database>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_open_read_only", err, || {
        open(path, options, db, |options, path| options.open_read_only(path))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_close(db: Option<&Database>, err: ErrorOut<'_>) -> Code {
    guard("braidb_close", err, || {
        need(db, "db")?.shared.close()?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_db_free(db: Option<Box<Database>>) {
    quiet("braidb_db_free", (), || drop(db));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_path(db: Option<&Database>) -> *const c_char {
    quiet("braidb_path", ptr::null(), || db.map_or(ptr::null(), |db| db.path.as_ptr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_persist(db: Option<&Database>, durability: i32, err: ErrorOut<'_>) -> Code {
    guard("braidb_persist", err, || {
        let shared = usable(db)?;
        let wanted = self::durability(durability)?;
        shared.db.persist(wanted.ok_or_else(|| Failure::invalid("`durability` names none"))?)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_flush(db: Option<&Database>, err: ErrorOut<'_>) -> Code {
    guard("braidb_flush", err, || {
        usable(db)?.db.flush()?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_compact(db: Option<&Database>, err: ErrorOut<'_>) -> Code {
    guard("braidb_compact", err, || {
        usable(db)?.db.compact()?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_settle(db: Option<&Database>, err: ErrorOut<'_>) -> Code {
    guard("braidb_settle", err, || {
        usable(db)?.db.settle()?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_verify(
    db: Option<&Database>,
    damages: Out<'_, usize>,
    json: Out<'_, *mut c_char>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_verify", err, || {
        let (damages, json) = (damages.neutral(0), json.neutral(ptr::null_mut()));
        let damages = need(damages, "damages")?;
        let report = usable(db)?.db.verify()?;
        *damages = report.damages.len();
        give_json(json, || reports::verification(&report));
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_verify_path(
    path: Text,
    options: Option<&OptionsHandle>,
    damages: Out<'_, usize>,
    json: Out<'_, *mut c_char>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_verify_path", err, || {
        let (damages, json) = (damages.neutral(0), json.neutral(ptr::null_mut()));
        let damages = need(damages, "damages")?;
        let report = OptionsHandle::of(options).verify(path.path("path")?)?;
        *damages = report.damages.len();
        give_json(json, || reports::verification(&report));
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_destroy(path: Text, options: Option<&OptionsHandle>, err: ErrorOut<'_>) -> Code {
    guard("braidb_destroy", err, || {
        OptionsHandle::of(options).destroy(path.path("path")?)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_checkpoint(
    db: Option<&Database>,
    dir: Text,
    json: Out<'_, *mut c_char>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_checkpoint", err, || {
        let json = json.neutral(ptr::null_mut());
        let report = usable(db)?.db.checkpoint(dir.path("dir")?)?;
        give_json(json, || reports::checkpoint(&report));
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_recovery(
    db: Option<&Database>,
    json: Out<'_, *mut c_char>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_recovery", err, || {
        let json = out(json, "json", ptr::null_mut())?;
        *json = give_text(&reports::recovery(usable(db)?.db.recovery()).to_string());
        Ok(Code::OK)
    })
}
