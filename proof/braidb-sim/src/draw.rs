//! Option sets.
//!
//! Odd option sets find as many bugs as odd operations. Blocks of 64 bytes are cut at every entry. Memory of 4 KiB flushes all the time.
//! Logs of 4 KiB force flushes of other families. So every case draws its set from its seed: one of the named presets, or each option by
//! itself. A new policy of the engine adds its option here.

use crate::machine::SLOW_DIRS;
use crate::rng::Rng;
use braidb::tuning::{Guards, MemoryPolicy, Tuning, ValueLayout};
use braidb::{Durability, Options};
use braidb_storage::Env;
use std::fmt;

/// A named way to draw option sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The defaults.
    Default,
    /// 4 KiB of memory: constant flushes and merges.
    SmallMemory,
    /// Blocks, tables, logs and manifests of minimal size.
    TinyFiles,
    /// Levels of a few kilobytes in many cells of one table each, with every setting of guards and runs.
    Guards,
    /// Every option by itself, small values more often than large ones.
    Random,
    /// Logs of a few kilobytes, and memory that is many times larger: log collections all the time, also during flushes.
    ShortLogs,
    /// A set of another preset, with one or two slow tiers, and with tables so small that cells move between the tiers.
    Tiers,
}

impl Preset {
    pub const ALL: [Preset; 7] = [
        Preset::Default,
        Preset::SmallMemory,
        Preset::TinyFiles,
        Preset::Guards,
        Preset::Random,
        Preset::ShortLogs,
        Preset::Tiers,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Default => "default",
            Preset::SmallMemory => "small-memory",
            Preset::TinyFiles => "tiny-files",
            Preset::Guards => "guards",
            Preset::Random => "random",
            Preset::ShortLogs => "short-logs",
            Preset::Tiers => "tiers",
        }
    }

    /// The preset called `name`.
    pub fn named(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name() == name)
    }
}

/// One value for every option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionSet {
    pub durability: Durability,
    pub memtable_bytes: usize,
    pub memory_policy: MemoryPolicy,
    pub active_percent: u32,
    pub pipeline_segments: usize,
    pub block_bytes: usize,
    pub block_cache_bytes: Option<usize>,
    pub filter_bits_per_key: u32,
    pub open_files: usize,
    pub table_bytes: u64,
    /// `None` leaves the choice to the engine.
    pub log_bytes: Option<u64>,
    pub log_rewrite_percent: u32,
    pub hot_keys_percent: u32,
    pub log_table_percent: u32,
    pub separation_threshold: Option<u64>,
    pub value_layout: ValueLayout,
    pub manifest_bytes: u64,
    pub l0_slowdown_tables: usize,
    pub l0_stop_tables: usize,
    pub overlap_samples: bool,
    pub merges_for_readers: bool,
    pub background_threads: usize,
    pub max_runs: usize,
    /// A level and its own number of runs, which overrides `max_runs`.
    pub max_runs_at: Option<(usize, usize)>,
    pub guards: Guards,
    pub gap_entries: Option<u64>,
    pub gap_puts: usize,
    pub merge_bytes_per_second: Option<u64>,
    pub background_merges: bool,
    /// How many of [`SLOW_DIRS`] the options name. With 0 an open still uses the tiers that the manifest remembers.
    pub slow_tiers: usize,
    pub fast_share: u32,
    pub fast_bytes: Option<u64>,
}

const DEFAULT: OptionSet = OptionSet {
    durability: Durability::Buffer,
    memtable_bytes: 64 << 20,
    memory_policy: MemoryPolicy::Adaptive { redundancy_percent: 20 },
    active_percent: 4,
    pipeline_segments: 4,
    block_bytes: 4 << 10,
    block_cache_bytes: None,
    filter_bits_per_key: 10,
    open_files: 4096,
    table_bytes: 64 << 20,
    log_bytes: None,
    log_rewrite_percent: 25,
    hot_keys_percent: 1,
    log_table_percent: 50,
    separation_threshold: Some(1 << 10),
    value_layout: ValueLayout::Ordered,
    manifest_bytes: 4 << 20,
    l0_slowdown_tables: 8,
    l0_stop_tables: 20,
    overlap_samples: true,
    merges_for_readers: true,
    background_threads: 2,
    max_runs: 8,
    max_runs_at: None,
    guards: Guards::Balanced,
    gap_entries: Some(64),
    gap_puts: 1 << 10,
    merge_bytes_per_second: None,
    background_merges: true,
    slow_tiers: 0,
    fast_share: 50,
    fast_bytes: None,
};

