//! The class `View`: a value that stays where it lies, without a copy.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;

/// A value with the buffer protocol: `memoryview(view)` reads it without a copy.
#[pyclass(frozen, module = "braidb")]
#[derive(Debug)]
pub struct View {
    value: braidb::Value,
}

impl View {
    pub fn new(value: braidb::Value) -> View {
        View { value }
    }
}

#[pymethods]
impl View {
    fn __len__(&self) -> usize {
        self.value.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.value)
    }

    fn __repr__(&self) -> String {
        format!("<braidb.View of {} bytes>", self.value.len())
    }

    /// # Safety
    ///
    /// The interpreter calls it, with a place for a buffer's description.
    unsafe fn __getbuffer__(slf: Bound<'_, View>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no place for the buffer"));
        }
        let value = &slf.get().value;
        let (start, len) = (value.as_ptr().cast_mut().cast(), value.len() as ffi::Py_ssize_t);
        // SAFETY: `view` is a place for a description, and not null. The bytes live as long as the object, of which the description holds
        // a share, and they stay in place and never change: `Value` pins them, and the class is frozen. 1 makes the buffer read-only.
        let outcome = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) };
        match outcome {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
