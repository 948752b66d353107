//! Errors of the engine as exceptions of Python. Their classes are in `bindings/python/python/braidb/_errors.py`.

use braidb::Error;
use braidb_bindings::code::{Code, errno, place};
use braidb_bindings::settings::Refused;
use pyo3::exceptions::PySystemError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::io;
use std::path::{Path, PathBuf};

/// Words of the engine's messages, and what they are with the calls of Python.
const WORDS: [(&str, &str); 8] = [
    (
        "unless the option `create_if_missing` is off (`braidb put` creates one too)",
        "with `create=True`, which is the default",
    ),
    ("open the database to read", "open the database by `braidb.open(path, read_only=True)`"),
    ("open it to write", "open it by `braidb.open(path)` to write"),
    ("create it first", "`db.family(name, create=True)` creates it"),
    ("begin the transaction again", "begin the transaction again, or use `db.transact`, which does"),
    ("`Options::slow_path`", "`slow_paths`"),
    ("`checkpoint_to`", "`checkpoint(dir, tiers=…)`"),
    ("`slow_path`", "`slow_paths`"),
];

/// Why a call failed, before it is an exception: made without the interpreter's lock.
#[derive(Clone, Debug)]
pub enum Failure {
    Engine(Error),
    /// The arguments do not fit, or what the call needs is gone: a code and the message.
    Told(Code, String),
}

/// The result of what may fail without the interpreter's lock.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The caller passed something that the function does not take.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::Told(Code::INVALID, message.into())
    }

    /// The caller uses something that it closed itself.
    pub fn closed(message: impl Into<String>) -> Failure {
        Failure::Told(Code::CLOSED, message.into())
    }

    /// The process could not register for forks, so no database can be opened.
    pub fn unregistered(error: io::Error) -> Failure {
        Failure::Told(Code::IO, format!("could not register for forks: {error}"))
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        let hint = match refused {
            Refused::Unknown { .. } => "; `braidb.option_names()` lists those that there are",
            Refused::Value { .. } => "",
        };
        Failure::invalid(format!("{refused}{hint}"))
    }
}

impl From<Failure> for PyErr {
    #[cold]
    fn from(failure: Failure) -> PyErr {
        let (code, message, path, errno) = match &failure {
            Failure::Told(code, message) => (*code, message.clone(), None, None),
            Failure::Engine(error) => (
                Code::of(error),
                in_python(&error.to_string()),
                place(error).0.map(Path::to_owned),
                errno(error),
            ),
        };
        Python::attach(|py| exception(py, code, message, path, errno).unwrap_or_else(|error| error))
    }
}

/// The message with the names of Python's calls.
fn in_python(message: &str) -> String {
    WORDS.iter().fold(message.to_owned(), |message, (rust, python)| message.replace(rust, python))
}

/// The name of the class of `braidb._errors` for a code.
fn class_name(code: Code) -> &'static str {
    match code {
        Code::IO => "IOError",
        Code::CORRUPTION => "CorruptionError",
        Code::MISSING => "MissingError",
        Code::EXISTS => "ExistsError",
        Code::LOCKED => "LockedError",
        Code::INVALID | Code::TOO_LARGE | Code::FOREIGN => "InvalidError",
        Code::MISSING_FAMILY => "MissingFamilyError",
        Code::FULL => "FullError",
        Code::POISONED => "PoisonedError",
        Code::READ_ONLY => "ReadOnlyError",
        Code::CONFLICT => "ConflictError",
        Code::CLOSED => "ClosedError",
        Code::FORKED => "ForkedError",
        _ => "Error",
    }
}

fn exception(
    py: Python<'_>,
    code: Code,
    message: String,
    path: Option<PathBuf>,
    errno: Option<i32>,
) -> PyResult<PyErr> {
    let class = py.import("braidb._errors")?.getattr(class_name(code))?;
    // A path whose bytes are no UTF-8 becomes a text with surrogates, as in `os.fsdecode`.
    let path = path.map(|path| path.into_os_string());
    Ok(PyErr::from_value(class.call1((message, code.word(), path, errno))?))
}

/// The class `braidb.ConflictError`.
pub fn conflict(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "braidb._errors", class_name(Code::CONFLICT))
}

/// What is left when a thread of this crate panicked, which is a bug.
pub fn panicked() -> PyErr {
    PySystemError::new_err("a thread of BraidDB panicked, which is a bug in BraidDB; the text is on stderr")
}
