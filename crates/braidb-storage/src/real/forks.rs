//! Forks: how a child process learns that it is one, and how it lets go of the parent's locks.
//!
//! A forked child has a copy of the parent's memory and shares the parent's open files, but has none of its other
//! threads. What the parent opened belongs to the parent: the child must change nothing of it. `fork` runs two handlers
//! of this file, which the first real open registers. vfork and posix_spawn run none, and need none: their children
//! share no object with the parent that they could use before they execute another program. A bare `clone` system call
//! runs none either, so a program must not use its child like a child of `fork`.
//!
//! - In the child, before `fork` returns, [`GENERATION`] rises. Each [`Process`] taken before the fork sees the
//!   difference with one load.
//! - The child closes its copies of the descriptors of locks. `flock` belongs to the open file, which parent and child
//!   share. So the lock ends with the parent, even if the child lives on. Unlocking would take the lock from the
//!   parent. If the parent is killed right behind a fork, its lock stays until the child runs for the first time.
//! - In the parent, [`BEGUN`] rises before a fork and [`ENDED`] after it. An open that met a fork between opening a file
//!   and listing its descriptor opens the file again ([`listed`]), before it locks the file. So no child keeps a
//!   descriptor of a lock that is in no list.
//!
//! # Why the unsafe code is sound
//!
//! - The handlers call only `close` and atomic operations. POSIX allows both in a child of a process with threads. They
//!   take no lock and allocate nothing, whatever the threads that vanished were doing.
//! - An [`Entry`] is never freed. An entry of the list was published with `Release` and is read after an `Acquire`, and
//!   its `next` never changes afterwards. So every pointer in the list leads to an initialized entry.
//! - The handler of the child closes descriptors that a [`std::fs::File`] of the copied memory owns. The child never
//!   uses or closes this file: [`Owned`](super::owned::Owned) checks the process before each use, and never drops the file in a child.
//!   The parent's file is another descriptor of another process.
//! - A descriptor in the list is open in the parent: its owner lists it after opening, and removes it from the list
//!   before closing. If other threads opened and closed files during the fork, the child may lack the descriptor, and
//!   `close` fails, or it may close a descriptor that the parent closed during the fork.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::Process;

/// Rises in each forked child.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Forks that this process began.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// Forks that ended in this process, well or not.
static ENDED: AtomicU64 = AtomicU64::new(0);
/// Whether the handlers are registered.
static ARE_REGISTERED: AtomicBool = AtomicBool::new(false);
/// The list of descriptors that a child closes.
static ENTRIES: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

/// In place of a descriptor in an entry that is free.
const FREE: i32 = -1;
/// How often a file is opened again because a fork came between, a millisecond later each time. After that, a child may keep the lock
/// of a dead parent. Opening must not wait for ever: a handler of the program may make the fork wait for it.
const TRIES: u32 = 100;

/// A place of the list.
#[derive(Debug)]
struct Entry {
    descriptor: AtomicI32,
    /// Does not change once the entry is in the list.
    next: AtomicPtr<Entry>,
}

/// The process that runs now.
pub(super) fn process() -> io::Result<Process> {
    register()?;
    Ok(Process::new(&GENERATION))
}

