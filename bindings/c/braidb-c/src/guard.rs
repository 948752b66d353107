//! How a function of this library ends: with a code, and with the error of its body in the place that the caller named for it.

use crate::failure::{ErrorHandle, Result};
use crate::pointers::Out;
use braidb_bindings::code::Code;
pub use braidb_ffi::panics::{attempt, quiet};
use std::ptr;

/// Where a function puts its error; NULL if the caller does not want it.
pub type ErrorOut<'a> = Out<'a, *mut ErrorHandle>;

/// Runs the body of a function, and tells the caller of its error.
#[inline]
pub fn guard(function: &'static str, err: ErrorOut<'_>, body: impl FnOnce() -> Result<Code>) -> Code {
    answer(err, attempt(function, body))
}

/// Returns the code of an outcome, and gives the caller its error. After success the place of the error is NULL.
#[inline]
pub fn answer(err: ErrorOut<'_>, outcome: Result<Code>) -> Code {
    match outcome {
        Ok(code) => {
            err.put(ptr::null_mut);
            code
        }
        Err(failure) => {
            let code = failure.code;
            err.put(|| failure.into_handle());
            code
        }
    }
}
