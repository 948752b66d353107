//! Files for many small appends, most of which need no system call: they are copied into a mapping of the file.
//!
//! Bytes that are stored into a shared mapping are in the page cache at once, as after `pwrite`. They survive the death
//! of the process, and other handles read them. `fdatasync` on the descriptor writes them, because the kernel collects
//! the dirty bits of all mappings of a page.
//!
//! Unlike `pwrite`, a store cannot return an error: if the kernel cannot serve it, SIGBUS ends the process. So a store
//! is made only where nothing that the kernel has left to do can fail:
//!
//! - **The space is there.** `preallocate` allocates the blocks and moves the end of the file behind them. So no store
//!   is beyond the end or in a hole. A full disk is an error of `preallocate`, before a byte is written.
//! - **The file system writes a block in place**, so changing a page twice takes no space twice. This holds for ext4,
//!   XFS and tmpfs, except for blocks that XFS shares with another file (see below). On others, like btrfs or
//!   overlayfs, [`RealFs`](super::RealFs) makes a plain file instead.
//! - **The page is there, and writable.** Before the first store into a page, `MADV_POPULATE_WRITE` asks the kernel for
//!   [`STEP_BYTES`] of pages. It returns an error in cases where a store would end the process. A kernel before 5.14
//!   does not know this call.
//! - **The page still is writable.** When the kernel writes a page out, it protects the page, and the next store asks
//!   the file system again. The file system may have failed meanwhile: its journal has ended, or its device is gone. So
//!   a page is trusted only until a sync through this file, and for at most [`TRUST`] after the request. A busy writer
//!   does not stay in one page longer than [`TRUST`]. The first append after that is a call, and the second asks for
//!   pages again. So a writer that syncs each append makes plain calls, as does a writer with rare appends; neither
//!   would gain much.
//!
//! If one of these conditions does not hold, the append is a `pwrite` at the same offset, into the same page cache.
//!
//! **Errors.** The next `sync_data` reports later errors of the device, as for plain files. In three cases the process
//! dies, but loses nothing that `pwrite` would have kept:
//!
//! - Another program cuts or punches the file while it is written.
//! - Within [`TRUST`], the kernel writes the current page out, the file system fails, and an append follows.
//! - Within [`TRUST`], another program shares the blocks of the file by reflink, and an append into the current page
//!   finds a full device.
//!
//! **Reflink** (`FICLONE`, and `cp` where it makes use of it, on an XFS with that feature). XFS writes the next change
//! of a shared block to a new block, so the allocated space is no longer enough. The kernel protects the page for the
//! sharing. A later request for the page fails, and the `pwrite` instead of the store fails too: the append returns an
//! error, without a signal. Only the page in use is trusted without a request. The engine shares no file; a program
//! that copies an open log takes this risk.
//!
//! # Why the unsafe code is sound
//!
//! - The mapping is private to [`Mapping`]: no reference to its bytes ever exists. The only access is the copy in
//!   [`Mapping::store`], with bounds that are asserted. The mapping ends with its owner, so the address is valid.
//! - Two stores never race: [`Window`] is behind a lock, and it owns the mapping. The kernel, and other processes, may read
//!   or write the pages meanwhile. This program never reads them through the mapping, so no value that it computes with
//!   can change under it.
//! - A store beyond the end of the file is a signal, not undefined behaviour.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::locks::Mutex;
use rustix::fs::{FallocateFlags, FsWord, fallocate, fstatfs};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

use super::fs::{full_is_full, read_at};
use super::owned::Owned;
use crate::foreground::{self, Slow};
use crate::{File, Process};

/// Bytes of a file that are mapped at a time: 1 MiB.
const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes of pages that one request to the kernel covers: few calls, and none takes long. The copy then finds these
/// pages in a near cache; with 128 KiB, a single writer was slower by 10%.
const STEP_BYTES: u64 = 16 << 10;
/// Appends of more bytes than this request no pages, and are calls unless their pages are ready. With few appends to a
/// page, its faults cost as much as calls.
const LARGE_BYTES: usize = 4 << 10;
/// How long after a request pages are trusted without another request. The kernel begins to write pages out after
/// seconds, unless memory is short.
const TRUST: Duration = Duration::from_millis(100);

