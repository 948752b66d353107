//! The keys and values of workloads. They follow from the seed and the number of the operation, so the number of threads does not change
//! the data. Only the order of inserts depends on how the threads interleave.
//!
//! A key is a decimal number. A fill writes the even numbers below twice the count of keys. Inserted keys are odd, and so are the keys of
//! gets that must find nothing. Queues and timelines count from 0.

use crate::draws::{HotCold, Noise, Zipfian, mix, shuffled, write_decimal};
use crate::settings::{Distribution, Ranks, Settings};
use crate::workload::{Mix, Workload};

/// Neighbouring keys of a timeline that are written in random order, as events of one moment arrive: 64.
pub const TIMELINE_BLOCK: u64 = 64;

/// The seed that makes the random order of inserted keys differ from the order of a fill.
const INSERT_SEED: u64 = 0x696e_7365_7274;

/// The salt that makes the hash of families differ from the hash of keys.
const FAMILY_SALT: u64 = 0x66_616d_696c_7900;

/// [`Distribution`] over the existing keys.
#[derive(Debug)]
enum Draws {
    Uniform,
    Zipfian(Zipfian),
    /// Ranks are ages of keys.
    Latest(Zipfian),
    HotCold(HotCold),
}

/// A source of keys and values for one workload.
#[derive(Debug)]
pub struct Data {
    keys: u64,
    key_bytes: usize,
    value_bytes: usize,
    families: u64,
    seed: u64,
    salt: u64,
    mix: Mix,
    draws: Draws,
    /// Keys of the fill between the key that a distribution draws and the key that the operation uses.
    moved_by: u64,
    read_percent: u64,
    noise: Noise,
}

impl Data {
    /// The data of `workload`. Zipfian draws take a tenth of a second for each million of keys here.
    pub fn new(workload: &Workload, settings: &Settings) -> Data {
        let keys = settings.num;
        let zipfian = || Zipfian::new(keys, settings.zipf_exponent(workload));
        let draws = match settings.distribution(workload) {
            Distribution::Uniform => Draws::Uniform,
            Distribution::Zipfian if settings.ranks == Ranks::Ordered => {
                Draws::Zipfian(zipfian().in_key_order())
            }
            Distribution::Zipfian => Draws::Zipfian(zipfian()),
            Distribution::Latest => Draws::Latest(zipfian()),
            Distribution::Hot1In99 => Draws::HotCold(HotCold::new(keys, 1, 99)),
            Distribution::Hot20In80 => Draws::HotCold(HotCold::new(keys, 20, 80)),
        };
        Data {
            keys,
            key_bytes: settings.key_bytes,
            value_bytes: settings.value_bytes,
            families: settings.families,
            seed: settings.seed,
            salt: workload.salt << 56,
            mix: workload.mix,
            draws,
            moved_by: if workload.is_moved { keys / 2 } else { 0 },
            read_percent: settings.read_percent,
            noise: Noise::new(settings.seed, settings.value_bytes),
        }
    }

    /// How many keys a fill writes.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The random number for the choices of an operation other than its key.
    pub fn chance(&self, operation: u64) -> u64 {
        match self.mix {
            // Without the salt: it was added after the workload `mixed`, whose choices must not change.
            Mix::ByReadPercent => mix(!self.seed ^ mix(!operation)),
            _ => mix(!self.seed ^ mix(!operation ^ self.salt)),
        }
    }

    /// Whether an operation of [`Mix::ByReadPercent`] reads.
    pub fn reads(&self, operation: u64) -> bool {
        self.chance(operation) % 100 < self.read_percent
    }

    /// The number of the key that operation `operation` draws from the keys of a fill. A draw by age is from all keys: those of the fill
    /// and the `inserted` newer ones.
    pub fn drawn(&self, operation: u64, inserted: u64) -> u64 {
        let random = mix(self.seed ^ mix(operation ^ self.salt));
        let moved = |number| (number + self.moved_by) % self.keys * 2;
        match &self.draws {
            Draws::Uniform => moved(random % self.keys),
            Draws::Zipfian(zipfian) => moved(zipfian.number(random)),
            Draws::HotCold(hot_cold) => moved(hot_cold.number(random)),
            Draws::Latest(ages) => {
                let age = ages.rank(random);
                match inserted.checked_sub(age + 1) {
                    Some(index) => self.inserted(index),
                    // Fills write in this order.
                    None => self.shuffled((self.keys + inserted - age - 1) % self.keys),
                }
            }
        }
    }

