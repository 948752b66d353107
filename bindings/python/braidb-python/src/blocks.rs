//! The end of a `with` block.

use crate::errors::Result;
use pyo3::prelude::*;

/// What `__exit__` returns after `outcome`. An exception of the block goes on, and gets a note of a failure.
pub fn ended(kind: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, outcome: Result<()>) -> PyResult<()> {
    match outcome {
        Err(failure) if !kind.is_none() => {
            let note = format!("the end of the block failed too: {}", PyErr::from(failure));
            // A caller may pass a class of exceptions alone, which takes no note.
            let _ = value.call_method1("add_note", (note,));
            Ok(())
        }
        outcome => Ok(outcome?),
    }
}
