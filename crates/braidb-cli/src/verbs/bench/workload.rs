//! The workloads, and the keys and values that they use. All follow from the seed and the number of the operation, so
//! that the number of threads does not change the data.

use super::Settings;
use crate::failure::{Failure, Outcome};
use braidb_bench::draws::{HotCold, Noise, Zipfian, mix, shuffled, write_decimal};
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
    /// Get random keys and write random keys again, in a given proportion
    Mixed,
}

/// Which keys are drawn often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Each as often as any other
    Uniform,
    /// A few very often: by Zipf's law with the exponent 0.99, as YCSB draws, the hot ones spread over all keys
    Zipfian,
    /// A hundredth of the keys in 99 of 100 operations, spread over all keys
    #[value(name = "hot-1-99")]
    Hot1In99,
    /// A fifth of the keys in 80 of 100 operations, spread over all keys
    #[value(name = "hot-20-80")]
    Hot20In80,
}

impl Distribution {
    /// As on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
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
            Workload::Mixed => "mixed",
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
        self.starts_empty() || matches!(self, Workload::Overwrite | Workload::Mixed) || self.is_under_writes()
    }

    pub fn reads(self) -> bool {
        !self.writes() || self == Workload::Mixed || self.is_under_writes()
    }
}

/// [`Distribution`] over the keys that there are.
enum Draws {
    Uniform,
    Zipfian(Zipfian),
    HotCold(HotCold),
}

/// A source of keys and values.
pub struct Data {
    keys: u64,
    key_bytes: usize,
    value_bytes: usize,
    seed: u64,
    draws: Draws,
    /// Operations of a hundred that read in [`Workload::Mixed`].
    read_percent: u64,
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
            draws: match settings.distribution {
                Distribution::Uniform => Draws::Uniform,
                Distribution::Zipfian => Draws::Zipfian(Zipfian::new(settings.num)),
                Distribution::Hot1In99 => Draws::HotCold(HotCold::new(settings.num, 1, 99)),
                Distribution::Hot20In80 => Draws::HotCold(HotCold::new(settings.num, 20, 80)),
            },
            read_percent: settings.read_percent,
            noise: Noise::new(settings.seed, settings.value_bytes),
        })
    }

    /// The number of the key that an operation of a workload with random keys draws.
    fn drawn(&self, workload: Workload, operation: u64) -> u64 {
        let random = mix(self.seed ^ mix(operation ^ (workload as u64) << 56));
        match &self.draws {
            Draws::Uniform => random % self.keys,
            Draws::Zipfian(zipfian) => zipfian.number(random),
            Draws::HotCold(hot_cold) => hot_cold.number(random),
        }
    }

    /// Whether an operation of [`Workload::Mixed`] reads. Nothing that its key is drawn from.
    pub fn mixed_reads(&self, operation: u64) -> bool {
        mix(!self.seed ^ mix(!operation)) % 100 < self.read_percent
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
            | Workload::Seekwhilewriting
            | Workload::Mixed => self.drawn(workload, operation) * 2,
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
        for (distribution, least, most) in
            [("uniform", 610, 660), ("zipfian", 250, 450), ("hot-20-80", 350, 450), ("hot-1-99", 15, 30)]
        {
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
    fn operations_read_in_proportion() {
        for (percent, expected) in
            [("0", 0..1), ("10", 900..1100), ("50", 4800..5200), ("100", 10_000..10_001)]
        {
            let data = data(&["--num", "10", "--read-percent", percent]).unwrap();
            let reads = (0..10_000).filter(|&operation| data.mixed_reads(operation)).count();
            assert!(expected.contains(&reads), "{percent}: {reads}");
        }
    }

    #[test]
    fn distributions_have_their_names() {
        assert_eq!(Distribution::Zipfian.name(), "zipfian");
        assert_eq!(Distribution::Hot20In80.name(), "hot-20-80");
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
