//! Data blocks: sorted entries, their keys compressed against the key before, with restart points to search from.
//!
//! ```text
//! entry    shared    varint  leading bytes of the key taken from the key before; 0 at a restart point
//!          unshared  varint  bytes of the key that follow
//!          tag       u8      bits 0-3 entry kind (0 delete, 1 put; others reserved)
//!                            bits 4-7 value location (0 inline; 1 a handle, of puts only; others reserved)
//!          seq       varint  sequence number, below 2^56
//!          length    varint  of the value; a put only
//!          body      varint  with a handle only: which of the table's bodies holds the value, counted from 0
//!          offset    varint  with a handle only: where the value lies in it
//!          crc       u32     with a handle only: of the value alone
//!          key suffix
//!          value     inline only
//! …
//! restarts n × u32   positions of the entries whose keys are whole: the first, and every 16th from there
//! n        u32       at least 1
//! ```
//!
//! Keys ascend. The versions of one key descend by sequence number, and may go on in the next block.

use super::directory::{Directory, Start};
use super::section::Flaw;
use crate::base::codec::{Decoder, put_u32, put_varint};
use crate::base::ids::{MAX_SEQ, SeqNo};
use crate::base::key::common_prefix;
use crate::base::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use crate::cache::Block;
use crate::value::Handle;
use crate::visible::EntryKind;
use std::cmp::Ordering;
use std::ops::Range;

/// Entries from one restart point to the next.
pub const RESTART_INTERVAL: usize = 16;
/// The lowest bit of the value location in a tag.
const LOCATION_SHIFT: u32 = 4;
/// The known tags, each an entry kind and a value location.
const DELETE: u8 = EntryKind::Delete as u8;
const PUT: u8 = EntryKind::Put as u8;
const PUT_WITH_HANDLE: u8 = EntryKind::Put as u8 | 1 << LOCATION_SHIFT;
/// A block in which an entry takes more bytes of the key before than it has.
pub const SHARES_TOO_MUCH: Flaw = Flaw::Malformed("an entry shares more than the key before it has");
/// Most bytes of a handle in an entry, without the length of the value.
const HANDLE_BYTES: usize = 5 + 10 + 4;

/// The place of an entry's value in another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The number of the body among the table's bodies, counted from 0.
    pub body: u32,
    pub handle: Handle,
}

/// The value of a new entry.
#[derive(Clone, Copy, Debug)]
pub enum NewValue<'a> {
    Inline(&'a [u8]),
    /// The value of a put, in a body.
    InBody(Pointer),
}

impl NewValue<'_> {
    /// Bytes of the value, wherever it lies.
    pub fn bytes(&self) -> usize {
        match self {
            NewValue::Inline(value) => value.len(),
            NewValue::InBody(pointer) => pointer.handle.bytes as usize,
        }
    }

    /// Most bytes that the value, or its handle, takes in the block.
    pub fn inline_bytes(&self) -> usize {
        match self {
            NewValue::Inline(value) => value.len(),
            NewValue::InBody(_) => HANDLE_BYTES,
        }
    }
}

/// Writes blocks one after the other to the end of a buffer that the caller owns.
#[derive(Debug, Default)]
pub struct BlockWriter {
    start: usize,
    restarts: Vec<u32>,
    since_restart: usize,
}

impl BlockWriter {
    pub fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// The position in the buffer where the open block starts.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Upper bound on the bytes of the block if it were closed after one more entry.
    pub fn bytes_with(&self, out: &[u8], unshared: usize, value: usize) -> usize {
        const ENTRY_OVERHEAD: usize = 12;
        let entries = if self.is_empty() { 0 } else { out.len() - self.start };
        entries + unshared + value + ENTRY_OVERHEAD + 4 * (self.restarts.len() + 1)
    }

