//! An immutable segment, in one of its layouts, and the merge that makes one of several.
//!
//! A segment that is no longer the active one is a *list* until it is *flattened*. Flattening, merging and compacting are one
//! operation, [`merge`], of one or more segments. A merge keeps or drops the versions that no reader needs, and leaves the
//! records where they lie or copies them. Tombstones always stay: the versions that they hide may lie in any level. The newest
//! version of each key stays too, since it hides all older versions, in memory and below.

use super::arena::Arena;
use super::cursor::SegmentCursor;
use super::flat::{Flat, FlatBuilder, FlatCursor};
use super::node::{Record, Ref};
use super::segment::Segment;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use crate::visible::merge::MergeCursor;
use crate::visible::rule::{Fate, RetentionFilter};
use crate::visible::{Cursor, EntryKind, Found};
use std::fmt;
use std::sync::Arc;

/// An immutable segment.
#[derive(Clone, Debug)]
pub enum Immutable {
    List(Arc<Segment>),
    Flat(Arc<Flat>),
}

impl Immutable {
    /// The newest version of `key`, whose hash is `hash`, at or below `at`.
    pub fn get(&self, key: &[u8], hash: u64, at: SeqNo) -> Option<Found> {
        match self {
            Immutable::List(list) => list.get(key, hash, at),
            Immutable::Flat(flat) => flat.get(key, hash, at),
        }
    }

    /// How its entries lie in memory.
    pub fn layout(&self) -> &'static str {
        match self {
            Immutable::List(_) => "skiplist",
            Immutable::Flat(flat) if flat.is_serialized() => "serialized",
            Immutable::Flat(_) => "flat",
        }
    }

    pub fn is_list(&self) -> bool {
        matches!(self, Immutable::List(_))
    }

    /// Whether `self` and `other` are one segment.
    pub fn is(&self, other: &Immutable) -> bool {
        match (self, other) {
            (Immutable::List(a), Immutable::List(b)) => Arc::ptr_eq(a, b),
            (Immutable::Flat(a), Immutable::Flat(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Immutable::List(list) => list.bytes(),
            Immutable::Flat(flat) => flat.bytes(),
        }
    }

    pub fn entries(&self) -> u64 {
        match self {
            Immutable::List(list) => list.entries(),
            Immutable::Flat(flat) => flat.entries(),
        }
    }

    pub fn cursor(&self) -> ImmutableCursor {
        match self {
            Immutable::List(list) => ImmutableCursor::List(list.cursor()),
            Immutable::Flat(flat) => ImmutableCursor::Flat(flat.cursor()),
        }
    }
}

/// Entries after which a merge asks `go_on` again.
const ENTRIES_A_QUESTION: u64 = 4096;

/// What a merge does with the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    Stay,
    /// The records are copied once a quarter of the arenas is dead.
    CopiedIfSparse,
    Copied,
}

/// What [`merge`] made, and what it read and dropped.
#[derive(Debug)]
pub struct Merged {
    pub flat: Arc<Flat>,
    /// Number of entries read.
    pub entries: u64,
    /// Number of different keys read.
    pub keys: u64,
    /// Number of entries dropped.
    pub dropped: u64,
}

