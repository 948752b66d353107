//! The numbers and names that programs know errors by, and the file that an error is about. A number never changes its meaning.

use braidb::Error;
use std::ffi::CStr;
use std::io;
use std::path::Path;

/// What a function returns: `braidb_code_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(i32);

macro_rules! codes {
    ($($name:ident = $number:literal,)*) => {
        impl Code {
            $(pub const $name: Code = Code($number);)*

            /// The name of the code, as the C header has it: `BRAIDB_LOCKED`.
            pub fn name(self) -> &'static CStr {
                let name = match self {
                    $(Code::$name => concat!("BRAIDB_", stringify!($name), "\0"),)*
                    _ => "no code of BraidDB\0",
                };
                CStr::from_bytes_with_nul(name.as_bytes()).expect("each name ends with its only NUL")
            }

            /// The name of the code alone: `LOCKED`.
            pub fn word(self) -> &'static str {
                match self {
                    $(Code::$name => stringify!($name),)*
                    _ => "OTHER",
                }
            }
        }
    };
}

codes! {
    OK = 0,
    NOT_FOUND = 1,
    IO = 2,
    CORRUPTION = 3,
    MISSING = 4,
    EXISTS = 5,
    NOT_A_DATABASE = 6,
    UNSUPPORTED = 7,
    LOCKED = 8,
    LOCK_LOST = 9,
    TIER = 10,
    INVALID = 11,
    TOO_LARGE = 12,
    FOREIGN = 13,
    FULL = 14,
    POISONED = 15,
    CLOSED = 16,
    FORKED = 17,
    PANIC = 18,
    CONFLICT = 19,
    READ_ONLY = 20,
    MISSING_FAMILY = 21,
    SHORT_BUFFER = 22,
    OTHER = 23,
    EXCISED = 24,
}

impl Code {
    /// The code of a number that C passed.
    pub fn from_number(number: i32) -> Code {
        Code(number)
    }

    /// The code of a search.
    pub fn found(is_there: bool) -> Code {
        if is_there { Code::OK } else { Code::NOT_FOUND }
    }

    /// The code of an error of the engine. `Error` may grow without notice to this crate, so the last arm is there. The test
    /// `every_error_has_a_code` fails while a variant has no arm of its own.
    pub fn of(error: &Error) -> Code {
        match error {
            Error::Io { .. } => Code::IO,
            Error::Corruption { .. } => Code::CORRUPTION,
            Error::Missing { .. } => Code::MISSING,
            Error::Exists { .. } => Code::EXISTS,
            Error::NotADatabase { .. } => Code::NOT_A_DATABASE,
            Error::Unsupported { .. } => Code::UNSUPPORTED,
            Error::Locked { .. } => Code::LOCKED,
            Error::LockLost { .. } => Code::LOCK_LOST,
            Error::Tier { .. } => Code::TIER,
            Error::InvalidOption { .. } => Code::INVALID,
            Error::TooLarge { .. } => Code::TOO_LARGE,
            Error::InvalidName { .. } => Code::INVALID,
            Error::MissingFamily { .. } => Code::MISSING_FAMILY,
            Error::ForeignFamily { .. } => Code::FOREIGN,
            Error::Full { .. } => Code::FULL,
            Error::Poisoned { .. } => Code::POISONED,
            Error::ReadOnly { .. } => Code::READ_ONLY,
            Error::Conflict => Code::CONFLICT,
            // The C library reads packed entries itself, and Python takes no page.
            Error::InvalidPage { .. } => Code::INVALID,
            Error::Excised => Code::EXCISED,
            Error::Closed => Code::CLOSED,
            // No cursor of a binding is made of an iterator that has ended.
            Error::Ended => Code::INVALID,
            Error::Forked { .. } => Code::FORKED,
            _ => Code::OTHER,
        }
    }
}

/// The file or directory that an error names, and the offset of damage in it.
pub fn place(error: &Error) -> (Option<&Path>, u64) {
    match error {
        Error::Corruption { path, offset, .. } => (Some(path), *offset),
        Error::Poisoned { cause } => place(cause),
        Error::Io { path, .. }
        | Error::Missing { path }
        | Error::Exists { path }
        | Error::NotADatabase { path, .. }
        | Error::Unsupported { path, .. }
        | Error::Locked { path }
        | Error::LockLost { path }
        | Error::Tier { path, .. }
        | Error::Full { path, .. }
        | Error::ReadOnly { path }
        | Error::Forked { path } => (Some(path), 0),
        _ => (None, 0),
    }
}

/// The operating system's number for what went wrong. A full disk has one also where the engine noticed it first.
pub fn errno(error: &Error) -> Option<i32> {
    let number = match error {
        Error::Io { source, .. } => of_system(source),
        Error::Poisoned { cause } => errno(cause),
        _ => None,
    };
    number.or_else(|| error.is_full().then_some(libc::ENOSPC))
}

/// The number of an error, or of the error that it reports in other words.
fn of_system(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| error.get_ref()?.downcast_ref::<io::Error>()?.raw_os_error())
}
