//! The class `Cursor`: a place among the entries of a range, which moves both ways.

use crate::blocks;
use crate::bytes::Bytes;
use crate::errors::{Failure, Result};
use crate::held::Held;
use crate::place::Entries;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError, TryLockError};

/// A place among the entries of a range. One thread at a time uses it.
#[pyclass(frozen, module = "braidb")]
#[derive(Debug)]
pub struct Cursor {
    state: Mutex<State>,
    opened: Held,
}

#[derive(Debug)]
struct State {
    /// `None` once the cursor was closed.
    cursor: Option<braidb::Cursor>,
    /// Why the last movement failed. The cursor then stands on no entry, and only jumps move it again.
    failed: Option<Failure>,
}

impl State {
    fn open(&mut self) -> Result<&mut braidb::Cursor> {
        self.cursor.as_mut().ok_or_else(|| Failure::closed("the cursor was closed; make another one"))
    }

    /// Moves the cursor, and notes a failure.
    fn moved(&mut self, movement: impl FnOnce(&mut braidb::Cursor) -> braidb::Result<bool>) -> Result<bool> {
        let outcome = self.open().and_then(|cursor| Ok(movement(cursor)?));
        self.failed = outcome.as_ref().err().cloned();
        outcome
    }
}

impl Cursor {
    pub fn new(opened: Held, entries: Entries) -> Result<Cursor> {
        match entries {
            Entries::Read(iter) => {
                let state = State { cursor: Some(iter.cursor()), failed: None };
                Ok(Cursor { state: Mutex::new(state), opened })
            }
            Entries::Staged(_) => {
                Err(Failure::invalid("a transaction has no cursor; iterate over its `items`"))
            }
        }
    }

    fn with<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&mut State) -> Result<T> + Send) -> Result<T> {
        py.detach(|| {
            self.opened.check()?;
            call(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }

    /// Jumps to another place. A jump mends a cursor whose last movement failed.
    fn jump(
        &self,
        py: Python<'_>,
        movement: impl FnOnce(&mut braidb::Cursor) -> braidb::Result<bool> + Send,
    ) -> Result<bool> {
        self.with(py, |state| state.moved(movement))
    }

    /// Moves by one entry. A cursor whose last movement failed has no place to move from: it fails again.
    fn by_one(
        &self,
        py: Python<'_>,
        movement: impl FnOnce(&mut braidb::Cursor) -> braidb::Result<bool> + Send,
    ) -> Result<bool> {
        self.with(py, |state| match &state.failed {
            Some(failure) => Err(failure.clone()),
            None => state.moved(movement),
        })
    }
}

#[pymethods]
impl Cursor {
    /// Moves to the first entry. Returns whether there is one.
    fn first(&self, py: Python<'_>) -> Result<bool> {
        self.jump(py, braidb::Cursor::first)
    }

    /// Moves to the last entry. Returns whether there is one.
    fn last(&self, py: Python<'_>) -> Result<bool> {
        self.jump(py, braidb::Cursor::last)
    }

    /// Moves to the first entry whose key is `key` or larger. Returns whether there is one.
    fn seek(&self, py: Python<'_>, key: Bytes<'_>) -> Result<bool> {
        self.jump(py, |cursor| cursor.seek(&*key))
    }

    /// Moves to the last entry whose key is `key` or smaller. Returns whether there is one.
    fn seek_for_prev(&self, py: Python<'_>, key: Bytes<'_>) -> Result<bool> {
        self.jump(py, |cursor| cursor.seek_for_prev(&*key))
    }

    /// Moves to the next entry in key order. Returns whether there is one.
    fn next(&self, py: Python<'_>) -> Result<bool> {
        self.by_one(py, braidb::Cursor::next)
    }

    /// Moves to the next entry against key order. Returns whether there is one.
    fn prev(&self, py: Python<'_>) -> Result<bool> {
        self.by_one(py, braidb::Cursor::prev)
    }

    /// The key of the entry on which the cursor stands, or `None`.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyBytes>>> {
        self.opened.check()?;
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Failure::invalid("another thread moves the cursor")),
        };
        Ok(state.open()?.key().map(|key| PyBytes::new(py, key)))
    }

    /// The value of the entry on which the cursor stands, or `None`. It is read now.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyBytes>>> {
        let value = self.with(py, |state| Ok(state.open()?.value()?.map(<[u8]>::to_vec)))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Lets the moment go. A second call does nothing.
    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| {
            self.opened.check_process()?;
            let cursor = self.state.lock().unwrap_or_else(PoisonError::into_inner).cursor.take();
            drop(cursor);
            Ok(())
        })
    }

    fn __enter__(slf: Py<Cursor>) -> Py<Cursor> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        blocks::ended(kind, value, self.close(py))
    }
}
