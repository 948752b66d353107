//! The reasons for which a verb fails, and their exit statuses.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The failure of a verb.
#[derive(Debug)]
pub enum Failure {
    /// The key or the family does not exist: exit status 1.
    NotFound(String),
    /// The request cannot be met, and the data is in order: exit status 2.
    Use(String),
    /// The data is damaged or the storage failed: exit status 3.
    Storage(String),
    /// The reader of the output has closed the pipe: the verb ends without a message, with exit status 0.
    ReaderGone,
}

/// The result of a verb.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The failure to use a file that does not belong to the database.
    pub fn file(doing: &str, path: &Path, error: &io::Error) -> Failure {
        let message = format!("could not {doing} {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory => {
                Failure::Use(message)
            }
            _ => Failure::Storage(message),
        }
    }

    /// The same failure with another message.
    pub fn reworded(self, reword: impl FnOnce(String) -> String) -> Failure {
        match self {
            Failure::NotFound(message) => Failure::NotFound(reword(message)),
            Failure::Use(message) => Failure::Use(reword(message)),
            Failure::Storage(message) => Failure::Storage(reword(message)),
            Failure::ReaderGone => Failure::ReaderGone,
        }
    }

    /// Prints the message behind the name of the program, and returns the exit status.
    pub fn report(self, program: &str) -> ExitCode {
        let (status, message) = match self {
            Failure::NotFound(message) => (1, message),
            Failure::Use(message) => (2, message),
            Failure::Storage(message) => (3, message),
            Failure::ReaderGone => return ExitCode::SUCCESS,
        };
        eprintln!("{program}: {message}");
        ExitCode::from(status)
    }
}

/// Wrong input, and a slow tier that is not where it was, leave the data in order. Every other error counts as trouble with the storage.
impl From<braidb::Error> for Failure {
    fn from(error: braidb::Error) -> Failure {
        use braidb::Error::*;
        // The engine's messages name options and calls of the library. A user of the command needs the flags and verbs instead.
        let message = error.to_string().replace("`slow_path`", "`--slow-path`");
        let message = message.replace("; create it first;", "; `put` and `load` create it;");
        match error {
            Missing { .. }
            | Exists { .. }
            | NotADatabase { .. }
            | Unsupported { .. }
            | Locked { .. }
            | Tier { .. }
            | InvalidOption { .. } => Failure::Use(message),
            TooLarge { .. } | InvalidName { .. } | MissingFamily { .. } | ForeignFamily { .. } => {
                Failure::Use(message)
            }
            _ => Failure::Storage(message),
        }
    }
}

/// An error of the engine becomes the failure that it stands for. Any other error means that the database gave a wrong answer, and
/// counts as a failure of the storage.
impl From<Box<dyn std::error::Error + Send + Sync>> for Failure {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Failure {
        match error.downcast::<braidb::Error>() {
            Ok(error) => Failure::from(*error),
            Err(other) => Failure::Storage(other.to_string()),
        }
    }
}

/// Turns a failure to write output into a failure of the verb.
pub fn printing(error: impl Into<io::Error>) -> Failure {
    let error = error.into();
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => storage("could not write the output", error),
    }
}

/// A failure of the storage. `doing` tells the step that failed.
pub fn storage(doing: &str, error: impl Display) -> Failure {
    Failure::Storage(format!("{doing}: {error}"))
}