/// Whether the file system of `file` changes written blocks in place; XFS does unless a reflink shares the block. A
/// file system that moves a block needs new space for it; without free space a store would be a signal.
pub(super) fn overwrites_in_place(file: &fs::File) -> bool {
    const EXT4: FsWord = 0xEF53;
    const XFS: FsWord = 0x5846_5342;
    const TMPFS: FsWord = 0x0102_1994;
    fstatfs(file).is_ok_and(|found| matches!(found.f_type, EXT4 | XFS | TMPFS))
}

/// A file that this handle created and that only this handle changes.
#[derive(Debug)]
pub(super) struct MappedFile {
    file: Owned,
    /// The offset of the next append. It moves only after a whole append.
    end: AtomicU64,
    /// Bytes that were appended by stores.
    stored: AtomicU64,
    /// Whether a sync has protected the pages since the last append.
    protected: AtomicBool,
    window: Mutex<Window>,
}

impl MappedFile {
    pub fn new(file: Owned) -> MappedFile {
        MappedFile {
            file,
            end: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            protected: AtomicBool::new(false),
            window: Mutex::new(Window {
                allocated: 0,
                mapping: None,
                ready: 0,
                asked: Duration::ZERO,
                call_is_due: true,
                is_off: false,
            }),
        }
    }
}

impl File for MappedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let readable = self.end.load(Ordering::Acquire).saturating_sub(offset).min(buf.len() as u64);
        read_at(self.file.to_read(), offset, &mut buf[..readable as usize])
    }

    fn append(&self, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        let file = self.file.to_change()?;
        let mut window = self.window.lock();
        let at = self.end.load(Ordering::Relaxed);
        if self.protected.load(Ordering::Relaxed) {
            self.protected.store(false, Ordering::Relaxed);
            window.distrust();
        }
        if window.store(&self.file, at, data) {
            self.stored.fetch_add(data.len() as u64, Ordering::Relaxed);
        } else {
            file.write_all_at(data, at).map_err(full_is_full)?;
        }
        self.end.store(at + data.len() as u64, Ordering::Release);
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let file = self.file.to_change()?;
        self.window.lock().allocate(file, self.end.load(Ordering::Relaxed), len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let file = self.file.to_change()?;
        let mut window = self.window.lock();
        // No store may reach the bytes that are cut off, even if the call fails.
        let old = window.take_mapping();
        window.allocated = window.allocated.min(len);
        let outcome = file.set_len(len).map_err(full_is_full);
        if outcome.is_ok() {
            self.end.store(len, Ordering::Release);
        }
        drop(window);
        drop(old);
        outcome
    }

    fn sync_data(&self) -> io::Result<()> {
        let file = self.file.to_change()?;
        // For each mapped page that the kernel writes, it protects the page and notifies all processors: 2 ms for a
        // window. Unmapping notifies them once. Appends after a sync request their pages again in any case. An append
        // waits for the window's lock, so the lock is let go of before the unmapping.
        let old = self.window.lock().take_mapping();
        drop(old);
        foreground::check(Slow::Sync);
        let outcome = file.sync_data();
        self.protected.store(true, Ordering::Relaxed);
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.end.load(Ordering::Acquire))
    }

    fn mapped_bytes(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        foreground::check(Slow::Close);
    }
}

/// The part of the file into which appends are stored.
#[derive(Debug)]
struct Window {
    /// The end of the allocated blocks; the file is at least this long.
    allocated: u64,
    mapping: Option<Mapping>,
    /// The pages from the next append up to this offset were requested; never beyond `allocated`.
    ready: u64,
    /// The time of the last request, on the kernel's coarse clock.
    asked: Duration,
    /// Whether the next append is a `pwrite`.
    call_is_due: bool,
    /// Whether every append is a `pwrite` from now on: a request for pages failed, or the file system cannot reserve space.
    is_off: bool,
}