/// A number that a forked child does not share with its parent, once a file was opened.
pub(super) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Registers the handlers. Threads that come at once may register them twice, which changes nothing. No thread waits for
/// another, because the other could vanish in a fork.
fn register() -> io::Result<()> {
    if ARE_REGISTERED.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: the handlers are functions of this program, and do what the head of this file says.
    match unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) } {
        0 => {
            ARE_REGISTERED.store(true, Ordering::Release);
            Ok(())
        }
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

extern "C" fn before_fork() {
    BEGUN.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn in_parent() {
    ENDED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
    ENDED.store(BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
    for entry in entries() {
        let descriptor = entry.descriptor.swap(FREE, Ordering::SeqCst);
        if descriptor != FREE {
            // SAFETY: see the head of this file.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// The entries of the list.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let mut next = ENTRIES.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: a pointer of the list is null or leads to an entry, which is initialized and never freed.
        let entry = unsafe { next.as_ref() }?;
        next = entry.next.load(Ordering::Relaxed);
        Some(entry)
    })
}

/// Keeps a descriptor in the list until it is dropped. Dropped before the descriptor is closed.
#[derive(Debug)]
pub(super) struct Listed {
    entry: &'static Entry,
    process: Process,
}

impl Listed {
    fn new(file: &fs::File, process: Process) -> Listed {
        let descriptor = file.as_raw_fd();
        let is_taken = |entry: &&Entry| {
            let taken =
                entry.descriptor.compare_exchange(FREE, descriptor, Ordering::SeqCst, Ordering::SeqCst);
            taken.is_ok()
        };
        let entry = entries().find(is_taken).unwrap_or_else(|| add(descriptor));
        Listed { entry, process }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // In a child the entry is free already, or has a descriptor of the child.
        if !self.process.is_forked() {
            self.entry.descriptor.store(FREE, Ordering::SeqCst);
        }
    }
}

/// Adds an entry to the list.
fn add(descriptor: i32) -> &'static Entry {
    let mut first = ENTRIES.load(Ordering::Acquire);
    let entry = Entry { descriptor: AtomicI32::new(descriptor), next: AtomicPtr::new(first) };
    let entry: &'static Entry = Box::leak(Box::new(entry));
    loop {
        let new = ptr::from_ref(entry).cast_mut();
        match ENTRIES.compare_exchange(first, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return entry,
            Err(other) => {
                first = other;
                entry.next.store(first, Ordering::Relaxed);
            }
        }
    }
}

/// Opens a file whose descriptor every later child closes, and no earlier child has.
pub(super) fn listed(
    process: Process,
    open: impl Fn() -> io::Result<fs::File>,
) -> io::Result<(Listed, fs::File)> {
    for _ in 0..TRIES {
        let (ended, begun) = (ENDED.load(Ordering::SeqCst), BEGUN.load(Ordering::SeqCst));
        let file = open()?;
        let listed = Listed::new(&file, process);
        // A fork that begins later finds the entry. A fork during the open may have copied the descriptor without it.
        if ended >= begun && BEGUN.load(Ordering::SeqCst) == begun {
            return Ok((listed, file));
        }
        thread::sleep(Duration::from_millis(1));
    }
    let file = open()?;
    Ok((Listed::new(&file, process), file))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::FileSystem;
    use crate::real::RealFs;

    #[test]
    fn entries_are_used_again() {
        let open = || fs::File::open("/dev/null");
        let process = process().unwrap();
        let is_listed =
            |number: i32| entries().any(|entry| entry.descriptor.load(Ordering::SeqCst) == number);
        let many: Vec<_> = (0..100).map(|_| listed(process, open).unwrap()).collect();
        let numbers: Vec<i32> = many.iter().map(|(_, file)| file.as_raw_fd()).collect();
        assert!(numbers.iter().all(|&number| is_listed(number)));
        // Descriptors that other tests list meanwhile may have these numbers, so they stay open here.
        let files: Vec<_> = many.into_iter().map(|(listed, file)| (drop(listed), file).1).collect();
        assert!(!numbers.iter().any(|&number| is_listed(number)));
        let before = entries().count();
        for _ in 0..1_000 {
            drop(listed(process, open).unwrap());
        }
        assert!(entries().count() <= before + 50, "other tests list a few at most");
        drop(files);
    }

    /// Whether all of `checks` hold in a forked child.
    fn hold_in_a_child(checks: impl FnOnce() -> Vec<bool>) -> bool {
        // SAFETY: the child only makes calls to the kernel, allocates, and ends.
        match unsafe { libc::fork() } {
            0 => {
                let passed = catch_unwind(AssertUnwindSafe(checks));
                let status = i32::from(!passed.is_ok_and(|passed| passed.iter().all(|&holds| holds)));
                // SAFETY: `_exit` has no requirement.
                unsafe { libc::_exit(status) }
            }
            child => {
                let mut status = -1;
                // SAFETY: `status` is valid for the call.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                status == 0
            }
        }
    }

    #[test]
    fn a_child_changes_no_file_that_its_parent_opened() {
        let dir = std::env::temp_dir().join(format!("braidb-owned-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        RealFs.create_dir_all(&dir).unwrap();
        let held = RealFs.hold_dir(&dir).unwrap();
        let path = |name: &str| dir.join(name);
        let files = [held.create(&path("plain")).unwrap(), held.create_log(&path("log")).unwrap()];
        for file in &files {
            file.preallocate(1 << 16).unwrap();
            (0..100).for_each(|_| file.append(&[7; 100]).unwrap());
        }
        let log = held.create_log(&path("dropped")).unwrap();
        log.preallocate(1 << 16).unwrap();
        (0..100).for_each(|_| log.append(&[7; 100]).unwrap());
        let mut owned = Some((held.lock(&path("LOCK")).unwrap(), log));
        let before =
            || [RealFs.list(&dir).unwrap().len() as u64, files[0].len().unwrap(), files[1].len().unwrap()];
        let known = before();
        assert!(hold_in_a_child(|| {
            let mut checks = Vec::new();
            for file in &files {
                checks.extend([file.append(b"x").is_err(), file.preallocate(1 << 20).is_err()]);
                checks.extend([file.truncate(0).is_err(), file.sync_data().is_err()]);
                // Reads are no harm.
                checks.push(file.read_at(0, &mut [0; 100]).is_ok_and(|read| read == 100));
            }
            let rewritten = held.open_to_rewrite(&path("plain"));
            checks.extend([rewritten.is_err(), held.create(&path("new")).is_err()]);
            checks.extend([held.create_log(&path("new")).is_err(), held.unlink(&path("plain")).is_err()]);
            checks.push(held.rename(&path("plain"), &path("new")).is_err());
            checks.push(held.link(&path("plain"), &path("new")).is_err());
            checks.push(held.punch_hole(&path("plain"), 0, 4096).is_err());
            checks.extend([held.sync_dir(&dir).is_err(), held.lock(&path("LOCK")).is_err()]);
            checks.push(owned.as_ref().is_some_and(|(lock, _)| lock.is_in_place().is_err()));
            // Drops unlock nothing.
            drop(owned.take());
            checks.push(RealFs.lock(&path("LOCK")).is_err());
            // What the child opens itself is its own.
            checks.push(RealFs.create(&path("child")).is_ok_and(|file| file.append(b"child").is_ok()));
            checks.push(RealFs.unlink(&path("child")).is_ok());
            checks
        }));
        assert_eq!(before(), known);
        let (lock, log) = owned.expect("the child dropped a copy");
        log.append(b"on").unwrap();
        assert!(lock.is_in_place().unwrap() && RealFs.lock(&path("LOCK")).is_err());
        files.iter().for_each(|file| file.append(b"on").unwrap());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_fork_during_an_open_makes_it_open_again() {
        let opened = std::cell::Cell::new(0);
        let open = || {
            opened.set(opened.get() + 1);
            if opened.get() == 1 {
                before_fork();
                in_parent();
            }
            fs::File::open("/dev/null")
        };
        listed(process().unwrap(), open).unwrap();
        assert!(opened.get() >= 2);
    }
}