impl OptionSet {
    /// Draws a set of the preset `preset`. The durability is drawn for every preset: no judge may depend on it.
    pub fn draw(preset: Preset, rng: &mut Rng) -> OptionSet {
        // A separate generator, so that the other draws of older seeds stay unchanged.
        let policies = &mut rng.clone().fork();
        let durability =
            rng.pick(&[Durability::None, Durability::Buffer, Durability::Buffer, Durability::Sync]);
        let set = match preset {
            Preset::Default => return OptionSet { durability, ..DEFAULT },
            Preset::SmallMemory => OptionSet {
                durability,
                memtable_bytes: 4 << 10,
                max_runs: policies.pick(&[1, 2, 4]),
                guards: draw_guards(policies),
                ..DEFAULT
            },
            Preset::TinyFiles => OptionSet {
                durability,
                memtable_bytes: rng.pick(&[4 << 10, 8 << 10, 16 << 10]),
                block_bytes: 64,
                block_cache_bytes: Some(2 << 10),
                open_files: 16,
                table_bytes: 4 << 10,
                log_bytes: Some(4 << 10),
                manifest_bytes: 1 << 10,
                l0_slowdown_tables: 3,
                l0_stop_tables: 5,
                max_runs: policies.pick(&[1, 2, 4]),
                guards: draw_guards(policies),
                ..DEFAULT
            },
            Preset::Guards => OptionSet {
                durability,
                memtable_bytes: 4 << 10,
                block_bytes: rng.pick(&[64, 256, 1 << 10]),
                block_cache_bytes: Some(32 << 10),
                open_files: 16,
                table_bytes: rng.pick(&[4 << 10, 4 << 10, 16 << 10]),
                manifest_bytes: rng.pick(&[1 << 10, 64 << 10]),
                l0_slowdown_tables: rng.between(1, 3) as usize,
                background_threads: rng.between(1, 3) as usize,
                max_runs: draw_max_runs(policies),
                max_runs_at: draw_max_runs_at(policies),
                guards: draw_guards(policies),
                ..DEFAULT
            },
            Preset::Random => OptionSet::draw_each(durability, rng, policies),
            Preset::Tiers => return OptionSet::draw_tiers(rng),
            Preset::ShortLogs => OptionSet {
                durability,
                memtable_bytes: rng.pick(&[8 << 10, 16 << 10, 32 << 10]),
                table_bytes: 4 << 10,
                ..DEFAULT
            },
        };
        // A separate generator, so that the other draws of older seeds stay unchanged.
        let others = &mut policies.clone().fork();
        // One set in 5 has a leveled tree: one cell a level, with one run.
        let set = match policies.one_in(5) {
            true => OptionSet { max_runs: 1, max_runs_at: None, guards: Guards::None, ..set },
            false => set,
        };
        let set = OptionSet {
            memory_policy: draw_memory_policy(policies),
            active_percent: policies.pick(&[1, 4, 10, 25, 100]),
            pipeline_segments: policies.pick(&[1, 2, 4, 16]),
            log_rewrite_percent: policies.pick(&[0, 1, 50, 90]),
            // Short logs fill up before memory does.
            log_bytes: policies.pick(&[set.log_bytes, set.log_bytes, Some(4 << 10), Some(8 << 10)]),
            overlap_samples: policies.pick(&[true, true, true, false]),
            merges_for_readers: !others.one_in(4),
            hot_keys_percent: policies.pick(&[0, 1, 10, 30, 50]),
            log_table_percent: policies.pick(&[0, 1, 50, 80]),
            ..set
        };
        // The draw of an option that was removed. It stays so that older seeds keep their other draws.
        policies.one_in(3);
        // Drawn last, so that older seeds keep their other draws. Half of the sets keep values in tables.
        let separation_threshold = policies.pick(&[None, None, None, Some(0), Some(1), Some(100)]);
        let set = OptionSet { separation_threshold, ..set };
        // Drawn last, so that older seeds keep their other draws.
        let trie = |levels| ValueLayout::Trie { levels };
        let value_layout =
            policies.pick(&[ValueLayout::Ordered, ValueLayout::Ordered, trie(0), trie(1), trie(2)]);
        let set = OptionSet { value_layout, ..set };
        // Drawn last, so that older seeds keep their other draws. The numbers are small because the judges' runs of dead entries are short.
        let gap_entries = policies.pick(&[Some(1), Some(1), Some(2), Some(8), None]);
        let set = OptionSet { gap_entries, gap_puts: policies.pick(&[1, 8, 64, 1 << 10]), ..set };
        let set = match preset {
            Preset::ShortLogs => OptionSet {
                log_bytes: policies.pick(&[Some(4 << 10), Some(6 << 10), Some(8 << 10)]),
                log_rewrite_percent: policies.pick(&[50, 90, 90]),
                ..set
            },
            _ => set,
        };
        // Drawn last, so that older seeds keep their other draws. Only one set in 12 switches background merges off, because most judges
        // test merges.
        OptionSet { background_merges: !policies.one_in(12), ..set }
    }

