//! A sample of keys: the keys whose hash ends in six zero bits, in key order.
//!
//! Whether a key is in the sample depends only on the key. Samples of several tables therefore tell how many keys the tables share, in
//! any range of keys. The part of a sample in a range is the sample of the range. The keys that two samples share are the sample of the
//! keys that the tables share.
//!
//! *Why six.* One key in 64 is written twice. For keys of 16 bytes a sample takes a quarter byte a key, where the filter takes 1.25. A
//! cell of 64 MiB with entries of 1 KiB has a thousand samples. If one key in five stands in two of its runs, 200 samples do, with a
//! standard error of about 14. The share is then known as 20% ± 1.4%. With fewer samples than [`LEAST`] the error would be ± 4% or
//! worse, and the samples are not used.
//!
//! ```text
//! per key, ascending
//!   length  varint
//!   key
//! ```

use super::codec::{Decoder, put_bytes};
use super::key::KeyRange;
use std::ops::Range;

/// Zero bits at the end of a sampled key's hash: 6 samples one key in 64. The module's head says why.
pub const ZERO_BITS: u32 = 6;
/// Fewest samples that are used: with fewer, a share of 20% would have an error of ± 4% or worse.
pub const LEAST: u64 = 128;

/// A sample of keys, in key order. The module's head describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The keys one after the other, and the end of each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Sample {
    /// Adds `key`, the next key in order, if its `hash` selects it.
    #[inline]
    pub fn offer(&mut self, key: &[u8], hash: u64) {
        if hash.trailing_zeros() >= ZERO_BITS {
            self.push(key);
        }
    }

    /// Adds `key` behind all others, whatever its hash.
    pub fn push(&mut self, key: &[u8]) {
        debug_assert!(self.ends.is_empty() || self.key(self.ends.len() - 1) < key, "keys come in order");
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The sampled keys in a range.
    pub fn within(&self, range: &KeyRange) -> impl ExactSizeIterator<Item = &[u8]> {
        let start = self.first(|key| key >= range.low.as_slice());
        let end = self.first(|key| key > range.high.as_slice());
        (start..end.max(start)).map(|at| self.key(at))
    }

    /// The index of the first key for which `is_behind` holds. It must hold for all later keys too.
    fn first(&self, is_behind: impl Fn(&[u8]) -> bool) -> usize {
        let mut places: Range<usize> = 0..self.ends.len();
        while !places.is_empty() {
            let middle = places.start.midpoint(places.end);
            if is_behind(self.key(middle)) {
                places.end = middle;
            } else {
                places.start = middle + 1;
            }
        }
        places.start
    }

    fn key(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Bytes of [`Sample::encode`], estimated: the length of a short key takes one byte.
    pub fn encoded_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        (0..self.ends.len()).for_each(|at| put_bytes(out, self.key(at)));
    }

    /// Decodes a sample. `None` if `bytes` are not the encoding of a sample.
    pub fn decode(bytes: &[u8]) -> Option<Sample> {
        let mut sample = Sample::default();
        let mut decoder = Decoder::new(bytes);
        let mut last: Option<&[u8]> = None;
        while !decoder.is_empty() {
            let key = decoder.bytes()?;
            if last.is_some_and(|last| last >= key) {
                return None;
            }
            sample.push(key);
            last = Some(key);
        }
        sample.bytes.shrink_to_fit();
        sample.ends.shrink_to_fit();
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::hash;

    fn sample(keys: impl Iterator<Item = u32>) -> Sample {
        let mut sample = Sample::default();
        keys.for_each(|key| sample.offer(&key.to_be_bytes(), hash(&key.to_be_bytes())));
        sample
    }

    fn encoded(sample: &Sample) -> Vec<u8> {
        let mut bytes = Vec::new();
        sample.encode(&mut bytes);
        bytes
    }

    fn range(low: u32, high: u32) -> KeyRange {
        KeyRange::new(low.to_be_bytes(), high.to_be_bytes())
    }

    #[test]
    fn one_key_in_64_is_taken_and_comes_back() {
        for keys in [0, 1, 100, 10_000, 200_000] {
            let sample = sample(0..keys);
            let bytes = encoded(&sample);
            assert_eq!(
                (Sample::decode(&bytes).as_ref(), bytes.len()),
                (Some(&sample), sample.encoded_bytes())
            );
            let (taken, expected) = (sample.ends.len() as f64, f64::from(keys) / 64.0);
            assert!((taken - expected).abs() <= 3.0 * expected.sqrt(), "{taken} of {keys}");
            assert!(sample.memory_bytes() >= 12 * sample.ends.len());
        }
    }

    #[test]
    fn a_stretch_of_a_sample_is_the_sample_of_the_stretch() {
        let whole = sample((0..30_000).map(|key| 3 * key));
        for (low, high) in [(0, 90_000), (0, 0), (3_000, 6_001), (89_000, 95_000), (95_000, 99_000), (7, 8)] {
            let stretch = sample((0..30_000).map(|key| 3 * key).filter(|key| (low..=high).contains(key)));
            let everything = range(0, u32::MAX);
            assert!(whole.within(&range(low, high)).eq(stretch.within(&everything)), "{low} {high}");
        }
        let member = whole.key(17).to_vec();
        let alone = KeyRange::new(member.clone(), member.clone());
        assert!(whole.within(&alone).eq([member.as_slice()]), "both ends belong to a range");
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        let bytes = encoded(&sample(0..1_000));
        for len in (1..bytes.len()).filter(|len| len % 5 != 0) {
            assert_eq!(Sample::decode(&bytes[..len]), None, "cut to {len}");
        }
        assert_eq!(Sample::decode(&[1, b'b', 1, b'a']), None, "out of order");
        assert_eq!(Sample::decode(&[1, b'b', 1, b'b']), None, "a key twice");
        assert_eq!(Sample::decode(&[0xff; 10]), None, "no length");
        assert_eq!(Sample::decode(&[200, 1, b'a']), None, "longer than the bytes");
        assert!(Sample::decode(&[0, 1, b'a']).is_some(), "the empty key is a key");
    }
}
