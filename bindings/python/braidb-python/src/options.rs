//! Options by name, and the durability of a call.

use crate::errors::{Failure, Result};
use braidb::{Durability, Options};
use braidb_bindings::settings;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use std::path::PathBuf;
use std::time::Duration;

/// The option with a time. Python gives it in seconds.
const WAIT_FOR_LOCK: &str = "wait_for_lock";
/// Milliseconds in a second: options by name take milliseconds.
const MS: f64 = 1_000.0;

/// The options that keyword arguments ask for.
pub fn options(
    create: bool,
    durability: Option<&str>,
    slow_paths: Option<Vec<PathBuf>>,
    named: Option<&Bound<'_, PyDict>>,
) -> PyResult<Options> {
    let mut options = Options::new().create_if_missing(create);
    if let Some(durability) = durability {
        options = settings::set(options, "durability", durability).map_err(Failure::from)?;
    }
    for path in slow_paths.into_iter().flatten() {
        options = options.slow_path(path);
    }
    for (name, value) in named.into_iter().flatten() {
        let name: String = name.extract()?;
        let value = text(&name, &value)?;
        options = settings::set(options, &name, &value).map_err(Failure::from)?;
    }
    Ok(options)
}

/// How long an open waits for the lock of the database.
pub fn wait_for_lock(named: Option<&Bound<'_, PyDict>>) -> PyResult<Duration> {
    let value = named.map(|named| named.get_item(WAIT_FOR_LOCK)).transpose()?.flatten();
    value.map_or(Ok(Duration::ZERO), |value| Ok(Duration::from_millis(milliseconds(&value)?)))
}

fn milliseconds(seconds: &Bound<'_, PyAny>) -> PyResult<u64> {
    let seconds: f64 = seconds.extract().map_err(|_| wrong_type(WAIT_FOR_LOCK, "a number of seconds"))?;
    Ok((seconds.max(0.0) * MS) as u64)
}

/// The value of an option as the text that options by name take.
fn text(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if name == WAIT_FOR_LOCK {
        return Ok(format!("{}ms", milliseconds(value)?));
    }
    if value.is_none() {
        return Ok("none".to_owned());
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(if value.is_truthy()? { "true" } else { "false" }.to_owned());
    }
    if value.is_instance_of::<PyFloat>() {
        return Err(wrong_type(name, "a whole number"));
    }
    match value.is_instance_of::<PyInt>() || value.is_instance_of::<PyString>() {
        true => Ok(value.str()?.to_string()),
        false => Err(wrong_type(name, "a bool, an int, a str or None")),
    }
}

fn wrong_type(name: &str, wanted: &str) -> PyErr {
    PyTypeError::new_err(format!("option `{name}` is {wanted}"))
}

/// The durability that a call names; `None` for that of the options.
#[inline]
pub fn durability(name: Option<&str>) -> Result<Option<Durability>> {
    match name {
        None => Ok(None),
        Some("none") => Ok(Some(Durability::None)),
        Some("buffer") => Ok(Some(Durability::Buffer)),
        Some("sync") => Ok(Some(Durability::Sync)),
        Some(other) => Err(Failure::invalid(format!(
            "{other:?} is no durability; choose \"none\", \"buffer\" or \"sync\""
        ))),
    }
}
