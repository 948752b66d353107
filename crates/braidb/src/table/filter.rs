//! The Bloom filter of a table, and of a segment in memory: one lookup touches one cache line.
//!
//! ```text
//! lines   n × 64 bytes, each a little bit string of 512 bits: bit b is bit b % 8 of byte b / 8
//! probes  u8   bits that a key sets in its line, 1 to 16
//! ```
//!
//! A key is identified by its 64-bit hash. The upper half selects the line: `(hash >> 32) * n >> 32`. The bits in the
//! line are the top nine bits of `hash * K`, `hash * K^2`, … (modulo 2^64; K = 0x9e3779b97f4a7c15). Each bit costs one
//! multiplication. In a line of 512 bits this spreads better than stepping by a second hash.

use super::section::Flaw;
use crate::base::prefetch;

const LINE_BYTES: usize = 64;
const MAX_PROBES: u8 = 16;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A cache line of the filter.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; 8]);

/// A filter in memory.
#[derive(Debug)]
pub struct Filter {
    lines: Vec<Line>,
    probes: u8,
}

impl Filter {
    /// Builds a filter over distinct hashes; `bits_per_key` is at least 1.
    pub fn build(hashes: &[u64], bits_per_key: u32) -> Filter {
        let mut filter = Filter {
            lines: vec![Line([0; 8]); line_count(hashes.len(), bits_per_key)],
            probes: probes(bits_per_key),
        };
        for &hash in hashes {
            let place = line_of(hash, filter.lines.len());
            let line = &mut filter.lines[place];
            for bit in bits(hash, filter.probes) {
                line.0[bit / 64] |= 1 << (bit % 64);
            }
        }
        filter
    }

    /// `false` only if no key with this hash was added.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[line_of(hash, self.lines.len())];
        // Tests all bits without a branch, because the processor cannot predict at which bit an early exit would come.
        bits(hash, self.probes).fold(1, |found, bit| found & (line.0[bit / 64] >> (bit % 64))) & 1 == 1
    }

    /// Prefetches the line that [`Filter::may_contain`] reads.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch::line(&self.lines[line_of(hash, self.lines.len())]);
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        for word in self.lines.iter().flat_map(|line| line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.push(self.probes);
    }

    pub fn decode(payload: &[u8]) -> Result<Filter, Flaw> {
        let (&probes, bytes) = payload.split_last().ok_or(Flaw::Malformed("the filter is empty"))?;
        let (lines, rest) = bytes.as_chunks::<LINE_BYTES>();
        if lines.is_empty() || !rest.is_empty() || u32::try_from(lines.len()).is_err() {
            return Err(Flaw::Malformed("the filter has an impossible length"));
        }
        if !(1..=MAX_PROBES).contains(&probes) {
            return Err(Flaw::Malformed("the filter has an impossible number of probes"));
        }
        let lines = lines.iter().map(|line| {
            let (words, _) = line.as_chunks::<8>();
            Line(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
        });
        Ok(Filter { lines: lines.collect(), probes })
    }

    /// Memory of the filter in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.lines.capacity() * LINE_BYTES
    }
}

/// The line, of `lines` (less than 2^32), in which a key has its bits.
#[inline]
pub fn line_of(hash: u64, lines: usize) -> usize {
    // The product fits 64 bits, and the quotient is below `lines`.
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// Bytes on disk of a filter over `keys` keys.
pub fn encoded_bytes(keys: usize, bits_per_key: u32) -> usize {
    line_count(keys, bits_per_key) * LINE_BYTES + 1
}

fn line_count(keys: usize, bits_per_key: u32) -> usize {
    let bits = keys as u64 * u64::from(bits_per_key);
    let lines = bits.div_ceil(8 * LINE_BYTES as u64).clamp(1, u64::from(u32::MAX));
    lines as usize
}

/// The best number of probes: a little below bits × ln 2, because lines are not filled evenly.
fn probes(bits_per_key: u32) -> u8 {
    (bits_per_key.saturating_mul(6).saturating_add(5) / 10).clamp(1, u32::from(MAX_PROBES)) as u8
}

/// The bits of a key in its line.
#[inline]
pub fn bits(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    let mut state = hash;
    (0..probes).map(move |_| {
        state = state.wrapping_mul(STEP);
        (state >> 55) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key;

    fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
        range.map(|i| key::hash(&i.to_be_bytes())).collect()
    }

    fn false_positives(keys: u64, bits_per_key: u32) -> f64 {
        let filter = Filter::build(&hashes(0..keys), bits_per_key);
        let asked = hashes(keys..keys + 100_000);
        asked.iter().filter(|&&hash| filter.may_contain(hash)).count() as f64 / asked.len() as f64
    }

    #[test]
    fn every_key_passes() {
        for (keys, bits_per_key) in [(1, 1), (1, 10), (1000, 10), (5000, 3), (5000, 40)] {
            let hashes = hashes(0..keys);
            let filter = Filter::build(&hashes, bits_per_key);
            assert!(hashes.iter().all(|&hash| filter.may_contain(hash)), "{keys} keys, {bits_per_key} bits");
        }
    }

    #[test]
    fn strangers_seldom_pass() {
        let rate = false_positives(100_000, 10);
        assert!(rate < 0.013, "10 bits a key: {rate}");
        let rate = false_positives(100_000, 16);
        assert!(rate < 0.003, "16 bits a key: {rate}");
        let rate = false_positives(100_000, 5);
        assert!(rate < 0.12, "5 bits a key: {rate}");
    }

    #[test]
    fn a_filter_comes_back() {
        let hashes = hashes(0..1000);
        let mut payload = Vec::new();
        Filter::build(&hashes, 10).encode(&mut payload);
        assert_eq!(payload.len(), encoded_bytes(1000, 10));
        let filter = Filter::decode(&payload).unwrap();
        let mut again = Vec::new();
        filter.encode(&mut again);
        assert_eq!(payload, again);
        assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
    }

    #[test]
    fn nonsense_is_refused() {
        for payload in [&[][..], &[6], &[0; 64], &[0; 65], &[17; 65], &[1; 66]] {
            assert!(Filter::decode(payload).is_err(), "{} bytes", payload.len());
        }
        assert!(Filter::decode(&[6; 65]).is_ok());
    }
}
