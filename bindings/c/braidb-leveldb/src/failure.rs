//! Errors: texts that begin with LevelDB's words for their kind, which programs look for.

use braidb::Error;
use braidb_ffi::memory::{Refused, free, give_text};
use braidb_ffi::panics::{Panicked, attempt};
use std::ffi::c_char;
use std::fmt::Display;

/// The result of what may fail.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a function failed.
#[derive(Clone, Debug)]
pub struct Failure {
    text: String,
}

impl Failure {
    fn new(kind: &str, text: impl Display) -> Failure {
        Failure { text: format!("{kind}: {text}") }
    }

    /// The caller passed something that the function does not take.
    pub fn invalid(text: impl Display) -> Failure {
        Failure::new("Invalid argument", text)
    }

    /// The file system refused something.
    pub fn io(text: impl Display) -> Failure {
        Failure::new("IO error", text)
    }

    /// BraidDB lacks what the caller wants.
    pub fn not_implemented(text: impl Display) -> Failure {
        Failure::new("Not implemented", text)
    }

    /// Puts the text into the place that the caller named. An error that the place holds is freed.
    pub fn tell(&self, err: ErrorOut<'_>) {
        if let Some(place) = err {
            free(place.cast());
            *place = give_text(&self.text);
        }
    }
}

/// Where a function puts the text of its error: a pointer that is NULL or leads to memory of `malloc`. `None` if the caller does not want it.
pub type ErrorOut<'a> = Option<&'a mut *mut c_char>;

/// Runs the body of a function, and tells the caller of its error, which leads to `neutral`. Success leaves the place of the error as it is.
#[inline]
pub fn guard<T>(
    function: &'static str,
    err: ErrorOut<'_>,
    neutral: T,
    body: impl FnOnce() -> Result<T>,
) -> T {
    attempt(function, body).unwrap_or_else(|failure| {
        failure.tell(err);
        neutral
    })
}

/// A handle that the function needs.
#[inline]
pub fn need<T>(handle: Option<T>, what: &'static str) -> Result<T> {
    handle.ok_or_else(|| Refused::null(what).into())
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let kind = kind(&error);
        match &error {
            Error::Missing { path } => Failure::new(
                kind,
                format_args!(
                    "{}: does not exist (create_if_missing is false); check the path, or let \
                     leveldb_options_set_create_if_missing create the database",
                    path.display()
                ),
            ),
            Error::Exists { path } => Failure::new(
                kind,
                format_args!(
                    "{}: exists (error_if_exists is true); choose another directory, or open the database as it is",
                    path.display()
                ),
            ),
            Error::NotADatabase { .. } => Failure::new(
                kind,
                format_args!(
                    "{error}; to bring a LevelDB database over, read it by LevelDB itself, and give its rows to `braidb load`"
                ),
            ),
            _ => Failure::new(kind, error),
        }
    }
}

/// LevelDB's words for the kind of an error.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Corruption { .. } => "Corruption",
        Error::Unsupported { .. } => "Not implemented",
        Error::Missing { .. }
        | Error::Exists { .. }
        | Error::NotADatabase { .. }
        | Error::InvalidOption { .. }
        | Error::TooLarge { .. }
        | Error::Closed
        | Error::Forked { .. } => "Invalid argument",
        Error::Poisoned { cause } => self::kind(cause),
        _ => "IO error",
    }
}

impl From<Panicked> for Failure {
    #[cold]
    fn from(panicked: Panicked) -> Failure {
        Failure::new("IO error", panicked.0)
    }
}

impl From<Refused> for Failure {
    #[cold]
    fn from(refused: Refused) -> Failure {
        Failure::invalid(refused.0)
    }
}
