//! Early write-out: the device works while a long file is still being written, and not only during the sync at its end.
//!
//! Without write-out, the device idles until a file is synced, and then the writer waits for the device. With
//! `sync_file_range` the kernel begins to write a range and returns. The call promises nothing: neither the places of
//! blocks nor the length become stable, and the device's own cache is not emptied. So the call is only a hint, and a
//! writer that wants the file stable syncs it.
//!
//! **Errors.** The call is made without the flags that wait for the device. Without these flags, the call does not
//! consume the kernel's record of a failed write-back. The next sync through this file reports the failure, as if the
//! kernel had written the pages by itself. The result of the call is ignored.
//!
//! # Why the unsafe code is sound
//!
//! The call takes a descriptor, which the borrowed file keeps open, and three numbers. It touches no memory of this
//! process, and changes no bytes that the process could read.

use std::fs;
use std::os::fd::AsRawFd;

/// Makes the kernel begin to write `len` bytes of `file` from `offset` on.
pub(super) fn write_out(file: &fs::File, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // A length of 0 would mean all bytes up to the end.
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

    /// Write-out has no visible effect; this test shows that it does no harm.
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
