//! Options and tuning by their names: each setter of `braidb::Options` and `braidb::tuning::Tuning`, and how its value is written.
//!
//! The test `every_option_of_the_engine_has_a_name` compares the list with the sources of the engine.

use braidb::tuning::{Guards, MemoryPolicy, ValueLayout};
use braidb::{Durability, Options};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why an option was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no option of this name.
    Unknown { name: String },
    /// The option does not take this value.
    Value { name: String, text: String, wanted: &'static str },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown { name } => write!(f, "there is no option `{name}`"),
            Refused::Value { name, text, wanted } => write!(f, "option `{name}`: {text:?} is not {wanted}"),
        }
    }
}

/// An outcome that a value of an option decides.
type Result<T> = std::result::Result<T, Refused>;

/// Declares the options: the name, and what sets it to a value, which is a text.
macro_rules! settings {
    ($($name:literal => |$options:ident, $value:ident| $set:expr;)*) => {
        /// The names of all options, one a line, with a NUL at the end.
        pub const NAMES: &str = concat!($($name, "\n",)* "\0");

        /// Sets the option `name` to `value`. Ranges are checked when the database is opened.
        pub fn set(options: Options, name: &str, value: &str) -> Result<Options> {
            let value = Value { name, text: value };
            match name {
                $($name => {
                    let ($options, $value) = (options, value);
                    Ok($set)
                })*
                _ => Err(Refused::Unknown { name: name.to_owned() }),
            }
        }
    };
}

settings! {
    "background_merges" => |options, value| options.background_merges(value.boolean()?);
    "background_threads" => |options, value| options.background_threads(value.number()?);
    "block_cache_bytes" => |options, value| options.block_cache_bytes(value.number()?);
    "create_if_missing" => |options, value| options.create_if_missing(value.boolean()?);
    "create_new" => |options, value| options.create_new(value.boolean()?);
    "durability" => |options, value| options.durability(value.durability()?);
    "fast_bytes" => |options, value| options.fast_bytes(value.number_or_none()?);
    "fast_share" => |options, value| options.fast_share(value.number()?);
    "filter_bits_per_key" => |options, value| options.filter_bits_per_key(value.number()?);
    "memory_limit" => |options, value| options.memory_limit(value.number_or_none()?);
    "memtable_bytes" => |options, value| options.memtable_bytes(value.number()?);
    "merge_bytes_per_second" => |options, value| options.merge_bytes_per_second(value.number_or_none()?);
    "open_damaged" => |options, value| options.open_damaged(value.boolean()?);
    "open_files" => |options, value| options.open_files(value.number()?);
    "slow_path" => |options, value| options.slow_path(value.text);
    "wait_for_lock" => |options, value| options.wait_for_lock(value.time()?);
    "active_percent" => |options, value| {
        let percent = value.number()?;
        options.tuning(|tuning| tuning.active_percent(percent))
    };
    "block_bytes" => |options, value| {
        let bytes = value.number()?;
        options.tuning(|tuning| tuning.block_bytes(bytes))
    };
    "gap_entries" => |options, value| {
        let entries = value.number_or_none()?;
        options.tuning(|tuning| tuning.gap_entries(entries))
    };
    "gap_puts" => |options, value| {
        let puts = value.number()?;
        options.tuning(|tuning| tuning.gap_puts(puts))
    };
    "guards" => |options, value| {
        let guards = value.guards()?;
        options.tuning(|tuning| tuning.guards(guards))
    };
    "hot_keys_percent" => |options, value| {
        let percent = value.number()?;
        options.tuning(|tuning| tuning.hot_keys_percent(percent))
    };
    "l0_slowdown_tables" => |options, value| {
        let tables = value.number()?;
        options.tuning(|tuning| tuning.l0_slowdown_tables(tables))
    };
    "l0_stop_tables" => |options, value| {
        let tables = value.number()?;
        options.tuning(|tuning| tuning.l0_stop_tables(tables))
    };
    "log_bytes" => |options, value| {
        let bytes = value.number()?;
        options.tuning(|tuning| tuning.log_bytes(bytes))
    };
    "log_rewrite_percent" => |options, value| {
        let percent = value.number()?;
        options.tuning(|tuning| tuning.log_rewrite_percent(percent))
    };
    "log_table_percent" => |options, value| {
        let percent = value.number()?;
        options.tuning(|tuning| tuning.log_table_percent(percent))
    };
    "manifest_bytes" => |options, value| {
        let bytes = value.number()?;
        options.tuning(|tuning| tuning.manifest_bytes(bytes))
    };
    "max_runs_per_guard" => |options, value| {
        let runs = value.number()?;
        options.tuning(|tuning| tuning.max_runs_per_guard(runs))
    };
    "max_runs_per_guard_at" => |options, value| {
        let (level, runs) = value.level_and_runs()?;
        options.tuning(|tuning| tuning.max_runs_per_guard_at(level, runs))
    };
    "memory_policy" => |options, value| {
        let policy = value.memory_policy()?;
        options.tuning(|tuning| tuning.memory_policy(policy))
    };
    "merges_for_readers" => |options, value| {
        let yes = value.boolean()?;
        options.tuning(|tuning| tuning.merges_for_readers(yes))
    };
    "overlap_samples" => |options, value| {
        let yes = value.boolean()?;
        options.tuning(|tuning| tuning.overlap_samples(yes))
    };
    "pipeline_segments" => |options, value| {
        let segments = value.number()?;
        options.tuning(|tuning| tuning.pipeline_segments(segments))
    };
    "separation_threshold" => |options, value| {
        let bytes = value.number_or_none()?;
        options.tuning(|tuning| tuning.separation_threshold(bytes))
    };
    "table_bytes" => |options, value| {
        let bytes = value.number()?;
        options.tuning(|tuning| tuning.table_bytes(bytes))
    };
    "value_layout" => |options, value| {
        let layout = value.value_layout()?;
        options.tuning(|tuning| tuning.value_layout(layout))
    };
}