    /// Adds an entry whose key shares its first `shared` bytes with the key before.
    pub fn add(
        &mut self,
        out: &mut Vec<u8>,
        shared: usize,
        key: &[u8],
        seq: SeqNo,
        kind: EntryKind,
        value: NewValue<'_>,
    ) {
        if self.is_empty() {
            self.start = out.len();
        }
        let mut shared = shared;
        if self.is_empty() || self.since_restart == RESTART_INTERVAL {
            self.restarts.push(u32::try_from(out.len() - self.start).expect("a block is below 4 GiB"));
            self.since_restart = 0;
            shared = 0;
        }
        self.since_restart += 1;
        put_varint(out, shared as u64);
        put_varint(out, (key.len() - shared) as u64);
        match value {
            NewValue::Inline(value) => {
                out.push(kind as u8);
                put_varint(out, seq);
                if kind == EntryKind::Put {
                    put_varint(out, value.len() as u64);
                }
                out.extend_from_slice(&key[shared..]);
                out.extend_from_slice(value);
            }
            NewValue::InBody(Pointer { body, handle }) => {
                debug_assert_eq!(kind, EntryKind::Put);
                out.push(PUT_WITH_HANDLE);
                put_varint(out, seq);
                put_varint(out, handle.bytes.into());
                put_varint(out, body.into());
                put_varint(out, handle.offset);
                put_u32(out, handle.crc);
                out.extend_from_slice(&key[shared..]);
            }
        }
    }

    /// Writes the restart points. The next `add` opens a new block.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.restarts.iter().for_each(|&restart| put_u32(out, restart));
        put_u32(out, self.restarts.len() as u32);
        self.restarts.clear();
    }
}

/// An entry of a block.
#[derive(Debug)]
pub struct Entry<'a> {
    pub shared: usize,
    pub suffix: &'a [u8],
    pub seq: SeqNo,
    pub kind: EntryKind,
    /// In the payload; empty with a pointer.
    pub value: Range<usize>,
    /// The place of the value if it lies in a body.
    pub pointer: Option<Pointer>,
    /// The position of the next entry.
    pub next: usize,
}

impl Entry<'_> {
    /// Bytes of the value, wherever it lies.
    pub fn value_bytes(&self) -> usize {
        self.pointer.map_or(self.value.len(), |pointer| pointer.handle.bytes as usize)
    }
}

/// One version of a key, found in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The range of the key in the caller's buffer of keys.
    pub key: Range<usize>,
    pub seq: SeqNo,
    pub kind: EntryKind,
    /// The range of the value in the payload, at the end of the entry; empty with a pointer.
    pub value: Range<usize>,
    pub pointer: Option<Pointer>,
}

/// The version that a lookup found.
#[derive(Debug, PartialEq, Eq)]
pub struct Hit {
    pub seq: SeqNo,
    pub kind: EntryKind,
    /// In the payload; empty with a pointer.
    pub value: Range<usize>,
    pub pointer: Option<Pointer>,
}

/// The outcome of a lookup of a key at a sequence number.
#[derive(Debug, PartialEq, Eq)]
pub struct Lookup {
    pub hit: Option<Hit>,
    /// Whether the block holds the key, perhaps only in versions that are too new.
    pub key_seen: bool,
    /// Whether the block holds a larger key, so later blocks need not be read.
    pub passed: bool,
}

/// The bytes of a block, ready to be searched. They passed their checksum. Still, malformed content must neither cause
/// a panic nor an allocation of a size that the content declares.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    entries: &'a [u8],
    restarts: &'a [[u8; 4]],
    directory: Directory<'a>,
}

