//! The handle of options: how a database is opened.

use crate::guard::{ErrorOut, guard, quiet};
use crate::pointers::{Text, give, need};
use braidb::Options;
use braidb_bindings::code::Code;
use braidb_bindings::settings;
use std::ffi::c_char;
use std::mem;
use std::ptr;

/// `braidb_options_t`.
#[derive(Debug)]
pub struct OptionsHandle(Options);

impl OptionsHandle {
    /// The options of a handle, or the defaults for NULL.
    pub fn of(handle: Option<&OptionsHandle>) -> Options {
        handle.map_or_else(Options::new, |handle| handle.0.clone())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_options_create() -> *mut OptionsHandle {
    quiet("braidb_options_create", ptr::null_mut(), || give(OptionsHandle(Options::new())))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_options_free(options: Option<Box<OptionsHandle>>) {
    quiet("braidb_options_free", (), || drop(options));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_options_set(
    options: Option<&mut OptionsHandle>,
    name: Text,
    value: Text,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_options_set", err, || {
        let options = need(options, "options")?;
        let (name, value) = (name.str("name")?, value.str("value")?);
        // A setter takes the options. After a failure the handle has what it had.
        options.0 = settings::set(options.0.clone(), name, value)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_options_add_slow_path(
    options: Option<&mut OptionsHandle>,
    path: Text,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_options_add_slow_path", err, || {
        let options = need(options, "options")?;
        let path = path.path("path")?;
        options.0 = mem::take(&mut options.0).slow_path(path);
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_options_check(options: Option<&OptionsHandle>, err: ErrorOut<'_>) -> Code {
    guard("braidb_options_check", err, || {
        need(options, "options")?.0.check()?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_options_names() -> *const c_char {
    quiet("braidb_options_names", ptr::null(), || settings::NAMES.as_ptr().cast())
}
