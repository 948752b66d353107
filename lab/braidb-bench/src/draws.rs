//! Random draws that a seed fixes: keys in random order or drawn unevenly, and bytes that do not compress.
//!
//! All stores are given the same keys in the same order with the same values.

/// A hash of a number: the finalizer of SplitMix64.
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The place of `number` in a random order of all numbers below `count`. A Feistel network permutes the numbers below the next power of
/// four. It is applied repeatedly until the result is below `count`.
pub fn shuffled(number: u64, count: u64, seed: u64) -> u64 {
    let half_bits = (64 - (count - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1 << half_bits) - 1;
    let mut place = number;
    loop {
        let (mut left, mut right) = (place >> half_bits, place & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (mix(right ^ mix(seed ^ round)) & mask));
        }
        place = left << half_bits | right;
        if place < count {
            return place;
        }
    }
}

/// Fills `key` with a number's decimal digits and leading zeros: keys sort in the order of their numbers.
pub fn write_decimal(number: u64, key: &mut [u8]) {
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// The random bytes from which values are cut.
#[derive(Debug)]
pub struct Noise(Vec<u8>);

/// The number of places in the noise where values start. 2^20 bytes fit into the second-level cache, and few values are alike.
const NOISE_STARTS: usize = 1 << 20;

/// The number of versions of a key's value. The versions start at neighbouring places in the noise, one for each write in turn. So a read
/// can check a value against its key without a table of what was written.
const VERSIONS: u64 = 8;

impl Noise {
    /// Makes noise for values of `value_bytes` bytes.
    pub fn new(seed: u64, value_bytes: usize) -> Noise {
        let words = (value_bytes + NOISE_STARTS + VERSIONS as usize).div_ceil(8) as u64;
        Noise((0..words).flat_map(|word| mix(seed ^ mix(word)).to_le_bytes()).collect())
    }

    /// The value of `number`.
    pub fn value(&self, number: u64, value_bytes: usize) -> &[u8] {
        let start = mix(number) as usize % NOISE_STARTS;
        &self.0[start..start + value_bytes]
    }

    /// The value that operation `operation` writes under the key of `number`.
    pub fn version(&self, number: u64, operation: u64, value_bytes: usize) -> &[u8] {
        let start = mix(number) as usize % NOISE_STARTS + (operation % VERSIONS) as usize;
        &self.0[start..start + value_bytes]
    }

    /// Whether `value` is a version that was written under the key of `number`. Compares all of its bytes.
    pub fn is_version(&self, number: u64, value: &[u8]) -> bool {
        let start = mix(number) as usize % NOISE_STARTS;
        (start..start + VERSIONS as usize).any(|start| &self.0[start..start + value.len()] == value)
    }
}

/// The default skew of [`Zipfian`], which is YCSB's constant: rank `r`, from 1 on, is drawn in proportion to `1 / r^0.99`.
pub const YCSB_EXPONENT: f64 = 0.99;

/// Numbers below a count, of which few are drawn often. The method is the one of Gray et al., "Quickly generating billion-record synthetic
/// databases" (SIGMOD 1994), which YCSB uses. It finds a rank from one random fraction: the first two ranks exactly, the others by
/// inverting an integral.
#[derive(Debug)]
pub struct Zipfian {
    count: u64,
    exponent: f64,
    /// The sum of `1 / r^exponent` over all ranks.
    zeta: f64,
    alpha: f64,
    eta: f64,
    /// Whether rank `r` is number `r`. Otherwise ranks are spread over all numbers.
    is_in_key_order: bool,
}

/// The seed that spreads ranks over the numbers. It is fixed, so that the hot numbers depend on the count alone. Another seed of a run
/// changes the order of draws, but not the hot numbers.
const HOT_SEED: u64 = 0x7a69_7066;

impl Zipfian {
    /// Adds up `count` terms, which takes a tenth of a second for a few millions. The exponent lies between 0 and 1, both excluded.
    pub fn new(count: u64, exponent: f64) -> Zipfian {
        assert!(
            exponent > 0.0 && exponent < 1.0,
            "the method of Gray et al. needs an exponent between 0 and 1"
        );
        let zeta_of = |ranks: u64| -> f64 { (1..=ranks).map(|rank| (rank as f64).powf(-exponent)).sum() };
        let zeta = zeta_of(count);
        // With fewer than three numbers `eta` is never used, so it may have any value.
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - exponent)) / (1.0 - zeta_of(2) / zeta);
        Zipfian { count, exponent, zeta, alpha: 1.0 / (1.0 - exponent), eta, is_in_key_order: false }
    }

    /// Makes rank `r` number `r`: hot keys are neighbours.
    pub fn in_key_order(self) -> Zipfian {
        Zipfian { is_in_key_order: true, ..self }
    }

    /// The rank, from 0 on, for a random number.
    pub fn rank(&self, random: u64) -> u64 {
        let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
        let share = fraction * self.zeta;
        if share < 1.0 {
            return 0;
        }
        if share < 1.0 + 0.5_f64.powf(self.exponent) {
            return 1;
        }
        let rank = self.count as f64 * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count - 1)
    }

    /// The number for a random number. Unless ranks are in key order, they are spread over all numbers, so that hot keys are not
    /// neighbours. No two ranks share a number; with YCSB's hash they can.
    pub fn number(&self, random: u64) -> u64 {
        match self.is_in_key_order {
            true => self.rank(random),
            false => shuffled(self.rank(random), self.count, HOT_SEED),
        }
    }
}

