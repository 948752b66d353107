//! The one error type. Each variant says what happened, where, and what the caller can do about it.

use braidb_storage::is_shortage;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What went wrong, and where.
///
/// A write that returned [`Error::Poisoned`] is undecided: it may be there after the next open. After any other error nothing of the
/// write is in the database, now or later.
///
/// Errors are cheap to clone: one failure of a log may answer many waiting writers.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-error-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let again = braidb::Db::open(&dir);
/// assert!(matches!(again, Err(braidb::Error::Locked { .. })));
/// println!("{}", again.unwrap_err()); // … is open already, here or in another process; close that one first
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The storage refused an operation. If a write returns it, space could not be allocated, or a flush or merge that had to make room
    /// first failed; nothing of the write was written.
    Io { operation: &'static str, path: PathBuf, source: Arc<io::Error> },
    /// Bytes on disk are not the bytes that were written.
    Corruption { path: PathBuf, offset: u64, what: String },
    /// The directory holds no database, and the options do not allow to create one.
    Missing { path: PathBuf },
    /// The directory holds a database, and the options ask for a new one.
    Exists { path: PathBuf },
    /// The directory holds no database but files of another store, or is a slow tier or a file.
    NotADatabase { path: PathBuf, why: String },
    /// The database was written by a newer version, or uses a feature that this version lacks.
    Unsupported { path: PathBuf, what: String },
    /// The database is open already, in another process or by another handle of this one.
    Locked { path: PathBuf },
    /// The file `LOCK` was removed or replaced while this handle had it locked, so another process may have opened the database. Reads
    /// still work; this handle changes nothing more.
    LockLost { path: PathBuf },
    /// The directory of a slow tier cannot be used: it is missing, belongs to another database, or is older or newer than the database.
    /// `why` says what to do. Nothing was changed.
    Tier { path: PathBuf, why: String },
    /// An option has a value that cannot work.
    InvalidOption { option: &'static str, why: String },
    /// A key, a value, a batch or a name is outside the limits. Nothing was written.
    TooLarge { what: &'static str, bytes: usize, limit: usize },
    /// The name of a column family is not acceptable.
    InvalidName { name: String, why: &'static str },
    /// The database has no column family of this name. `known` has the names of those that it has.
    MissingFamily { name: String, known: Vec<String> },
    /// A handle of a column family was used with another database.
    ForeignFamily { name: String },
    /// The disk is full; nothing was written. Puts are refused while there is room for deletes and a merge. Deleting data and
    /// compacting therefore still work, unless another program has taken the room.
    Full { path: PathBuf, free_bytes: u64, needed_bytes: u64 },
    /// A write to the log or manifest failed, or its sync did, so no further promise can be kept. The writes that met the failure are
    /// undecided: they may appear after reopening. Later writes are refused, with nothing written. Reads still work; open the database
    /// again to write.
    Poisoned { cause: Arc<Error> },
    /// The database was opened to read, by [`Options::open_read_only`](crate::Options::open_read_only). Nothing was written.
    ReadOnly { path: PathBuf },
    /// Another write changed what the transaction had read, or may have. Nothing was written. Begin the transaction again; `Db::transact` does.
    Conflict,
    /// A page of entries ends within the entry at this byte. Nothing of the page was taken.
    InvalidPage { offset: usize },
    /// The snapshot is older than an excise of keys that it was to read. Nothing was read. Other keys can still be read; a new snapshot reads all.
    Excised,
    /// The database was closed.
    Closed,
    /// A cursor was asked of an iterator that has ended, and so has released the moment that it read. Make the cursor of a new iterator.
    Ended,
    /// The handle was opened before this process was forked, so it belongs to the parent. Nothing was read or written, and the parent's
    /// database is as it was. Open the database in this process itself once the parent has closed it or ended, or open another one.
    Forked { path: PathBuf },
}

/// A result whose error is [`Error`].
///
/// ```
/// fn greet(db: &braidb::Db) -> braidb::Result<()> {
///     db.put("hello", "world")
/// }
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { operation, path: path.to_owned(), source: Arc::new(source) }
    }

    /// What a thread that panicked leaves: `operation` was begun on `path`, and how far it came is unknown.
    pub(crate) fn panicked(operation: &'static str, path: &Path) -> Error {
        Error::io(operation, path, io::Error::other("a thread panicked, which is a bug in BraidDB"))
    }

    pub(crate) fn corruption(path: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Corruption { path: path.to_owned(), offset, what: what.into() }
    }

    pub(crate) fn tier(path: &Path, why: impl Into<String>) -> Error {
        Error::Tier { path: path.to_owned(), why: why.into() }
    }

    /// Whether the data on disk is damaged, as opposed to wrong use or a passing fault.
    ///
    /// ```
    /// assert!(!braidb::Error::Closed.is_corruption());
    /// ```
    pub fn is_corruption(&self) -> bool {
        match self {
            Error::Corruption { .. } => true,
            Error::Poisoned { cause } => cause.is_corruption(),
            _ => false,
        }
    }

    /// Whether the disk had no room. Only [`Error::Full`] says that nothing was written: for [`Error::Poisoned`], this tells whether
    /// the cause was a full disk.
    ///
    /// ```
    /// assert!(!braidb::Error::Closed.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        match self {
            Error::Full { .. } => true,
            Error::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Error::Poisoned { cause } => cause.is_full(),
            _ => false,
        }
    }

    /// Whether a file was not opened because the process or the system has too many open files. `false` for a poisoned database.
    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        matches!(self, Error::Io { source, .. } if is_shortage(source))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { operation, path, source } => {
                write!(f, "could not {operation} {}: {source}", path.display())?;
                match source.kind() {
                    io::ErrorKind::ReadOnlyFilesystem => write!(
                        f,
                        "; BraidDB has to write there: mount the file system for writing, or open the database to read"
                    ),
                    io::ErrorKind::PermissionDenied => write!(
                        f,
                        "; let this user read and write the directory and its files; an open to read needs the right to read alone"
                    ),
                    io::ErrorKind::WouldBlock => write!(
                        f,
                        "; raise the limits of threads and memory (`ulimit -u`, `ulimit -v`, `pids.max` of the control group), or set fewer `background_threads`"
                    ),
                    _ if is_shortage(source) => write!(
                        f,
                        "; raise the limit of open files (`ulimit -n`, or `fs.file-max` of the whole system), or let the program close some"
                    ),
                    _ => Ok(()),
                }
            }
            Error::Corruption { path, offset, what } => write!(
                f,
                "{} is damaged at byte {offset}: {what}; keep a copy of the whole directory, run `braidb verify` for the extent of the damage, and go back to an earlier copy of the whole directory if there is one",
                path.display()
            ),
            Error::NotADatabase { path, why } => {
                write!(
                    f,
                    "{} is not a BraidDB database: {why}; choose an empty or a new directory",
                    path.display()
                )
            }
            Error::Missing { path } => write!(
                f,
                "there is no database in {}: check the path; an open to write creates one unless the option `create_if_missing` is off (`braidb put` creates one too)",
                path.display()
            ),
            Error::Exists { path } => write!(
                f,
                "there is a database in {} already: choose another directory, or open the database as it is",
                path.display()
            ),
            Error::Unsupported { path, what } => {
                write!(
                    f,
                    "{} cannot be read by this version of BraidDB: {what}; use a newer version",
                    path.display()
                )
            }
            Error::Locked { path } => write!(
                f,
                "the database in {} is open already, here or in another process; close that one first",
                path.display()
            ),
            Error::LockLost { path } => write!(
                f,
                "{} was removed or replaced while this handle had it locked, so another process may have opened the \
                 database; nothing more is written through this handle: close it, make sure that no other process uses the \
                 directory, and open the database again",
                path.display()
            ),
            Error::Tier { path, why } => {
                write!(f, "{} cannot be used as a slow tier: {why}", path.display())
            }
            Error::InvalidOption { option, why } => write!(f, "option `{option}`: {why}"),
            Error::TooLarge { what, bytes, limit } => {
                write!(f, "{what} has {bytes} bytes; the limit is {limit}")
            }
            Error::InvalidName { name, why } => write!(f, "column family name {name:?}: {why}"),
            Error::MissingFamily { name, known } => write!(
                f,
                "there is no column family {name:?}; create it first; the database has {}",
                known.join(", ")
            ),
            Error::ForeignFamily { name } => {
                write!(f, "column family {name:?} belongs to another database; get it from this one")
            }
            Error::Full { path, free_bytes, needed_bytes } => write!(
                f,
                "the disk that holds {} is full ({free_bytes} bytes free, {needed_bytes} needed, with what is kept for \
                 deletes and merges); nothing was written: free some space, or delete data and compact",
                path.display()
            ),
            Error::Poisoned { cause } => write!(
                f,
                "writing stopped after an earlier failure, reads go on; mend the cause and open the database again: {cause}"
            ),
            Error::ReadOnly { path } => write!(
                f,
                "the database in {} was opened to read, and nothing was written; open it to write",
                path.display()
            ),
            Error::Conflict => write!(
                f,
                "another write changed what the transaction had read, and nothing was written; begin the transaction again"
            ),
            Error::InvalidPage { offset } => write!(
                f,
                "the page of entries ends within the entry at byte {offset}; each entry has two lengths of 4 bytes, its key and its value"
            ),
            Error::Excised => write!(
                f,
                "the snapshot is older than an excise of keys that it was to read; take a new snapshot, or read other keys"
            ),
            Error::Closed => write!(f, "the database was closed"),
            Error::Ended => write!(
                f,
                "the iterator had ended before its cursor was made; make the cursor of a new iterator"
            ),
            Error::Forked { path } => write!(
                f,
                "this handle of the database in {} was opened before the process was forked, and belongs to the parent process; \
                 open the database in this process itself once the parent has closed it, or open another one",
                path.display()
            ),
        }
    }
}

/// Refuses a value of `option` that is not between `low` and `high`.
pub fn check_range(option: &'static str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::InvalidOption { option, why: format!("{value} is not between {low} and {high}") })
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Poisoned { cause } => Some(cause),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_thread_is_told_with_what_to_do() {
        let refused =
            Error::io("start background threads for", Path::new("/data"), io::ErrorKind::WouldBlock.into());
        let text = refused.to_string();
        assert!(
            text.contains("/data") && text.contains("`ulimit -u`") && text.contains("`background_threads`"),
            "{text}"
        );
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_with_what_to_do() {
        for (kind, remedy) in [
            (io::ErrorKind::ReadOnlyFilesystem, "mount the file system for writing"),
            (io::ErrorKind::PermissionDenied, "let this user read and write"),
        ] {
            let text = Error::io("lock", Path::new("/data/LOCK"), kind.into()).to_string();
            assert!(text.contains("/data/LOCK") && text.contains("to read"), "{text}");
            assert!(text.contains(remedy), "{text}");
        }
        let other = Error::io("read", Path::new("/data/x"), io::ErrorKind::NotFound.into()).to_string();
        assert!(!other.contains("to read"), "{other}");
    }
}
