//! A HyperLogLog sketch: estimates how many different keys a set, or a union of sets, has, from 4 KiB a set.
//!
//! Each of 4096 registers keeps the largest *rank* of its hashes. The first 12 bits of a hash choose the register. The rank is the
//! position of the first one bit behind them. The estimate is Ertl's (*New cardinality estimation algorithms for HyperLogLog sketches*,
//! 2017, section 4). It has no bias from one key to 2^64, and so needs no table of corrections and no switch between small and large
//! ranges. Its standard error is 1.04 / √4096 = 1.6%; with few keys it is less.
//!
//! ```text
//! either  4096 × u8   all registers
//! or      fewer bytes; per register that is not 0, ascending:
//!         skipped  varint  registers that are 0 in front of it
//!         rank     u8      1 to 53
//! ```
//!
//! The shorter encoding is written, so a small table does not pay for a large table's sketch.

use super::codec::{Decoder, put_varint};

const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 12;
/// The largest rank: all bits behind the index are 0.
const MOST: usize = 64 - INDEX_BITS as usize + 1;

/// A HyperLogLog sketch. The module's head describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    ranks: Box<[u8; REGISTERS]>,
}

impl Default for Sketch {
    /// The sketch of no keys.
    fn default() -> Sketch {
        Sketch { ranks: Box::new([0; REGISTERS]) }
    }
}

impl Sketch {
    /// Bytes of memory held.
    pub const BYTES: usize = REGISTERS;

    /// Adds the key with this hash.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        let register = &mut self.ranks[(hash >> (64 - INDEX_BITS)) as usize];
        // The bit behind the hash's last bit ends the search for a one bit.
        let rank = 1 + ((hash << INDEX_BITS) | (1 << (INDEX_BITS - 1))).leading_zeros() as u8;
        *register = rank.max(*register);
    }

    /// Becomes the sketch of the union of both sets.
    pub fn unite(&mut self, other: &Sketch) {
        for (rank, other) in self.ranks.iter_mut().zip(other.ranks.iter()) {
            *rank = (*rank).max(*other);
        }
    }

    /// The estimated number of different keys that were added.
    pub fn estimate(&self) -> f64 {
        let mut counts = [0u32; MOST + 1];
        self.ranks.iter().for_each(|&rank| counts[usize::from(rank)] += 1);
        let share = |rank: usize| f64::from(counts[rank]) / REGISTERS as f64;
        if counts[0] == REGISTERS as u32 {
            return 0.0;
        }
        let mut sum = tau(1.0 - share(MOST));
        for rank in (1..MOST).rev() {
            sum = 0.5 * (sum + share(rank));
        }
        sum += sigma(share(0));
        REGISTERS as f64 / (2.0 * std::f64::consts::LN_2 * sum)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut next = 0;
        for (register, &rank) in self.ranks.iter().enumerate().filter(|(_, rank)| **rank > 0) {
            put_varint(out, (register - next) as u64);
            out.push(rank);
            next = register + 1;
        }
        if out.len() - start >= REGISTERS {
            out.truncate(start);
            out.extend_from_slice(&*self.ranks);
        }
    }

    /// Decodes a sketch. `None` if `bytes` are not the encoding of a sketch.
    pub fn decode(bytes: &[u8]) -> Option<Sketch> {
        let mut sketch = Sketch::default();
        if bytes.len() == REGISTERS {
            sketch.ranks.copy_from_slice(bytes);
        } else {
            let (mut decoder, mut next) = (Decoder::new(bytes), 0);
            while !decoder.is_empty() {
                let register = usize::try_from(decoder.varint()?).ok()?.checked_add(next)?;
                let rank = decoder.u8().filter(|&rank| rank > 0)?;
                *sketch.ranks.get_mut(register)? = rank;
                next = register + 1;
            }
        }
        let is_sound = bytes.len() <= REGISTERS && sketch.ranks.iter().all(|&rank| usize::from(rank) <= MOST);
        is_sound.then_some(sketch)
    }
}

/// Ertl's σ: the share of the registers that are still 0, for small sets.
fn sigma(mut x: f64) -> f64 {
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        // The squares of a number below 1 soon vanish.
        if sum == before {
            return sum;
        }
    }
}