/// Numbers below a count. The hot ones get most of the draws. All hot numbers are equally likely, and so are all others.
#[derive(Debug)]
pub struct HotCold {
    count: u64,
    /// The number of hot numbers, at least one.
    hot: u64,
    /// The percentage of draws that return a hot number.
    hot_draws_percent: u64,
}

impl HotCold {
    pub fn new(count: u64, hot_percent: u64, hot_draws_percent: u64) -> HotCold {
        HotCold { count, hot: (count * hot_percent / 100).max(1), hot_draws_percent }
    }

    /// The number for a random number. The hot numbers are spread over all numbers as by [`Zipfian::number`].
    pub fn number(&self, random: u64) -> u64 {
        let rank = match (mix(random) % 100 < self.hot_draws_percent, self.count - self.hot) {
            (true, _) | (false, 0) => random % self.hot,
            (false, cold) => self.hot + random % cold,
        };
        shuffled(rank, self.count, HOT_SEED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_shuffle_meets_every_number_once() {
        for count in [1, 2, 3, 4, 5, 63, 64, 65, 1000] {
            let met: BTreeSet<u64> = (0..count).map(|number| shuffled(number, count, 7)).collect();
            assert_eq!(met, (0..count).collect(), "{count}");
        }
        assert!(
            (0..1000).filter(|&number| shuffled(number, 1000, 7) == number).count() < 20,
            "few numbers keep their place"
        );
    }

    #[test]
    fn decimals_fill_their_key() {
        let mut key = *b"xxxxx";
        write_decimal(1203, &mut key);
        assert_eq!(&key, b"01203");
    }

    #[test]
    fn ranks_are_drawn_as_often_as_the_formula_says() {
        const DRAWS: u64 = 400_000;
        let zipfian = Zipfian::new(1000, YCSB_EXPONENT);
        let mut drawn = [0_u64; 1000];
        (0..DRAWS).for_each(|draw| drawn[zipfian.rank(mix(draw)) as usize] += 1);
        let terms: Vec<f64> = (1..=1000).map(|rank| f64::from(rank).powf(-YCSB_EXPONENT)).collect();
        let zeta: f64 = terms.iter().sum();
        assert!((zipfian.zeta - zeta).abs() < 1e-9);
        // The first two ranks are exact. The others are found by inverting an integral: the share of a single low rank differs by a seventh
        // from the sum. The share of a range differs less, the longer the range is.
        let of_ranks = |from: usize, to: usize| -> (f64, f64) {
            let share = drawn[from..to].iter().sum::<u64>() as f64 / DRAWS as f64;
            (share, terms[from..to].iter().sum::<f64>() / zeta)
        };
        for (from, to, tolerance) in
            [(0, 1, 0.02), (1, 2, 0.02), (2, 10, 0.1), (10, 100, 0.06), (100, 1000, 0.06)]
        {
            let (share, expected) = of_ranks(from, to);
            assert!((share / expected - 1.0).abs() < tolerance, "{from}..{to}: {share} and not {expected}");
        }
    }

    #[test]
    fn hot_numbers_are_spread_and_keep_their_place() {
        let zipfian = Zipfian::new(100_000, YCSB_EXPONENT);
        let mut drawn: BTreeMap<u64, u64> = BTreeMap::new();
        (0..200_000).for_each(|draw| *drawn.entry(zipfian.number(mix(draw))).or_default() += 1);
        assert!(drawn.keys().all(|&number| number < 100_000));
        let mut by_count: Vec<(u64, u64)> =
            drawn.into_iter().map(|(number, count)| (count, number)).collect();
        by_count.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(by_count[0].1, shuffled(0, 100_000, HOT_SEED), "the hottest is rank 0");
        let mut hot: Vec<u64> = by_count[..20].iter().map(|(_, number)| *number).collect();
        hot.sort_unstable();
        assert!(hot.windows(2).all(|pair| pair[1] - pair[0] > 1), "hot numbers are neighbours: {hot:?}");
        assert!(hot[0] < 25_000 && hot[19] > 75_000, "{hot:?}");
    }

    #[test]
    fn hot_numbers_get_their_share_and_are_spread() {
        const DRAWS: u64 = 400_000;
        for (hot_percent, hot_draws_percent) in [(1, 99), (20, 80)] {
            let draws = HotCold::new(10_000, hot_percent, hot_draws_percent);
            let mut drawn = vec![0_u64; 10_000];
            (0..DRAWS).for_each(|draw| drawn[draws.number(mix(draw)) as usize] += 1);
            let hot: BTreeSet<u64> =
                (0..100 * hot_percent).map(|rank| shuffled(rank, 10_000, HOT_SEED)).collect();
            let met: u64 = hot.iter().map(|&number| drawn[number as usize]).sum();
            let (share, expected) = (met as f64 / DRAWS as f64, hot_draws_percent as f64 / 100.0);
            assert!((share - expected).abs() < 0.003, "{share} and not {expected}");
            // Each hot number is drawn about as often as another, and a tenth of the hot numbers lies in each tenth of all numbers.
            let mean = met as f64 / hot.len() as f64;
            assert!(hot.iter().all(|&number| (drawn[number as usize] as f64 / mean - 1.0).abs() < 0.6));
            for tenth in 0..10 {
                let here = hot.range(tenth * 1000..(tenth + 1) * 1000).count() as f64 / hot.len() as f64;
                assert!((0.02..0.2).contains(&here), "{here} of the hot numbers from {} on", tenth * 1000);
            }
            assert!(drawn.iter().filter(|&&count| count > 0).count() > 3000, "cold numbers are drawn too");
        }
    }

    #[test]
    fn ranks_in_key_order_are_the_numbers() {
        let zipfian = Zipfian::new(1000, 0.9).in_key_order();
        let drawn: Vec<u64> = (0..10_000).map(|draw| zipfian.number(mix(draw))).collect();
        assert!((0..10_000).all(|draw| zipfian.rank(mix(draw)) == drawn[draw as usize]));
        let first = drawn.iter().filter(|&&number| number == 0).count();
        let expected = 10_000.0 / (1..=1000).map(|rank| f64::from(rank).powf(-0.9)).sum::<f64>();
        assert!((first as f64 / expected - 1.0).abs() < 0.1, "{first} and not {expected}");
    }

    #[test]
    fn values_are_checked_against_their_key() {
        let noise = Noise::new(7, 100);
        for operation in 0..20 {
            let value = noise.version(5, operation, 100);
            assert!(noise.is_version(5, value));
            assert!(!noise.is_version(6, value));
            let mut flipped = value.to_vec();
            flipped[99] ^= 1;
            assert!(!noise.is_version(5, &flipped));
        }
        assert_ne!(noise.version(5, 0, 100), noise.version(5, 1, 100));
    }

    #[test]
    fn few_numbers_are_drawn_too() {
        for count in 1..=5 {
            let hot_cold = HotCold::new(count, 20, 80);
            let met: BTreeSet<u64> = (0..1000).map(|draw| hot_cold.number(mix(draw))).collect();
            assert_eq!(met, (0..count).collect(), "{count}");
            let zipfian = Zipfian::new(count, YCSB_EXPONENT);
            let met: BTreeSet<u64> = (0..1000).map(|draw| zipfian.number(mix(draw))).collect();
            assert_eq!(met, (0..count).collect(), "{count}");
        }
    }
}
