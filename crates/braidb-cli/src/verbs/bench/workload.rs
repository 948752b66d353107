//! The workloads, and the keys and values that they use. All follow from the seed and the number of the operation, so
//! that the number of threads does not change the data.

use super::Settings;
use super::draws::{Noise, Zipfian, mix, shuffled, write_decimal};
use crate::failure::{Failure, Outcome};
use clap::ValueEnum;

/// What is measured. Each draws keys of its own, by its place here: a new one goes to the end.
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
    /// Write random keys to an empty database
    Updaterandom,
    /// Get random keys while one more thread does what overwrite does
    Getwhilewriting,
    /// Move to a random key and read 50 entries, while one more thread does what overwrite does
    Seekwhilewriting,
}

/// Which keys are drawn often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Each as often as any other
    Uniform,
    /// A few very often: by Zipf's law with the exponent 0.99, as YCSB draws, the hot ones spread over all keys
    Zipfian,
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
            Workload::Updaterandom => "updaterandom",
            Workload::Getwhilewriting => "getwhilewriting",
            Workload::Seekwhilewriting => "seekwhilewriting",
        }
    }

    pub fn starts_empty(self) -> bool {
        self.fills() || matches!(self, Workload::Queue | Workload::Updaterandom)
    }

    /// Whether it leaves behind what others can be measured on: every key.
    pub fn fills(self) -> bool {
        matches!(self, Workload::Fillseq | Workload::Fillrandom)
    }

    /// Whether what is measured are reads, and one more thread writes meanwhile.
    pub fn is_under_writes(self) -> bool {
        matches!(self, Workload::Getwhilewriting | Workload::Seekwhilewriting)
    }

    pub fn writes(self) -> bool {
        self.starts_empty() || self == Workload::Overwrite || self.is_under_writes()
    }

    pub fn reads(self) -> bool {
        !self.writes() || self.is_under_writes()
    }
}

/// A source of keys and values.
pub struct Data {
    keys: u64,
    key_bytes: usize,
    value_bytes: usize,
    seed: u64,
    /// `None` draws all keys alike.
    zipfian: Option<Zipfian>,
    noise: Noise,
}

impl Data {
    pub fn new(settings: &Settings) -> Outcome<Data> {
        let digits = settings.num.saturating_mul(2).to_string().len();
        if settings.key_bytes < digits || settings.key_bytes > braidb::MAX_KEY_BYTES {
            return Err(Failure::Use(format!(
                "--key-bytes {}: {} keys need {digits} to {} bytes",
                settings.key_bytes,
                settings.num,
                braidb::MAX_KEY_BYTES
            )));
        }
        if settings.value_bytes > braidb::MAX_VALUE_BYTES {
            return Err(Failure::Use(format!("--value-bytes: the limit is {}", braidb::MAX_VALUE_BYTES)));
        }
        Ok(Data {
            keys: settings.num,
            key_bytes: settings.key_bytes,
            value_bytes: settings.value_bytes,
            seed: settings.seed,
            zipfian: match settings.distribution {
                Distribution::Uniform => None,
                Distribution::Zipfian => Some(Zipfian::new(settings.num)),
            },
            noise: Noise::new(settings.seed, settings.value_bytes),
        })
    }

    /// The number of the key that an operation of a workload with random keys draws.
    fn drawn(&self, workload: Workload, operation: u64) -> u64 {
        let random = mix(self.seed ^ mix(operation ^ (workload as u64) << 56));
        match &self.zipfian {
            None => random % self.keys,
            Some(zipfian) => zipfian.number(random),
        }
    }

    /// How many different keys so many operations draw.
    pub fn different(&self, workload: Workload, operations: u64) -> u64 {
        let mut met = vec![false; usize::try_from(self.keys).expect("memory for so many keys")];
        (0..operations).for_each(|operation| met[self.drawn(workload, operation) as usize] = true);
        met.into_iter().filter(|met| *met).count() as u64
    }

    /// Writes the key of an operation to `key`: decimal, even for keys that a fill writes, odd for those that lie between.
    pub fn key(&self, workload: Workload, operation: u64, key: &mut Vec<u8>) {
        let number = match workload {
            Workload::Fillseq => operation * 2,
            Workload::Queue => operation,
            Workload::Fillrandom => shuffled(operation, self.keys, self.seed) * 2,
            Workload::Readmissing => self.drawn(workload, operation) * 2 + 1,
            Workload::Overwrite
            | Workload::Readrandom
            | Workload::Seekrandom
            | Workload::Updaterandom
            | Workload::Getwhilewriting
            | Workload::Seekwhilewriting => self.drawn(workload, operation) * 2,
        };
        key.resize(self.key_bytes, 0);
        write_decimal(number, key);
    }

    /// The value that an operation writes.
    pub fn value(&self, workload: Workload, operation: u64) -> &[u8] {
        self.noise.value(operation ^ (workload as u64) << 56, self.value_bytes)
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
        settings: Settings,
    }

    fn data(options: &[&str]) -> Outcome<Data> {
        Data::new(&Command::parse_from(["bench"].iter().chain(options)).settings)
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
    fn drawn_keys_are_counted() {
        for (distribution, least, most) in [("uniform", 610, 660), ("zipfian", 250, 450)] {
            let data = data(&["--num", "1000", "--distribution", distribution]).unwrap();
            let key = |operation| {
                let mut key = Vec::new();
                data.key(Workload::Updaterandom, operation, &mut key);
                key
            };
            let keys: BTreeSet<Vec<u8>> = (0..1000).map(key).collect();
            let different = data.different(Workload::Updaterandom, 1000);
            assert_eq!(different, keys.len() as u64, "{distribution}");
            assert!((least..most).contains(&different), "{distribution}: {different}");
        }
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
