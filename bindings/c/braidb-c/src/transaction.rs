//! Transactions: reads of one moment and writes over them, which commit together unless another write changed what was read.

use crate::database::{Database, Shared, durability, usable};
use crate::failure::{Failure, Result};
use crate::family::Family;
use crate::guard::{ErrorOut, guard, quiet};
use crate::pointers::{Out, Slice, give, need, out};
use crate::staged::{self, Handle, OnEntry};
use crate::value::ValueHandle;
use braidb_bindings::code::Code;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};

thread_local! {
    /// The handles of the transactions that calls of this thread use now, the innermost call last: a scan calls back, and the callback calls.
    static IN_USE: RefCell<Vec<*const Transaction>> = const { RefCell::new(Vec::new()) };
}

/// `braidb_txn_t`.
pub struct Transaction {
    shared: Arc<Shared>,
    /// `None` once the transaction was committed or rolled back. In a forked child a thread that the child lacks may hold the lock, so each
    /// function asks `shared` first.
    running: RwLock<Option<braidb::Transaction>>,
}

/// Notes a call with a transaction until it is dropped.
struct InUse;

impl InUse {
    fn begin(txn: &Transaction) -> InUse {
        IN_USE.with_borrow_mut(|in_use| in_use.push(ptr::from_ref(txn)));
        InUse
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        IN_USE.with_borrow_mut(Vec::pop);
    }
}

impl Handle for Transaction {
    const NAME: &'static str = "txn";
    type Staged = braidb::Transaction;

    fn shared(&self) -> &Shared {
        &self.shared
    }

    /// A call does not wait for a thread that ends the transaction: this thread may itself wait for a scan whose callback makes the call.
    fn with<T>(&self, call: impl FnOnce(&braidb::Transaction) -> Result<T>) -> Result<T> {
        self.shared.check()?;
        let running: RwLockReadGuard<'_, _> = match self.running.try_read() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(ended()),
        };
        let _in_use = InUse::begin(self);
        call(running.as_ref().ok_or_else(ended)?)
    }
}

impl Transaction {
    /// Ends the transaction, once no other thread uses it. Refuses the callback of a scan: the scan would wait for itself.
    fn take(&self) -> Result<braidb::Transaction> {
        self.shared.check()?;
        if IN_USE.with_borrow(|in_use| in_use.contains(&ptr::from_ref(self))) {
            return Err(Failure::invalid(
                "a scan of the transaction calls back; end the transaction when the scan has returned",
            ));
        }
        self.running.write().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)
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
    guard("braidb_txn_put", err, || staged::set(txn, family, key, Some(value)))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_delete(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_delete", err, || staged::set(txn, family, key, None))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_get(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    value: Out<'_, *mut ValueHandle>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_get", err, || staged::get(txn, family, key, value))
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
    guard("braidb_txn_get_into", err, || staged::get_into(txn, family, key, buffer, capacity, len))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_txn_contains(
    txn: Option<&Transaction>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_txn_contains", err, || staged::contains(txn, family, key))
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
    guard("braidb_txn_scan", err, || staged::scan(txn, family, lower, upper, is_backward, on_entry, context))
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
