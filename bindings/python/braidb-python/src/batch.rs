//! The class `Batch`: writes that happen together or not at all.

use crate::blocks;
use crate::bytes::Bytes;
use crate::errors::Result;
use crate::family::Family;
use crate::held::Held;
use crate::options::durability;
use braidb::WriteBatch;
use braidb_bindings::opened::Opened;
use pyo3::prelude::*;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes to any families of one database. As a context manager it is written at the end, or dropped after an exception.
#[pyclass(frozen, module = "braidb")]
#[derive(Debug)]
pub struct Batch {
    opened: Held,
    batch: Mutex<WriteBatch>,
    durability: Option<String>,
}

/// Writes a batch.
pub fn write(opened: &Opened, batch: &WriteBatch, wanted: Option<&str>) -> Result<()> {
    opened.check()?;
    Ok(match durability(wanted)? {
        None => opened.db.write(batch),
        Some(durability) => opened.db.write_with(batch, durability),
    }?)
}

impl Batch {
    /// An empty batch. `wanted` is the durability of its write.
    pub fn new(opened: &Held, wanted: Option<String>) -> Result<Batch> {
        opened.check()?;
        durability(wanted.as_deref())?;
        Ok(Batch { opened: opened.clone(), batch: Mutex::default(), durability: wanted })
    }

    /// The writes, for a moment: no thread holds them while the engine writes.
    fn writes(&self) -> Result<MutexGuard<'_, WriteBatch>> {
        self.opened.check()?;
        Ok(self.batch.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes all writes out, and writes them. Writes of other threads meanwhile stay in the batch, behind those of a failed write.
    fn write_out(&self, py: Python<'_>) -> Result<()> {
        let taken = mem::take(&mut *self.writes()?);
        py.detach(|| {
            let outcome = write(&self.opened, &taken, self.durability.as_deref());
            if outcome.is_err() {
                let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
                let later = mem::replace(&mut *batch, taken);
                batch.append(&later);
            }
            outcome
        })
    }

    #[inline]
    fn add(&self, family: Option<&Bound<'_, Family>>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let family = family.map(|family| Family::named(family).of(&self.opened)).transpose()?;
        let mut batch = self.writes()?;
        match (family, value) {
            (None, Some(value)) => batch.put(key, value),
            (None, None) => batch.delete(key),
            (Some(family), Some(value)) => batch.put_in(family, key, value),
            (Some(family), None) => batch.delete_in(family, key),
        };
        Ok(())
    }
}

#[pymethods]
impl Batch {
    /// Adds a put. A key or value over the limits is refused when the batch is written.
    #[pyo3(signature = (key, value, *, family=None))]
    fn put(&self, key: Bytes<'_>, value: Bytes<'_>, family: Option<&Bound<'_, Family>>) -> Result<()> {
        self.add(family, &key, Some(&value))
    }

    /// Adds a delete.
    #[pyo3(signature = (key, *, family=None))]
    fn delete(&self, key: Bytes<'_>, family: Option<&Bound<'_, Family>>) -> Result<()> {
        self.add(family, &key, None)
    }

    fn __setitem__(&self, key: Bytes<'_>, value: Bytes<'_>) -> Result<()> {
        self.add(None, &key, Some(&value))
    }

    fn __delitem__(&self, key: Bytes<'_>) -> Result<()> {
        self.add(None, &key, None)
    }

    fn __len__(&self) -> Result<usize> {
        Ok(self.writes()?.len())
    }

    /// The bytes that the batch takes in the log, about.
    #[getter]
    fn bytes(&self) -> Result<usize> {
        Ok(self.writes()?.bytes())
    }

    /// Adds all writes of another batch, which keeps them.
    fn append(&self, other: &Bound<'_, Batch>) -> Result<()> {
        // A batch may be appended to itself, so the two locks are not held at once.
        let other = other.get().writes()?.clone();
        self.writes()?.append(&other);
        Ok(())
    }

    /// Removes all writes.
    fn clear(&self) -> Result<()> {
        self.writes()?.clear();
        Ok(())
    }

    /// Writes all, or nothing. The batch keeps its writes.
    #[pyo3(signature = (*, durability=None))]
    fn write(&self, py: Python<'_>, durability: Option<&str>) -> Result<()> {
        let wanted = durability.or(self.durability.as_deref());
        // A clone shares the memory of the writes.
        let batch = self.writes()?.clone();
        py.detach(|| write(&self.opened, &batch, wanted))
    }

    fn __enter__(slf: Py<Batch>) -> Py<Batch> {
        slf
    }

    /// Writes the batch and empties it. After an exception it is emptied alone, and after a failed write it keeps its writes.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let outcome = if kind.is_none() { self.write_out(py) } else { self.clear() };
        blocks::ended(kind, value, outcome)
    }
}