impl Window {
    /// Stores `data` at `at`, the end of the file, if that cannot fail.
    fn store(&mut self, file: &Owned, at: u64, data: &[u8]) -> bool {
        let now = coarse_now();
        if now.saturating_sub(self.asked) > TRUST && self.ready > 0 {
            self.distrust();
        }
        let end = at + data.len() as u64;
        if end > self.ready && !self.reach(file, at, end, now) {
            return false;
        }
        match &self.mapping {
            Some(mapping) => mapping.store(at, data),
            None => unreachable!("ready pages are mapped"),
        }
        true
    }

    /// Makes the pages from `at` to `end`, and some behind them, ready for stores. Returns whether it did.
    fn reach(&mut self, file: &Owned, at: u64, end: u64, now: Duration) -> bool {
        if self.is_off || (end - at) as usize > LARGE_BYTES || end > self.allocated {
            return false;
        }
        if self.call_is_due {
            self.call_is_due = false;
            return false;
        }
        // One window of 1 MiB is unmapped for each 1 MiB of appends. Windows kept until the next sync would add up.
        let _allowed = foreground::allow(&[Slow::Unmap]);
        let step_end = (at + STEP_BYTES).min(self.allocated);
        match self.ask(file, at, step_end) {
            Ok(()) => {
                self.ready = step_end;
                self.asked = now;
                true
            }
            Err(_) => {
                // After any error, appends become calls: a call works where a store does not, or returns an error.
                self.mapping = None;
                self.ready = 0;
                self.is_off = true;
                false
            }
        }
    }

    fn ask(&mut self, file: &Owned, at: u64, end: u64) -> io::Result<()> {
        if self.mapping.as_ref().is_none_or(|mapping| !mapping.holds(at, end)) {
            // Unmaps the old mapping first: a process has a limited number of mappings.
            self.mapping = None;
            self.mapping = Some(Mapping::new(file, at)?);
        }
        // A read of these pages, which hold only zeros, brings them into the cache together. Page faults would do it
        // one by one, at twice the cost.
        let mut zeros = [0; STEP_BYTES as usize];
        let first = at.next_multiple_of(page_size() as u64).min(end);
        read_at(file.to_read(), first, &mut zeros[..(end - first) as usize])?;
        match &self.mapping {
            Some(mapping) => mapping.populate(at, end),
            None => unreachable!("the mapping was just made"),
        }
    }

    /// Ends stores into the mapping, which the caller unmaps by a drop.
    #[must_use = "the drop takes long, so it comes after the lock"]
    fn take_mapping(&mut self) -> Option<Mapping> {
        self.distrust();
        self.mapping.take()
    }

    fn distrust(&mut self) {
        self.ready = 0;
        self.call_is_due = true;
    }

    fn allocate(&mut self, file: &fs::File, end: u64, len: u64) -> io::Result<()> {
        if len <= self.allocated {
            return Ok(());
        }
        let (from, more) = (self.allocated, len - self.allocated);
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, more)) {
            Ok(()) => {
                self.allocated = len;
                Ok(())
            }
            // The file system cannot reserve space, as for a plain file. Without reserved space there are no stores.
            Err(Errno::OPNOTSUPP) => {
                self.is_off = true;
                Ok(())
            }
            Err(errno) => {
                // Gives back the blocks that it did get, if possible: on a full disk others need them.
                let _ = file.set_len(self.allocated.max(end));
                Err(full_is_full(errno.into()))
            }
        }
    }
}

/// A range of the file in memory. It may reach beyond the end of the file; no store goes there.
#[derive(Debug)]
struct Mapping {
    base: *mut u8,
    /// The offset in the file where the mapping begins: a multiple of the page size.
    start: u64,
    /// The process that made the mapping.
    process: Process,
}

