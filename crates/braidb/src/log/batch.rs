//! The encoded form of one atomic batch: a caller builds it, the log writes it, and the commit leader inserts its entries into memory.
//!
//! The entry list and the values are the very bytes of a frame (see the module's head). Nothing in them depends on the batch's sequence
//! number or its place in the log, so encoding is done before the commit lock is taken.
//!
//! A batch of records *written back* is no commit. Its records were committed before, and each entry holds its record's sequence
//! number.

use super::places::ValuePlace;
use crate::base::codec::{Decoder, put_u32, put_varint};
use crate::base::ids::{FamilyId, MAX_SEQ, SeqNo};
use crate::base::{MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES, checksum};
use crate::visible::EntryKind;
use braidb_storage::foreground;

/// Fewest bytes of an entry in the list: kind, family, key length (1 byte each).
pub(super) const MIN_ENTRY_BYTES: u64 = 3;

/// Most bytes of an entry without a number, its key not counted: kind, family, key length, value length, checksum.
const MOST_ITEM_BYTES: usize = 1 + 5 + 3 + 5 + 4;

/// An encoded batch. The caller has checked the limits of keys, values and batches.
#[derive(Clone, Debug, Default)]
pub struct EncodedBatch {
    list: Vec<u8>,
    values: Vec<u8>,
    count: usize,
    has_puts: bool,
    has_numbers: bool,
}

/// One entry of a batch. A delete has an empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub family: FamilyId,
    pub kind: EntryKind,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The sequence number of a record written back. `None` in a commit, where the batch's number and the entry's position give it.
    pub seq: Option<SeqNo>,
}

impl Drop for EncodedBatch {
    #[inline]
    fn drop(&mut self) {
        foreground::check_free(self.held_bytes());
    }
}

impl EncodedBatch {
    /// An empty batch with enough capacity for one entry of `key` and `value`.
    pub fn with_room_for(key: &[u8], value: Option<&[u8]>) -> EncodedBatch {
        EncodedBatch {
            list: Vec::with_capacity(key.len() + MOST_ITEM_BYTES),
            values: Vec::with_capacity(value.map_or(0, <[u8]>::len)),
            count: 0,
            has_puts: false,
            has_numbers: false,
        }
    }

    pub fn push_put(&mut self, family: FamilyId, key: &[u8], value: &[u8]) {
        self.push_put_item(family, None, key, value);
    }

    #[inline]
    fn push_put_item(&mut self, family: FamilyId, seq: Option<SeqNo>, key: &[u8], value: &[u8]) {
        debug_assert!(value.len() <= MAX_VALUE_BYTES);
        self.push_item_head(EntryKind::Put, family, seq, key);
        put_varint(&mut self.list, value.len() as u64);
        put_u32(&mut self.list, checksum::of_value(value));
        self.values.extend_from_slice(value);
        self.has_puts = true;
    }

    pub fn push_delete(&mut self, family: FamilyId, key: &[u8]) {
        self.push_item_head(EntryKind::Delete, family, None, key);
    }

    /// Adds a record that was committed before. A batch holds only commits or only records written back.
    pub fn push_written_back(
        &mut self,
        family: FamilyId,
        seq: SeqNo,
        kind: EntryKind,
        key: &[u8],
        value: &[u8],
    ) {
        assert!(self.has_numbers || self.count == 0, "a batch is a commit or a write-back");
        self.has_numbers = true;
        match kind {
            EntryKind::Put => self.push_put_item(family, Some(seq), key, value),
            EntryKind::Delete => self.push_item_head(EntryKind::Delete, family, Some(seq), key),
        }
    }

    #[inline]
    fn push_item_head(&mut self, kind: EntryKind, family: FamilyId, seq: Option<SeqNo>, key: &[u8]) {
        debug_assert!(key.len() <= MAX_KEY_BYTES);
        debug_assert_eq!(seq.is_some(), self.has_numbers);
        self.list.push(kind as u8);
        put_varint(&mut self.list, u64::from(family.0));
        if let Some(seq) = seq {
            put_varint(&mut self.list, seq);
        }
        put_varint(&mut self.list, key.len() as u64);
        self.list.extend_from_slice(key);
        self.count += 1;
    }

