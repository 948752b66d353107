//! The class `Database`: an open database, with all that concerns it as a whole.

use crate::batch::Batch;
use crate::blocks;
use crate::errors::{Failure, Result};
use crate::family::Family;
use crate::held::Held;
use crate::interrupts;
use crate::objects;
use crate::options::durability;
use crate::place::{Home, Place};
use crate::reader::Reader;
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::transaction::{self, Transaction};
use braidb_bindings::opened::Opened;
use braidb_bindings::reports;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// An open database. Its own entries are those of the family `default`.
#[pyclass(frozen, extends = Store, module = "braidb")]
#[derive(Debug)]
pub struct Database {
    opened: Held,
}

impl Database {
    pub fn create(py: Python<'_>, opened: Opened) -> PyResult<Py<Database>> {
        let opened = Held::new(opened);
        let home = Home { family: None, opened: opened.clone() };
        let reader = Reader { place: Place::Now(home.clone()) };
        let new =
            PyClassInitializer::from(reader).add_subclass(Store { home }).add_subclass(Database { opened });
        Py::new(py, new)
    }

    /// A report of the engine as a dict.
    fn report<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce(&Opened) -> Result<Value> + Send,
    ) -> PyResult<Bound<'py, PyDict>> {
        let report = py.detach(|| {
            self.opened.check()?;
            make(&self.opened)
        })?;
        objects::dict(py, &report)
    }
}

#[pymethods]
impl Database {
    /// The directory of the database.
    #[getter]
    fn path(&self) -> &OsStr {
        self.opened.db.path().as_os_str()
    }

    /// Whether the database was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.opened.is_closed()
    }

    fn __repr__(&self) -> String {
        let closed = if self.opened.is_closed() { " (closed)" } else { "" };
        format!("<braidb.Database {:?}{closed}>", self.opened.db.path())
    }

    /// The column family `name`. A missing one is created, unless `create` is false.
    #[pyo3(signature = (name, *, create=true))]
    fn family(&self, py: Python<'_>, name: &str, create: bool) -> PyResult<Py<Family>> {
        let family = py.detach(|| {
            self.opened.check()?;
            let db = &self.opened.db;
            Ok::<_, Failure>(if create { db.create_column_family(name) } else { db.column_family(name) }?)
        })?;
        Family::create(py, &self.opened, family)
    }

    /// The names of all column families.
    fn families(&self, py: Python<'_>) -> Result<Vec<String>> {
        py.detach(|| {
            self.opened.check()?;
            Ok(self.opened.db.column_families())
        })
    }

    /// Writes that happen together or not at all.
    #[pyo3(signature = (*, durability=None))]
    fn batch(&self, durability: Option<String>) -> Result<Batch> {
        Batch::new(&self.opened, durability)
    }

    /// Begins a transaction. `transact` begins again after a conflict.
    #[pyo3(signature = (*, durability=None))]
    fn transaction(&self, py: Python<'_>, durability: Option<String>) -> PyResult<Py<Transaction>> {
        Transaction::begin(py, &self.opened, durability)
    }

    /// Calls `work` with a transaction, and commits. After a conflict it begins again. Returns what `work` returned.
    #[pyo3(signature = (work, *, durability=None))]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        work: &Bound<'py, PyAny>,
        durability: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        transaction::transact(py, &self.opened, work, durability)
    }

    /// The database as it is now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Py<Snapshot>> {
        Snapshot::take(py, &self.opened)
    }

    /// What the database holds, and what it did since it was opened.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.report(py, |opened| Ok(reports::statistics(&opened.db.stats())))
    }

    /// All statistics that are one number, as lines that Prometheus reads.
    fn metrics(&self, py: Python<'_>) -> Result<String> {
        py.detach(|| {
            self.opened.check()?;
            Ok(reports::metrics(&self.opened.db.stats()))
        })
    }

    /// What opening the database found in its logs.
    fn recovery<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.report(py, |opened| Ok(reports::recovery(opened.db.recovery())))
    }

    /// Reads and checks every byte of the database. The list `damages` is empty if all is well. Ctrl-C ends it.
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let opened = self.opened.for_thread();
        let report = interrupts::run(py, move |wanted| {
            opened.check()?;
            Ok(reports::verification(&opened.db.verify_with_progress(|_| wanted.check())?))
        })?;
        objects::dict(py, &report)
    }

    /// Makes a second database in `dir`, with what this one holds now. `tiers` has a new directory for each slow one.
    #[pyo3(signature = (dir, *, tiers=None))]
    fn checkpoint<'py>(
        &self,
        py: Python<'py>,
        dir: PathBuf,
        tiers: Option<BTreeMap<PathBuf, PathBuf>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let tiers = tiers.unwrap_or_default();
        self.report(py, |opened| {
            let pairs: Vec<(&Path, &Path)> = tiers.iter().map(|(from, to)| (&**from, &**to)).collect();
            Ok(reports::checkpoint(&opened.db.checkpoint_to(dir, &pairs)?))
        })
    }

    /// Moves everything off a slow tier, and takes the tier out of the database. Ctrl-C ends it, and the directory stays a tier.
    fn evacuate(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let opened = self.opened.for_thread();
        interrupts::run(py, move |wanted| {
            opened.check()?;
            Ok(opened.db.evacuate(path, |_| wanted.check())?)
        })
    }

    /// Writes all of memory to tables.
    fn flush(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| {
            self.opened.check()?;
            Ok(self.opened.db.flush()?)
        })
    }

    /// Raises every earlier write to a durability.
    #[pyo3(signature = (durability="sync"))]
    fn persist(&self, py: Python<'_>, durability: &str) -> Result<()> {
        py.detach(|| {
            self.opened.check()?;
            let wanted = self::durability(Some(durability))?.expect("a name gives a durability");
            Ok(self.opened.db.persist(wanted)?)
        })
    }

    /// Waits until no background work runs or is wanted.
    fn settle(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| {
            self.opened.check()?;
            Ok(self.opened.db.settle()?)
        })
    }

    /// Makes all writes durable, and frees the directory, whatever objects there are. Their calls raise `ClosedError` then.
    fn close(&self, py: Python<'_>) -> Result<()> {
        py.detach(|| Ok(self.opened.close()?))
    }

    fn __enter__(slf: Py<Database>) -> Py<Database> {
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
