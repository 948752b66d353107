//! Snapshots: the database at one moment.

use crate::database::Database;
use braidb_ffi::memory::give;
use braidb_ffi::panics::quiet;
use std::ptr;
use std::sync::Arc;

/// A moment of a database.
#[derive(Debug)]
pub struct Moment {
    pub snapshot: braidb::Snapshot,
    /// The number of the database.
    pub database: u64,
}

/// `leveldb_snapshot_t`. It has the only lasting share of the moment, so its release gives the old versions up.
#[derive(Debug)]
pub struct Snapshot(pub Arc<Moment>);

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_snapshot(db: Option<&Database>) -> *const Snapshot {
    quiet("leveldb_create_snapshot", ptr::null(), || {
        db.map_or(ptr::null(), |db| {
            give(Snapshot(Arc::new(Moment { snapshot: db.db.snapshot(), database: db.id }))).cast_const()
        })
    })
}

/// The database is a pointer that is not followed: a caller may release a snapshot after the close.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_release_snapshot(_db: *const Database, snapshot: Option<Box<Snapshot>>) {
    quiet("leveldb_release_snapshot", (), || drop(snapshot));
}
