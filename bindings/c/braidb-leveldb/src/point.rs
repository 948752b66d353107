//! Reads and writes of single keys.

use crate::arguments::{Out, bytes};
use crate::call_options::{ReadOptions, WriteOptions};
use crate::database::Database;
use crate::failure::{ErrorOut, guard, need};
use braidb_ffi::memory::Block;
use std::ffi::c_char;
use std::ptr;

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_put(
    db: Option<&Database>,
    options: Option<&WriteOptions>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: ErrorOut<'_>,
) {
    guard("leveldb_put", errptr, (), || {
        let (key, value) = (bytes(key, keylen, "key")?, bytes(val, vallen, "val")?);
        Ok(need(db, "db")?.db.put_with(key, value, WriteOptions::durability(options))?)
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_delete(
    db: Option<&Database>,
    options: Option<&WriteOptions>,
    key: *const c_char,
    keylen: usize,
    errptr: ErrorOut<'_>,
) {
    guard("leveldb_delete", errptr, (), || {
        let key = bytes(key, keylen, "key")?;
        Ok(need(db, "db")?.db.delete_with(key, WriteOptions::durability(options))?)
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_get(
    db: Option<&Database>,
    options: Option<&ReadOptions>,
    key: *const c_char,
    keylen: usize,
    vallen: Out<'_, usize>,
    errptr: ErrorOut<'_>,
) -> *mut c_char {
    let vallen = vallen.map(|vallen| vallen.write(0));
    guard("leveldb_get", errptr, ptr::null_mut(), || {
        let (db, key) = (need(db, "db")?, bytes(key, keylen, "key")?);
        let found = match ReadOptions::moment(options, db)? {
            None => db.db.get(key),
            Some(moment) => moment.snapshot.get(key),
        };
        let Some(value) = found? else { return Ok(ptr::null_mut()) };
        let mut block = Block::new(value.len());
        block.put(0, &value);
        if let Some(vallen) = vallen {
            *vallen = value.len();
        }
        Ok(block.give().cast())
    })
}