// SAFETY: the address of a mapping means the same on every thread, and only the owner of the value uses it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps [`WINDOW_BYTES`] of the file from the page of byte `at` on.
    fn new(file: &Owned, at: u64) -> io::Result<Mapping> {
        let start = at - at % page_size() as u64;
        // SAFETY: no address is requested, so the kernel takes one that is unused.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                WINDOW_BYTES as usize,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file.to_change()?,
                start,
            )
        }?;
        Ok(Mapping { base: base.cast(), start, process: file.process() })
    }

    fn holds(&self, at: u64, end: u64) -> bool {
        self.start <= at && end <= self.start + WINDOW_BYTES
    }

    /// Asks the kernel to make the pages from `at` to `end` present and writable. Returns its error.
    fn populate(&self, at: u64, end: u64) -> io::Result<()> {
        assert!(self.holds(at, end), "bytes {at} to {end} are not in the window");
        let page = at - at % page_size() as u64;
        // SAFETY: the range is within the mapping, and no advice of this kind changes what memory holds.
        unsafe {
            let first = self.base.add((page - self.start) as usize);
            retry_on_intr(|| madvise(first.cast(), (end - page) as usize, Advice::LinuxPopulateWrite))?;
        }
        Ok(())
    }

    /// Copies `data` to byte `at` of the file.
    fn store(&self, at: u64, data: &[u8]) {
        assert!(self.holds(at, at + data.len() as u64), "byte {at} is not in the window");
        // SAFETY: source and target are valid for `data.len()` bytes, the target by the assertion. They do not overlap,
        // because no reference into the mapping exists.
        unsafe {
            ptr::copy_nonoverlapping(data.as_ptr(), self.base.add((at - self.start) as usize), data.len());
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The mapping is the parent's. The program may have given the range of addresses to another use in the child.
        if self.process.is_forked() {
            return;
        }
        foreground::check(Slow::Unmap);
        // SAFETY: the range was mapped with this length, and nothing refers to it.
        let outcome = unsafe { munmap(self.base.cast(), WINDOW_BYTES as usize) };
        debug_assert!(outcome.is_ok(), "munmap of a mapping: {outcome:?}");
    }
}