    /// Adds the entries of another commit behind those of this one.
    pub fn append(&mut self, other: &EncodedBatch) {
        assert!(!self.has_numbers && !other.has_numbers, "both are commits");
        self.list.extend_from_slice(&other.list);
        self.values.extend_from_slice(&other.values);
        self.count += other.count;
        self.has_puts |= other.has_puts;
    }

    /// Makes room for `entries` more, with `key_bytes` and `value_bytes` in all. Without memory for them the batch grows as it is filled.
    pub fn reserve(&mut self, entries: usize, key_bytes: usize, value_bytes: usize) {
        let list_bytes = entries.saturating_mul(MOST_ITEM_BYTES).saturating_add(key_bytes);
        let _ = self.list.try_reserve(list_bytes.min(MAX_BATCH_BYTES));
        let _ = self.values.try_reserve(value_bytes.min(MAX_BATCH_BYTES));
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.values.clear();
        self.count = 0;
        self.has_puts = false;
        self.has_numbers = false;
    }

    /// Encoded bytes, without the head of the frame.
    pub fn bytes(&self) -> usize {
        self.list.len() + self.values.len()
    }

    /// Bytes of memory that a drop frees: more than [`EncodedBatch::bytes`] after a `reserve` or a `clear`.
    #[inline]
    pub fn held_bytes(&self) -> usize {
        self.list.capacity() + self.values.capacity()
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the batch holds a put, and not deletes only.
    pub fn has_puts(&self) -> bool {
        self.has_puts
    }

    /// Whether the batch holds records written back, which have numbers of their own.
    pub fn has_numbers(&self) -> bool {
        self.has_numbers
    }

    /// The entries, in the order in which they were pushed.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        entries(&self.list, &self.values, self.has_numbers)
    }

    pub(super) fn list(&self) -> &[u8] {
        &self.list
    }

    /// The place of the value, if the batch is the commit of a single entry and its values begin at `offset`. Most commits have a
    /// single entry. The list need not be decoded: its item ends with the checksum of the value.
    #[inline]
    pub(super) fn only_place(&self, offset: u64) -> Option<ValuePlace> {
        if self.count != 1 || self.has_numbers {
            return None;
        }
        let crc = match self.list.last_chunk() {
            Some(&crc) if self.has_puts => u32::from_le_bytes(crc),
            _ => checksum::of_value(&[]),
        };
        Some(ValuePlace { offset, bytes: self.values.len() as u32, crc })
    }

    pub(super) fn values(&self) -> &[u8] {
        &self.values
    }
}

/// The entries of a list and values that were encoded here or passed [`check`]. Ends early on any other bytes.
pub(super) fn entries<'a>(
    list: &'a [u8],
    values: &'a [u8],
    has_numbers: bool,
) -> impl Iterator<Item = Entry<'a>> {
    let mut list = Decoder::new(list);
    let mut values = Decoder::new(values);
    std::iter::from_fn(move || {
        let item = Item::decode(&mut list, has_numbers)?;
        let value = values.take(item.value_bytes)?;
        let Item { family, kind, key, seq, .. } = item;
        Some(Entry { family, kind, key, value, seq })
    })
}

/// The sequence number and the value's place of each entry of a list that was encoded here. The values begin at `offset`. The entries
/// have the numbers from `base` on, unless `has_numbers`.
pub(super) fn value_places(
    list: &[u8],
    has_numbers: bool,
    base: SeqNo,
    offset: u64,
) -> impl Iterator<Item = (SeqNo, ValuePlace)> {
    let mut list = Decoder::new(list);
    let mut end = offset;
    let items = std::iter::from_fn(move || Item::decode(&mut list, has_numbers));
    (base..).zip(items).map(move |(seq, Item { seq: own, value_bytes, value_crc: crc, .. })| {
        let offset = end;
        end += value_bytes as u64;
        (own.unwrap_or(seq), ValuePlace { offset, bytes: value_bytes as u32, crc })
    })
}

/// One entry as the list holds it: all but the bytes of its value.
struct Item<'a> {
    family: FamilyId,
    seq: Option<SeqNo>,
    kind: EntryKind,
    key: &'a [u8],
    value_bytes: usize,
    value_crc: u32,
}

