//! Options of the engine by name, for the options that the linked commit has (see build.rs).

use braidb::{Durability, Options};
use braidb_bench::Outcome;
use std::str::FromStr;

/// Where the linked commit has the types of tuning options.
#[cfg(not(has_tuning_module))]
use braidb as kinds;
#[cfg(has_tuning_module)]
use braidb::tuning as kinds;

/// The commit of the linked engine.
const ENGINE: &str = env!("BRAIDB_ENGINE_NAME");

/// Calls a setter of `Tuning`, or of `Options` where the linked commit has no `Tuning`.
macro_rules! tune {
    ($options:expr, $setter:ident, $value:expr) => {{
        let value = $value;
        #[cfg(has_tuning)]
        let options = $options.tuning(|tuning| tuning.$setter(value));
        #[cfg(not(has_tuning))]
        let options = $options.$setter(value);
        Ok(options)
    }};
}

/// Sets the option that `$name` names. A line has the `cfg` of an option that some commit lacks, its names, and what sets it.
macro_rules! set_if_there {
    ($options:ident, $name:ident, $value:ident; $($has:ident $($known:literal)|+ => $set:expr;)+) => {
        match $name {
            "durability" => Ok($options.durability(durability($value)?)),
            $(#[cfg($has)] $($known)|+ => $set,)+
            _ => Err(format!(
                "the engine of {ENGINE} has no option {}; names are those of its crates/braidb/src/db/options.rs and tuning.rs",
                $name
            )
            .into()),
        }
    };
}

/// Sets one option. `text` is `NAME=VALUE`, with the name of a setter of `braidb::Options` or `Tuning`. `l0_overlap`, `log_tables`,
/// `hot_keys`, `runs` and `memory` are short names, as in `braidb-lab bench`.
///
/// # Errors
///
/// The engine lacks the option, or the option lacks the value.
pub fn set(options: Options, text: &str) -> Outcome<Options> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!("--set {text}: write NAME=VALUE").into());
    };
    set_if_there! { options, name, value;
        has_active_percent "active_percent" => tune!(options, active_percent, number(name, value)?);
        has_background_merges "background_merges" => Ok(options.background_merges(yes_or_no(name, value)?));
        has_background_threads "background_threads" => Ok(options.background_threads(number(name, value)?));
        has_block_bytes "block_bytes" => tune!(options, block_bytes, number(name, value)?);
        has_block_cache_bytes "block_cache_bytes" => Ok(options.block_cache_bytes(number(name, value)?));
        has_defer_below_l0 "defer_below_l0" => tune!(options, defer_below_l0, yes_or_no(name, value)?);
        has_filter_bits_per_key "filter_bits_per_key" => Ok(options.filter_bits_per_key(number(name, value)?));
        has_gap_entries "gap_entries" => tune!(options, gap_entries, number_or_none(name, value)?);
        has_gap_puts "gap_puts" => tune!(options, gap_puts, number(name, value)?);
        has_guards "guards" => tune!(options, guards, guards(value)?);
        has_hot_keys_percent "hot_keys" | "hot_keys_percent" => tune!(options, hot_keys_percent, number(name, value)?);
        has_l0_merge_tables "l0_merge_tables" => tune!(options, l0_merge_tables, number(name, value)?);
        has_l0_overlap_percent "l0_overlap" | "l0_overlap_percent" => tune!(options, l0_overlap_percent, number(name, value)?);
        has_l0_overlap_tables "l0_overlap_tables" => tune!(options, l0_overlap_tables, number(name, value)?);
        has_l0_slowdown_tables "l0_slowdown_tables" => tune!(options, l0_slowdown_tables, number(name, value)?);
        has_l0_stop_tables "l0_stop_tables" => tune!(options, l0_stop_tables, number(name, value)?);
        has_log_bytes "log_bytes" => tune!(options, log_bytes, number(name, value)?);
        has_log_rewrite_percent "log_rewrite_percent" => tune!(options, log_rewrite_percent, number(name, value)?);
        has_log_table_percent "log_tables" | "log_table_percent" => tune!(options, log_table_percent, number(name, value)?);
        has_manifest_bytes "manifest_bytes" => tune!(options, manifest_bytes, number(name, value)?);
        has_max_runs_per_guard "runs" | "max_runs_per_guard" => tune!(options, max_runs_per_guard, number(name, value)?);
        has_memory_limit "memory_limit" => Ok(options.memory_limit(number_or_none(name, value)?));
        has_memory_policy "memory" | "memory_policy" => tune!(options, memory_policy, memory_policy(value)?);
        has_memtable_bytes "memtable_bytes" => Ok(options.memtable_bytes(number(name, value)?));
        has_merge_bytes_per_second "merge_bytes_per_second" => Ok(options.merge_bytes_per_second(Some(number(name, value)?)));
        has_open_files "open_files" => Ok(options.open_files(number(name, value)?));
        has_merges_for_readers "merges_for_readers" => tune!(options, merges_for_readers, yes_or_no(name, value)?);
        has_overlap_samples "overlap_samples" => tune!(options, overlap_samples, yes_or_no(name, value)?);
        has_overlap_scope "overlap_scope" => tune!(options, overlap_scope, overlap_scope(value)?);
        has_pipeline_segments "pipeline_segments" => tune!(options, pipeline_segments, number(name, value)?);
        has_separation_threshold "separation_threshold" => tune!(options, separation_threshold, number_or_none(name, value)?);
        has_value_layout "value_layout" => tune!(options, value_layout, value_layout(value)?);
        has_table_bytes "table_bytes" => tune!(options, table_bytes, number(name, value)?);
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Outcome<T> {
    value.parse().map_err(|_| format!("{name}={value}: {value} is no number that the option takes").into())
}

#[cfg(any(has_gap_entries, has_memory_limit, has_separation_threshold))]
fn number_or_none<T: FromStr>(name: &str, value: &str) -> Outcome<Option<T>> {
    if value == "none" { Ok(None) } else { number(name, value).map(Some) }
}

#[cfg(any(has_background_merges, has_defer_below_l0, has_merges_for_readers, has_overlap_samples))]
fn yes_or_no(name: &str, value: &str) -> Outcome<bool> {
    value.parse().map_err(|_| format!("{name}={value}: write true or false").into())
}

fn durability(value: &str) -> Outcome<Durability> {
    match value {
        "none" => Ok(Durability::None),
        "buffer" => Ok(Durability::Buffer),
        "sync" => Ok(Durability::Sync),
        _ => Err(format!("durability={value}: write none, buffer or sync").into()),
    }
}

#[cfg(has_guards)]
fn guards(value: &str) -> Outcome<kinds::Guards> {
    match value {
        "none" => Ok(kinds::Guards::None),
        "balanced" => Ok(kinds::Guards::Balanced),
        _ => Err(format!("guards={value}: write none or balanced").into()),
    }
}

#[cfg(has_value_layout)]
fn value_layout(value: &str) -> Outcome<kinds::ValueLayout> {
    match (value, value.strip_prefix("trie:")) {
        ("ordered", _) => Ok(kinds::ValueLayout::Ordered),
        (_, Some(levels)) => Ok(kinds::ValueLayout::Trie { levels: number("value_layout", levels)? }),
        _ => Err(format!("value_layout={value}: write ordered or trie:LEVELS").into()),
    }
}

#[cfg(has_memory_policy)]
fn memory_policy(value: &str) -> Outcome<kinds::MemoryPolicy> {
    match value {
        "none" => Ok(kinds::MemoryPolicy::None),
        "basic" => Ok(kinds::MemoryPolicy::Basic),
        "eager" => Ok(kinds::MemoryPolicy::Eager),
        _ => match value.strip_prefix("adaptive-") {
            Some(percent) => {
                Ok(kinds::MemoryPolicy::Adaptive { redundancy_percent: number("memory_policy", percent)? })
            }
            None => {
                Err(format!("memory_policy={value}: write none, basic, eager or adaptive-PERCENT").into())
            }
        },
    }
}

#[cfg(has_overlap_scope)]
fn overlap_scope(value: &str) -> Outcome<kinds::OverlapScope> {
    match value {
        "l0" => Ok(kinds::OverlapScope::L0),
        "l0-and-l1" => Ok(kinds::OverlapScope::L0AndL1),
        _ => Err(format!("overlap_scope={value}: write l0 or l0-and-l1").into()),
    }
}
