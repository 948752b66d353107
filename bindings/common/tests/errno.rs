//! The operating system's numbers of errors.

use braidb::Error;
use braidb_bindings::code::errno;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

fn io(source: io::Error) -> Error {
    Error::Io { operation: "write", path: PathBuf::from("/db"), source: Arc::new(source) }
}

fn poisoned(cause: Error) -> Error {
    Error::Poisoned { cause: Arc::new(cause) }
}

#[test]
fn errors_have_the_number_of_their_cause() {
    let full = Error::Full { path: PathBuf::from("/db"), free_bytes: 0, needed_bytes: 1 };
    let quota = || io::Error::from_raw_os_error(libc::EDQUOT);
    // The engine reports a used-up quota as a full disk.
    let reported = io::Error::new(io::ErrorKind::StorageFull, quota());
    for (error, number) in [
        (io(io::Error::from_raw_os_error(libc::EIO)), Some(libc::EIO)),
        (io(quota()), Some(libc::EDQUOT)),
        (io(reported), Some(libc::EDQUOT)),
        (io(io::ErrorKind::StorageFull.into()), Some(libc::ENOSPC)),
        (io(io::ErrorKind::Other.into()), None),
        (full, Some(libc::ENOSPC)),
        (Error::Closed, None),
    ] {
        assert_eq!(errno(&error), number, "{error}");
        assert_eq!(errno(&poisoned(error.clone())), number, "{error}");
    }
}