impl<'a> Item<'a> {
    #[inline]
    fn decode(list: &mut Decoder<'a>, has_numbers: bool) -> Option<Item<'a>> {
        let kind = EntryKind::from_u8(list.u8()?)?;
        let family = FamilyId(list.varint_u32()?);
        let seq = if has_numbers { Some(list.varint()?) } else { None };
        let key = list.bytes()?;
        let (value_bytes, value_crc) = match kind {
            EntryKind::Delete => (0, checksum::of_value(&[])),
            EntryKind::Put => (usize::try_from(list.varint()?).ok()?, list.u32()?),
        };
        let fits = key.len() <= MAX_KEY_BYTES && value_bytes <= MAX_VALUE_BYTES;
        let is_number = seq.is_none_or(|seq| (1..=MAX_SEQ).contains(&seq));
        (fits && is_number).then_some(Item { family, seq, kind, key, value_bytes, value_crc })
    }
}

/// What is wrong with a batch whose list has the right checksum.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The list cannot be decoded although its checksum is right. No crash causes this.
    List,
    /// The checksum of a value is wrong.
    Value,
}

/// Checks a whole list with its values.
pub(super) fn check(list: &[u8], values: &[u8], count: u64, has_numbers: bool) -> Result<(), Fault> {
    let mut list = Decoder::new(list);
    let mut values = Decoder::new(values);
    for _ in 0..count {
        let item = Item::decode(&mut list, has_numbers).ok_or(Fault::List)?;
        let value = values.take(item.value_bytes).ok_or(Fault::List)?;
        if checksum::of_value(value) != item.value_crc {
            return Err(Fault::Value);
        }
    }
    if list.is_empty() && values.is_empty() { Ok(()) } else { Err(Fault::List) }
}

/// Whether `part`, a prefix of a list of `list_bytes` bytes, can begin the list of `count` entries, and how many bytes were looked at.
/// Cheap for bytes that are no list: they fail early.
pub(super) fn may_begin_list(part: &[u8], list_bytes: u64, count: u64, has_numbers: bool) -> (bool, usize) {
    let mut list = Decoder::new(part);
    let whole = part.len() as u64 == list_bytes;
    for _ in 0..count {
        let before = list;
        if Item::decode(&mut list, has_numbers).is_none() {
            // A part may end within an entry, but only within the longest possible entry from its end.
            let longest = MAX_KEY_BYTES + 32;
            let cut_off = !whole && before.rest().len() < longest && starts_well(before.rest());
            return (cut_off, part.len() - before.rest().len() + 1);
        }
    }
    (list.rest().is_empty() && whole, part.len() - list.rest().len())
}

