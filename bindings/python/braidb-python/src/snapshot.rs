//! The class `Snapshot`: the database at one moment.

use crate::blocks;
use crate::errors::{Failure, Result};
use crate::held::Held;
use crate::place::Place;
use crate::reader::Reader;
use pyo3::prelude::*;
use std::sync::{Arc, PoisonError, RwLock};

/// A moment of a database, which a snapshot and what is made of it share.
#[derive(Debug)]
pub struct Moment {
    /// `None` once the snapshot was closed.
    snapshot: RwLock<Option<braidb::Snapshot>>,
    pub opened: Held,
}

impl Moment {
    /// Reads of the moment. The caller has asked `Opened::check`.
    pub fn with<T>(&self, read: impl FnOnce(&braidb::Snapshot) -> braidb::Result<T>) -> Result<T> {
        let snapshot = self.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || Failure::closed("the snapshot was closed; take another one with `db.snapshot()`");
        Ok(read(snapshot.as_ref().ok_or_else(closed)?)?)
    }

    fn close(&self) -> Result<()> {
        self.opened.check_process()?;
        let snapshot = self.snapshot.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(snapshot);
        Ok(())
    }
}

/// Reads of one moment, over all column families.
#[pyclass(frozen, extends = Reader, module = "braidb")]
#[derive(Debug)]
pub struct Snapshot {
    moment: Arc<Moment>,
}

impl Snapshot {
    /// A snapshot of the database as it is now.
    pub fn take(py: Python<'_>, opened: &Held) -> PyResult<Py<Snapshot>> {
        let snapshot = py.detach(|| {
            opened.check()?;
            Ok::<_, Failure>(opened.db.snapshot())
        })?;
        let moment = Arc::new(Moment { snapshot: RwLock::new(Some(snapshot)), opened: opened.clone() });
        let reader = Reader { place: Place::Snapshot(moment.clone()) };
        Py::new(py, PyClassInitializer::from(reader).add_subclass(Snapshot { moment }))
    }
}

#[pymethods]
impl Snapshot {
    /// Lets the moment go. A second call does nothing.
    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| self.moment.close())
    }

    fn __enter__(slf: Py<Snapshot>) -> Py<Snapshot> {
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
