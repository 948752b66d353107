//! The encoded form of one atomic batch: what a caller builds, the log writes, and the commit leader walks to fill
//! memory.
//!
//! The entry list and the values are the very bytes of a frame (see the module's head). Nothing in them depends on the
//! batch's sequence number or its place in the log, so encoding is done before the commit lock is taken.

use crate::base::codec::{Decoder, put_u32, put_varint};
use crate::base::ids::FamilyId;
use crate::base::{MAX_KEY_BYTES, MAX_VALUE_BYTES, checksum};
use crate::visible::EntryKind;

/// Fewest bytes of an entry in the list: kind, family, key length.
pub(super) const MIN_ENTRY_BYTES: u64 = 3;

/// A batch, encoded. The caller has checked the limits of keys, values and batches.
#[derive(Clone, Debug, Default)]
pub struct EncodedBatch {
    list: Vec<u8>,
    values: Vec<u8>,
    count: usize,
    has_puts: bool,
}

/// One entry of a batch. A delete has an empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub family: FamilyId,
    pub kind: EntryKind,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

impl EncodedBatch {
    pub fn push_put(&mut self, family: FamilyId, key: &[u8], value: &[u8]) {
        debug_assert!(value.len() <= MAX_VALUE_BYTES);
        self.push_head(EntryKind::Put, family, key);
        put_varint(&mut self.list, value.len() as u64);
        put_u32(&mut self.list, checksum::of_value(value));
        self.values.extend_from_slice(value);
        self.has_puts = true;
    }

    pub fn push_delete(&mut self, family: FamilyId, key: &[u8]) {
        self.push_head(EntryKind::Delete, family, key);
    }

    fn push_head(&mut self, kind: EntryKind, family: FamilyId, key: &[u8]) {
        debug_assert!(key.len() <= MAX_KEY_BYTES);
        self.list.push(kind as u8);
        put_varint(&mut self.list, u64::from(family.0));
        put_varint(&mut self.list, key.len() as u64);
        self.list.extend_from_slice(key);
        self.count += 1;
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.values.clear();
        self.count = 0;
        self.has_puts = false;
    }

    /// Encoded bytes, without the head of the frame.
    pub fn bytes(&self) -> usize {
        self.list.len() + self.values.len()
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether it adds data, as opposed to deletes only.
    pub fn has_puts(&self) -> bool {
        self.has_puts
    }

    /// The entries, in the order of their pushing.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        entries(&self.list, &self.values)
    }

    pub(super) fn list(&self) -> &[u8] {
        &self.list
    }

    pub(super) fn values(&self) -> &[u8] {
        &self.values
    }
}

/// The entries of a list and values that were encoded here or passed [`check`]; ends early on any others.
pub(super) fn entries<'a>(list: &'a [u8], values: &'a [u8]) -> impl Iterator<Item = Entry<'a>> {
    let mut list = Decoder::new(list);
    let mut values = Decoder::new(values);
    std::iter::from_fn(move || {
        let item = Item::decode(&mut list)?;
        let value = values.take(item.value_bytes)?;
        Some(Entry { family: item.family, kind: item.kind, key: item.key, value })
    })
}

/// What the list holds of an entry.
struct Item<'a> {
    family: FamilyId,
    kind: EntryKind,
    key: &'a [u8],
    value_bytes: usize,
    value_crc: u32,
}

impl<'a> Item<'a> {
    fn decode(list: &mut Decoder<'a>) -> Option<Item<'a>> {
        let kind = EntryKind::from_u8(list.u8()?)?;
        let family = FamilyId(list.varint_u32()?);
        let key = list.bytes()?;
        let (value_bytes, value_crc) = match kind {
            EntryKind::Delete => (0, checksum::of_value(&[])),
            EntryKind::Put => (usize::try_from(list.varint()?).ok()?, list.u32()?),
        };
        let fits = key.len() <= MAX_KEY_BYTES && value_bytes <= MAX_VALUE_BYTES;
        fits.then_some(Item { family, kind, key, value_bytes, value_crc })
    }
}

/// What is wrong with a batch whose list has the right checksum.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The list makes no sense: no crash does that to a list with the right checksum.
    List,
    /// A value is not the one that was written.
    Value,
}

/// Checks a whole list with its values.
pub(super) fn check(list: &[u8], values: &[u8], count: u64) -> Result<(), Fault> {
    let mut list = Decoder::new(list);
    let mut values = Decoder::new(values);
    for _ in 0..count {
        let item = Item::decode(&mut list).ok_or(Fault::List)?;
        let value = values.take(item.value_bytes).ok_or(Fault::List)?;
        if checksum::of_value(value) != item.value_crc {
            return Err(Fault::Value);
        }
    }
    if list.is_empty() && values.is_empty() { Ok(()) } else { Err(Fault::List) }
}

/// Whether `part`, the beginning of a list of `list_bytes` bytes or all of it, can be one of `count` entries; and how many
/// of its bytes decided that. Cheap for bytes that are no list: they give themselves away early.
pub(super) fn may_begin_list(part: &[u8], list_bytes: u64, count: u64) -> (bool, usize) {
    let mut list = Decoder::new(part);
    let whole = part.len() as u64 == list_bytes;
    for _ in 0..count {
        let before = list;
        if Item::decode(&mut list).is_none() {
            // A part may end within an entry, but not long before one could end.
            let longest = MAX_KEY_BYTES + 32;
            let cut_off = !whole && before.rest().len() < longest && starts_well(before.rest());
            return (cut_off, part.len() - before.rest().len() + 1);
        }
    }
    (list.rest().is_empty() && whole, part.len() - list.rest().len())
}

/// Whether the first byte, if there is one, is an entry's kind.
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
        let entry = |family, kind, key, value| Entry { family: FamilyId(family), kind, key, value };
        let expected = [
            entry(0, EntryKind::Put, b"a", b"one"),
            entry(300, EntryKind::Delete, b"", b""),
            entry(7, EntryKind::Put, b"", b""),
            entry(u32::MAX, EntryKind::Put, b"key", b"two"),
        ];
        assert_eq!(batch.entries().collect::<Vec<_>>(), expected);
        assert_eq!((batch.count(), batch.has_puts()), (4, true));
        assert_eq!(check(batch.list(), batch.values(), 4), Ok(()));
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
            assert_eq!(check(batch.list(), batch.values(), count), Err(Fault::List));
        }
        assert_eq!(check(batch.list(), &batch.values()[..5], 4), Err(Fault::List));
        let mut values = batch.values().to_vec();
        values[4] ^= 1;
        assert_eq!(check(batch.list(), &values, 4), Err(Fault::Value));
    }

    #[test]
    fn every_beginning_of_a_list_may_be_one() {
        let batch = sample();
        let bytes = batch.list().len() as u64;
        for end in 0..=batch.list().len() {
            assert!(may_begin_list(&batch.list()[..end], bytes, 4).0, "cut at {end}");
        }
        assert!(!may_begin_list(batch.list(), bytes, 3).0);
        assert!(!may_begin_list(&[9; 100], 1000, 4).0);
    }
}
