//! The class `Reader`: all that databases, families, snapshots and transactions have to read entries.

use crate::bytes::{Bytes, Edges, range};
use crate::cursor::Cursor;
use crate::errors::Result;
use crate::family::Family;
use crate::place::Place;
use crate::view::View;
use crate::walk::{Order, Part, Walk};
use braidb::Value;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::ops::Bound as Edge;

/// All keys.
const ALL: Edges = (Edge::Unbounded, Edge::Unbounded);

/// What reads entries. `family` names a column family, if the object itself is none.
#[pyclass(frozen, subclass, module = "braidb")]
#[derive(Debug)]
pub struct Reader {
    pub place: Place,
}

impl Reader {
    #[inline]
    fn find(&self, py: Python<'_>, family: Option<&Bound<'_, Family>>, key: &[u8]) -> Result<Option<Value>> {
        let named = family.map(Family::named);
        py.detach(|| self.place.get(named, key))
    }

    fn walk(
        &self,
        py: Python<'_>,
        family: Option<&Bound<'_, Family>>,
        edges: Edges,
        order: Order,
        part: Part,
    ) -> Result<Walk> {
        let named = family.map(Family::named);
        py.detach(|| {
            let entries = self.place.entries(named, edges)?;
            Ok(Walk::new(self.place.opened().clone(), entries, order, part))
        })
    }

    /// The first entry of a walk in an order.
    fn end<'py>(
        &self,
        py: Python<'py>,
        family: Option<&Bound<'_, Family>>,
        order: Order,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let walk = self.walk(py, family, ALL, order, Part::Items)?;
        walk.only_first().step(py)
    }
}

#[pymethods]
#[allow(clippy::too_many_arguments, reason = "callers in Python name the arguments")]
impl Reader {
    /// The value of `key`, or `default` if it has none.
    #[pyo3(signature = (key, default=None, *, family=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.find(py, family, &key)? {
            Some(value) => Some(PyBytes::new(py, &value).into_any()),
            None => default,
        })
    }

    /// The value of `key` where it lies, without a copy, or `None`.
    #[pyo3(signature = (key, *, family=None))]
    fn get_view(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        family: Option<&Bound<'_, Family>>,
    ) -> Result<Option<View>> {
        Ok(self.find(py, family, &key)?.map(View::new))
    }

    /// The values of `keys`, in their order and all of one moment. `None` stands for a key without a value.
    #[pyo3(signature = (keys, *, family=None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let objects: Vec<Bound<'py, PyAny>> = keys.try_iter()?.collect::<PyResult<_>>()?;
        let keys: Vec<Bytes<'_>> = objects.iter().map(|key| key.extract()).collect::<PyResult<_>>()?;
        let named = family.map(Family::named);
        let values = py.detach(|| self.place.get_many(named, &keys))?;
        PyList::new(py, values.iter().map(|value| value.as_ref().map(|value| PyBytes::new(py, value))))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Bound<'py, PyBytes>> {
        match self.find(py, None, &key)? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(PyKeyError::new_err(PyBytes::new(py, &key).unbind())),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> Result<bool> {
        py.detach(|| self.place.contains(None, &key))
    }

    /// Whether `key` has a value.
    #[pyo3(signature = (key, *, family=None))]
    fn contains(&self, py: Python<'_>, key: Bytes<'_>, family: Option<&Bound<'_, Family>>) -> Result<bool> {
        let named = family.map(Family::named);
        py.detach(|| self.place.contains(named, &key))
    }

    /// The keys and values of a range, in key order or against it.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, include_start=true, include_stop=false, family=None))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
        include_start: bool,
        include_stop: bool,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Walk> {
        let edges = range(start, stop, prefix, include_start, include_stop)?;
        Ok(self.walk(py, family, edges, Order::of(reverse), Part::Items)?)
    }

    /// The keys of a range. No value is read.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, include_start=true, include_stop=false, family=None))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
        include_start: bool,
        include_stop: bool,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Walk> {
        let edges = range(start, stop, prefix, include_start, include_stop)?;
        Ok(self.walk(py, family, edges, Order::of(reverse), Part::Keys)?)
    }

    /// The values of a range.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, include_start=true, include_stop=false, family=None))]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
        include_start: bool,
        include_stop: bool,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Walk> {
        let edges = range(start, stop, prefix, include_start, include_stop)?;
        Ok(self.walk(py, family, edges, Order::of(reverse), Part::Values)?)
    }

    fn __iter__(&self, py: Python<'_>) -> Result<Walk> {
        self.walk(py, None, ALL, Order::Forward, Part::Keys)
    }

    fn __reversed__(&self, py: Python<'_>) -> Result<Walk> {
        self.walk(py, None, ALL, Order::Backward, Part::Keys)
    }

    /// The entry with the smallest key, or `None`.
    #[pyo3(signature = (*, family=None))]
    fn first<'py>(
        &self,
        py: Python<'py>,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.end(py, family, Order::Forward)
    }

    /// The entry with the largest key, or `None`.
    #[pyo3(signature = (*, family=None))]
    fn last<'py>(
        &self,
        py: Python<'py>,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.end(py, family, Order::Backward)
    }

    /// A cursor over a range: a place that moves both ways. A transaction has none.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, include_start=true, include_stop=false, family=None))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        include_start: bool,
        include_stop: bool,
        family: Option<&Bound<'_, Family>>,
    ) -> PyResult<Cursor> {
        let edges = range(start, stop, prefix, include_start, include_stop)?;
        let named = family.map(Family::named);
        Ok(py.detach(|| {
            let entries = self.place.entries(named, edges)?;
            Cursor::new(self.place.opened().clone(), entries)
        })?)
    }
}