/// The value of an option, as the caller wrote it.
#[derive(Clone, Copy)]
struct Value<'a> {
    name: &'a str,
    text: &'a str,
}

impl Value<'_> {
    fn refused(&self, wanted: &'static str) -> Refused {
        Refused::Value { name: self.name.to_owned(), text: self.text.to_owned(), wanted }
    }

    fn number<T: FromStr>(&self) -> Result<T> {
        self.text.parse().map_err(|_| self.refused("a number that the option takes"))
    }

    fn number_or_none<T: FromStr>(&self) -> Result<Option<T>> {
        match self.text {
            "none" => Ok(None),
            text => {
                text.parse().map(Some).map_err(|_| self.refused("`none` or a number that the option takes"))
            }
        }
    }

    fn boolean(&self) -> Result<bool> {
        self.text.parse().map_err(|_| self.refused("`true` or `false`"))
    }

    fn durability(&self) -> Result<Durability> {
        match self.text {
            "none" => Ok(Durability::None),
            "buffer" => Ok(Durability::Buffer),
            "sync" => Ok(Durability::Sync),
            _ => Err(self.refused("`none`, `buffer` or `sync`")),
        }
    }

    fn time(&self) -> Result<Duration> {
        let number = self.text.strip_suffix("ms").and_then(|number| number.parse().ok());
        number
            .map(Duration::from_millis)
            .ok_or_else(|| self.refused("a number of milliseconds such as `500ms`"))
    }

    /// The numbers behind `word`, each behind a colon.
    fn numbers<const N: usize>(&self, word: &str) -> Option<[u32; N]> {
        let mut parts = self.text.strip_prefix(word)?.split(':');
        if parts.next() != Some("") {
            return None;
        }
        let numbers: Option<Vec<u32>> = parts.map(|part| part.parse().ok()).collect();
        numbers?.try_into().ok()
    }

    fn guards(&self) -> Result<Guards> {
        match (self.text, self.numbers("sampled")) {
            ("none", _) => Ok(Guards::None),
            ("balanced", _) => Ok(Guards::Balanced),
            (_, Some([top_level_bits, bit_decrement])) => {
                Ok(Guards::Sampled { top_level_bits, bit_decrement })
            }
            _ => Err(self.refused("`none`, `balanced` or `sampled:TOP_LEVEL_BITS:BIT_DECREMENT`")),
        }
    }

    fn memory_policy(&self) -> Result<MemoryPolicy> {
        match (self.text, self.numbers("adaptive")) {
            ("none", _) => Ok(MemoryPolicy::None),
            ("basic", _) => Ok(MemoryPolicy::Basic),
            ("eager", _) => Ok(MemoryPolicy::Eager),
            (_, Some([redundancy_percent])) => Ok(MemoryPolicy::Adaptive { redundancy_percent }),
            _ => Err(self.refused("`none`, `basic`, `eager` or `adaptive:PERCENT`")),
        }
    }

    fn value_layout(&self) -> Result<ValueLayout> {
        match (self.text, self.numbers("trie")) {
            ("ordered", _) => Ok(ValueLayout::Ordered),
            (_, Some([levels])) => Ok(ValueLayout::Trie { levels: levels as usize }),
            _ => Err(self.refused("`ordered` or `trie:LEVELS`")),
        }
    }

    fn level_and_runs(&self) -> Result<(usize, usize)> {
        match self.numbers("level") {
            Some([level @ 1..=6, runs]) => Ok((level as usize, runs as usize)),
            _ => Err(self.refused("`level:LEVEL:RUNS` with a level from 1 to 6")),
        }
    }
}
