//! The workloads, and the keys and values that they use. All follow from the seed and the number of the operation, so
//! that the number of threads does not change the data.

use super::Args;
use crate::failure::{Failure, Outcome};
use clap::ValueEnum;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Write every key once, in order, to an empty database
    Fillseq,
    /// Write every key once, in random order, to an empty database
    Fillrandom,
    /// Write random keys again
    Overwrite,
    /// Append rows at one end of an empty database and delete them at the other; then scan from the front
    Queue,
    /// Get random keys
    Readrandom,
    /// Get keys that are not there
    Readmissing,
    /// Move to a random key and read 50 entries
    Seekrandom,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Workload::Fillseq => "fillseq",
            Workload::Fillrandom => "fillrandom",
            Workload::Overwrite => "overwrite",
            Workload::Queue => "queue",
            Workload::Readrandom => "readrandom",
            Workload::Readmissing => "readmissing",
            Workload::Seekrandom => "seekrandom",
        }
    }

    pub fn starts_empty(self) -> bool {
        self.fills() || self == Workload::Queue
    }

    /// Whether it leaves behind what others can be measured on.
    pub fn fills(self) -> bool {
        matches!(self, Workload::Fillseq | Workload::Fillrandom)
    }

    pub fn writes(self) -> bool {
        self.starts_empty() || self == Workload::Overwrite
    }
}

/// A source of keys and values.
pub struct Data {
    keys: u64,
    key_bytes: usize,
    value_bytes: usize,
    seed: u64,
    /// Random bytes that values are cut from.
    noise: Vec<u8>,
}

/// Values start at one of so many places in the noise.
const NOISE_STARTS: usize = 1 << 20;

impl Data {
    pub fn new(args: &Args) -> Outcome<Data> {
        let digits = args.num.saturating_mul(2).to_string().len();
        if args.key_bytes < digits || args.key_bytes > braidb::MAX_KEY_BYTES {
            return Err(Failure::Use(format!(
                "--key-bytes {}: {} keys need {digits} to {} bytes",
                args.key_bytes,
                args.num,
                braidb::MAX_KEY_BYTES
            )));
        }
        if args.value_bytes > braidb::MAX_VALUE_BYTES {
            return Err(Failure::Use(format!("--value-bytes: the limit is {}", braidb::MAX_VALUE_BYTES)));
        }
        let words = (args.value_bytes + NOISE_STARTS).div_ceil(8) as u64;
        let noise = (0..words).flat_map(|word| mix(args.seed ^ mix(word)).to_le_bytes()).collect();
        Ok(Data {
            keys: args.num,
            key_bytes: args.key_bytes,
            value_bytes: args.value_bytes,
            seed: args.seed,
            noise,
        })
    }

    /// Writes the key of an operation to `key`: decimal, even for keys that a fill writes, odd for those that lie between.
    pub fn key(&self, workload: Workload, operation: u64, key: &mut Vec<u8>) {
        let random = || mix(self.seed ^ mix(operation ^ (workload as u64) << 56)) % self.keys;
        let number = match workload {
            Workload::Fillseq => operation * 2,
            Workload::Queue => operation,
            Workload::Fillrandom => shuffled(operation, self.keys, self.seed) * 2,
            Workload::Overwrite | Workload::Readrandom | Workload::Seekrandom => random() * 2,
            Workload::Readmissing => random() * 2 + 1,
        };
        key.clear();
        key.resize(self.key_bytes, b'0');
        let (mut rest, mut at) = (number, self.key_bytes);
        while rest > 0 {
            at -= 1;
            key[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// The value that an operation writes.
    pub fn value(&self, workload: Workload, operation: u64) -> &[u8] {
        let start = mix(operation ^ (workload as u64) << 56) as usize % NOISE_STARTS;
        &self.noise[start..start + self.value_bytes]
    }
}

/// A hash of a number: the finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The place of `number` in a random order of all numbers below `count`: a Feistel network over the next power of
/// four, walked until it comes back below `count`.
fn shuffled(number: u64, count: u64, seed: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::collections::BTreeSet;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn data(options: &[&str]) -> Outcome<Data> {
        let line = ["bench", "dir", "fillseq"].iter().chain(options);
        Data::new(&Command::parse_from(line).args)
    }

    #[test]
    fn a_shuffle_meets_every_number_once() {
        for count in [1, 2, 3, 4, 5, 63, 64, 65, 1000] {
            let met: BTreeSet<u64> = (0..count).map(|number| shuffled(number, count, 7)).collect();
            assert_eq!(met, (0..count).collect(), "{count}");
        }
        assert!(
            (0..1000).filter(|&number| shuffled(number, 1000, 7) == number).count() < 20,
            "hardly any stays"
        );
    }

    #[test]
    fn fills_write_the_same_keys_and_missing_ones_are_not_among_them() {
        let data = data(&["--num", "1000", "--key-bytes", "8"]).unwrap();
        let keys = |workload| -> BTreeSet<Vec<u8>> {
            let key = |operation| {
                let mut key = Vec::new();
                data.key(workload, operation, &mut key);
                key
            };
            (0..1000).map(key).collect()
        };
        let filled = keys(Workload::Fillseq);
        assert_eq!(filled.len(), 1000);
        assert!(filled.contains(&b"00000000"[..]) && filled.contains(&b"00001998"[..]));
        assert_eq!(keys(Workload::Fillrandom), filled);
        assert!(
            keys(Workload::Overwrite).is_subset(&filled) && keys(Workload::Readrandom).is_subset(&filled)
        );
        assert!(keys(Workload::Readmissing).is_disjoint(&filled));
        assert!(keys(Workload::Readrandom).len() > 500, "random keys are spread");
    }

    #[test]
    fn values_have_their_length_and_differ() {
        let data = data(&["--num", "10", "--value-bytes", "128"]).unwrap();
        let first = data.value(Workload::Fillseq, 1);
        assert_eq!(first.len(), 128);
        assert_ne!(first, data.value(Workload::Fillseq, 2));
        assert_ne!(first, data.value(Workload::Overwrite, 1));
    }

    #[test]
    fn keys_too_short_for_their_number_are_refused() {
        assert!(data(&["--num", "1000", "--key-bytes", "3"]).is_err());
        assert!(data(&["--num", "1000", "--key-bytes", "65537"]).is_err());
        assert!(data(&["--num", "1000", "--key-bytes", "4"]).is_ok());
    }
}
