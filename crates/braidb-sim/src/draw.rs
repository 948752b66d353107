//! Option sets.
//!
//! A judge learns as much from an odd set of options as from an odd set of operations: blocks of 64 bytes cut at every
//! entry, memory of 4 KiB flushes all the time, logs of 4 KiB force flushes of other families. So every case draws its
//! set from its seed: one of the named presets, or each option by itself. A later policy joins by adding its option here.

use crate::rng::Rng;
use braidb::{Durability, Options};
use braidb_storage::Env;
use std::fmt;

/// A family of option sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// What a user gets who sets nothing.
    Default,
    /// 4 KiB of memory: flushes and merges without end.
    SmallMemory,
    /// Blocks, tables, logs and manifests as small as they can be.
    TinyFiles,
    /// Every option by itself, small values more often than large ones.
    Random,
}

impl Preset {
    pub const ALL: [Preset; 4] = [Preset::Default, Preset::SmallMemory, Preset::TinyFiles, Preset::Random];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Default => "default",
            Preset::SmallMemory => "small-memory",
            Preset::TinyFiles => "tiny-files",
            Preset::Random => "random",
        }
    }

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name() == name)
    }
}

/// One value for every option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionSet {
    pub durability: Durability,
    pub memtable_bytes: usize,
    pub block_bytes: usize,
    pub block_cache_bytes: usize,
    pub filter_bits_per_key: u32,
    pub table_bytes: u64,
    /// `None` leaves the choice to the engine.
    pub log_bytes: Option<u64>,
    pub manifest_bytes: u64,
    pub l0_merge_tables: usize,
    pub l0_slowdown_tables: usize,
    pub l0_stop_tables: usize,
    pub background_threads: usize,
}

const DEFAULT: OptionSet = OptionSet {
    durability: Durability::Buffer,
    memtable_bytes: 64 << 20,
    block_bytes: 4 << 10,
    block_cache_bytes: 64 << 20,
    filter_bits_per_key: 10,
    table_bytes: 64 << 20,
    log_bytes: None,
    manifest_bytes: 4 << 20,
    l0_merge_tables: 4,
    l0_slowdown_tables: 6,
    l0_stop_tables: 20,
    background_threads: 2,
};

impl OptionSet {
    /// Draws a set of the family `preset`. The durability is drawn for every preset: no judge may depend on it.
    pub fn draw(preset: Preset, rng: &mut Rng) -> OptionSet {
        let durability =
            rng.pick(&[Durability::None, Durability::Buffer, Durability::Buffer, Durability::Sync]);
        match preset {
            Preset::Default => OptionSet { durability, ..DEFAULT },
            Preset::SmallMemory => OptionSet { durability, memtable_bytes: 4 << 10, ..DEFAULT },
            Preset::TinyFiles => OptionSet {
                durability,
                memtable_bytes: rng.pick(&[4 << 10, 8 << 10, 16 << 10]),
                block_bytes: 64,
                block_cache_bytes: 2 << 10,
                table_bytes: 4 << 10,
                log_bytes: Some(4 << 10),
                manifest_bytes: 1 << 10,
                l0_merge_tables: 2,
                l0_slowdown_tables: 3,
                l0_stop_tables: 5,
                ..DEFAULT
            },
            Preset::Random => OptionSet::draw_each(durability, rng),
        }
    }

    fn draw_each(durability: Durability, rng: &mut Rng) -> OptionSet {
        let l0_merge_tables = rng.between(1, 5) as usize;
        let l0_slowdown_tables = l0_merge_tables + rng.below(4) as usize;
        OptionSet {
            durability,
            memtable_bytes: rng.pick(&[4 << 10, 4 << 10, 6 << 10, 16 << 10, 64 << 10, 1 << 20]),
            block_bytes: rng.pick(&[64, 100, 256, 1 << 10, 4 << 10, 64 << 10]),
            block_cache_bytes: rng.pick(&[0, 1, 1 << 10, 32 << 10, 1 << 20]),
            filter_bits_per_key: rng.pick(&[0, 1, 4, 10, 16, 32]),
            table_bytes: rng.pick(&[4 << 10, 4 << 10, 10 << 10, 64 << 10, 64 << 20]),
            log_bytes: rng.pick(&[None, Some(4 << 10), Some(16 << 10), Some(256 << 10)]),
            manifest_bytes: rng.pick(&[1 << 10, 1 << 10, 4 << 10, 64 << 10]),
            l0_merge_tables,
            l0_slowdown_tables,
            l0_stop_tables: l0_slowdown_tables + rng.between(1, 8) as usize,
            background_threads: rng.between(1, 3) as usize,
        }
    }

    /// The options for opening a database on `env`.
    pub fn options(&self, env: Env) -> Options {
        let options = Options::new()
            .durability(self.durability)
            .memtable_bytes(self.memtable_bytes)
            .block_bytes(self.block_bytes)
            .block_cache_bytes(self.block_cache_bytes)
            .filter_bits_per_key(self.filter_bits_per_key)
            .table_bytes(self.table_bytes)
            .manifest_bytes(self.manifest_bytes)
            .l0_merge_tables(self.l0_merge_tables)
            .l0_slowdown_tables(self.l0_slowdown_tables)
            .l0_stop_tables(self.l0_stop_tables)
            .background_threads(self.background_threads)
            .env(env);
        match self.log_bytes {
            Some(bytes) => options.log_bytes(bytes),
            None => options,
        }
    }
}

impl fmt::Display for OptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.log_bytes.map_or("auto".to_owned(), |bytes| bytes.to_string());
        write!(
            f,
            "durability {:?}, memtable {}, block {}, cache {}, filter bits {}, table {}, log {log}, manifest {}, \
             L0 {}/{}/{}, threads {}",
            self.durability,
            self.memtable_bytes,
            self.block_bytes,
            self.block_cache_bytes,
            self.filter_bits_per_key,
            self.table_bytes,
            self.manifest_bytes,
            self.l0_merge_tables,
            self.l0_slowdown_tables,
            self.l0_stop_tables,
            self.background_threads
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim_env;

    #[test]
    fn the_default_preset_is_what_a_user_gets() {
        let (env, ..) = sim_env(1);
        let drawn = OptionSet {
            durability: Durability::Buffer,
            ..OptionSet::draw(Preset::Default, &mut Rng::new(1))
        };
        assert_eq!(format!("{:?}", drawn.options(env.clone())), format!("{:?}", Options::new().env(env)));
    }

    #[test]
    fn every_set_that_is_drawn_is_accepted() {
        for seed in 0..200 {
            for preset in Preset::ALL {
                let (env, ..) = sim_env(seed);
                let set = OptionSet::draw(preset, &mut Rng::new(seed));
                let opened = set.options(env).open("/db");
                assert!(opened.is_ok(), "{set}: {opened:?}");
            }
        }
    }
}