impl<'a> Payload<'a> {
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<Payload<'a>, Flaw> {
        let (rest, count) =
            payload.split_last_chunk::<4>().ok_or(Flaw::Malformed("a block has no restart points"))?;
        let array_bytes = (u32::from_le_bytes(*count) as usize).checked_mul(4);
        let entry_bytes = array_bytes.and_then(|bytes| rest.len().checked_sub(bytes));
        match entry_bytes {
            Some(at) if at > 0 && at < rest.len() => {
                let (entries, restarts) = rest.split_at(at);
                Ok(Payload { entries, restarts: restarts.as_chunks().0, directory: Directory::default() })
            }
            _ => Err(Flaw::Malformed("a block has an impossible number of restart points")),
        }
    }

    /// A block of which [`Payload::parse`] said how many bytes the entries take.
    #[inline]
    pub fn of_parts(payload: &'a [u8], entry_bytes: usize) -> Payload<'a> {
        let (entries, rest) = payload.split_at(entry_bytes);
        let restarts = rest[..rest.len() - 4].as_chunks().0;
        Payload { entries, restarts, directory: Directory::default() }
    }

    /// The block, about to be searched: the search uses the directory of `block`, if it has one.
    #[inline]
    pub fn with_directory(self, block: &'a Block) -> Payload<'a> {
        Payload { directory: Directory::of(block), ..self }
    }

    /// A block that is about to be searched: the search uses its directory, if it has one.
    #[inline]
    pub fn searched(block: &'a Block) -> Result<Payload<'a>, Flaw> {
        Ok(Payload::parse(block)?.with_directory(block))
    }

    /// The bytes of all entries.
    pub fn entries(&self) -> &'a [u8] {
        self.entries
    }

    /// Bytes of all entries; positions of entries are below this.
    #[inline]
    pub fn entry_bytes(&self) -> usize {
        self.entries.len()
    }

    pub fn restart_count(&self) -> usize {
        self.restarts.len()
    }

    /// The position of restart point `index`; the end of the entries if `index` is the number of restart points.
    pub fn restart(&self, index: usize) -> usize {
        match self.restarts.get(index) {
            Some(at) => u32::from_le_bytes(*at) as usize,
            None => self.entries.len(),
        }
    }

    /// The entry at a position.
    // As a call of its own it hands its result over through memory, and a step of a walk takes 70 instructions more.
    #[inline(always)]
    pub fn entry(&self, at: usize) -> Result<Entry<'a>, Flaw> {
        self.decode(at).ok_or(Flaw::Malformed("a block holds a malformed entry"))?
    }

    #[inline(always)]
    fn decode(&self, at: usize) -> Option<Result<Entry<'a>, Flaw>> {
        let mut decoder = Decoder::new(self.entries.get(at..)?);
        let shared = usize::try_from(decoder.varint()?).ok()?;
        let unshared = usize::try_from(decoder.varint()?).ok()?;
        let tag = decoder.u8()?;
        if !matches!(tag, PUT | DELETE | PUT_WITH_HANDLE) {
            return Some(Err(unknown_tag(tag)));
        }
        let seq = decoder.varint()?;
        let (kind, value_bytes, pointer) = match tag {
            PUT => (EntryKind::Put, usize::try_from(decoder.varint()?).ok()?, None),
            PUT_WITH_HANDLE => (EntryKind::Put, 0, Some(decode_pointer(&mut decoder)?)),
            _ => (EntryKind::Delete, 0, None),
        };
        let suffix = decoder.take(unshared)?;
        decoder.take(value_bytes)?;
        let next = self.entries.len() - decoder.rest().len();
        if shared > MAX_KEY_BYTES || unshared > MAX_KEY_BYTES - shared || seq > MAX_SEQ {
            return None;
        }
        Some(Ok(Entry { shared, suffix, seq, kind, value: next - value_bytes..next, pointer, next }))
    }

    /// The number of restart points with a key before `key`, or, with `or_at`, at or before `key`. Keys are sorted, so
    /// these are the first restart points.
    pub fn restarts_before(&self, key: &[u8], or_at: bool) -> Result<usize, Flaw> {
        self.restarts_before_among(0, self.restarts.len(), key, or_at)
    }

    /// Like [`Payload::restarts_before`], if the keys before restart point `low` lie before `key`, and those from `high` on behind it.
    fn restarts_before_among(
        &self,
        mut low: usize,
        mut high: usize,
        key: &[u8],
        or_at: bool,
    ) -> Result<usize, Flaw> {
        while low < high {
            let middle = low.midpoint(high);
            let entry = self.entry(self.restart(middle))?;
            if entry.shared != 0 {
                return Err(Flaw::Malformed("a restart point has no whole key"));
            }
            match entry.suffix.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal if or_at => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// The newest version of `key` at or below `at`.
    #[inline]
    pub fn find(&self, key: &[u8], at: SeqNo) -> Result<Lookup, Flaw> {
        let mut lookup = Lookup { hit: None, key_seen: false, passed: false };
        let mut next = self.seek(key)?;
        while let Some(entry) = next {
            // Behind a version of `key`, an entry that shares more than `key` has is malformed.
            let rest = key.get(entry.shared..).ok_or(SHARES_TOO_MUCH)?;
            lookup.passed = entry.suffix != rest;
            if lookup.passed {
                break;
            }
            lookup.key_seen = true;
            if entry.seq <= at {
                let Entry { seq, kind, value, pointer, .. } = entry;
                lookup.hit = Some(Hit { seq, kind, value, pointer });
                break;
            }
            next = (entry.next < self.entries.len()).then(|| self.entry(entry.next)).transpose()?;
        }
        Ok(lookup)
    }

    /// The first entry at or after `key`. The bytes that it shares with the entry before it, it shares with `key` too. Keys are
    /// compared in their compressed form. `matched` is the length of the prefix that the entry before shares with `key`. An entry that
    /// shares more than `matched` bytes with the entry before is on the same side of `key`.
    #[inline]
    pub fn seek(&self, key: &[u8]) -> Result<Option<Entry<'a>>, Flaw> {
        let start = self.directory.start(self.entries, key);
        let (mut position, mut matched, mut last_len) =
            match start.unwrap_or(Start::Restarts { from: 0, to: self.restarts.len() }) {
                Start::Restarts { from, to } => {
                    let before = self.restarts_before_among(from, to, key, false)?;
                    (self.restart(before.saturating_sub(1)), 0, 0)
                }
                // A block has a directory only if no entry shares more than the one before has.
                Start::Entry { position, matched } => (position, matched, usize::MAX),
                Start::End => return Ok(None),
            };
        while position < self.entries.len() {
            let entry = self.entry(position)?;
            if entry.shared > last_len {
                return Err(SHARES_TOO_MUCH);
            }
            if entry.shared <= matched {
                let rest = &key[entry.shared..];
                let more = common_prefix(rest, entry.suffix);
                if entry.suffix.get(more) >= rest.get(more) {
                    return Ok(Some(entry));
                }
                matched = entry.shared + more;
            }
            last_len = entry.shared + entry.suffix.len();
            position = entry.next;
        }
        Ok(None)
    }

    /// Calls `visit` for each entry with its position, the range of the key's suffix in the entries, and its key. Returns `None` if an entry
    /// or the restart points are malformed.
    pub fn walk(&self, mut visit: impl FnMut(usize, Range<usize>, &[u8])) -> Option<()> {
        let (mut key, mut position, mut number) = (Vec::new(), 0, 0);
        while position < self.entries.len() {
            let entry = self.entry(position).ok()?;
            let is_restart = number % RESTART_INTERVAL == 0;
            if entry.shared > key.len()
                || is_restart && (entry.shared > 0 || self.restart(number / RESTART_INTERVAL) != position)
            {
                return None;
            }
            key.truncate(entry.shared);
            key.extend_from_slice(entry.suffix);
            visit(position, entry.value.start - entry.suffix.len()..entry.value.start, &key);
            (position, number) = (entry.next, number + 1);
        }
        (number.div_ceil(RESTART_INTERVAL) == self.restarts.len()).then_some(())
    }

    /// Builds the versions from restart point `index` to the next. Clears both buffers first.
    pub fn read_interval(
        &self,
        index: usize,
        keys: &mut Vec<u8>,
        versions: &mut Vec<Version>,
    ) -> Result<(), Flaw> {
        keys.clear();
        versions.clear();
        let (mut position, end) = (self.restart(index), self.restart(index + 1));
        while position < end {
            let entry = self.entry(position)?;
            let last = versions.last().map_or(0..0, |version: &Version| version.key.clone());
            if entry.shared > last.len() || versions.len() == RESTART_INTERVAL {
                return Err(Flaw::Malformed("a restart interval is malformed"));
            }
            let start = keys.len();
            keys.extend_from_within(last.start..last.start + entry.shared);
            keys.extend_from_slice(entry.suffix);
            versions.push(Version {
                key: start..keys.len(),
                seq: entry.seq,
                kind: entry.kind,
                value: entry.value,
                pointer: entry.pointer,
            });
            position = entry.next;
        }
        if versions.is_empty() || position != end {
            return Err(Flaw::Malformed("a restart interval is malformed"));
        }
        Ok(())
    }
}