/// Ertl's τ: the share of the registers at the largest rank, for sets near 2^64.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::hash;

    /// Three standard errors, for sets of any size.
    const BOUND: f64 = 0.05;

    /// The hashes of keys number `from` up to `to` of a series: counted up, or spread over all numbers of 64 bits.
    fn keys(is_random: bool, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let key = move |n: u64| if is_random { hash(&(n << 20 | 0xf00d).to_le_bytes()) } else { n };
        (from..to).map(move |n| hash(&key(n).to_be_bytes()))
    }

    fn sketch(hashes: impl Iterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::default();
        hashes.for_each(|hash| sketch.add(hash));
        sketch
    }

    fn error(estimate: f64, exact: u64) -> f64 {
        (estimate / exact as f64 - 1.0).abs()
    }

    #[test]
    fn counts_of_all_sizes_are_near() {
        for is_random in [false, true] {
            let (mut sketch, mut exact, mut squares, mut sizes) = (Sketch::default(), 0, 0.0, 0);
            while exact < 1_000_000 {
                let more = 1 + exact / 8;
                keys(is_random, exact, exact + more).for_each(|hash| sketch.add(hash));
                exact += more;
                let error = error(sketch.estimate(), exact);
                assert!(error < BOUND, "{exact} keys: {}", sketch.estimate());
                // Up to 30 keys the estimate is nearly exact.
                assert!(exact > 30 || error < 0.01, "{exact} keys: {}", sketch.estimate());
                squares += error * error;
                sizes += 1;
            }
            assert!((squares / f64::from(sizes)).sqrt() < 0.02);
        }
    }

    #[test]
    fn independent_sets_err_as_theory_says() {
        let mut squares = 0.0;
        for set in 0..200 {
            let sketch = sketch(keys(true, set * 100_000, set * 100_000 + 20_000));
            squares += error(sketch.estimate(), 20_000).powi(2);
        }
        let deviation = (squares / 200.0).sqrt();
        assert!((0.012..0.020).contains(&deviation), "{deviation}");
    }

    #[test]
    fn unions_count_each_key_once() {
        for is_random in [false, true] {
            for size in [1u64, 10, 100, 1_000, 10_000, 100_000, 300_000] {
                for shared in [0, size / 3, size / 2, size] {
                    let one = sketch(keys(is_random, 0, size));
                    let other = sketch(keys(is_random, size - shared, 2 * size - shared));
                    let mut union = one.clone();
                    union.unite(&other);
                    let error = error(union.estimate(), 2 * size - shared);
                    assert!(error < BOUND, "{size} and {size} keys, {shared} shared: {}", union.estimate());
                    let mut reverse = other.clone();
                    reverse.unite(&one);
                    assert_eq!(union, reverse);
                    assert_eq!(union, sketch(keys(is_random, 0, 2 * size - shared)), "as of one set");
                }
            }
        }
    }

    #[test]
    fn nothing_and_the_extremes_are_counted() {
        assert_eq!(Sketch::default().estimate(), 0.0);
        let one = sketch([0].into_iter());
        assert_eq!((one.ranks[0], usize::from(one.ranks[0])), (53, MOST));
        assert!(error(one.estimate(), 1) < 0.001);
        assert_eq!(sketch([u64::MAX].into_iter()).ranks[REGISTERS - 1], 1);
        let full = Sketch { ranks: Box::new([MOST as u8; REGISTERS]) };
        assert!(full.estimate() > 1e18);
    }

    #[test]
    fn they_come_back_and_small_ones_are_short() {
        for size in [0, 1, 10, 100, 1_000, 2_200, 2_800, 5_000, 100_000] {
            let sketch = sketch(keys(true, 0, size));
            let mut bytes = Vec::new();
            sketch.encode(&mut bytes);
            assert_eq!(Sketch::decode(&bytes), Some(sketch));
            assert!(bytes.len() as u64 <= (3 * size).min(REGISTERS as u64), "{} for {size}", bytes.len());
        }
    }

    #[test]
    fn what_is_no_sketch_is_refused() {
        let mut bytes = Vec::new();
        sketch(keys(true, 0, 50)).encode(&mut bytes);
        assert_eq!(Sketch::decode(&bytes[..bytes.len() - 1]), None, "a register without its rank");
        assert_eq!(Sketch::decode(&[0, 0]), None, "a register that is not there");
        assert_eq!(Sketch::decode(&[0, 54]), None, "an impossible rank");
        assert_eq!(Sketch::decode(&[0x80, 0x20, 1]), None, "a register too far");
        assert_eq!(Sketch::decode(&[0xff; 10]), None, "no number");
        assert_eq!(Sketch::decode(&[54; REGISTERS]), None, "an impossible rank among all");
        assert_eq!(Sketch::decode(&[1; REGISTERS + 2]), None, "too long");
    }
}
