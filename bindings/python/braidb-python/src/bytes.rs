//! Arguments that are bytes, and ranges of keys.

use braidb::{IntoBounds, Prefix};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::ops::{Bound as Edge, Deref};

/// A key or a value that the caller passed: bytes, or anything with a buffer of bytes.
pub enum Bytes<'a> {
    /// Bytes never change, so they are lent while the interpreter's lock is released.
    Lent(&'a [u8]),
    /// Other buffers may change meanwhile, so they are copied.
    Copied(Vec<u8>),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Lent(bytes) => bytes,
            Bytes::Copied(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Bytes<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Bytes<'a>> {
        match <&[u8]>::extract(object) {
            Ok(bytes) => Ok(Bytes::Lent(bytes)),
            Err(_) => copied(&object),
        }
    }
}

#[cold]
fn copied<'a>(object: &Bound<'_, PyAny>) -> PyResult<Bytes<'a>> {
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("keys and values are bytes, not str; call .encode() on the str"));
    }
    let buffer = PyBuffer::<u8>::get(object).map_err(|_| {
        let kind = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("keys and values are bytes, or have a buffer of bytes; {kind} does not"))
    })?;
    Ok(Bytes::Copied(buffer.to_vec(object.py())?))
}

/// The bounds of a range of keys.
pub type Edges = (Edge<Vec<u8>>, Edge<Vec<u8>>);

/// The range that the arguments of an iterator or a cursor ask for. A prefix excludes the others.
pub fn range(
    start: Option<Bytes<'_>>,
    stop: Option<Bytes<'_>>,
    prefix: Option<Bytes<'_>>,
    include_start: bool,
    include_stop: bool,
) -> PyResult<Edges> {
    match prefix {
        None => Ok((edge(start, include_start), edge(stop, include_stop))),
        Some(prefix) if start.is_none() && stop.is_none() => Ok(Prefix(prefix).into_bounds()),
        Some(_) => Err(PyTypeError::new_err("'prefix' cannot be used together with 'start' or 'stop'")),
    }
}

/// The range from `start` up to `stop`, which does not belong to it.
pub fn between(start: Option<Bytes<'_>>, stop: Option<Bytes<'_>>) -> Edges {
    (edge(start, true), edge(stop, false))
}

fn edge(key: Option<Bytes<'_>>, is_included: bool) -> Edge<Vec<u8>> {
    match key {
        None => Edge::Unbounded,
        Some(key) if is_included => Edge::Included(key.to_vec()),
        Some(key) => Edge::Excluded(key.to_vec()),
    }
}
