//! A device that can be measured anywhere: a model behind the storage seam, on virtual time.
//!
//! Times that a noisy machine measures differ by a third from run to run. This model gives the same nanoseconds on every machine: the
//! engine runs for real, and its files, clock and background work are those of a machine that is only computed. [`Model::env`]
//! has the four seams of `braidb_storage`; [`Model::figures`] says what the run cost.
//!
//! ```
//! use braidb::Options;
//! use braidb_device::{Model, Profile};
//!
//! let model = Model::new(Profile::HDD, 1 << 30, 64 << 20, 1, 7);
//! let db = Options::new().env(model.env()).open("/db")?;
//! for number in 0..1_000u32 {
//!     model.step(); // what background threads would have done by now
//!     model.charge_cpu_ns(1_000); // the engine's own work
//!     db.put(number.to_be_bytes(), "value")?;
//! }
//! db.flush()?;
//! println!("{}", model.figures());
//! # assert!(model.now_ns() > 1_000_000);
//! # Ok::<(), braidb::Error>(())
//! ```
//!
//! # The life of a byte
//!
//! **The engine appends.** [`ModelFs`] takes the bytes into host memory, and the actor that appends pays for a call and a copy from a
//! fixed table of nanoseconds (`costs.rs`). A log's append is mostly a store into a mapping, and pays less (`log.rs`). The pages become
//! dirty in a page cache of a stated size (`cache.rs`). Space is counted now, and a full device refuses now; the place comes later
//! (`space.rs`), so that files that grow side by side are not interleaved.
//!
//! **The page is written back.** By a sync; by [`braidb_storage::File::write_out`]; because over 10% of the cache are dirty; or because the
//! page is 30 s old. These are Linux's defaults, and so is the rule that writers wait while over 20% are dirty or under write. A
//! first-fit allocator gives each run of pages its place behind the file's last one, or in the first free extent that holds the run.
//! Requests are of 1 MiB at most (`kernel.rs`). Pages of a file that is deleted before cost the device nothing.
//!
//! **The device serves the request** (`timeline.rs`). There is one arm. An access that begins where the last one ended is a transfer;
//! any other one is a seek first, as long as the [`Profile`] says. There is one queue, in the order of arrival: a request begins at the
//! first moment, from its actor's time on, at which the device is not in the middle of another one.
//!
//! **A sync waits** for the dirty pages of the file, for those under way, and for one write of the journal, which always seeks: it stands for
//! the flush of the device's cache. Names and blocks that change are written with the next sync of any file or directory, or after
//! 5 s, as by ext4. A model that charged a seek for each `unlink` would charge what no file system does.
//!
//! **A get reads it again.** A page in the cache costs a call and a copy. A missing one costs the device, and is then kept until
//! it is the page used longest ago. A handle that reads in order has 16 to 128 KiB read ahead, beside its reader.
//!
//! # Actors: the foreground and the workers
//!
//! The foreground and each worker have a clock of their own (`actors.rs`). There are as many workers as `braidb_storage::real::Threads` has:
//! one for flushes, one for memory, N for merges. Only one of them runs at a time, on the one thread of the host.
//!
//! A job begins, in virtual time, when it was submitted and its worker is free. It runs, on the host, when the foreground asks for
//! progress, or when [`Model::step`] finds that it should be over: that it would be, if it took the usual time of its lane. So
//! it may run when the foreground is far beyond its begin. Its requests then take the gaps that the foreground has left. If it ends
//! in the foreground's future, it has booked the device ahead. A foreground that comes later does not wait for all of that: it waits
//! for the request in service, and moves the rest back. The two alternate, as on a device that knows no future.
//!
//! A caller of `help` waits for the job: its clock is then not before the job's end. `pause_us` and `step` do not wait. Of the jobs that
//! may run, a flush runs first if the caller waits, and else the one that should be over first.
//!
//! # What it does not model
//!
//! - **Effects appear when the job runs**, not when it ends: its tables, and what it leaves in the page cache. A job that takes longer
//!   than is usual in its lane shows its tables too early, at most by the difference; a shorter one too late. An engine
//!   that says it is settled may thus have jobs whose end is still to come: [`Model::wait_for_jobs`].
//! - **The foreground's past stands.** A job that runs late cannot delay a read that the foreground has already made.
//! - **A core for each actor.** Workers do not compete for processors, and no call waits for a lock of another actor. The engine's own work
//!   in a job is 2 ns for each byte that it appends; what a job computes without writing is free.
//! - **One user thread.** Two threads of the host that share a model would share the foreground's clock.
//! - **No parallelism in the device**: the rates of `ssd` and `nvme` are those of one client, and a queue of them does not go faster.
//!   Nor does it garbage-collect, or write slower than it reads.
//! - **No scheduler but order of arrival**: neither elevator nor time slices. What would merge in a queue merges only if it is one request.
//! - **The page cache holds file pages only**, in exact LRU order; directories and inodes are always in memory. Read-ahead knows what
//!   Linux's does for one handle, but not its guesses about interleaved readers.
//! - **No crash and no error** but a full device: `braidb-sim` has these.
//!
//! # The same on every machine
//!
//! All that is charged is integers; the square root of a seek by distance is an exact one of `u128`. No map has an order that depends on
//! the process, and no host clock is read. The device draws nothing: rotation is its mean. `tests/golden.rs` compares the figures of the
//! engine over `hdd` and `ssd` with numbers that are checked in.

mod actors;
mod cache;
mod costs;
mod errno;
mod figures;
mod fs;
mod inode;
mod kernel;
mod log;
mod model;
mod names;
mod profile;
mod runtime;
mod space;
mod timeline;

pub use figures::Figures;
pub use fs::ModelFs;
pub use model::Model;
pub use profile::{PAGE_BYTES, Profile};
pub use runtime::{ModelClock, ModelRuntime};
