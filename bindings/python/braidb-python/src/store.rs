//! The class `Store`: what databases and families have besides a `Reader`, to write entries and to care for ranges.

use crate::batch;
use crate::bytes::{Bytes, between};
use crate::errors::Result;
use crate::interrupts;
use crate::options::durability;
use crate::place::Home;
use crate::reader::Reader;
use braidb::WriteBatch;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// The start and the stop of a range, as the caller passed them.
type Pair<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// What reads and writes the entries of a column family.
#[pyclass(frozen, subclass, extends = Reader, module = "braidb")]
#[derive(Debug)]
pub struct Store {
    pub home: Home,
}

impl Store {
    #[inline]
    fn write(&self, py: Python<'_>, key: &[u8], value: Option<&[u8]>, wanted: Option<&str>) -> Result<()> {
        py.detach(|| self.home.write(key, value, durability(wanted)?))
    }
}

/// The key and the value of one of the pairs of `update`: a sequence of two, as for the `update` of a dict.
fn pair<'py>(number: usize, pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if pair.is_instance_of::<PyTuple>() {
        return pair.extract();
    }
    let parts: Vec<Bound<'py, PyAny>> = pair.try_iter()?.collect::<PyResult<_>>()?;
    match <[_; 2]>::try_from(parts) {
        Ok([key, value]) => Ok((key, value)),
        Err(parts) => {
            let told = format!("pair {number} has length {}; a key and a value are required", parts.len());
            Err(PyValueError::new_err(told))
        }
    }
}

#[pymethods]
impl Store {
    /// Sets `key` to `value`.
    #[pyo3(signature = (key, value, *, durability=None))]
    fn put(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>, durability: Option<&str>) -> Result<()> {
        self.write(py, &key, Some(&value), durability)
    }

    /// Removes `key`. A missing key is no error.
    #[pyo3(signature = (key, *, durability=None))]
    fn delete(&self, py: Python<'_>, key: Bytes<'_>, durability: Option<&str>) -> Result<()> {
        self.write(py, &key, None, durability)
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> Result<()> {
        self.write(py, &key, Some(&value), None)
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> Result<()> {
        self.write(py, &key, None, None)
    }

    /// Sets `key` to `value` unless it has a value. Returns the value that it has afterwards.
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        value: Bytes<'_>,
    ) -> Result<Bound<'py, PyBytes>> {
        let present = py.detach(|| self.home.put_if_absent(&key, &value))?;
        Ok(PyBytes::new(py, present.as_deref().unwrap_or(&value)))
    }

    /// Removes `key` and returns its value, or `default` if it has none. Without a default a missing key raises `KeyError`.
    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(pyo3::exceptions::PyTypeError::new_err("pop takes a key and at most one default"));
        }
        match py.detach(|| self.home.pop(&key))? {
            Some(value) => Ok(PyBytes::new(py, &value).into_any()),
            None => default.get_item(0).map_err(|_| PyKeyError::new_err(PyBytes::new(py, &key).unbind())),
        }
    }

    /// Sets all pairs of a mapping, or of an iterable of pairs, in one batch.
    #[pyo3(signature = (pairs, *, durability=None))]
    fn update(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>, durability: Option<&str>) -> PyResult<()> {
        let items = match pairs.cast::<PyDict>() {
            Ok(dict) => dict.items().into_any(),
            Err(_) if pairs.hasattr("items")? => pairs.call_method0("items")?,
            Err(_) => pairs.clone(),
        };
        let mut batch = WriteBatch::new();
        for (number, pair) in items.try_iter()?.enumerate() {
            let (key, value) = self::pair(number, &pair?)?;
            let (key, value): (Bytes<'_>, Bytes<'_>) = (key.extract()?, value.extract()?);
            match &self.home.family {
                None => batch.put(&key, &value),
                Some(family) => batch.put_in(family, &key, &value),
            };
        }
        Ok(py.detach(|| batch::write(&self.home.opened, &batch, durability))?)
    }

    /// Sets `key` to `new` if its value is `old`. `None` stands for no value. Returns whether it was `old`.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        old: Option<Bytes<'_>>,
        new: Option<Bytes<'_>>,
    ) -> Result<bool> {
        py.detach(|| self.home.compare_and_swap(&key, old.as_deref(), new.as_deref()))
    }

    /// About how many entries, deletes and bytes a range holds. Entries that newer ones hide are counted.
    #[pyo3(signature = (start=None, stop=None))]
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let edges = between(start, stop);
        let estimate = py.detach(|| self.home.estimate(edges))?;
        let dict = PyDict::new(py);
        dict.set_item("entries", estimate.entries)?;
        dict.set_item("tombstones", estimate.tombstones)?;
        dict.set_item("bytes", estimate.bytes)?;
        dict.set_item("value_bytes", estimate.value_bytes)?;
        Ok(dict)
    }

    /// About how many bytes a range holds: the `bytes` of `estimate`.
    #[pyo3(signature = (start=None, stop=None))]
    fn approximate_size(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
    ) -> Result<u64> {
        let edges = between(start, stop);
        Ok(py.detach(|| self.home.estimate(edges))?.bytes)
    }

    /// Takes all entries of whole ranges away, and gives their space back. `None` stands for no bound.
    fn excise(&self, py: Python<'_>, ranges: Vec<Pair<'_>>) -> PyResult<()> {
        let mut all = Vec::new();
        for (start, stop) in &ranges {
            let start = start.as_ref().map(|start| start.extract::<Bytes<'_>>()).transpose()?;
            let stop = stop.as_ref().map(|stop| stop.extract::<Bytes<'_>>()).transpose()?;
            all.push(between(start, stop));
        }
        Ok(py.detach(|| self.home.excise(all))?)
    }

    /// Merges the entries of a range into their last level. A database without a range merges all its families. Ctrl-C ends it.
    #[pyo3(signature = (start=None, stop=None))]
    fn compact(&self, py: Python<'_>, start: Option<Bytes<'_>>, stop: Option<Bytes<'_>>) -> PyResult<()> {
        let (opened, family) = (self.home.opened.for_thread(), self.home.family.clone());
        let is_whole = family.is_none() && start.is_none() && stop.is_none();
        let edges = between(start, stop);
        interrupts::run(py, move |wanted| {
            opened.check()?;
            let progress = |_| wanted.check();
            Ok(match &family {
                None if is_whole => opened.db.compact_with_progress(progress),
                None => opened.db.compact_range_with_progress(edges, progress),
                Some(family) => family.compact_range_with_progress(edges, progress),
            }?)
        })
    }
}
