//! Sorted numbers, searched with few cache misses: the key prefixes of an index.
//!
//! A binary search over thousands of numbers waits for memory at most of its steps. So the numbers stand in a tree of groups of 16, which are
//! two cache lines each. A level above has the first number of each group below. A search counts the smaller numbers of one group in each
//! level. The levels above the last are small and mostly lie in a cache, so a search waits once.
//!
//! ```text
//! top     [0 … ]                                at most 16 numbers
//! …
//! level   [0 16 32 … 240] [256 272 …] …         the first number of each group below
//! last    [0 1 2 … 15] [16 17 … 31] …           all numbers
//! ```

use std::ops::Range;

/// Numbers of a group.
const GROUP: usize = 16;
/// The most levels: 16 to the power of 8 is more than the blocks of a table.
const MOST_LEVELS: usize = 8;

/// Sorted numbers in one array, the levels one after the other.
#[derive(Debug)]
pub struct Prefixes {
    numbers: Vec<u64>,
    /// Where each level begins in `numbers`, the top first. Behind the last level it goes on with the length.
    starts: [u32; MOST_LEVELS + 1],
    levels: usize,
}

impl Prefixes {
    /// Takes ascending numbers, fewer than 2^31.
    pub fn new(sorted: &[u64]) -> Prefixes {
        debug_assert!(sorted.is_sorted());
        let mut lens = vec![sorted.len()];
        while lens[lens.len() - 1] > GROUP {
            lens.push(lens[lens.len() - 1].div_ceil(GROUP));
        }
        lens.reverse();
        let mut numbers = Vec::with_capacity(lens.iter().sum());
        let mut starts = [0; MOST_LEVELS + 1];
        for (level, len) in lens.iter().enumerate() {
            let step = GROUP.pow((lens.len() - 1 - level) as u32);
            numbers.extend(sorted.iter().step_by(step));
            debug_assert_eq!(numbers.len(), starts[level] as usize + len);
            starts[level + 1..]
                .fill(u32::try_from(numbers.len()).expect("a table has fewer than 2^31 blocks"));
        }
        Prefixes { numbers, starts, levels: lens.len() }
    }

    fn level(&self, level: usize) -> Range<usize> {
        self.starts[level] as usize..self.starts[level + 1] as usize
    }

    /// All numbers, in order.
    #[inline]
    pub fn all(&self) -> &[u64] {
        &self.numbers[self.level(self.levels - 1)]
    }

    /// How many numbers are smaller than `number`.
    #[inline]
    pub fn smaller(&self, number: u64) -> usize {
        let mut group = 0;
        for level in 0..self.levels {
            let Range { start, end } = self.level(level);
            let from = start + GROUP * group;
            let smaller = match self.numbers[from..end].first_chunk::<GROUP>() {
                Some(numbers) => numbers.iter().filter(|&&other| other < number).count(),
                None => self.numbers[from..end].iter().filter(|&&other| other < number).count(),
            };
            if level + 1 == self.levels {
                return GROUP * group + smaller;
            }
            if smaller == 0 {
                // Only in the top level: a group below begins with a smaller number.
                return 0;
            }
            group = GROUP * group + smaller - 1;
        }
        0
    }

    pub fn memory_bytes(&self) -> usize {
        8 * self.numbers.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_counts_the_smaller_numbers() {
        for count in (0..=300).chain([4_096, 4_097, 5_000, 70_000]) {
            for step in [0, 1, 3, 7] {
                let sorted: Vec<u64> = (0..count).map(|n| 10 + n / 5 * step).collect();
                let prefixes = Prefixes::new(&sorted);
                assert_eq!(prefixes.all(), sorted);
                let probes = (0..40).map(|n| n * (count * 2 + 7) / 37).chain([0, 9, 10, 11, u64::MAX]);
                for probe in probes.chain(sorted.iter().copied().step_by(97)) {
                    let expected = sorted.partition_point(|&number| number < probe);
                    assert_eq!(prefixes.smaller(probe), expected, "{probe} among {count}, step {step}");
                }
            }
        }
    }

    #[test]
    fn the_levels_above_take_a_fifteenth() {
        let prefixes = Prefixes::new(&(0..4_096).collect::<Vec<u64>>());
        assert_eq!(prefixes.memory_bytes(), 8 * (4_096 + 256 + 16));
        assert_eq!(prefixes.levels, 3);
    }
}
