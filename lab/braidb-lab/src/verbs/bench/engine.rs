//! The engine as a store for workloads, and its options on the command line.

#[path = "../../../../rivals/adapter/adapter.rs"]
mod adapter;

pub use adapter::Braid;
use braidb::tuning::{Guards, MemoryPolicy, Tuning, ValueLayout};
use braidb::{Durability, Options};
use clap::ValueEnum;
use std::str::FromStr;

/// The options of the database.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct EngineArgs {
    /// What an acknowledged write means
    #[arg(long, value_enum, default_value_t = DurabilityArg::Buffer)]
    pub durability: DurabilityArg,
    /// Memory for writes, in MiB
    #[arg(long, default_value_t = 64)]
    pub memtable_mib: usize,
    /// Memory for writes, in bytes
    #[arg(long, value_name = "BYTES", conflicts_with = "memtable_mib")]
    pub memtable_bytes: Option<usize>,
    /// Memory for blocks, in MiB. The engine's own default depends on the machine; lines of `regress` need one that does not
    #[arg(long, default_value_t = 64)]
    pub cache_mib: usize,
    /// Threads that merge
    #[arg(long, default_value_t = 2)]
    pub background_threads: usize,
    /// Runs that a cell of the tree holds before they are merged; 1 is a leveled tree [default: the engine's]
    #[arg(long)]
    pub runs: Option<usize>,
    /// Where levels are cut into cells: `none` is nowhere, `balanced` by bytes, and `sampled` at keys that are chosen by their hashes, 27
    /// bits for L1 and 2 fewer for each deeper level [default: the engine's]
    #[arg(long, value_parser = guards)]
    pub guards: Option<Guards>,
    /// Whether samples tell how much the runs of a cell overlap [default: the engine's]
    #[arg(long, value_name = "BOOL")]
    pub overlap_samples: Option<bool>,
    /// Whether readers buy merges [default: the engine's]
    #[arg(long, value_name = "BOOL")]
    pub merges_for_readers: Option<bool>,
    /// How memory is kept small until it is flushed: `none` is one skiplist, `basic` merges indices of flat segments, `eager` drops all
    /// superseded versions at once, and `adaptive` where they are 20 in a hundred [default: the engine's]
    #[arg(long, value_parser = memory_policy)]
    pub memory: Option<MemoryPolicy>,
    /// Bytes of logs beyond which memory is flushed [default: four times the memory for writes, and at least 64 MiB]
    #[arg(long, value_name = "BYTES")]
    pub log_bytes: Option<u64>,
    /// Keys in a hundred that stay in memory at a flush, to begin with; 0 is none, ever [default: the engine's]
    #[arg(long)]
    pub hot_keys_percent: Option<u32>,
    /// A flush leaves values in their log if it would write at least this share of the log's bytes to tables, in percent; 0 is never
    /// [default: the engine's]
    #[arg(long, value_name = "PERCENT")]
    pub log_tables: Option<u32>,
    /// Live bytes of the oldest logs, in percent, up to which a collection replaces a flush; 0 is never [default: the engine's]
    #[arg(long, value_name = "PERCENT")]
    pub log_rewrite_percent: Option<u32>,
    /// Bytes of a value from which on it lies in a value file, apart from its key, or `none` [default: the engine's, which is 1,024]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    pub separation_threshold: Option<Threshold>,
    /// A trie over this many first bytes of a key decides which value file takes a value; 0 is one log of values [default: the engine's
    /// layout, which is no trie]
    #[arg(long, value_name = "LEVELS")]
    pub value_trie: Option<usize>,
    /// Bytes at which merges end a table [default: the engine's]
    #[arg(long, value_name = "BYTES")]
    pub table_bytes: Option<u64>,
}

