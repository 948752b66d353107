//! The index of a table: for each data block, a separator and the place of the block.
//!
//! ```text
//! per block  shared    varint  leading bytes taken from the separator before
//!            unshared  varint
//!            suffix
//!            length    varint  of the block's payload; blocks follow one another from byte 0, each with its trailer
//! ```
//!
//! A separator is at or after the last key of its block, and before the first key of the next block. It is as short as
//! possible. If the versions of one key go on in the next block, the separator is this key. The last separator is the
//! largest key of the table.
//!
//! At the end of a part of the table, the separator is beyond the last key if any key lies between. So a reader that
//! walks up to the last key does not look into the next part.
//!
//! In memory, the separators lose their common prefix. The next eight bytes of each separator are in an array of
//! numbers ([`Prefixes`]). A search compares these numbers, and whole keys only among equal numbers.

use super::prefixes::Prefixes;
use super::section::{Flaw, TRAILER_BYTES};
use crate::base::codec::{Decoder, put_varint};
use crate::base::key::{common_prefix, prefix_u64};

/// What follows a block in the table.
#[derive(Clone, Copy, Debug)]
pub enum Next<'a> {
    /// Another block, which starts with this key.
    Key(&'a [u8]),
    /// Another part of the table, which starts with this key.
    Part(&'a [u8]),
    Nothing,
}

/// Writes the index while the blocks are written.
#[derive(Debug, Default)]
pub struct IndexWriter {
    out: Vec<u8>,
    last: Vec<u8>,
}

impl IndexWriter {
    /// Adds a block of `length` bytes that ends with `last`.
    pub fn add(&mut self, last: &[u8], next: Next<'_>, length: usize) {
        let mut separator = match next {
            Next::Key(key) | Next::Part(key) => separator(last, key),
            Next::Nothing => last.to_vec(),
        };
        if let Next::Part(key) = next
            && separator == last
        {
            // The least key beyond `last`, which may be the next key itself.
            let beyond = [last, &[0]].concat();
            separator = if beyond == key { separator } else { beyond };
        }
        let shared = common_prefix(&self.last, &separator);
        put_varint(&mut self.out, shared as u64);
        put_varint(&mut self.out, (separator.len() - shared) as u64);
        self.out.extend_from_slice(&separator[shared..]);
        put_varint(&mut self.out, length as u64);
        self.last = separator;
    }

    pub fn bytes(&self) -> usize {
        self.out.len()
    }

    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// A short key at or after `last` and before `next`; `last` itself if the two are equal.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = common_prefix(last, next);
    debug_assert!(last <= next);
    if shared == last.len() {
        return last.to_vec();
    }
    // The keys differ here, and `last` has the smaller byte.
    let step = last[shared] + 1;
    if step < next[shared] || shared + 1 < next.len() {
        let mut short = last[..shared].to_vec();
        short.push(step);
        return short;
    }
    // At this length only `next` itself remains, so a later byte of `last` is incremented.
    match last[shared + 1..].iter().position(|&byte| byte < u8::MAX) {
        Some(at) => {
            let mut short = last[..=shared + 1 + at].to_vec();
            short[shared + 1 + at] += 1;
            short
        }
        None => last.to_vec(),
    }
}

/// The index in memory.
#[derive(Debug)]
pub struct Index {
    /// The prefix that all separators share.
    common: Vec<u8>,
    /// The eight bytes of each separator after `common`.
    prefixes: Prefixes,
    /// The separators without `common`, one after the other.
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// The offset of each block; the last element is the end of the last block with its trailer.
    starts: Vec<u64>,
}

impl Index {
    /// Reads the index of a table whose data blocks take the first `data_bytes`.
    pub fn decode(payload: &[u8], data_bytes: u64) -> Result<Index, Flaw> {
        let (mut starts, mut whole, mut ends) = (vec![0], Vec::new(), Vec::new());
        let mut decoder = Decoder::new(payload);
        let mut last = 0..0;
        while !decoder.is_empty() {
            let (shared, suffix, length) =
                entry(&mut decoder).ok_or(Flaw::Malformed("the index is malformed"))?;
            if shared > last.len() {
                return Err(Flaw::Malformed("a separator shares more than the one before it has"));
            }
            let start = whole.len();
            whole.extend_from_within(last.start..last.start + shared);
            whole.extend_from_slice(suffix);
            ends.push(
                u32::try_from(whole.len())
                    .map_err(|_| Flaw::Malformed("the separators take more than 4 GiB"))?,
            );
            if whole[start..] < whole[last] {
                return Err(Flaw::Malformed("the separators are out of order"));
            }
            last = start..whole.len();
            let end = length
                .checked_add(TRAILER_BYTES as u64)
                .and_then(|bytes| bytes.checked_add(starts[starts.len() - 1]));
            starts.push(
                end.filter(|&end| end <= data_bytes)
                    .ok_or(Flaw::Malformed("a block lies outside of the table"))?,
            );
        }
        if ends.is_empty() || starts.last() != Some(&data_bytes) {
            return Err(Flaw::Malformed("the blocks do not fill their part of the table"));
        }
        starts.shrink_to_fit();
        Ok(Index::strip(&whole, &ends, starts))
    }

    /// Removes the common prefix from the separators. They are sorted, so the first and the last separator share
    /// exactly this prefix.
    fn strip(whole: &[u8], ends: &[u32], starts: Vec<u64>) -> Index {
        let separator = |i: usize| &whole[if i == 0 { 0 } else { ends[i - 1] as usize }..ends[i] as usize];
        let common = separator(0)[..common_prefix(separator(0), separator(ends.len() - 1))].to_vec();
        let mut keys = Vec::with_capacity(whole.len() - common.len() * ends.len());
        let mut prefixes = Vec::with_capacity(ends.len());
        let mut key_ends = Vec::with_capacity(ends.len());
        for i in 0..ends.len() {
            let rest = &separator(i)[common.len()..];
            prefixes.push(prefix_u64(rest));
            keys.extend_from_slice(rest);
            key_ends.push(keys.len() as u32);
        }
        Index { common, prefixes: Prefixes::new(&prefixes), keys, key_ends, starts }
    }

    /// Number of data blocks.
    pub fn blocks(&self) -> usize {
        self.key_ends.len()
    }

    /// The offset of block `i`; for `i` equal to the number of blocks, the end of the last block.
    pub fn start(&self, i: usize) -> u64 {
        self.starts[i]
    }

    /// The first block whose separator is at or after `key`: the only one where `key` can start.
    pub fn first_at_or_after(&self, key: &[u8]) -> usize {
        self.first(key, |separator, rest| separator >= rest)
    }

    /// The first block whose separator is after `key`.
    pub fn first_after(&self, key: &[u8]) -> usize {
        self.first(key, |separator, rest| separator > rest)
    }

    /// The first block whose separator is `beyond` the key. Numbers decide first; `beyond` compares the rests only
    /// among equal numbers.
    fn first(&self, key: &[u8], beyond: impl Fn(&[u8], &[u8]) -> bool) -> usize {
        let Some(rest) = key.strip_prefix(self.common.as_slice()) else {
            return if key < self.common.as_slice() { 0 } else { self.blocks() };
        };
        let prefix = prefix_u64(rest);
        let mut low = self.prefixes.smaller(prefix);
        let mut high = low + equal_at_start(&self.prefixes.all()[low..], prefix);
        while low < high {
            let middle = low.midpoint(high);
            if beyond(self.rest(middle), rest) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// How the separator of block `i` compares with `key`.
    pub fn compare(&self, i: usize, key: &[u8]) -> std::cmp::Ordering {
        match key.strip_prefix(self.common.as_slice()) {
            Some(rest) => self.rest(i).cmp(rest),
            // All separators start with `common` and the key does not, so all compare alike with the key.
            None => self.common.as_slice().cmp(key),
        }
    }

    /// The separator of block `i`.
    pub fn separator(&self, i: usize) -> Vec<u8> {
        [self.common.as_slice(), self.rest(i)].concat()
    }

    /// The separator of block `i` after the common part.
    fn rest(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.key_ends[i - 1] };
        &self.keys[start as usize..self.key_ends[i] as usize]
    }

    /// Memory of the index in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.common.capacity()
            + self.keys.capacity()
            + self.prefixes.memory_bytes()
            + 4 * self.key_ends.capacity()
            + 8 * self.starts.capacity()
    }
}

/// How many of the ascending numbers, none of which is smaller than `number`, equal it. Mostly none or few do, so the search doubles its
/// steps from the first number on.
fn equal_at_start(numbers: &[u64], number: u64) -> usize {
    let mut step = 1;
    while numbers.get(step - 1) == Some(&number) {
        step *= 2;
    }
    let (low, high) = (step / 2, (step - 1).min(numbers.len()));
    low + numbers[low..high].partition_point(|&other| other == number)
}

fn entry<'a>(decoder: &mut Decoder<'a>) -> Option<(usize, &'a [u8], u64)> {
    let shared = usize::try_from(decoder.varint()?).ok()?;
    let suffix = decoder.bytes()?;
    Some((shared, suffix, decoder.varint()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    #[test]
    fn separators_are_short_and_lie_between() {
        let cases: [(&[u8], &[u8], &[u8]); 13] = [
            (b"abc", b"abz", b"abd"),
            (b"abc", b"abd", b"abc"),
            (b"abc", b"abde", b"abd"),
            (b"abcdef", b"abd", b"abce"),
            (b"abc\x7fx", b"abd", b"abc\x80"),
            (b"abc", b"abcd", b"abc"),
            (b"same", b"same", b"same"),
            (b"", b"a", b""),
            (b"banana", b"x", b"c"),
            (b"a\xff\xff\x01x", b"b", b"a\xff\xff\x02"),
            (b"a\xff", b"b", b"a\xff"),
            (b"a\x00", b"b", b"a\x01"),
            (b"a\xff\xff", b"b\x00", b"b"),
        ];
        for (last, next, expected) in cases {
            let short = separator(last, next);
            assert_eq!(short.escape_ascii().to_string(), expected.escape_ascii().to_string());
            assert!(short.as_slice() >= last && (short.as_slice() < next || last == next));
        }
    }

    #[test]
    fn equal_numbers_are_counted() {
        for equal in 0..40 {
            for more in [0, 1, 5] {
                let numbers = [vec![5; equal], vec![6; more]].concat();
                assert_eq!(equal_at_start(&numbers, 5), equal);
            }
        }
    }

    #[test]
    fn at_the_end_of_a_part_a_separator_is_beyond_the_last_key() {
        for (last, next, expected) in
            [("abc", "abd", "abc\0"), ("abc", "abe", "abd"), ("abc", "abc\0", "abc")]
        {
            let mut writer = IndexWriter::default();
            writer.add(last.as_bytes(), Next::Part(next.as_bytes()), 50);
            assert_eq!(writer.last, expected.as_bytes());
        }
    }

    fn index(separators: &[&str]) -> Index {
        let mut writer = IndexWriter::default();
        for (i, separator) in separators.iter().enumerate() {
            writer.add(separator.as_bytes(), Next::Nothing, 100 + i);
        }
        let data_bytes = (0..separators.len()).map(|i| (100 + i + TRAILER_BYTES) as u64).sum();
        assert!(Index::decode(&writer.out, data_bytes + 1).is_err(), "a gap after the blocks");
        assert!(Index::decode(&writer.out, data_bytes - 1).is_err(), "the last block does not fit");
        Index::decode(&writer.finish(), data_bytes).unwrap()
    }

    #[test]
    fn searches_agree_with_the_plain_order() {
        let sets: [&[&str]; 5] = [
            &["m"],
            &["", "a", "a", "a", "b"],
            &["key1", "key2", "key2", "key3"],
            &["path/to/aaaaaaaa", "path/to/aaaaaaaab", "path/to/aaaaaaaac", "path/to/b"],
            &["x", "x\0", "x\0\0\0\0\0\0\0\0", "x\0\0\0\0\0\0\0\0\0", "y"],
        ];
        let keys = [
            "",
            "a",
            "aa",
            "b",
            "k",
            "key",
            "key2",
            "key20",
            "key4",
            "m",
            "mm",
            "path/to/",
            "path/to/aaaaaaaab",
        ];
        for set in sets {
            let index = index(set);
            for key in keys.iter().chain(set) {
                let bytes = key.as_bytes();
                let expected = set.iter().position(|s| s >= key).unwrap_or(set.len());
                assert_eq!(index.first_at_or_after(bytes), expected, "{key:?} in {set:?}");
                let expected = set.iter().position(|s| s > key).unwrap_or(set.len());
                assert_eq!(index.first_after(bytes), expected, "{key:?} in {set:?}");
                for (i, separator) in set.iter().enumerate() {
                    assert_eq!(index.compare(i, bytes), separator.cmp(key), "{key:?} with {separator:?}");
                }
            }
            assert_eq!(index.start(0), 0);
            assert_eq!(index.start(set.len()), index.starts[set.len()]);
        }
        assert_eq!(index(&["b"]).compare(0, b"a"), Ordering::Greater);
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut writer = IndexWriter::default();
        for (last, next) in
            [("apple", Next::Key(b"banana")), ("beta", Next::Key(b"beta")), ("gamma", Next::Nothing)]
        {
            writer.add(last.as_bytes(), next, 50);
        }
        let payload = writer.finish();
        assert!(Index::decode(&[], 0).is_err());
        for len in 0..payload.len() {
            assert!(Index::decode(&payload[..len], 165).is_err(), "{len}");
        }
        for bit in 0..payload.len() * 8 {
            let mut bent = payload.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            if let Ok(index) = Index::decode(&bent, 165) {
                assert!(index.first_at_or_after(b"b") <= 3);
            }
        }
        let mut unsorted = IndexWriter::default();
        unsorted.add(b"b", Next::Nothing, 1);
        unsorted.add(b"a", Next::Nothing, 1);
        assert!(Index::decode(&unsorted.finish(), 12).is_err());
    }
}
