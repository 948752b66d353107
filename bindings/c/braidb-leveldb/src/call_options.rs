//! Options of a read, and of a write.

use crate::database::Database;
use crate::failure::{Failure, Result};
use crate::snapshot::{Moment, Snapshot};
use braidb::Durability;
use braidb_ffi::memory::give;
use braidb_ffi::panics::quiet;
use std::ptr;
use std::sync::{Arc, Weak};

/// `leveldb_readoptions_t`.
#[derive(Debug, Default)]
pub struct ReadOptions {
    /// `None` for the present. The moment of a snapshot that the caller released is gone.
    moment: Option<Weak<Moment>>,
}

impl ReadOptions {
    /// The moment at which to read `database`; `None` for the present.
    #[inline]
    pub fn moment(options: Option<&ReadOptions>, database: &Database) -> Result<Option<Arc<Moment>>> {
        let Some(moment) = options.and_then(|options| options.moment.as_ref()) else { return Ok(None) };
        let moment = moment.upgrade().ok_or_else(|| {
            Failure::invalid("the snapshot was released; give the read options another one, or NULL")
        })?;
        if moment.database != database.id {
            return Err(Failure::invalid(
                "the snapshot belongs to another database; take one of this database",
            ));
        }
        Ok(Some(moment))
    }
}

/// `leveldb_writeoptions_t`.
#[derive(Debug, Default)]
pub struct WriteOptions {
    is_synced: bool,
}

impl WriteOptions {
    /// What a write promises. Without a sync a killed process loses nothing, as with LevelDB.
    #[inline]
    pub fn durability(options: Option<&WriteOptions>) -> Durability {
        match options {
            Some(WriteOptions { is_synced: true }) => Durability::Sync,
            _ => Durability::Buffer,
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> *mut ReadOptions {
    quiet("leveldb_readoptions_create", ptr::null_mut(), || give(ReadOptions::default()))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_destroy(options: Option<Box<ReadOptions>>) {
    quiet("leveldb_readoptions_destroy", (), || drop(options));
}

/// Has no effect: BraidDB checks each block when it is read from a file.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_verify_checksums(_options: Option<&mut ReadOptions>, _yes: u8) {
    quiet("leveldb_readoptions_set_verify_checksums", (), || ());
}

/// Has no effect: BraidDB's cache keeps a block that scans read once for as long as there is room.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_fill_cache(_options: Option<&mut ReadOptions>, _yes: u8) {
    quiet("leveldb_readoptions_set_fill_cache", (), || ());
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_snapshot(
    options: Option<&mut ReadOptions>,
    snapshot: Option<&Snapshot>,
) {
    quiet("leveldb_readoptions_set_snapshot", (), || {
        if let Some(options) = options {
            options.moment = snapshot.map(|snapshot| Arc::downgrade(&snapshot.0));
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> *mut WriteOptions {
    quiet("leveldb_writeoptions_create", ptr::null_mut(), || give(WriteOptions::default()))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_destroy(options: Option<Box<WriteOptions>>) {
    quiet("leveldb_writeoptions_destroy", (), || drop(options));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_set_sync(options: Option<&mut WriteOptions>, yes: u8) {
    quiet("leveldb_writeoptions_set_sync", (), || {
        if let Some(options) = options {
            options.is_synced = yes != 0;
        }
    });
}
