//! Writing: back-pressure, the commit queue with its group commit, and switching memtables for a flush.
//!
//! # Which file holds a record at each instant
//!
//! 1. *Before `commit` is called*: none.
//! 2. *After the log append*: the current log, in the process buffer (`None`) or the operating system (`Buffer`, `Sync`).
//!    A crash now may leave the record or not; recovery takes it if its frame is whole. It was not acknowledged.
//! 3. *After the sync* (`Sync` only): on stable storage, together with all earlier logs, oldest first.
//! 4. *After the insertion in memory and publishing*: as before, and readable. It is acknowledged now.
//! 5. *After a switch*: the record's log is closed by a footer and a newer log takes new records. The immutable segment still
//!    needs the old logs: `replay_from` of its family stands at or before them.
//!    *After a write-back* (steps in `queue/collection.rs`) a newer log holds the record.
//! 6. *After the flush's edit* (module `jobs`): a synced L0 table. This edit also advances `replay_from` past the old logs. They
//!    are deleted when no family replays them any more.
//!
//! At every instant a crash leaves the record in at least one place from which recovery reads it. Before the acknowledgement a
//! crash may also leave the whole record out.
//!
//! # Lock order
//!
//! The catalog's lock (module `jobs`) → `core`, the commit lock → `waiting`, `flushes` → the lock of `LogSync` → the view's swap lock. The
//! offers of gaps and the set of gaps are locked last. So no thread wakes the jobs while holding `core`: a writer wakes them after its
//! commit.

pub mod flush_queue;
mod gaps;
pub mod health;
pub mod pressure;
pub mod queue;
pub mod reads;
mod recent;
pub mod room;
mod shared;

pub use flush_queue::{FlushQueue, FlushTask};
pub use health::Health;
pub use pressure::Pressure;
pub use queue::CommitQueue;
pub use queue::collection::LogCollection;
pub use queue::memory::Wants;
pub use reads::{Check, ReadSet};
pub use room::{MemoryRoom, RecoveredFamily, RoomParts};
pub use shared::Shared;