/// Whether `rest` is empty or begins with the kind of an entry.
fn starts_well(rest: &[u8]) -> bool {
    rest.first().is_none_or(|&kind| EntryKind::from_u8(kind).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> EncodedBatch {
        let mut batch = EncodedBatch::default();
        batch.push_put(FamilyId(0), b"a", b"one");
        batch.push_delete(FamilyId(300), b"");
        batch.push_put(FamilyId(7), b"", b"");
        batch.push_put(FamilyId(u32::MAX), b"key", b"two");
        batch
    }

    #[test]
    fn entries_come_back_in_order() {
        let batch = sample();
        let entry =
            |family, kind, key, value| Entry { family: FamilyId(family), kind, key, value, seq: None };
        let expected = [
            entry(0, EntryKind::Put, b"a", b"one"),
            entry(300, EntryKind::Delete, b"", b""),
            entry(7, EntryKind::Put, b"", b""),
            entry(u32::MAX, EntryKind::Put, b"key", b"two"),
        ];
        assert_eq!(batch.entries().collect::<Vec<_>>(), expected);
        assert_eq!((batch.count(), batch.has_puts()), (4, true));
        assert_eq!(check(batch.list(), batch.values(), 4, false), Ok(()));
    }

    #[test]
    fn a_batch_for_one_entry_does_not_grow() {
        for (key, value) in [(vec![1; MAX_KEY_BYTES], Some(vec![2; 1 << 20])), (vec![], None)] {
            let mut batch = EncodedBatch::with_room_for(&key, value.as_deref());
            let room = (batch.list.capacity(), batch.values.capacity());
            match value {
                Some(value) => batch.push_put(FamilyId(u32::MAX), &key, &value),
                None => batch.push_delete(FamilyId(u32::MAX), &key),
            }
            assert_eq!((batch.list.capacity(), batch.values.capacity()), room);
        }
    }

    #[test]
    fn the_place_of_a_single_entry_is_that_of_the_list() {
        let mut batches = [(); 3].map(|()| EncodedBatch::default());
        batches[0].push_put(FamilyId(7), b"key", b"value");
        batches[1].push_put(FamilyId(0), b"", b"");
        batches[2].push_delete(FamilyId(300), b"key");
        for batch in &batches {
            let place = value_places(batch.list(), false, 1, 99).next().map(|(_, place)| place);
            assert!(place.is_some() && batch.only_place(99) == place);
        }
        let mut copy = EncodedBatch::default();
        copy.push_written_back(FamilyId(3), 70, EntryKind::Put, b"k", b"value");
        assert_eq!((copy.only_place(99), sample().only_place(99)), (None, None));
    }

    #[test]
    fn records_that_are_written_back_keep_their_numbers() {
        let mut batch = EncodedBatch::default();
        batch.push_written_back(FamilyId(3), 70, EntryKind::Put, b"k", b"value");
        batch.push_written_back(FamilyId(0), MAX_SEQ, EntryKind::Delete, b"", b"");
        assert!(batch.has_numbers() && batch.has_puts());
        let of = |entry: Entry<'_>| (entry.family.0, entry.seq, entry.kind, entry.value.len());
        let expected = [(3, Some(70), EntryKind::Put, 5), (0, Some(MAX_SEQ), EntryKind::Delete, 0)];
        assert_eq!(batch.entries().map(of).collect::<Vec<_>>(), expected);
        assert_eq!(check(batch.list(), batch.values(), 2, true), Ok(()));
        for end in 0..=batch.list().len() {
            assert!(may_begin_list(&batch.list()[..end], batch.list().len() as u64, 2, true).0);
        }
        batch.clear();
        batch.push_written_back(FamilyId(0), 0, EntryKind::Delete, b"", b"");
        assert_eq!(
            check(batch.list(), batch.values(), 1, true),
            Err(Fault::List),
            "no record has the number 0"
        );
        batch.clear();
        batch.push_delete(FamilyId(0), b"k");
        assert!(!batch.has_numbers());
    }

    #[test]
    fn values_lie_where_their_places_say() {
        let mut copies = EncodedBatch::default();
        copies.push_written_back(FamilyId(3), 70, EntryKind::Put, b"k", b"value");
        copies.push_written_back(FamilyId(0), 60, EntryKind::Delete, b"", b"");
        copies.push_written_back(FamilyId(1), 50, EntryKind::Put, b"l", b"another");
        for batch in [sample(), copies] {
            let places: Vec<_> = value_places(batch.list(), batch.has_numbers(), 900, 4000).collect();
            assert_eq!(places.len(), batch.count());
            for ((number, place), (seq, entry)) in places.into_iter().zip((900..).zip(batch.entries())) {
                let start = (place.offset - 4000) as usize;
                assert_eq!(&batch.values()[start..start + place.bytes as usize], entry.value);
                assert_eq!(place.crc, checksum::of_value(entry.value));
                assert_eq!(number, entry.seq.unwrap_or(seq));
            }
        }
    }

    #[test]
    fn a_cleared_batch_is_a_new_one() {
        let mut batch = sample();
        batch.clear();
        assert_eq!((batch.bytes(), batch.count(), batch.has_puts()), (0, 0, false));
        batch.push_delete(FamilyId(1), b"k");
        assert!(!batch.has_puts());
        assert_eq!(batch.entries().count(), 1);
    }

    #[test]
    fn a_wrong_count_length_or_value_is_a_fault() {
        let batch = sample();
        for count in [0, 3, 5, u64::MAX] {
            assert_eq!(check(batch.list(), batch.values(), count, false), Err(Fault::List));
        }
        assert_eq!(check(batch.list(), &batch.values()[..5], 4, false), Err(Fault::List));
        let mut values = batch.values().to_vec();
        values[4] ^= 1;
        assert_eq!(check(batch.list(), &values, 4, false), Err(Fault::Value));
    }

    #[test]
    fn every_beginning_of_a_list_may_be_one() {
        let batch = sample();
        let bytes = batch.list().len() as u64;
        for end in 0..=batch.list().len() {
            assert!(may_begin_list(&batch.list()[..end], bytes, 4, false).0, "cut at {end}");
        }
        assert!(!may_begin_list(batch.list(), bytes, 3, false).0);
        assert!(!may_begin_list(&[9; 100], 1000, 4, false).0);
    }
}
