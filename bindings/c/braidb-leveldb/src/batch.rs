//! Write batches: writes that happen together or not at all.

use crate::arguments::bytes;
use crate::call_options::WriteOptions;
use crate::database::Database;
use crate::failure::{ErrorOut, Failure, Result, guard, need};
use braidb::WriteBatch;
use braidb_ffi::memory::give;
use braidb_ffi::panics::{attempt, quiet};
use std::ffi::{c_char, c_void};
use std::ptr;

/// What [`leveldb_writebatch_iterate`] calls for a put.
type OnPut = Option<extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
/// What it calls for a delete.
type OnDelete = Option<extern "C-unwind" fn(*mut c_void, *const c_char, usize)>;

/// `leveldb_writebatch_t`. The functions that add writes return no error. The first one is kept, and the batch is refused when it is written.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    batch: WriteBatch,
    failed: Option<Failure>,
}

/// Adds to a batch.
fn add(
    function: &'static str,
    batch: Option<&mut Batch>,
    addition: impl FnOnce(&mut WriteBatch) -> Result<()>,
) {
    let Some(batch) = batch else { return };
    if let Err(failure) = attempt(function, || addition(&mut batch.batch)) {
        batch.failed.get_or_insert(failure);
    }
}

fn pointer(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> *mut Batch {
    quiet("leveldb_writebatch_create", ptr::null_mut(), || give(Batch::default()))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_destroy(batch: Option<Box<Batch>>) {
    quiet("leveldb_writebatch_destroy", (), || drop(batch));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_clear(batch: Option<&mut Batch>) {
    let Some(batch) = batch else { return };
    batch.failed = attempt("leveldb_writebatch_clear", || {
        batch.batch.clear();
        Ok::<(), Failure>(())
    })
    .err();
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_put(
    batch: Option<&mut Batch>,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    add("leveldb_writebatch_put", batch, |batch| {
        batch.put(bytes(key, klen, "key")?, bytes(val, vlen, "val")?);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_delete(batch: Option<&mut Batch>, key: *const c_char, klen: usize) {
    add("leveldb_writebatch_delete", batch, |batch| {
        batch.delete(bytes(key, klen, "key")?);
        Ok(())
    });
}

/// `destination` and `source` may be one batch, so they are pointers here.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_append(destination: *mut Batch, source: *const Batch) {
    // SAFETY: the caller promises two batches, or one, which no other thread uses during the call. The copy is made, and the reference to
    // `source` has ended, before `destination` is borrowed to change it. A copy shares the writes, so it costs little.
    let (source, destination) = unsafe { (source.as_ref().cloned(), destination.as_mut()) };
    let (Some(source), Some(destination)) = (source, destination) else { return };
    add("leveldb_writebatch_append", Some(destination), |batch| {
        batch.append(&source.batch);
        source.failed.map_or(Ok(()), Err)
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_iterate(
    batch: Option<&Batch>,
    state: *mut c_void,
    put: OnPut,
    deleted: OnDelete,
) {
    quiet("leveldb_writebatch_iterate", (), || {
        let Some(batch) = batch else { return };
        for entry in batch.batch.iter() {
            let (key, klen) = (pointer(entry.key()), entry.key().len());
            // A caller may pass NULL where its batch has no such entry.
            match (entry.value(), put, deleted) {
                (Some(value), Some(put), _) => put(state, key, klen, pointer(value), value.len()),
                (None, _, Some(deleted)) => deleted(state, key, klen),
                _ => {}
            }
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_write(
    db: Option<&Database>,
    options: Option<&WriteOptions>,
    batch: Option<&Batch>,
    errptr: ErrorOut<'_>,
) {
    guard("leveldb_write", errptr, (), || {
        let (db, batch) = (need(db, "db")?, need(batch, "batch")?);
        if let Some(failure) = &batch.failed {
            return Err(failure.clone());
        }
        Ok(db.db.write_with(&batch.batch, WriteOptions::durability(options))?)
    });
}
