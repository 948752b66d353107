//! Calls that take the path of a database.

use crate::database::Database;
use crate::errors::{Failure, Result};
use crate::interrupts::{self, LOOK};
use crate::objects;
use crate::options::{options, wait_for_lock};
use braidb::{Error, Options};
use braidb_bindings::opened::Opened;
use braidb_bindings::{reports, settings};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Opens the database in the directory `path`. All options of docs/options.md are keyword arguments. Ctrl-C ends a wait for the lock.
#[pyfunction]
#[pyo3(signature = (path, *, create=true, read_only=false, durability=None, slow_paths=None, **options))]
pub fn open(
    py: Python<'_>,
    path: PathBuf,
    create: bool,
    read_only: bool,
    durability: Option<&str>,
    slow_paths: Option<Vec<PathBuf>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<Database>> {
    let mut wait = wait_for_lock(options)?;
    let options = self::options(create, durability, slow_paths, options)?;
    loop {
        // The engine waits for one part of the time, between two looks at signals.
        let part = wait.min(LOOK);
        wait -= part;
        let options = options.clone().wait_for_lock(part);
        let outcome = py.detach(|| {
            Opened::new(Failure::unregistered, || {
                Ok(if read_only { options.open_read_only(&path) } else { options.open(&path) }?)
            })
        });
        match outcome {
            Err(Failure::Engine(Error::Locked { .. })) if !wait.is_zero() => py.check_signals()?,
            outcome => return Database::create(py, outcome?),
        }
    }
}

/// Reads and checks every byte of a database that is not open. The list `damages` is empty if all is well. Ctrl-C ends it.
#[pyfunction]
#[pyo3(signature = (path, *, slow_paths=None))]
pub fn verify<'py>(
    py: Python<'py>,
    path: PathBuf,
    slow_paths: Option<Vec<PathBuf>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options(false, None, slow_paths, None)?;
    let report = interrupts::run(py, move |wanted| {
        Ok(reports::verification(&options.verify_with_progress(path, |_, _| wanted.check())?))
    })?;
    objects::dict(py, &report)
}

/// Deletes a database that is not open: all its files but an empty `LOCK`. Directories of slow tiers stay.
#[pyfunction]
pub fn destroy(py: Python<'_>, path: PathBuf) -> Result<()> {
    py.detach(|| Ok(Options::new().destroy(path)?))
}

/// The names of all options by which `open` takes a value.
#[pyfunction]
pub fn option_names() -> Vec<&'static str> {
    settings::NAMES.trim_end_matches('\0').lines().collect()
}