    fn draw_tiers(rng: &mut Rng) -> OptionSet {
        let set = OptionSet::draw(
            rng.weighted(&[
                (1, Preset::SmallMemory),
                (2, Preset::TinyFiles),
                (4, Preset::Guards),
                (3, Preset::Random),
                (1, Preset::ShortLogs),
            ]),
            rng,
        );
        OptionSet {
            memtable_bytes: set.memtable_bytes.min(8 << 10),
            table_bytes: set.table_bytes.min(rng.pick(&[4 << 10, 4 << 10, 16 << 10])),
            slow_tiers: rng.pick(&[1, 1, 2]),
            fast_share: rng.pick(&[0, 10, 50, 90, 100]),
            fast_bytes: rng.pick(&[None, None, None, Some(0), Some(16 << 10), Some(64 << 10)]),
            // A cache that keeps all blocks hides the reads that make slices hot.
            block_cache_bytes: rng.pick(&[Some(0), Some(0), set.block_cache_bytes]),
            ..set
        }
    }

    fn draw_each(durability: Durability, rng: &mut Rng, policies: &mut Rng) -> OptionSet {
        let l0_slowdown_tables = (rng.between(1, 5) + rng.below(4)) as usize;
        OptionSet {
            durability,
            memtable_bytes: rng.pick(&[4 << 10, 4 << 10, 6 << 10, 16 << 10, 64 << 10, 1 << 20]),
            memory_policy: DEFAULT.memory_policy,
            active_percent: DEFAULT.active_percent,
            pipeline_segments: DEFAULT.pipeline_segments,
            block_bytes: rng.pick(&[64, 100, 256, 1 << 10, 4 << 10, 64 << 10]),
            block_cache_bytes: rng.pick(&[0, 1, 1 << 10, 32 << 10, 1 << 20].map(Some)),
            filter_bits_per_key: rng.pick(&[0, 1, 4, 10, 16, 32]),
            // Mostly the minimum of 16, because a bound that no case reaches is not tested.
            open_files: policies.pick(&[16, 16, 512]),
            table_bytes: rng.pick(&[4 << 10, 4 << 10, 10 << 10, 64 << 10, 64 << 20]),
            log_bytes: rng.pick(&[None, Some(4 << 10), Some(16 << 10), Some(256 << 10)]),
            log_rewrite_percent: DEFAULT.log_rewrite_percent,
            hot_keys_percent: DEFAULT.hot_keys_percent,
            log_table_percent: DEFAULT.log_table_percent,
            separation_threshold: DEFAULT.separation_threshold,
            value_layout: DEFAULT.value_layout,
            manifest_bytes: rng.pick(&[1 << 10, 1 << 10, 4 << 10, 64 << 10]),
            l0_slowdown_tables,
            l0_stop_tables: l0_slowdown_tables + rng.between(1, 8) as usize,
            overlap_samples: DEFAULT.overlap_samples,
            merges_for_readers: DEFAULT.merges_for_readers,
            background_threads: rng.between(1, 3) as usize,
            max_runs: draw_max_runs(policies),
            max_runs_at: draw_max_runs_at(policies),
            guards: draw_guards(policies),
            gap_entries: DEFAULT.gap_entries,
            gap_puts: DEFAULT.gap_puts,
            merge_bytes_per_second: policies.pick(&[None, None, Some(1 << 20), Some(1 << 30)]),
            background_merges: DEFAULT.background_merges,
            slow_tiers: DEFAULT.slow_tiers,
            fast_share: DEFAULT.fast_share,
            fast_bytes: DEFAULT.fast_bytes,
        }
    }