fn decode_pointer(decoder: &mut Decoder<'_>) -> Option<Pointer> {
    let bytes = decoder.varint_u32().filter(|&bytes| bytes as usize <= MAX_VALUE_BYTES)?;
    let (body, offset, crc) = (decoder.varint_u32()?, decoder.varint()?, decoder.u32()?);
    Some(Pointer { body, handle: Handle { offset, bytes, crc } })
}

#[cold]
fn unknown_tag(tag: u8) -> Flaw {
    let (kind, location) = (tag & ((1 << LOCATION_SHIFT) - 1), tag >> LOCATION_SHIFT);
    Flaw::Unsupported(format!("a table holds an entry of kind {kind} with value location {location}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use EntryKind::{Delete, Put};

    type Row = (Vec<u8>, SeqNo, EntryKind, Vec<u8>);

    /// The pointer of a row whose value lies in a body.
    fn pointer_of(value: &[u8]) -> Option<Pointer> {
        let crc = u32::try_from(value.len()).unwrap() * 7;
        let handle = Handle { offset: 3 << 40 | u64::from(crc), bytes: MAX_VALUE_BYTES as u32 - crc, crc };
        value.ends_with(b"/0").then_some(Pointer { body: crc % 3 * 1000, handle })
    }

    /// Encodes `rows` as a block; values that end in "/0" lie in bodies.
    fn build(rows: &[Row]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let mut writer = BlockWriter::default();
        let mut last: &[u8] = &[];
        for (key, seq, kind, value) in rows {
            let value = pointer_of(value).map_or(NewValue::Inline(value), NewValue::InBody);
            let most = writer.bytes_with(&out, key.len() - common_prefix(last, key), value.inline_bytes());
            writer.add(&mut out, common_prefix(last, key), key, *seq, *kind, value);
            assert!(out.len() - 6 <= most, "the estimated size is an upper bound");
            last = key;
        }
        assert_eq!(writer.start(), 6);
        writer.close(&mut out);
        out.split_off(6)
    }

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for i in 0..60u64 {
            let key = format!("key{:04}", i * 10).into_bytes();
            let versions = if i % 20 == 7 { 30 } else { 1 + i % 2 };
            for version in (0..versions).rev() {
                let kind = if version % 3 == 1 { Delete } else { Put };
                let value = if kind == Put { format!("{i}/{version}").into_bytes() } else { Vec::new() };
                rows.push((key.clone(), 100 + 2 * version, kind, value));
            }
        }
        rows
    }

    #[test]
    fn shared_bytes_are_counted() {
        for (a, b, shared) in [
            ("", "", 0),
            ("a", "", 0),
            ("abc", "abd", 2),
            ("0123456789", "0123456789", 10),
            ("01234567x", "01234567y", 8),
        ] {
            assert_eq!(common_prefix(a.as_bytes(), b.as_bytes()), shared);
            assert_eq!(common_prefix(b.as_bytes(), a.as_bytes()), shared);
        }
    }

    #[test]
    fn find_agrees_with_a_plain_search() {
        let rows = rows();
        let block = build(&rows);
        let payload = Payload::parse(&block).unwrap();
        for i in 0..620 {
            for key in [format!("key{i:04}"), format!("key{i:03}"), format!("key{i:04}!")] {
                for at in [0, 99, 100, 101, 102, 131, 158, 1000] {
                    let lookup = payload.find(key.as_bytes(), at).unwrap();
                    let expected = rows.iter().find(|row| row.0 == key.as_bytes() && row.1 <= at);
                    let found = lookup
                        .hit
                        .as_ref()
                        .map(|hit| (hit.seq, hit.kind, &block[hit.value.clone()], hit.pointer));
                    let expected = expected.map(|row| match pointer_of(&row.3) {
                        Some(pointer) => (row.1, row.2, &b""[..], Some(pointer)),
                        None => (row.1, row.2, &*row.3, None),
                    });
                    assert_eq!(found, expected, "{key} at {at}");
                    assert_eq!(lookup.key_seen, rows.iter().any(|row| row.0 == key.as_bytes()), "{key}");
                    let larger = rows.iter().any(|row| row.0.as_slice() > key.as_bytes());
                    assert_eq!(lookup.passed, lookup.hit.is_none() && larger, "{key} at {at}");
                }
                let found = payload.seek(key.as_bytes()).unwrap();
                let expected = rows.iter().find(|row| row.0.as_slice() >= key.as_bytes());
                assert_eq!(found.as_ref().map(|entry| entry.seq), expected.map(|row| row.1), "{key}");
                if let (Some(entry), Some(row)) = (found, expected) {
                    assert_eq!([&key.as_bytes()[..entry.shared], entry.suffix].concat(), row.0, "{key}");
                }
            }
        }
    }

    #[test]
    fn intervals_give_back_every_entry() {
        let rows = rows();
        let block = build(&rows);
        let payload = Payload::parse(&block).unwrap();
        let (mut keys, mut versions, mut read) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..payload.restart_count() {
            payload.read_interval(index, &mut keys, &mut versions).unwrap();
            for v in &versions {
                let row = &rows[read.len()];
                assert_eq!(v.pointer, pointer_of(&row.3));
                let value = if v.pointer.is_some() { row.3.clone() } else { block[v.value.clone()].to_vec() };
                assert!(v.pointer.is_none() || v.value.is_empty());
                read.push((keys[v.key.clone()].to_vec(), v.seq, v.kind, value));
            }
        }
        assert_eq!(read, rows);
        assert!(rows.iter().filter(|row| pointer_of(&row.3).is_some()).count() > 20);
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let block = build(&rows()[..40]);
        let (mut keys, mut versions) = (Vec::new(), Vec::new());
        let mut exercise = |bytes: &[u8]| {
            let Ok(payload) = Payload::parse(bytes) else { return };
            for index in 0..payload.restart_count() {
                let _ = payload.read_interval(index, &mut keys, &mut versions);
            }
            for key in [&b""[..], b"key0100", b"key0100x", b"z"] {
                let _ = payload.find(key, 120);
                let _ = payload.seek(key);
            }
        };
        for bit in 0..block.len() * 8 {
            let mut bent = block.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            exercise(&bent);
        }
        (0..block.len()).for_each(|len| exercise(&block[..len]));
        assert!(Payload::parse(&[]).is_err());
        assert!(Payload::parse(&[0, 0, 0, 0]).is_err());
        assert!(Payload::parse(&[0xff; 4]).is_err());
    }

    #[test]
    fn reserved_kinds_and_locations_are_refused_by_number() {
        for (tag, name) in [
            (2, "kind 2 with value location 0"),
            (0x10, "kind 0 with value location 1"),
            (0x21, "kind 1 with value location 2"),
        ] {
            let mut block = build(&[(b"k".to_vec(), 1, Put, b"v".to_vec())]);
            block[2] = tag;
            match Payload::parse(&block).unwrap().find(b"k", 1) {
                Err(Flaw::Unsupported(what)) => assert!(what.contains(name), "{what}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_handle_of_an_impossible_value_is_malformed() {
        let mut out = Vec::new();
        let mut writer = BlockWriter::default();
        let handle = Handle { offset: 30, bytes: MAX_VALUE_BYTES as u32 + 1, crc: 7 };
        let value = NewValue::InBody(Pointer { body: 0, handle });
        writer.add(&mut out, 0, b"key", 1, EntryKind::Put, value);
        writer.close(&mut out);
        assert!(matches!(Payload::parse(&out).unwrap().entry(0), Err(Flaw::Malformed(_))));
    }
}
