//! The class `Transaction`: reads of one moment and writes over them, which commit together unless another write changed what was read.

use crate::blocks;
use crate::bytes::Bytes;
use crate::errors::{Failure, Result, conflict};
use crate::family::Family;
use crate::held::Held;
use crate::options::durability;
use crate::place::Place;
use crate::reader::Reader;
use braidb::{Attempts, ColumnFamily};
use pyo3::prelude::*;
use std::sync::{Arc, PoisonError, RwLock};

/// A transaction under way, which its object and its iterators share.
#[derive(Debug)]
pub struct Running {
    /// `None` once the transaction was committed or rolled back.
    transaction: RwLock<Option<braidb::Transaction>>,
    pub opened: Held,
}

impl Running {
    /// Calls the transaction. The caller has asked `Opened::check`.
    pub fn with<T>(&self, call: impl FnOnce(&braidb::Transaction) -> braidb::Result<T>) -> Result<T> {
        let transaction = self.transaction.read().unwrap_or_else(PoisonError::into_inner);
        Ok(call(transaction.as_ref().ok_or_else(ended)?)?)
    }

    /// Ends the transaction, once no thread uses it.
    fn take(&self) -> Result<braidb::Transaction> {
        self.opened.check()?;
        self.transaction.write().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)
    }

    /// Stages a put, or a delete if there is no value.
    fn stage(&self, family: Option<&ColumnFamily>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.opened.check()?;
        self.with(|transaction| match (family, value) {
            (None, Some(value)) => transaction.put(key, value),
            (None, None) => transaction.delete(key),
            (Some(family), Some(value)) => transaction.put_in(family, key, value),
            (Some(family), None) => transaction.delete_in(family, key),
        })
    }

    fn commit(&self, wanted: Option<&str>) -> Result<()> {
        let wanted = durability(wanted)?;
        let transaction = self.take()?;
        Ok(match wanted {
            None => transaction.commit(),
            Some(wanted) => transaction.commit_with(wanted),
        }?)
    }

    /// Whether the transaction was committed or rolled back.
    fn has_ended(&self) -> Result<bool> {
        self.opened.check()?;
        Ok(self.transaction.read().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    /// Drops the writes. Does nothing if the transaction has ended.
    fn rollback(&self) -> Result<()> {
        self.opened.check_process()?;
        let transaction = self.transaction.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(transaction);
        Ok(())
    }
}

fn ended() -> Failure {
    Failure::closed("the transaction was committed or rolled back; begin another one with `db.transaction()`")
}

/// Reads and writes that take effect together, or not at all.
#[pyclass(frozen, extends = Reader, module = "braidb")]
#[derive(Debug)]
pub struct Transaction {
    running: Arc<Running>,
    durability: Option<String>,
}

impl Transaction {
    /// Begins a transaction. `wanted` is the durability of its commit.
    pub fn begin(py: Python<'_>, opened: &Held, wanted: Option<String>) -> PyResult<Py<Transaction>> {
        let transaction = py.detach(|| {
            durability(wanted.as_deref())?;
            opened.check()?;
            Ok::<_, Failure>(opened.db.transaction()?)
        })?;
        Transaction::of(py, opened, transaction, wanted)
    }

    /// The object of a transaction that has begun.
    fn of(
        py: Python<'_>,
        opened: &Held,
        transaction: braidb::Transaction,
        wanted: Option<String>,
    ) -> PyResult<Py<Transaction>> {
        let running =
            Arc::new(Running { transaction: RwLock::new(Some(transaction)), opened: opened.clone() });
        let reader = Reader { place: Place::Transaction(running.clone()) };
        let new = PyClassInitializer::from(reader).add_subclass(Transaction { running, durability: wanted });
        Py::new(py, new)
    }

    fn stage(
        &self,
        py: Python<'_>,
        family: Option<&Bound<'_, Family>>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        let named = family.map(Family::named);
        py.detach(|| {
            let family = named.map(|named| named.of(&self.running.opened)).transpose()?;
            self.running.stage(family, key, value)
        })
    }
}

#[pymethods]
impl Transaction {
    /// Sets `key` to `value` when the transaction commits.
    #[pyo3(signature = (key, value, *, family=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        family: Option<&Bound<'_, Family>>,
    ) -> Result<()> {
        self.stage(py, family, &key, Some(&value))
    }

    /// Removes `key` when the transaction commits.
    #[pyo3(signature = (key, *, family=None))]
    fn delete(&self, py: Python<'_>, key: Bytes<'_>, family: Option<&Bound<'_, Family>>) -> Result<()> {
        self.stage(py, family, &key, None)
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> Result<()> {
        self.stage(py, None, &key, Some(&value))
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> Result<()> {
        self.stage(py, None, &key, None)
    }

    /// Writes all, if all that was read is still true. Raises `ConflictError` otherwise.
    #[pyo3(signature = (*, durability=None))]
    fn commit(&self, py: Python<'_>, durability: Option<&str>) -> Result<()> {
        let wanted = durability.or(self.durability.as_deref());
        py.detach(|| self.running.commit(wanted))
    }

    /// Drops all writes. Does nothing after a commit.
    fn rollback(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| self.running.rollback())
    }

    fn __enter__(slf: Py<Transaction>) -> Py<Transaction> {
        slf
    }

    /// Commits, or rolls back after an exception. Does nothing if the block has ended the transaction.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let wanted = self.durability.as_deref();
        let is_done = kind.is_none();
        let outcome = py.detach(|| match is_done {
            true if self.running.has_ended()? => Ok(()),
            true => self.running.commit(wanted),
            false => self.running.rollback(),
        });
        blocks::ended(kind, value, outcome)
    }
}

/// Runs `work` in transactions until one commits. Returns what `work` returned. `work` may end its transaction itself.
pub fn transact<'py>(
    py: Python<'py>,
    opened: &Held,
    work: &Bound<'py, PyAny>,
    wanted: Option<String>,
) -> PyResult<Bound<'py, PyAny>> {
    let conflict = conflict(py)?;
    let mut attempts = py.detach(|| {
        opened.check()?;
        Ok::<_, Failure>(opened.db.attempts(durability(wanted.as_deref())?))
    })?;
    loop {
        let transaction = py.detach(|| {
            opened.check()?;
            Ok::<_, Failure>(attempts.begin()?)
        })?;
        let transaction = Transaction::of(py, opened, transaction, wanted.clone())?;
        let outcome = attempt(py, &attempts, &transaction, work);
        if outcome.is_err() {
            // It fails in a child that `work` has forked. The error of `work` is the better one.
            let _ = transaction.get().rollback(py);
        }
        match outcome {
            // A read of excised keys conflicts within `work`.
            Err(error) if error.is_instance(py, conflict) => {
                if !py.detach(|| attempts.go_on()).map_err(Failure::from)? {
                    return Err(error);
                }
                py.check_signals()?;
            }
            outcome => return outcome,
        }
    }
}

/// Runs `work` in a transaction, and commits it unless `work` has ended it.
fn attempt<'py>(
    py: Python<'py>,
    attempts: &Attempts<'_>,
    transaction: &Py<Transaction>,
    work: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let done = work.call1((transaction,))?;
    let running = &transaction.get().running;
    py.detach(|| match running.has_ended()? {
        true => Ok(()),
        false => Ok::<_, Failure>(attempts.commit(running.take()?)?),
    })?;
    Ok(done)
}