/// A clock that costs a few nanoseconds and steps every few milliseconds.
fn coarse_now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A mapped file, even if the file system here would not qualify, and its path.
    fn new_file(name: &str) -> (MappedFile, PathBuf) {
        let path = std::env::temp_dir().join(format!("braidb-mapped-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        (MappedFile::new(Owned::new(file).unwrap()), path)
    }

    /// Appends the bytes of [`byte_at`], in pieces of `piece` bytes, until the file has `len`.
    fn fill(file: &MappedFile, len: u64, piece: usize) {
        loop {
            let at = file.len().unwrap();
            if at == len {
                return;
            }
            let piece: Vec<u8> = (at..len.min(at + piece as u64)).map(byte_at).collect();
            // Even on a slow machine, no time passes between appends here.
            file.window.lock().asked = Duration::MAX;
            file.append(&piece).unwrap();
        }
    }

    /// The byte at `offset`: never 0, and different from page to page.
    fn byte_at(offset: u64) -> u8 {
        (offset % 251 + 1) as u8
    }

    fn check(path: &std::path::Path, len: u64, zeros: u64) {
        let found = fs::read(path).unwrap();
        assert_eq!(found.len() as u64, len + zeros);
        assert!(found.iter().zip(0..).all(|(&byte, at)| byte == if at < len { byte_at(at) } else { 0 }));
    }

    #[test]
    fn small_appends_are_stored_across_windows_and_large_ones_are_calls() {
        let (file, path) = new_file("windows");
        let len = 2 * WINDOW_BYTES + 12_345;
        file.preallocate(len + 1_000).unwrap();
        fill(&file, 46, 46);
        assert_eq!(file.mapped_bytes(), 0, "the first append is a call");
        fill(&file, len, 173);
        assert_eq!(file.mapped_bytes(), len - 46, "all others are stores");
        let mut read = vec![0; 5_000];
        assert_eq!(
            file.read_at(len - 3_000, &mut read).unwrap(),
            3_000,
            "for its writer, the file ends at the last append"
        );
        assert!(read[..3_000].iter().zip(len - 3_000..).all(|(&byte, at)| byte == byte_at(at)));
        assert_eq!(file.read_at(len + 1, &mut read).unwrap(), 0);
        check(&path, len, 1_000);
        let before = file.mapped_bytes();
        file.preallocate(len + (1 << 20)).unwrap();
        fill(&file, len + LARGE_BYTES as u64 + 1, LARGE_BYTES + 1);
        assert_eq!(file.mapped_bytes(), before, "a large append is a call");
        drop(file);
        check(&path, len + LARGE_BYTES as u64 + 1, (1 << 20) - LARGE_BYTES as u64 - 1);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn without_space_in_front_appends_are_calls() {
        let (file, path) = new_file("calls");
        fill(&file, 1_000, 10);
        check(&path, 1_000, 0);
        file.preallocate(2_000).unwrap();
        fill(&file, 2_000, 10);
        assert_eq!(file.mapped_bytes(), 990);
        fill(&file, 10_000, 7);
        assert_eq!(file.mapped_bytes(), 990, "without allocated space, appends are calls");
        check(&path, 10_000, 0);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_cut_leaves_what_was_appended_and_appends_go_on() {
        let (file, path) = new_file("cut");
        file.preallocate(1 << 20).unwrap();
        fill(&file, 10_000, 100);
        file.truncate(10_000).unwrap();
        check(&path, 10_000, 0);
        fill(&file, 20_000, 100);
        check(&path, 20_000, 0);
        file.truncate(5_000).unwrap();
        assert_eq!(file.len().unwrap(), 5_000);
        file.preallocate(1 << 20).unwrap();
        fill(&file, 30_000, 100);
        check(&path, 30_000, (1 << 20) - 30_000);
        assert_eq!(file.mapped_bytes(), 10_000 - 100 + 25_000 - 100, "the append after a cut is a call");
        file.truncate(40_000).unwrap();
        assert_eq!(file.len().unwrap(), 40_000);
        check_zeros(&path, 30_000, 40_000);
        fs::remove_file(path).unwrap();
    }

    fn check_zeros(path: &std::path::Path, from: usize, to: usize) {
        let found = fs::read(path).unwrap();
        assert_eq!(found.len(), to);
        assert!(found[from..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn after_a_sync_or_a_pause_the_next_append_is_a_call() {
        let (file, path) = new_file("trust");
        file.preallocate(1 << 20).unwrap();
        let calls = |appends: u64| {
            let (at, before) = (file.len().unwrap(), file.mapped_bytes());
            fill(&file, at + appends, 1);
            appends - (file.mapped_bytes() - before)
        };
        assert_eq!(calls(100), 1);
        assert_eq!(calls(100), 0);
        file.sync_data().unwrap();
        assert_eq!(calls(100), 1);
        // The time of the request is set to the start of the machine.
        file.window.lock().asked = Duration::ZERO;
        file.append(&[byte_at(300)]).unwrap();
        assert_eq!(file.mapped_bytes(), 298);
        assert_eq!(calls(99), 0);
        for _ in 0..10 {
            assert_eq!(calls(1), 0);
            file.sync_data().unwrap();
            assert_eq!(calls(1), 1, "an append after a sync is a call");
        }
        check(&path, 420, (1 << 20) - 420);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn where_a_store_would_die_the_append_is_a_call() {
        let (file, path) = new_file("refused");
        file.preallocate(1 << 20).unwrap();
        fill(&file, 5_000, 1_000);
        assert_eq!(file.mapped_bytes(), 4_000);
        // Another program cuts the file. The kernel cannot place further stores, and the request for pages returns an
        // error.
        let other = fs::OpenOptions::new().write(true).open(&path).unwrap();
        other.set_len(5_000).unwrap();
        file.window.lock().distrust();
        fill(&file, 12_000, 1_000);
        assert!(file.window.lock().is_off);
        assert_eq!(file.mapped_bytes(), 4_000);
        check(&path, 12_000, 0);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn threads_that_append_at_once_do_no_harm() {
        // The trait allows one appending thread at a time; memory safety does not depend on it.
        let (file, path) = new_file("threads");
        file.preallocate(1 << 20).unwrap();
        std::thread::scope(|scope| {
            for byte in 1..=4 {
                let file = &file;
                scope.spawn(move || (0..1_000).for_each(|_| file.append(&[byte; 64]).unwrap()));
            }
        });
        let found = fs::read(&path).unwrap();
        let whole = found.chunks(64).take(4_000);
        assert!(whole.clone().all(|part| part[0] != 0 && part.iter().all(|&byte| byte == part[0])));
        assert_eq!(whole.len(), 4_000);
        fs::remove_file(path).unwrap();
    }
}