    /// The number of runs of a cell that is set for a level.
    pub fn max_runs_of(&self, level: usize) -> usize {
        match self.max_runs_at {
            Some((at, runs)) if at == level => runs,
            _ => self.max_runs,
        }
    }

    /// The options for opening a database on `env`.
    pub fn options(&self, env: Env) -> Options {
        let options = Options::new()
            .durability(self.durability)
            .memtable_bytes(self.memtable_bytes)
            .filter_bits_per_key(self.filter_bits_per_key)
            .open_files(self.open_files)
            .background_threads(self.background_threads)
            .merge_bytes_per_second(self.merge_bytes_per_second)
            .background_merges(self.background_merges)
            .fast_share(self.fast_share)
            .fast_bytes(self.fast_bytes)
            .env(env);
        let options = match self.block_cache_bytes {
            Some(bytes) => options.block_cache_bytes(bytes),
            None => options,
        };
        let slow = &SLOW_DIRS[..self.slow_tiers];
        let options = slow.iter().fold(options, |options, dir| options.slow_path(dir));
        options.tuning(|tuning| self.tuning(tuning))
    }

    fn tuning(&self, tuning: Tuning) -> Tuning {
        let tuning = tuning
            .memory_policy(self.memory_policy)
            .active_percent(self.active_percent)
            .pipeline_segments(self.pipeline_segments)
            .block_bytes(self.block_bytes)
            .table_bytes(self.table_bytes)
            .log_rewrite_percent(self.log_rewrite_percent)
            .hot_keys_percent(self.hot_keys_percent)
            .log_table_percent(self.log_table_percent)
            .separation_threshold(self.separation_threshold)
            .value_layout(self.value_layout)
            .manifest_bytes(self.manifest_bytes)
            .l0_slowdown_tables(self.l0_slowdown_tables)
            .l0_stop_tables(self.l0_stop_tables)
            .overlap_samples(self.overlap_samples)
            .merges_for_readers(self.merges_for_readers)
            .max_runs_per_guard(self.max_runs)
            .guards(self.guards)
            .gap_entries(self.gap_entries)
            .gap_puts(self.gap_puts);
        let tuning = match self.max_runs_at {
            Some((level, runs)) => tuning.max_runs_per_guard_at(level, runs),
            None => tuning,
        };
        match self.log_bytes {
            Some(bytes) => tuning.log_bytes(bytes),
            None => tuning,
        }
    }
}

/// Draws a bound from 1 to 16. Half of the larger bounds are 4 and 8.
fn draw_max_runs(rng: &mut Rng) -> usize {
    // A separate generator, so that the other draws of older seeds stay unchanged.
    let others = &mut rng.clone().fork();
    match rng.pick(&[1, 2, 4, 8]) {
        4 if others.one_in(2) => others.between(3, 7) as usize,
        8 if others.one_in(2) => others.between(9, 16) as usize,
        runs => runs,
    }
}

