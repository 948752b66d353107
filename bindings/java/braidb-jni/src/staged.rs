//! The native part of the Java classes `Overlay` and `Transaction`: writes that wait, and reads that see them over the database.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use braidb::{ColumnFamily, Durability, Overlay, Transaction, Value};
use braidb_bindings::opened::Opened;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jint, jlong};
use std::sync::{Arc, PoisonError, RwLock};

/// What a staged write takes in memory besides its bytes in the log, about: 170 bytes. Nodes of the tree that orders the keys have free
/// places. `WritesTest` compares the count with the growth of a process.
const BYTES_OF_A_WRITE: jlong = 170;

/// What a Java overlay or transaction owns. Scans of a transaction share it.
#[derive(Debug)]
pub struct Staged {
    pub opened: Arc<Opened>,
    pub writes: Writes,
}

#[derive(Debug)]
pub enum Writes {
    Overlay(Overlay),
    /// `None` once the transaction was committed or rolled back.
    Transaction(RwLock<Option<Transaction>>),
}

impl Staged {
    /// The staged writes of a handle. Fails after a close of the database.
    pub fn lent<'call>(handle: jlong) -> Result<&'call Arc<Staged>> {
        let staged: &Arc<Staged> = handles::lent(handle);
        staged.check()?;
        Ok(staged)
    }

    /// Fails after a close of the database.
    pub fn check(&self) -> Result<()> {
        Ok(self.opened.check()?)
    }

    fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        match &self.writes {
            Writes::Overlay(overlay) => Ok(overlay.get_in(family, key)?),
            Writes::Transaction(transaction) => with(transaction, |running| running.get_in(family, key)),
        }
    }

    fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        match &self.writes {
            Writes::Overlay(overlay) => Ok(overlay.contains_key_in(family, key)?),
            Writes::Transaction(transaction) => {
                with(transaction, |running| running.contains_key_in(family, key))
            }
        }
    }

    fn put(&self, family: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        match &self.writes {
            Writes::Overlay(overlay) => Ok(overlay.put_in(family, key, value)?),
            Writes::Transaction(transaction) => {
                with(transaction, |running| running.put_in(family, key, value))
            }
        }
    }

    fn delete(&self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        match &self.writes {
            Writes::Overlay(overlay) => Ok(overlay.delete_in(family, key)?),
            Writes::Transaction(transaction) => with(transaction, |running| running.delete_in(family, key)),
        }
    }

    fn commit(&self, durability: Option<Durability>) -> Result<()> {
        match (&self.writes, durability) {
            (Writes::Overlay(overlay), None) => Ok(overlay.commit()?),
            (Writes::Overlay(overlay), Some(durability)) => Ok(overlay.commit_with(durability)?),
            (Writes::Transaction(transaction), None) => Ok(end(transaction)?.commit()?),
            (Writes::Transaction(transaction), Some(durability)) => {
                Ok(end(transaction)?.commit_with(durability)?)
            }
        }
    }

    /// Drops the writes. A transaction has ended then, and an overlay takes new writes.
    fn roll_back(&self) {
        match &self.writes {
            Writes::Overlay(overlay) => overlay.clear(),
            // A transaction that has ended already has nothing to drop.
            Writes::Transaction(transaction) => drop(end(transaction)),
        }
    }

    /// The native memory of all staged writes, about. -1 for a transaction, which does not tell.
    fn held_bytes(&self) -> jlong {
        match &self.writes {
            Writes::Overlay(overlay) => overlay.bytes() as jlong + BYTES_OF_A_WRITE * overlay.len() as jlong,
            Writes::Transaction(_) => -1,
        }
    }

    /// The overlay. Java asks for it in methods of the class `Overlay` alone.
    fn overlay(&self) -> Result<&Overlay> {
        match &self.writes {
            Writes::Overlay(overlay) => Ok(overlay),
            Writes::Transaction(_) => Err(Failure::invalid("a transaction does not tell its size")),
        }
    }
}

/// Calls a transaction under way.
pub fn with<T>(
    transaction: &RwLock<Option<Transaction>>,
    call: impl FnOnce(&Transaction) -> braidb::Result<T>,
) -> Result<T> {
    let transaction = transaction.read().unwrap_or_else(PoisonError::into_inner);
    Ok(call(transaction.as_ref().ok_or_else(ended)?)?)
}

