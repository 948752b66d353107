//! The judges' seeded random numbers.
//!
//! Every random choice of a judge comes from one 64-bit seed. A failed case prints its seed and replays from it. The generator
//! is SplitMix64: every seed starts its own stream, also 0, 1 and 2.

/// A seeded generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns an independent generator. Draws from either generator do not move the other.
    pub fn fork(&mut self) -> Rng {
        Rng(self.bits())
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The bias of the remainder is below 2^-40, because judges ask for small `n` only.
        self.bits() % n
    }

    /// A number from `low` to `high`, both inclusive.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with probability 1 in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`, all equally likely.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// One of `choices`, each with a probability proportional to its weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let total = choices.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.below(total);
        for &(weight, choice) in choices {
            if drawn < weight {
                return choice;
            }
            drawn -= weight;
        }
        unreachable!("the number drawn is below the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_its_neighbour_differs() {
        let stream = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.bits()).collect::<Vec<u64>>()
        };
        assert_eq!(stream(7), stream(7));
        assert!(stream(7).iter().all(|bits| !stream(8).contains(bits)));
    }

    #[test]
    fn weights_are_respected() {
        let mut rng = Rng::new(1);
        let heads = (0..10_000).filter(|_| rng.weighted(&[(9, true), (1, false), (0, false)])).count();
        assert!((8_800..9_200).contains(&heads), "{heads}");
        assert!((0..1_000).all(|_| (3..=5).contains(&rng.between(3, 5))));
    }
}