    /// The key that the `index`th insert writes. After `keys` inserts, the first inserted keys are written again.
    pub fn inserted(&self, index: u64) -> u64 {
        shuffled(index % self.keys, self.keys, self.seed ^ INSERT_SEED) * 2 + 1
    }

    /// The key that a fill in random order writes at its `operation`th operation.
    pub fn shuffled(&self, operation: u64) -> u64 {
        shuffled(operation, self.keys, self.seed) * 2
    }

    /// The key that comes `index`th in a timeline.
    pub fn appended(&self, index: u64) -> u64 {
        let block = index / TIMELINE_BLOCK;
        block * TIMELINE_BLOCK + shuffled(index % TIMELINE_BLOCK, TIMELINE_BLOCK, self.seed ^ block)
    }

    /// How many different keys this many operations draw.
    pub fn different(&self, operations: u64) -> u64 {
        let mut met = vec![false; usize::try_from(self.keys).expect("memory for all keys")];
        (0..operations).for_each(|operation| met[self.drawn(operation, 0) as usize / 2] = true);
        met.into_iter().filter(|met| *met).count() as u64
    }

    /// The family of a key.
    pub fn family(&self, number: u64) -> usize {
        match self.families {
            1 => 0,
            families => (mix(number ^ FAMILY_SALT) % families) as usize,
        }
    }

    /// Whether one family holds all keys of a fill, so that each key's neighbours are known.
    pub fn is_of_one_family(&self) -> bool {
        self.families == 1
    }

    /// Writes the key of a number to `key`.
    pub fn write_key(&self, number: u64, key: &mut Vec<u8>) {
        key.resize(self.key_bytes, 0);
        write_decimal(number, key);
    }

    /// The number of a key, if it is one that workloads write.
    pub fn number_of(&self, key: &[u8]) -> Option<u64> {
        let is_decimal = key.len() == self.key_bytes && key.iter().all(u8::is_ascii_digit);
        let digit = |number: u64, digit: &u8| number.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        if is_decimal { key.iter().try_fold(0, digit) } else { None }
    }

    /// The value that an operation writes under the key of `number`.
    pub fn value(&self, number: u64, operation: u64) -> &[u8] {
        self.noise.version(number, operation, self.value_bytes)
    }