/// Ends a transaction, once no thread uses it.
fn end(transaction: &RwLock<Option<Transaction>>) -> Result<Transaction> {
    transaction.write().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)
}

fn ended() -> Failure {
    Failure::closed("the transaction was committed or rolled back; begin another one by `db.transaction()`")
}

native! {
    fn Java_io_github_braidb_Native_overlay<'local>(_env, home: jlong) -> jlong {
        let opened = Home::lent(home)?.opened.clone();
        let writes = Writes::Overlay(opened.db.overlay());
        Ok(handles::give(Arc::new(Staged { opened, writes })))
    }
}

native! {
    fn Java_io_github_braidb_Native_transaction<'local>(_env, home: jlong) -> jlong {
        let opened = Home::lent(home)?.opened.clone();
        let writes = Writes::Transaction(RwLock::new(Some(opened.db.transaction()?)));
        Ok(handles::give(Arc::new(Staged { opened, writes })))
    }
}

native! {
    fn Java_io_github_braidb_Native_freeStaged<'local>(_env, staged: jlong) -> () {
        let writes = &handles::lent::<Arc<Staged>>(staged).writes;
        if let Writes::Transaction(transaction) = writes {
            // A scan that is still open holds the transaction's place, and must not keep old versions of the database.
            drop(end(transaction));
        }
        handles::free::<Arc<Staged>>(staged);
        Ok(())
    }
}

native! {
    fn Java_io_github_braidb_Native_stagedGet<'local>(
        env,
        staged: jlong,
        home: jlong,
        key: JByteArray<'local>,
    ) -> JByteArray<'local> {
        let staged = Staged::lent(staged)?;
        let key = bytes::take(env, &key)?;
        let value = staged.get(&Home::lent(home)?.family, &key)?;
        bytes::give_value(env, value)
    }
}

native! {
    fn Java_io_github_braidb_Native_stagedContains<'local>(
        env,
        staged: jlong,
        home: jlong,
        key: JByteArray<'local>,
    ) -> jboolean {
        let staged = Staged::lent(staged)?;
        let key = bytes::take(env, &key)?;
        staged.contains(&Home::lent(home)?.family, &key)
    }
}

native! {
    /// Stages a put. Returns the native memory of all staged writes, or -1 for a transaction, which does not tell.
    fn Java_io_github_braidb_Native_stagedPut<'local>(
        env,
        staged: jlong,
        home: jlong,
        key: JByteArray<'local>,
        value: JByteArray<'local>,
    ) -> jlong {
        let staged = Staged::lent(staged)?;
        let (key, value) = (bytes::take_key(env, &key)?, bytes::take_value(env, &value)?);
        staged.put(&Home::lent(home)?.family, &key, &value)?;
        Ok(staged.held_bytes())
    }
}

native! {
    /// Stages a delete. Returns what `stagedPut` returns.
    fn Java_io_github_braidb_Native_stagedDelete<'local>(
        env,
        staged: jlong,
        home: jlong,
        key: JByteArray<'local>,
    ) -> jlong {
        let staged = Staged::lent(staged)?;
        let key = bytes::take_key(env, &key)?;
        staged.delete(&Home::lent(home)?.family, &key)?;
        Ok(staged.held_bytes())
    }
}

native! {
    fn Java_io_github_braidb_Native_stagedCommit<'local>(_env, staged: jlong, durability: jint) -> () {
        Staged::lent(staged)?.commit(bytes::durability(durability)?)
    }
}

native! {
    fn Java_io_github_braidb_Native_stagedRollBack<'local>(_env, staged: jlong) -> () {
        Staged::lent(staged)?.roll_back();
        Ok(())
    }
}

native! {
    /// The keys that are staged in an overlay.
    fn Java_io_github_braidb_Native_overlayCount<'local>(_env, staged: jlong) -> jlong {
        Ok(Staged::lent(staged)?.overlay()?.len() as jlong)
    }
}

native! {
    /// The bytes that the writes of an overlay take in the log, about.
    fn Java_io_github_braidb_Native_overlayBytes<'local>(_env, staged: jlong) -> jlong {
        Ok(Staged::lent(staged)?.overlay()?.bytes() as jlong)
    }
}
