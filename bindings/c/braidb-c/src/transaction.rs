//! Transactions: reads of one moment and writes over them, which commit together unless another write changed what was read.

use crate::code::Code;
use crate::database::{Database, Shared, durability, usable};
use crate::failure::{Failure, Result};
use crate::family::{Family, family_of};
use crate::guard::{ErrorOut, guard, quiet};
use crate::overlay::{OnEntry, visit};
use crate::place::bounds;
use crate::pointers::{Out, Slice, give, need, out};
use crate::value::{ValueHandle, copy_value, give_value};
use braidb::Value;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// `braidb_txn_t`.
pub struct Transaction {
    shared: Arc<Shared>,
    /// `None` once the transaction was committed or rolled back. In a forked child a thread that the child lacks may hold the lock, so each
    /// function asks `shared` first.
    running: RwLock<Option<braidb::Transaction>>,
}

impl Transaction {
    /// Calls the running transaction. A call does not wait for a thread that ends the transaction: that thread may itself wait for a scan
    /// whose callback makes this call.
    fn with<T>(&self, call: impl FnOnce(&braidb::Transaction) -> Result<T>) -> Result<T> {
        self.shared.check()?;
        let running: RwLockReadGuard<'_, _> = match self.running.try_read() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(ended()),
        };
        call(running.as_ref().ok_or_else(ended)?)
    }

    /// Ends the transaction, once no thread uses it.
    fn take(&self) -> Result<braidb::Transaction> {
        self.shared.check()?;
        self.running.write().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)
    }

    fn get(&self, family: Option<&Family>, key: &[u8]) -> Result<Option<Value>> {
        self.with(|running| {
            Ok(match family_of(family) {
                None => running.get(key),
                Some(family) => running.get_in(family, key),
            }?)
        })
    }
}

fn ended() -> Failure {
    Failure::invalid("the transaction was committed or rolled back; begin another one")
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_create(
    db: Option<&Database>,
    txn: Out<'_, *mut Transaction>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_create", err, || {
        let place = out(txn, "txn", ptr::null_mut())?;
        let shared = usable(db)?.clone();
        let running = RwLock::new(Some(shared.db.transaction()?));
        *place = give(Transaction { shared, running });
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_free(txn: Option<Box<Transaction>>) {
    quiet("braidb_txn_free", (), || drop(txn));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_put(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    value: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_put", err, || {
        let (key, value) = (key.bytes("key")?, value.bytes("value")?);
        need(txn, "txn")?.with(|running| {
            match family_of(family) {
                None => running.put(key, value),
                Some(family) => running.put_in(family, key, value),
            }?;
            Ok(Code::OK)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_delete(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_delete", err, || {
        let key = key.bytes("key")?;
        need(txn, "txn")?.with(|running| {
            match family_of(family) {
                None => running.delete(key),
                Some(family) => running.delete_in(family, key),
            }?;
            Ok(Code::OK)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_get(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    value: Out<'_, *mut ValueHandle>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_get", err, || {
        let value = out(value, "value", ptr::null_mut())?;
        Ok(give_value(need(txn, "txn")?.get(family, key.bytes("key")?)?, value))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_get_into(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    buffer: *mut u8,
    capacity: usize,
    len: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_get_into", err, || {
        let len = out(len, "len", 0)?;
        copy_value(need(txn, "txn")?.get(family, key.bytes("key")?)?, buffer, capacity, len)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_contains(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_contains", err, || {
        let key = key.bytes("key")?;
        let is_there = need(txn, "txn")?.with(|running| {
            Ok(match family_of(family) {
                None => running.contains_key(key),
                Some(family) => running.contains_key_in(family, key),
            }?)
        });
        Ok(if is_there? { Code::OK } else { Code::NOT_FOUND })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_scan(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    lower: Slice,
    upper: Slice,
    is_backward: i32,
    on_entry: OnEntry,
    context: *mut c_void,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_scan", err, || {
        let on_entry = need(on_entry, "on_entry")?;
        let range = bounds(lower.bound("lower")?, upper.bound("upper")?);
        need(txn, "txn")?.with(|running| {
            let entries = match family_of(family) {
                None => running.range(range),
                Some(family) => running.range_in(family, range),
            };
            visit(entries, is_backward != 0, |key, value| on_entry(context, key, value))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_commit(txn: Option<&Transaction>, durability: i32, err: ErrorOut<'_>) -> Code {
    guard("braidb_txn_commit", err, || {
        let (txn, durability) = (need(txn, "txn")?, self::durability(durability)?);
        let running = txn.take()?;
        match durability {
            None => running.commit()?,
            Some(durability) => running.commit_with(durability)?,
        }
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_rollback(txn: Option<&Transaction>, err: ErrorOut<'_>) -> Code {
    guard("braidb_txn_rollback", err, || {
        drop(need(txn, "txn")?.take()?);
        Ok(Code::OK)
    })
}
