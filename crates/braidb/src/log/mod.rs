//! The commit log. Every write goes here first, and its value may stay here for good (a log is a *body*).
//!
//! | file | subject |
//! |---|---|
//! | `batch` | the encoded form of one atomic batch |
//! | `frame` | the bytes of header, frame and footer |
//! | `writer` | appending, preallocating, sealing, rotating |
//! | `places` | where the values of a log lie |
//! | `sync` | making logs stable, oldest first |
//! | `reader` | one frame checked; the next whole frame behind damage found |
//! | `scan` | reading a log for recovery, and verifying it |
//! | `rewrite` | writing bytes of a log again where they stand |
//!
//! # Format, version 1
//!
//! A log is one file, `NNNNNN.log`: a header, then frames without a gap. Numbers are little-endian; `varint` is
//! LEB128 in its shortest form.
//!
//! ```text
//! log     header | frame | frame | ... | footer, once sealed | zeros: space that was never written
//!
//! header  46 bytes
//!   0  magic              "BRAIDLOG"
//!   8  version            u16     1
//!  10  required features  u32     a reader that lacks one refuses; bit 0: it may hold records that were written back
//!  14  optional features  u32     a reader may ignore them; bit 0: its synced marks hold for logs of earlier opens too; bit 1: it is
//!                                 the first of its open
//!  18  log id             u64
//!  26  previous log's id  u64     0: none
//!  34  where that ends    u64     0: none; its length, footer included, or where recovery cut it
//!  42  crc                u32     of (log id, 0, bytes 0..42)
//!
//! frame   one atomic batch; entry i has the sequence number base + i
//!   0  crc                u32     of (log id, offset of the frame, everything from `kind` to the end of the list)
//!   4  kind               u8      1 batch, 3 records written back; 0: end of the log
//!   5  list bytes         varint
//!      values bytes       varint
//!      count              varint  entries, at least 1
//!      synced mark        varint  see below
//!      base               varint  sequence number; of records written back the oldest log that is left without them
//!      list               for each entry:
//!                           kind        u8      0 delete, 1 put
//!                           family      varint
//!                           number      varint  its sequence number; only of records written back
//!                           key bytes   varint
//!                           key
//!                           value bytes varint  puts only
//!                           value crc   u32     puts only; of the content alone
//!      values             back to back, in the order of the list; never split, never compressed
//!
//! footer  29 bytes
//!   0  crc                u32     of (log id, offset of the footer, bytes 4..29)
//!   4  kind               u8      2
//!   5  synced mark        u64
//!  13  frames             u64     in this log, the footer not counted
//!  21  length             u64     of this log, the footer included
//! ```
//!
//! `crc` is CRC-32C. It covers the place (log id and offset) before the bytes, so a whole frame in the wrong place is damage. It ends
//! with the list. The list carries the checksums of the values, so the frame's crc covers them too. A value can be read by a handle
//! (log, offset, length, checksum) without its frame.
//!
//! The **synced mark** says which bytes the writer knew to be stable when it wrote the frame:
//!
//! - 0: nothing;
//! - 1: all earlier logs that recovery would read, up to where the header says that they end; nothing of this log;
//! - *m*, at least 46: the same earlier logs, and the first *m* bytes of this log, with its length and its name in the directory. *m*
//!   is the end of the header or of a frame.
//!
//! An *open* lasts from the opening of the database to its closing, or to the death of the process. A mark covers logs of its own open.
//! With optional feature bit 0 it covers logs of earlier opens too. Versions before the bit took old logs for stable after a sync that may
//! have proved nothing.
//!
//! # What a crash can do, and why recovery is right
//!
//! Only the open that created a log appends to it, only at its end, and logs are synced in the order of their writing. After a power
//! failure everything up to the last sync that returned is there, in full. Any later byte of any log may be missing, old (zero) or new.
//! Recovery takes the longest run of good frames from the beginning of the oldest log. The first bad frame ends the run. Everything
//! behind it, in this log or a later one, is set aside. The run is a prefix of the commits: a frame is one batch, and counts only when
//! the crc and all its values are right.
//!
//! The marks tell a crash from damage. A frame with mark *m*, found anywhere, proves that the bytes before *m* were stable. A bad frame
//! before *m* was therefore damaged after its sync, and a cut there would lose acknowledged writes. Recovery reports
//! [`Corruption`](crate::base::error::Error::Corruption). To learn *m*, [`scan()`] searches every byte offset behind a bad frame for
//! whole frames. A mark of at least 1 proves that every earlier log was stable as a whole. A killed process loses nothing that was
//! written to the operating system, and nothing here depends on the difference.
//!
//! Bytes that no mark covers may be in the page cache alone, even after a later sync of the file. A failed write-back leaves pages
//! clean. Recovery writes them anew (`db/recover/covered.rs`). A log with optional feature bit 1 that the manifest does not name was
//! begun by an open that ended before its edit. Such a log holds at most copies, with mark 0, and recovery ignores it. A larger mark or
//! a footer in it proves that the manifest lost an edit.
//!
//! A bad *header* is like a bad frame at offset 0. A mark of 1 does not cover it; a mark of 46 or more does.
//!
//! **Records written back** were committed before, to a log that log collection is about to delete. They are copies. Until the manifest
//! says that their family replays from `base` or a later log, recovery replays the original records and ignores the copies. Afterwards
//! the log with the last copy is synced and its length is in the manifest, so damage to the copies is recognized.
//! `write/queue/collection.rs` describes the steps.
//!
//! **Sealing.** [`LogWriter::rotate`] takes four steps: (1) create the next file and allocate its first space; (2) append the footer to
//! the old log; (3) append the header, with the old log's final length, to the next log; (4) write frames there. Nothing is synced
//! here: a caller that relies on a later log syncs the earlier logs first ([`LogSync::sync_through`]). Steps that may fail harmlessly
//! come first. If (1) fails, the old log is unchanged and stays in use, and the new file holds no byte that could claim anything. (2)
//! and (3) write into allocated space; a failure there is a failed append and poisons the database. The length in the header is final
//! when the header is written, so it is true in every crash image. Only a mark in the new log proves that the old log *has* this
//! length. A crash between the steps leaves an empty new file, or a new file with a header and no frames. Neither loses a commit. A
//! sealed log that lost its tail has no footer, or another length than its successor says. The first sync behind the footer begins with a
//! cut, which gives unused space back. A crash may come before the cut, or undo it. Zeros behind a footer therefore mean as little as zeros behind the
//! last frame of an unsealed log.

mod batch;
mod frame;
mod places;
mod reader;
mod rewrite;
mod scan;
mod sync;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::{EncodedBatch, Entry};
pub use frame::{HEADER_BYTES, Header, Numbers};
pub use places::{MOST_FLUSH_LOG_BYTES, ValuePlace, ValuePlaces};
pub use rewrite::rewrite;
pub use scan::{End, Frame, Scan, read_header, scan, verify, written_end};
pub use sync::{Forgotten, LogSync};
pub use writer::{Leftovers, LogWriter};
