//! Files that only the process which opened them may change.
//!
//! A forked child has the descriptors of its parent, and the engine refuses its calls before they come here. This is
//! the second line of defence: each call that changes a file, or a name in a directory, gets its descriptor from
//! [`Owned::to_change`], which refuses in a child. Reads need no such check.
//!
//! A child never closes such a descriptor, neither by a drop. The program may have closed it, as daemons close all
//! descriptors, and its number may be that of another file.

use std::fs;
use std::io;
use std::mem;

use crate::Process;

/// An open file, and the process that opened it.
#[derive(Debug)]
pub(super) struct Owned {
    /// `None` only while the value is dropped.
    file: Option<fs::File>,
    process: Process,
}

impl Owned {
    /// The file of this process.
    pub fn new(file: fs::File) -> io::Result<Owned> {
        Ok(Owned::of(file, super::forks::process()?))
    }

    /// The file, opened by this process.
    pub fn of(file: fs::File, process: Process) -> Owned {
        Owned { file: Some(file), process }
    }

    /// The file, for calls that change nothing.
    pub fn to_read(&self) -> &fs::File {
        self.file.as_ref().expect("the file goes with this value")
    }

    /// The file, for calls that change it, or names in it. Fails in a forked child of the process that opened it.
    pub fn to_change(&self) -> io::Result<&fs::File> {
        self.process.check()?;
        Ok(self.to_read())
    }

    /// The process that opened the file.
    pub fn process(&self) -> Process {
        self.process
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.process.is_forked() {
            mem::forget(self.file.take());
        }
    }
}
