//! The kernel's error numbers, so that errors look as on Linux.

use std::io;

pub const EBADF: i32 = 9;
pub const EEXIST: i32 = 17;
pub const EXDEV: i32 = 18;
pub const ENOTDIR: i32 = 20;
pub const EISDIR: i32 = 21;
pub const EINVAL: i32 = 22;
pub const ENOSPC: i32 = 28;

pub fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
