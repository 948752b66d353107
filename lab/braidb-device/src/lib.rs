//! Storage devices as a testbed behind the storage seam, on virtual time: measurements do not depend on the machine.
//!
//! Times measured on a noisy machine differ by a third from run to run. This testbed gives the same nanoseconds on every
//! machine. The engine runs for real, on computed files, clock and background work. [`Testbed::env`] has the four seams
//! of `braidb_storage`; [`Testbed::figures`] returns the costs of the run.
//!
//! ```
//! use braidb::Options;
//! use braidb_device::{Testbed, Profile};
//!
//! let testbed = Testbed::new(Profile::HDD, 1 << 30, 64 << 20, 1, 7);
//! let db = Options::new().env(testbed.env()).open("/db")?;
//! for number in 0..1_000u32 {
//!     testbed.step(); // what background threads would have done by now
//!     testbed.charge_cpu_ns(1_000); // the engine's own work
//!     db.put(number.to_be_bytes(), "value")?;
//! }
//! db.flush()?;
//! println!("{}", testbed.figures());
//! # assert!(testbed.now_ns() > 1_000_000);
//! # Ok::<(), braidb::Error>(())
//! ```
//!
//! # The life of a byte
//!
//! **The engine appends.** [`TestbedFs`] copies the bytes into host memory. The actor that appends pays for a call and a
//! copy, from a fixed table of nanoseconds (`costs.rs`). An append to a log is mostly a store into a mapping, and costs
//! less (`log.rs`). The pages become dirty in a page cache of a given size (`cache.rs`). Space is counted at the
//! append, and a full device refuses it then. The place on the device is chosen at write-back (`space.rs`), so files
//! that grow side by side are not interleaved.
//!
//! **The page is written back.** Causes are a sync; [`braidb_storage::File::write_out`]; over 10% dirty pages in the
//! cache; and an age of 30 s. These are Linux's defaults. As on Linux, writers wait while over 20% of the cache are
//! dirty or being written. A first-fit allocator places each run of pages behind the file's last one, or in the first
//! free extent that holds the run. Requests have at most 1 MiB (`kernel/`). Pages of a file that is deleted before
//! write-back cost the device nothing.
//!
//! **The device serves the request** (`timeline.rs`). There is one arm. An access that begins where the last one ended
//! is only a transfer. Any other access first seeks, for the time that the [`Profile`] gives. There is one queue, in
//! the order of arrival. A request begins at the first moment, from its actor's time on, at which the device is not
//! inside another request.
//!
//! **A sync waits** for the dirty pages of the file, for those already being written, and for one write of the journal.
//! The journal write always seeks; it stands for the flush of the device's cache. Changed names and blocks are written
//! with the next sync of any file or directory, or after 5 s, as by ext4. No file system seeks for each `unlink`, and
//! neither does this testbed.
//!
//! **A get reads the page again.** A page in the cache costs a call and a copy. A missing page costs a device request,
//! and then stays cached until it is the least recently used page. For a handle that reads in order, 16 to 128 KiB are
//! read ahead while the reader goes on.
//!
//! # Actors: the foreground and the workers
//!
//! The foreground and each worker have a clock of their own (`actors.rs`). There are as many workers as in
//! `braidb_storage::real::Threads`: one for flushes, one for memory compaction, N for merges. Only one actor runs at a
//! time, on the one thread of the host.
//!
//! In virtual time, a job begins when it was submitted and its worker is free. On the host, the job runs when the
//! foreground asks for progress, or when [`Testbed::step`] expects it to have ended. [`Testbed::step`] expects the usual
//! time of the job's lane. So a job may run when the foreground is far beyond the job's begin. Its requests then take
//! the gaps that the foreground has left.
//!
//! A job that ends in the foreground's future has booked the device ahead. A later request of the foreground does not
//! wait for all of these bookings. It waits for the request in service, and moves the rest back. So the two alternate,
//! as on a device that does not know the future.
//!
//! A caller of `help` waits for the job: its clock is then not before the job's end. `pause_us` and `step` do not wait.
//! If the caller waits, a flush runs first; otherwise the job with the earliest expected end does.
//!
//! # Several devices
//!
//! [`Testbed::add_device`] adds a device for the files below a directory. All other files lie on the first device. Each
//! device has an arm, a queue, a space and a journal of its own, so two devices work at the same time. There is one
//! page cache, and its limits for dirty pages count the pages of all devices, as on Linux. A sync writes the journal of
//! the device of the file or directory. Names do not lead from one device to another.
//!
//! Two switches place data without the engine's help, to compare an engine that places its data by heat.
//! [`Testbed::scatter`] puts tables and value files on one of two devices at random (`scatter.rs`). [`Testbed::cache_on`]
//! makes a fast device a cache of the first one (`kernel/flash.rs`).
//!
//! # Limits of the testbed
//!
//! - **Effects appear when the job runs**, not when it ends: its tables, and its pages in the page cache. A job that
//!   takes longer than usual in its lane shows its tables too early, at most by the difference. A shorter job shows
//!   them too late. So an engine that reports itself settled may have jobs that end later: [`Testbed::wait_for_jobs`].
//! - **The foreground's past is fixed.** A job that runs late cannot delay a read that the foreground has already made.
//! - **A core for each actor.** Workers do not compete for processors, and no call waits for a lock of another actor.
//!   The engine's own work in a job costs 2 ns for each byte that it appends; computation without writing is free.
//! - **One user thread.** Two threads of the host that share a testbed would share the foreground's clock.
//! - **No parallelism in the device**: the rates of `ssd` and `nvme` were measured with one client, and a queue of
//!   requests does not go faster. The device does not garbage-collect, and writes as fast as it reads.
//! - **No scheduler**: the order of arrival counts, without elevator or time slices. Accesses merge only within one
//!   request.
//! - **The page cache holds file pages only**, in exact LRU order; directories and inodes are always in memory.
//!   Read-ahead works as Linux's for one handle, without Linux's guesses about interleaved readers.
//! - **A device moves back only the actors that have waited for it.** If a request on one device moves back the later
//!   requests of a job, the job's requests to other devices stay. On a single device every actor ahead of these requests
//!   moves back.
//! - **One limit for the dirty pages of all devices.** Linux also gives each device a share of the limit, by its speed. So
//!   pages that wait for a slow device hold up writers of a fast one sooner here.
//! - **A copy in the flash cache counts as written at once**, although its write may end later.
//! - **No crash and no error** but a full device: `braidb-sim` has these.
//!
//! # Equal results on every machine
//!
//! All costs are integers; the square root of a seek by distance is an exact one of `u128`. No map has an order that
//! depends on the process, and no host clock is read. The device draws no random numbers: rotation is its mean.
//! `tests/device/golden.rs` compares the figures of the engine over `hdd` and `ssd` with checked-in numbers.

mod actors;
mod cache;
pub mod cost;
mod costs;
mod errno;
mod figures;
mod fs;
mod inode;
mod kernel;
mod log;
mod names;
mod profile;
mod runtime;
mod scatter;
mod space;
mod testbed;
mod timeline;

pub use figures::{DeviceFigures, Figures};
pub use fs::TestbedFs;
pub use profile::{PAGE_BYTES, Profile};
pub use runtime::{TestbedClock, TestbedRuntime};
pub use testbed::{DeviceId, Testbed};
