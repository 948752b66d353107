//! Keys compare bytewise. This module has ranges of keys, prefixes, and the hash that filters use.

use std::ops::Bound;

/// The name of the only key order, recorded in the manifest.
pub const COMPARATOR: &str = "bytewise";

/// A closed range of user keys: both ends are in the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub low: Vec<u8>,
    pub high: Vec<u8>,
}

impl KeyRange {
    #[cfg(test)]
    pub fn new(low: impl Into<Vec<u8>>, high: impl Into<Vec<u8>>) -> KeyRange {
        let range = KeyRange { low: low.into(), high: high.into() };
        assert!(range.low <= range.high);
        range
    }

    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Grows to include `other`.
    pub fn extend(&mut self, other: &KeyRange) {
        if other.low < self.low {
            self.low.clone_from(&other.low);
        }
        if other.high > self.high {
            self.high.clone_from(&other.high);
        }
    }

    /// The smallest range that holds all of `ranges`.
    pub fn hull<'a>(ranges: impl IntoIterator<Item = &'a KeyRange>) -> Option<KeyRange> {
        let mut ranges = ranges.into_iter();
        let mut hull = ranges.next()?.clone();
        ranges.for_each(|range| hull.extend(range));
        Some(hull)
    }
}

/// A half-open range of possible keys: from `low` on, up to but without `end`. `None` has no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub low: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl Span {
    /// All possible keys.
    pub const ALL: Span = Span { low: Vec::new(), end: None };

    /// The keys between two bounds; `None` if there are none.
    pub fn between((low, high): (Bound<&[u8]>, Bound<&[u8]>)) -> Option<Span> {
        let behind = |key: &[u8]| [key, &[0]].concat();
        let low = match low {
            Bound::Unbounded => Vec::new(),
            Bound::Included(low) => low.to_vec(),
            Bound::Excluded(low) => behind(low),
        };
        let end = match high {
            Bound::Unbounded => None,
            Bound::Included(high) => Some(behind(high)),
            Bound::Excluded(high) => Some(high.to_vec()),
        };
        (end.as_ref().is_none_or(|end| low < *end)).then_some(Span { low, end })
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.end.as_ref().is_none_or(|end| key < end.as_slice())
    }

    pub fn overlaps(&self, other: &Span) -> bool {
        let ends_before = |a: &Span, b: &Span| a.end.as_ref().is_some_and(|end| *end <= b.low);
        !ends_before(self, other) && !ends_before(other, self)
    }

    /// The keys that lie in both spans.
    pub fn within(&self, other: &Span) -> Span {
        let ends = [&self.end, &other.end].into_iter().flatten();
        Span { low: self.low.clone().max(other.low.clone()), end: ends.min().cloned() }
    }
}

impl From<&KeyRange> for Span {
    /// The keys of `range`: `high` with a zero byte appended is the first key behind `high`.
    fn from(range: &KeyRange) -> Span {
        Span { low: range.low.clone(), end: Some([range.high.as_slice(), &[0]].concat()) }
    }
}

/// The number of leading bytes that two keys share.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return shared + (differing.trailing_zeros() / 8) as usize;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(a, b)| a == b).count()
}

/// The first eight bytes of a key as a big-endian number, short keys padded with zeros. Keys with different numbers compare as the
/// numbers do. Keys with equal numbers have to be compared whole.
pub fn prefix_u64(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// The keys that start with `prefix`, as bounds.
pub fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return (Bound::Included(prefix.to_vec()), Bound::Excluded(end));
        }
    }
    (Bound::Included(prefix.to_vec()), Bound::Unbounded)
}

/// The hash of a user key: XXH3, 64 bits.
pub fn hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_sort_as_keys_do() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"abcdefgh", b"abcdefghi", b"b"];
        for pair in keys.windows(2) {
            assert!(prefix_u64(pair[0]) <= prefix_u64(pair[1]));
        }
    }

    #[test]
    fn prefix_bounds_end_after_the_last_key() {
        assert_eq!(prefix_bounds(b"a\xff\xff").1, Bound::Excluded(b"b".to_vec()));
        assert_eq!(prefix_bounds(b"\xff").1, Bound::Unbounded);
        assert_eq!(prefix_bounds(b"").1, Bound::Unbounded);
    }
}