fn draw_memory_policy(rng: &mut Rng) -> MemoryPolicy {
    match rng.below(5) {
        0 => MemoryPolicy::None,
        1 => MemoryPolicy::Basic,
        2 => MemoryPolicy::Eager,
        _ => MemoryPolicy::Adaptive { redundancy_percent: rng.pick(&[1, 20, 35, 50, 99]) },
    }
}

/// Draws, in one of 4 cases, a separate bound for one level.
fn draw_max_runs_at(rng: &mut Rng) -> Option<(usize, usize)> {
    rng.one_in(4).then(|| (rng.between(1, 6) as usize, draw_max_runs(rng)))
}

/// Draws guards. With 4 bits, one key in 16 is already a guard on L1. With 27, hardly any key is a guard on any level.
fn draw_guards(rng: &mut Rng) -> Guards {
    match rng.below(5) {
        0 => Guards::None,
        1 | 2 => Guards::Balanced,
        _ => Guards::Sampled {
            top_level_bits: if rng.one_in(3) { rng.between(4, 27) as u32 } else { rng.pick(&[4, 5, 6, 8]) },
            bit_decrement: rng.between(1, 3) as u32,
        },
    }
}

impl fmt::Display for OptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.log_bytes.map_or("auto".to_owned(), |bytes| bytes.to_string());
        let (rewrite, body) = (self.log_rewrite_percent, self.log_table_percent);
        let runs_at =
            self.max_runs_at.map_or(String::new(), |(level, runs)| format!(" ({runs} on L{level})"));
        let apart = self.separation_threshold.map_or("no size".to_owned(), |bytes| format!("{bytes} B"));
        let rate = self.merge_bytes_per_second.map_or("full speed".to_owned(), |rate| format!("{rate} B/s"));
        let rate = if self.background_merges { rate } else { format!("{rate} when asked for") };
        let fast = self.fast_bytes.map_or(String::new(), |bytes| format!(" and {bytes} B"));
        let gaps = self
            .gap_entries
            .map_or("no gaps".to_owned(), |entries| format!("gaps of {entries} ({} puts)", self.gap_puts));
        let cache = self.block_cache_bytes.map_or("default".to_owned(), |bytes| bytes.to_string());
        let tiers = format!("{} slow tiers named, {}%{fast} fast", self.slow_tiers, self.fast_share);
        write!(
            f,
            "durability {:?}, memtable {} ({:?}, {}% active, {} segments, {}% hot), block {}, cache {cache}, filter bits {}, open files {}, table {}, \
             log {log} (rewritten at {rewrite}%, a body at {body}%), manifest {}, L0 {}/{}, samples {}, for readers {}, threads {}, runs {}{runs_at}, guards {:?}, values apart from {apart} ({:?}), merges at {rate}, {gaps}, {tiers}",
            self.durability,
            self.memtable_bytes,
            self.memory_policy,
            self.active_percent,
            self.pipeline_segments,
            self.hot_keys_percent,
            self.block_bytes,
            self.filter_bits_per_key,
            self.open_files,
            self.table_bytes,
            self.manifest_bytes,
            self.l0_slowdown_tables,
            self.l0_stop_tables,
            self.overlap_samples,
            self.merges_for_readers,
            self.background_threads,
            self.max_runs,
            self.guards,
            self.value_layout
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim_env;
    use std::collections::BTreeSet;

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
    fn all_bounds_of_runs_and_both_rules_of_l0_are_drawn() {
        let presets = [Preset::SmallMemory, Preset::TinyFiles, Preset::Guards, Preset::Random];
        let draws =
            (0..400).flat_map(|seed| presets.map(|preset| OptionSet::draw(preset, &mut Rng::new(seed))));
        let (mut bounds, mut rules) = (BTreeSet::new(), BTreeSet::new());
        for set in draws {
            bounds.insert(set.max_runs);
            if set.max_runs_of(1) == 1 {
                rules.insert(set.overlap_samples);
            }
        }
        assert!(bounds.into_iter().eq(1..=16));
        assert_eq!(rules.len(), 2, "L0 of a leveled tree waits for overlap, or does not");
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
