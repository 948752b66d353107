//! Writing out early: the device is busy while a long file is still being made, and not only once it is synced.
//!
//! A file that is written as a whole and synced at its end lets its device rest until then, and after that its writer. With
//! `sync_file_range` the kernel begins to write a range and returns. It promises nothing: neither the blocks' places nor the
//! length are stable, nor is the device's own cache emptied. So this is a hint alone, and whoever wants the file stable syncs it.
//!
//! **Errors.** The call is made without the flags that wait for the device. Such a call does not take the error that the kernel
//! remembers of a failed write-back, for it is those flags that ask for it; the next sync through this file reports it, as if
//! the kernel had written the pages by itself. Its own outcome is of no interest.
//!
//! # Why the unsafe code is right
//!
//! The call takes a descriptor, which the borrowed file keeps open, and three numbers. It touches no memory of this process, and
//! changes nothing that it could read.

use std::fs;
use std::os::fd::AsRawFd;

/// Has the kernel begin to write these bytes of `file`.
pub(super) fn write_out(file: &fs::File, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // Nothing would mean all up to the end.
    if len == 0 {
        return;
    }
    // SAFETY: see the head of this file.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(test)]
mod tests {
    use crate::FileSystem;
    use crate::real::RealFs;

    /// Nothing can be seen of it but that it does no harm.
    #[test]
    fn whatever_there_is_may_be_asked_for() {
        let path = std::env::temp_dir().join(format!("braidb-early-{}", std::process::id()));
        let file = RealFs.create(&path).unwrap();
        file.append(&[7; 10_000]).unwrap();
        for (offset, len) in
            [(0, 4096), (1, 1), (4096, 0), (9_999, 1 << 20), (1 << 40, 1), (u64::MAX, 1), (0, u64::MAX)]
        {
            file.write_out(offset, len);
        }
        file.append(&[8; 10]).unwrap();
        file.sync_data().unwrap();
        let mut bytes = vec![0; 10_010];
        file.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!((file.len().unwrap(), bytes), (10_010, [vec![7; 10_000], vec![8; 10]].concat()));
        RealFs.unlink(&path).unwrap();
    }
}