/// `Tuning::separation_threshold` on the command line: a number of bytes, or `none`.
#[derive(Clone, Copy, Debug)]
pub struct Threshold(pub Option<u64>);

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        match text {
            "none" => Ok(Threshold(None)),
            _ => text
                .parse()
                .map(|bytes| Threshold(Some(bytes)))
                .map_err(|_| format!("write a number of bytes from 0 to {}, or `none`", u64::MAX)),
        }
    }
}

/// [`Durability`] on the command line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum DurabilityArg {
    None,
    #[default]
    Buffer,
    Sync,
}

/// Reads [`Guards`].
pub fn guards(text: &str) -> Result<Guards, String> {
    match text {
        "none" => Ok(Guards::None),
        "balanced" => Ok(Guards::Balanced),
        "sampled" => Ok(Guards::Sampled { top_level_bits: 27, bit_decrement: 2 }),
        _ => Err("write none, balanced or sampled".to_owned()),
    }
}

/// Reads [`MemoryPolicy`].
fn memory_policy(text: &str) -> Result<MemoryPolicy, String> {
    match text {
        "none" => Ok(MemoryPolicy::None),
        "basic" => Ok(MemoryPolicy::Basic),
        "eager" => Ok(MemoryPolicy::Eager),
        "adaptive" => Ok(MemoryPolicy::Adaptive { redundancy_percent: 20 }),
        _ => Err("write none, basic, eager or adaptive".to_owned()),
    }
}

impl EngineArgs {
    pub fn options(&self) -> Options {
        let options = Options::new()
            .durability(match self.durability {
                DurabilityArg::None => Durability::None,
                DurabilityArg::Buffer => Durability::Buffer,
                DurabilityArg::Sync => Durability::Sync,
            })
            .memtable_bytes(self.memtable_bytes())
            .tuning(|tuning| tuning.log_bytes(self.log_bound_bytes()))
            .block_cache_bytes(self.cache_mib.saturating_mul(1 << 20))
            .background_threads(self.background_threads);
        options.tuning(|tuning| {
            let tuning = given(tuning, self.runs, Tuning::max_runs_per_guard);
            let tuning = given(tuning, self.guards, Tuning::guards);
            let tuning = given(tuning, self.memory, Tuning::memory_policy);
            let tuning = given(tuning, self.hot_keys_percent, Tuning::hot_keys_percent);
            let tuning = given(tuning, self.overlap_samples, Tuning::overlap_samples);
            let tuning = given(tuning, self.merges_for_readers, Tuning::merges_for_readers);
            let tuning = given(tuning, self.log_tables, Tuning::log_table_percent);
            let tuning = given(tuning, self.log_rewrite_percent, Tuning::log_rewrite_percent);
            let tuning =
                given(tuning, self.separation_threshold.map(|least| least.0), Tuning::separation_threshold);
            let layout = self.value_trie.map(|levels| ValueLayout::Trie { levels });
            let tuning = given(tuning, layout, Tuning::value_layout);
            given(tuning, self.table_bytes, Tuning::table_bytes)
        })
    }

    /// The bytes that the logs may take. The engine always gets this number, so that this function and the engine share one default.
    pub fn log_bound_bytes(&self) -> u64 {
        self.log_bytes.unwrap_or_else(|| (self.memtable_bytes() as u64).saturating_mul(4).max(64 << 20))
    }

    /// The bytes that a database may take on disk while its keys stay alive. The live bytes count twice, because a merge keeps its inputs
    /// until its outputs are written. Logs and memory come on top.
    pub fn directory_bound_bytes(&self, live_bytes: u64) -> u64 {
        2 * live_bytes + self.log_bound_bytes() + 4 * self.memtable_bytes() as u64
    }

    pub fn memtable_bytes(&self) -> usize {
        self.memtable_bytes.unwrap_or(self.memtable_mib.saturating_mul(1 << 20))
    }
}

/// Sets an option of the engine if the command line gives it.
fn given<T>(tuning: Tuning, value: Option<T>, set: fn(Tuning, T) -> Tuning) -> Tuning {
    match value {
        Some(value) => set(tuning, value),
        None => tuning,
    }
}
