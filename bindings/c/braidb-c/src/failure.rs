//! Errors: what a function of this library failed with, and the handle by which C reads it.

use crate::guard::quiet;
use braidb::Error;
use braidb_bindings::code::{Code, place};
use braidb_bindings::settings;
use braidb_ffi::memory::Refused;
use braidb_ffi::panics::Panicked;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// The result of what may fail.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a function failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub code: Code,
    message: String,
    path: Option<PathBuf>,
    offset: u64,
}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), path: None, offset: 0 }
    }

    /// The caller passed something that the function does not take.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Code::INVALID, message)
    }

    /// The caller passed NULL where the function needs `what`.
    #[cold]
    pub fn null(what: &'static str) -> Failure {
        Refused::null(what).into()
    }

    /// The failure as a handle, which the caller frees.
    pub fn into_handle(self) -> *mut ErrorHandle {
        let path = self.path.map(|path| without_nul(path.as_os_str().as_bytes()));
        let message = without_nul(self.message.as_bytes());
        Box::into_raw(Box::new(ErrorHandle { code: self.code, message, path, offset: self.offset }))
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let (path, offset) = place(&error);
        Failure { code: Code::of(&error), message: error.to_string(), path: path.map(Path::to_owned), offset }
    }
}

impl From<Panicked> for Failure {
    #[cold]
    fn from(panicked: Panicked) -> Failure {
        Failure::new(Code::PANIC, panicked.0)
    }
}

impl From<Refused> for Failure {
    #[cold]
    fn from(refused: Refused) -> Failure {
        Failure::invalid(refused.0)
    }
}

impl From<settings::Refused> for Failure {
    #[cold]
    fn from(refused: settings::Refused) -> Failure {
        let hint = match refused {
            settings::Refused::Unknown { .. } => "; `braidb_options_names` lists those that there are",
            settings::Refused::Value { .. } => "",
        };
        Failure::invalid(format!("{refused}{hint}"))
    }
}

/// The bytes as a text of C. A NUL within them becomes a question mark.
pub fn without_nul(bytes: &[u8]) -> CString {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| if byte == 0 { b'?' } else { byte }).collect();
    CString::new(bytes).expect("every NUL was replaced")
}

/// `braidb_error_t`.
#[derive(Debug)]
pub struct ErrorHandle {
    code: Code,
    message: CString,
    path: Option<CString>,
    offset: u64,
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_error_code(error: Option<&ErrorHandle>) -> Code {
    quiet("braidb_error_code", Code::PANIC, || error.map_or(Code::OK, |error| error.code))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_error_message(error: Option<&ErrorHandle>) -> *const c_char {
    quiet("braidb_error_message", ptr::null(), || error.map_or(c"".as_ptr(), |error| error.message.as_ptr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_error_path(error: Option<&ErrorHandle>) -> *const c_char {
    let path = || error.and_then(|error| error.path.as_deref()).map_or(ptr::null(), CStr::as_ptr);
    quiet("braidb_error_path", ptr::null(), path)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_error_offset(error: Option<&ErrorHandle>) -> u64 {
    quiet("braidb_error_offset", 0, || error.map_or(0, |error| error.offset))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_error_free(error: Option<Box<ErrorHandle>>) {
    quiet("braidb_error_free", (), || drop(error));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_code_name(number: i32) -> *const c_char {
    quiet("braidb_code_name", ptr::null(), || Code::from_number(number).name().as_ptr())
}