    /// Whether an operation may have written `value` under the key of `number`.
    pub fn is_value(&self, number: u64, value: &[u8]) -> bool {
        value.len() == self.value_bytes && self.noise.is_version(number, value)
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

    fn data(workload: &str, options: &[&str]) -> Data {
        let settings = Command::parse_from(["bench"].iter().chain(options)).settings;
        Data::new(Workload::named(workload).unwrap(), &settings)
    }

    #[test]
    fn fills_write_the_even_numbers_and_inserts_the_odd_ones() {
        let data = data("ycsb-d", &["--num", "1000"]);
        let filled: BTreeSet<u64> = (0..1000).map(|operation| data.shuffled(operation)).collect();
        assert_eq!(filled, (0..1000).map(|number| number * 2).collect());
        let inserted: BTreeSet<u64> = (0..1000).map(|index| data.inserted(index)).collect();
        assert_eq!(inserted, (0..1000).map(|number| number * 2 + 1).collect());
        assert_eq!(data.inserted(1000), data.inserted(0));
    }

    #[test]
    fn the_latest_keys_are_drawn_most() {
        let data = data("ycsb-d", &["--num", "1000"]);
        for inserted in [0, 1, 50] {
            let newest = match inserted {
                0 => data.shuffled(999),
                inserted => data.inserted(inserted - 1),
            };
            let drawn: Vec<u64> = (0..10_000).map(|operation| data.drawn(operation, inserted)).collect();
            let newest = drawn.iter().filter(|&&number| number == newest).count();
            // The newest key gets one draw of 7.5, the sum of r^-0.99 for the ranks to 1000.
            assert!((1150..1500).contains(&newest), "{newest} of 10,000 draws meet the newest key");
            let known: BTreeSet<u64> = (0..1000)
                .map(|operation| data.shuffled(operation))
                .chain((0..inserted).map(|index| data.inserted(index)))
                .collect();
            assert!(drawn.iter().all(|number| known.contains(number)));
        }
    }

    #[test]
    fn a_timeline_meets_every_number_about_in_order() {
        let data = data("timeline", &["--num", "1000"]);
        let numbers: Vec<u64> = (0..640).map(|index| data.appended(index)).collect();
        assert_eq!(numbers.iter().copied().collect::<BTreeSet<_>>(), (0..640).collect());
        assert!(numbers.iter().zip(0..).all(|(number, index)| number.abs_diff(index) < TIMELINE_BLOCK));
        assert!(numbers.windows(2).any(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn drawn_keys_are_counted() {
        for (distribution, least, most) in
            [("uniform", 610, 660), ("zipfian", 250, 450), ("hot-20-80", 350, 450), ("hot-1-99", 15, 30)]
        {
            let data = data("updaterandom", &["--num", "1000", "--distribution", distribution]);
            let drawn: BTreeSet<u64> = (0..1000).map(|operation| data.drawn(operation, 0)).collect();
            let different = data.different(1000);
            assert_eq!(different, drawn.len() as u64, "{distribution}");
            assert!((least..most).contains(&different), "{distribution}: {different}");
            assert!(drawn.iter().all(|number| number % 2 == 0 && *number < 2000));
        }
    }

    #[test]
    fn moved_draws_have_other_hot_keys() {
        for ranks in ["hashed", "ordered"] {
            let options = ["--num", "1000", "--distribution", "zipfian", "--ranks", ranks];
            let hottest = |workload| {
                let data = data(workload, &options);
                let mut draws = [0; 1000];
                (0..10_000).for_each(|operation| draws[data.drawn(operation, 0) as usize / 2] += 1);
                (0..1000).max_by_key(|number| draws[*number]).unwrap()
            };
            assert_eq!((hottest("readrandom") + 500) % 1000, hottest("readmoved"), "{ranks}");
        }
    }

    /// The draws must never change: other commits and other stores are measured with equal keys. The constants are the draws of the first
    /// `bench`.
    #[test]
    fn draws_never_change() {
        let of = |workload| {
            let data = data(workload, &["--num", "1000000"]);
            [0, 1, 2].map(|operation| data.drawn(operation, 0))
        };
        assert_eq!(of("overwrite"), OVERWRITTEN);
        assert_eq!(of("mixed"), MIXED);
        let data = data("fillrandom", &["--num", "1000000"]);
        assert_eq!([0, 1, 2].map(|operation| data.shuffled(operation)), FILLED);
    }

    const OVERWRITTEN: [u64; 3] = [629098, 1612414, 369720];
    const MIXED: [u64; 3] = [604790, 599914, 696036];
    const FILLED: [u64; 3] = [1228300, 1660214, 1643638];

    #[test]
    fn operations_read_in_proportion() {
        for (percent, expected) in
            [("0", 0..1), ("10", 900..1100), ("50", 4800..5200), ("100", 10_000..10_001)]
        {
            let data = data("mixed", &["--num", "10", "--read-percent", percent]);
            let reads = (0..10_000).filter(|&operation| data.reads(operation)).count();
            assert!(expected.contains(&reads), "{percent}: {reads}");
        }
    }

    #[test]
    fn keys_and_values_are_known_again() {
        let data = data("fillseq", &["--num", "10", "--value-bytes", "128", "--families", "16"]);
        let mut key = Vec::new();
        data.write_key(123, &mut key);
        assert_eq!((key.as_slice(), data.number_of(&key)), (&b"0000000000000123"[..], Some(123)));
        assert_eq!(data.number_of(b"000000000000012x"), None);
        assert_eq!(data.number_of(b"123"), None);
        assert_eq!(data.number_of(&[b'9'; 16]), Some(9_999_999_999_999_999));
        let value = data.value(123, 7);
        assert!(value.len() == 128 && data.is_value(123, value));
        assert!(!data.is_value(124, value) && !data.is_value(123, &value[1..]) && !data.is_value(123, &[]));
        let families: BTreeSet<usize> = (0..1000).map(|number| data.family(number)).collect();
        assert_eq!(families, (0..16).collect());
    }
}