/// Makes one segment of `parts`, newest first, which have no writer any more. With a retention filter, drops the versions that
/// the filter finds hidden. Returns `None` if the parts hold nothing, or if `go_on` returns `false`: then no caller wants the
/// result any more.
pub fn merge(
    parts: &[Immutable],
    mut retention: Option<RetentionFilter>,
    records: Records,
    go_on: impl Fn() -> bool,
) -> Option<Merged> {
    let filled: Vec<&Immutable> = parts.iter().filter(|part| part.entries() > 0).collect();
    let entries: u64 = filled.iter().map(|part| part.entries()).sum();
    let (first, last) = ends_of(&filled)?;
    let mut builder = FlatBuilder::new(first, last, entries as usize);
    let mut cursor = MergeCursor::new(filled.iter().map(|part| part.cursor()).collect());
    cursor.seek_to_first().expect("memory does not fail");
    let (mut keys, mut kept, mut last_key) = (0, 0, None);
    let loses_tombstones = mutant!("memory_drops_tombstones");
    for read in 0u64.. {
        if !cursor.valid() {
            break;
        }
        if read % ENTRIES_A_QUESTION == 0 && !go_on() {
            return None;
        }
        let record = cursor.winner().record();
        let key = record.key();
        if last_key != Some(key) {
            keys += 1;
            last_key = Some(key);
        }
        let is_lost = loses_tombstones && record.kind() == EntryKind::Delete;
        let fate =
            retention.as_mut().map(|retention| retention.fate(key, record.seq(), record.kind(), |_| is_lost));
        if fate.is_none_or(|fate| fate == Fate::Keep) {
            builder.push(record, cursor.winner().updates());
            kept += 1;
        } else {
            builder.count_dropped(cursor.winner().updates());
        }
        cursor.next().expect("memory does not fail");
    }
    let (arenas, data_bytes) = arenas_of(&filled);
    // SAFETY: the cursors gave records of the parts, whose arenas these are.
    let flat = unsafe { builder.finish(arenas, data_bytes) };
    let is_copied = match records {
        Records::Stay => false,
        Records::CopiedIfSparse => flat.is_sparse(),
        Records::Copied => true,
    };
    let flat = Arc::new(if is_copied { flat.serialized() } else { flat });
    Some(Merged { flat, entries, keys, dropped: entries - kept })
}

/// The arenas that the records of some segments lie in, and their bytes.
pub(super) fn arenas_of(parts: &[&Immutable]) -> (Vec<Arc<Arena>>, u64) {
    let (mut arenas, mut data_bytes) = (Vec::new(), 0);
    for part in parts {
        match part {
            Immutable::List(list) => {
                arenas.push(Arc::clone(list.versions()));
                data_bytes += list.version_bytes();
            }
            Immutable::Flat(flat) => {
                arenas.extend(flat.arenas().iter().cloned());
                data_bytes += flat.data_bytes();
            }
        }
    }
    (arenas, data_bytes)
}

/// The first key of some segments and the last; `None` if the segments hold nothing.
pub(super) fn ends_of<'a>(parts: &[&'a Immutable]) -> Option<(&'a [u8], &'a [u8])> {
    let ends: Vec<(&[u8], &[u8])> = parts.iter().filter_map(|part| part.ends()).collect();
    Some((ends.iter().map(|ends| ends.0).min()?, ends.iter().map(|ends| ends.1).max()?))
}

impl Immutable {
    /// The first key and the last.
    fn ends(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Immutable::List(list) => Some((list.list().first()?.key(), list.list().last()?.key())),
            Immutable::Flat(flat) => flat.ends(),
        }
    }
}

/// A position in an immutable segment, which it keeps alive.
pub enum ImmutableCursor {
    List(SegmentCursor),
    Flat(FlatCursor),
}

/// Calls the method of the cursor of any layout.
macro_rules! of_layout {
    ($cursor:expr, $name:ident => $call:expr) => {
        match $cursor {
            ImmutableCursor::List($name) => $call,
            ImmutableCursor::Flat($name) => $call,
        }
    };
}

impl ImmutableCursor {
    #[inline]
    pub(super) fn record(&self) -> Ref<'static, Record> {
        of_layout!(self, cursor => cursor.record())
    }

    /// How many writes of its key the entry counts; each write is counted at one entry.
    #[inline]
    pub(super) fn updates(&self) -> u16 {
        match self {
            ImmutableCursor::List(_) => 1,
            ImmutableCursor::Flat(cursor) => cursor.updates(),
        }
    }
}

impl Cursor for ImmutableCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        of_layout!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        of_layout!(self, cursor => cursor.seek_to_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        of_layout!(self, cursor => cursor.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        of_layout!(self, cursor => cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        of_layout!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        of_layout!(self, cursor => cursor.prev())
    }

    #[inline]
    fn valid(&self) -> bool {
        of_layout!(self, cursor => cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        of_layout!(self, cursor => cursor.key())
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        of_layout!(self, cursor => cursor.seq())
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        of_layout!(self, cursor => cursor.kind())
    }

    #[inline]
    fn value(&self) -> &[u8] {
        of_layout!(self, cursor => cursor.value())
    }

    fn pin_value(&self) -> Value {
        of_layout!(self, cursor => cursor.pin_value())
    }
}

impl fmt::Debug for ImmutableCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_layout!(self, cursor => cursor.fmt(f))
    }
}
