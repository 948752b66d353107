//! The class `Family`: one of several sorted maps that share logs and batches.

use crate::held::Held;
use crate::place::{Home, Named, Place};
use crate::reader::Reader;
use crate::store::Store;
use braidb::ColumnFamily;
use pyo3::prelude::*;

/// A column family, with all methods of a database that read and write entries.
#[pyclass(frozen, extends = Store, module = "braidb")]
#[derive(Debug)]
pub struct Family {
    family: ColumnFamily,
    opened: Held,
}

impl Family {
    pub fn create(py: Python<'_>, opened: &Held, family: ColumnFamily) -> PyResult<Py<Family>> {
        let home = Home { family: Some(family.clone()), opened: opened.clone() };
        let reader = Reader { place: Place::Now(home.clone()) };
        let new = PyClassInitializer::from(reader)
            .add_subclass(Store { home })
            .add_subclass(Family { family, opened: opened.clone() });
        Py::new(py, new)
    }

    /// The family that a caller named.
    pub fn named<'a>(family: &'a Bound<'_, Family>) -> Named<'a> {
        let family = family.get();
        Named { opened: &family.opened, family: &family.family }
    }
}

#[pymethods]
impl Family {
    /// The name of the family.
    #[getter]
    fn name(&self) -> &str {
        self.family.name()
    }

    fn __repr__(&self) -> String {
        format!("<braidb.Family {:?}>", self.family.name())
    }
}
