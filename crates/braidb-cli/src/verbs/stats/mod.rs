//! `stats DIR`, and the tables of figures that `tour` prints too.

pub mod devices;
mod tree;
mod values;

use crate::failure::{Outcome, printing};
use crate::figures::{bytes_text, counted, grouped, ratio};
use crate::hot_keys::hot_keys_json;
use crate::store::{Place, losses};
use crate::text;
use braidb::Db;
use braidb::stats::{Counts, Cut, HotKeyStats, RecoveryReport, Stats};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// Print what the database holds, level by level, and what opening it did
///
/// Levels and sizes describe the database; counts and bytes written start at zero with each open.
///
/// With --guards it draws the tree instead. Each level has one line a cell, named by the cell's guard, which is the lowest key that belongs
/// to the cell. Then come the cell's bytes, what a merge of it costs in milliseconds of readers, why its newest table was written, and its
/// runs, newest first: `e9 1.5 MiB #12×2 #13` is the run of epoch 9, of two slices of table
/// 12 and one of table 13.
///
/// With --values it tells how values lie in value files. The leaves of a column family are the cells of its last level that hold entries, in a trie too.
/// The extents of a leaf are the value files that its slices lead into. Then come the value files, and those with the largest share of dead
/// bytes. An overwritten value counts as alive until a merge meets both versions of its key.
///
/// With --tiers it shows the devices: bytes and cells of the database on each, and what is free. Then come the cells of each column family,
/// tier by tier and the hottest first, with their heat and why their newest table was written (`tier`: it moved). Heat, and reads of slow
/// tiers, start at zero with each open.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the tree: levels, the cells between their guards, runs and slices
    #[arg(long, group = "drawn")]
    guards: bool,
    /// Sum up leaves and value files (JSON has each of them)
    #[arg(long, conflicts_with = "drawn")]
    values: bool,
    /// Show the slow tiers, and the cells on each tier (JSON has all cells)
    #[arg(long, group = "drawn")]
    tiers: bool,
    /// Cells to draw of each level or tier, from both ends (JSON has all)
    #[arg(long, value_name = "CELLS", default_value_t = 20, requires = "drawn")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    cells: u64,
}

pub fn run(args: &Args) -> Outcome {
    let db = args.place.open_to_read()?;
    let (stats, recovery, trees) = (db.stats(), db.recovery().clone(), db.tree());
    let reasons = if args.guards || args.tiers { reasons(&db) } else { BTreeMap::new() };
    db.close()?;
    let cells = usize::try_from(args.cells).unwrap_or(usize::MAX);
    let mut text = match (args.guards, args.values, args.tiers, args.json) {
        (true, _, _, true) => format!("{:#}", tree::as_json(&trees, &reasons)),
        (true, _, _, false) => tree::as_text(&trees, &reasons, cells),
        (_, true, _, true) => format!("{:#}", values::as_json(&trees, &stats.values)),
        (_, true, _, false) => values::as_text(&trees, &stats.values),
        (_, _, true, true) => format!("{:#}", devices::as_json(&trees, &stats.tiers, &reasons)),
        (_, _, true, false) => devices::as_text(&trees, &stats.tiers, &reasons, cells),
        (false, false, false, true) => format!("{:#}", as_json(&stats, &recovery)),
        (false, false, false, false) => as_text(&stats, &recovery),
    };
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes()).map_err(printing)
}

/// Why tables were written. A tree with a table that cannot be read is drawn without reasons.
fn reasons(db: &Db) -> tree::Reasons {
    db.table_reasons().unwrap_or_else(|error| {
        eprintln!("braidb: the tree is drawn without the reasons of its tables: {error}");
        BTreeMap::new()
    })
}

/// All figures of the engine.
fn as_json(stats: &Stats, recovery: &RecoveryReport) -> Value {
    let families: Vec<Value> = stats.families.iter().map(family_json).collect();
    let mut counts: serde_json::Map<String, Value> =
        stats.counts.named().into_iter().map(|(name, count)| (name.to_owned(), count.into())).collect();
    counts.insert("merge_bytes".to_owned(), stats.counts.merge_bytes.to_vec().into());
    // An amplification of zero bytes means nothing, so it is left out.
    let of = |whole: u64, amplification: f64| (whole > 0).then_some(amplification);
    json!({
        "recovery": recovery_json(recovery),
        "families": families,
        "memory_bytes": stats.memory_bytes,
        "memory_held_bytes": stats.memory_held_bytes,
        "log_bytes_live": stats.log_bytes_live,
        "logs": stats.logs.iter().map(log_json).collect::<Vec<Value>>(),
        "pinned_logs": stats.pinned_logs,
        "pinned_log_bytes": stats.pinned_log_bytes,
        "log_tables": stats.log_tables,
        "log_value_bytes": stats.log_value_bytes,
        "value_files": stats.value_files,
        "value_file_bytes": stats.value_file_bytes,
        "value_live_bytes": stats.value_live_bytes,
        "tiers": stats.tiers.iter().map(devices::tier_json).collect::<Vec<Value>>(),
        "damages_waiting": stats.damages_waiting,
        "cache_bytes": stats.cache_bytes,
        "cache_limit_bytes": stats.cache_limit_bytes,
        "space_bytes": stats.space_bytes(),
        "open_snapshots": stats.open_snapshots,
        "poisoned": stats.poisoned,
        "job_error": stats.job_error,
        "total_written_bytes": stats.total_written_bytes(),
        "write_amplification": of(stats.counts.user_bytes, stats.write_amplification()),
        "merge_amplification": of(stats.counts.flush_bytes, stats.merge_amplification()),
        "counts": counts,
    })
}

fn recovery_json(recovery: &RecoveryReport) -> Value {
    let cut = |cut: &Cut| {
        json!({
            "path": cut.path.to_string_lossy(),
            "offset": cut.offset,
            "bytes": cut.bytes,
            "whole_frames_behind": cut.whole_frames_behind,
        })
    };
    let set_aside: Vec<_> = recovery.set_aside.iter().map(|path| path.to_string_lossy()).collect();
    json!({
        "logs": recovery.logs,
        "frames": recovery.frames,
        "entries": recovery.entries,
        "rewritten_bytes": recovery.rewritten_bytes,
        "cut": recovery.cut.as_ref().map(cut),
        "manifest_cut": recovery.manifest_cut.as_ref().map(cut),
        "set_aside": set_aside,
    })
}

fn log_json(log: &braidb::stats::LogStats) -> Value {
    json!({
        "id": log.id,
        "bytes": log.bytes,
        "live_entries": log.live_entries,
        "live_bytes": log.live_bytes,
    })
}

fn layout_json(memory: &braidb::stats::LayoutStats) -> Value {
    json!({
        "layout": memory.layout,
        "segments": memory.segments,
        "entries": memory.entries,
        "bytes": memory.bytes,
        "bytes_per_entry": ratio(memory.bytes, memory.entries),
    })
}

fn family_json(family: &braidb::stats::FamilyStats) -> Value {
    let levels = family.levels.iter().map(|level| {
        json!({
            "level": level.level,
            "tables": level.tables,
            "runs": level.runs,
            "bytes": level.bytes,
            "entries": level.entries,
            "tombstones": level.tombstones,
        })
    });
    let hot_keys = family.hot_keys.as_ref().map(hot_keys_json);
    let written = family.written_bytes.iter().map(|(reason, bytes)| (reason.to_string(), (*bytes).into()));
    json!({
        "name": family.name,
        "memory_bytes": family.memory_bytes,
        "segments": family.segments,
        "written_bytes": written.collect::<serde_json::Map<String, Value>>(),
        "hot_keys": hot_keys,
        "memory": family.memory.iter().map(layout_json).collect::<Vec<Value>>(),
        "levels": levels.collect::<Vec<Value>>(),
    })
}

/// All figures as text, without the figures that are zero.
pub fn as_text(stats: &Stats, recovery: &RecoveryReport) -> String {
    let mut text = String::new();
    recovery_text(recovery, &mut text);
    levels_text(stats, &mut text);
    written_text(stats, &mut text);
    work_text(stats, &mut text);
    text.truncate(text.trim_end().len());
    text
}

fn recovery_text(recovery: &RecoveryReport, text: &mut String) {
    let replayed = [
        counted(recovery.logs, "log", "logs"),
        counted(recovery.frames, "batch", "batches"),
        counted(recovery.entries, "write", "writes"),
    ];
    line(text, &format!("opening replayed {}", replayed.join(", ")));
    if recovery.rewritten_bytes > 0 {
        let bytes = bytes_text(recovery.rewritten_bytes);
        line(text, &format!("  {bytes} of it were written again: nothing proved that the device had them"));
    }
    match losses(recovery).as_slice() {
        [] => line(text, "  nothing was left out"),
        losses => losses.iter().for_each(|loss| line(text, &format!("  {loss}"))),
    }
}

fn levels_text(stats: &Stats, text: &mut String) {
    line(
        text,
        &format!(
            "{:<18}{:>7}{:>6}{:>12}{:>14}{:>12}",
            "holds", "tables", "runs", "bytes", "entries", "deletions"
        ),
    );
    for family in &stats.families {
        for level in family.levels.iter().filter(|level| level.tables > 0) {
            let name = format!("  {} L{}", family.name, level.level);
            let (bytes, entries) = (bytes_text(level.bytes), grouped(level.entries));
            let deletions = grouped(level.tombstones);
            line(
                text,
                &format!(
                    "{name:<18}{:>7}{:>6}{bytes:>12}{entries:>14}{deletions:>12}",
                    level.tables, level.runs
                ),
            );
        }
    }
    for (family, memory) in stats.families.iter().flat_map(|f| f.memory.iter().map(move |m| (f, m))) {
        let name = format!("  {} {}", family.name, memory.layout);
        let (bytes, entries) = (bytes_text(memory.bytes), grouped(memory.entries));
        line(text, &format!("{name:<24}{:>7}{bytes:>12}{entries:>14}", memory.segments));
    }
    for (family, hot_keys) in stats.families.iter().filter_map(|f| Some((f, f.hot_keys.as_ref()?))) {
        hot_keys_text(&family.name, hot_keys, text);
    }
    for log in &stats.logs {
        let name = format!("  log {:06}", log.id);
        let live = format!("{} alive", bytes_text(log.live_bytes));
        line(text, &format!("{name:<31}{:>12}{live:>26}", bytes_text(log.bytes)));
    }
    for (name, bytes) in [
        ("memory", stats.memory_bytes),
        ("logs", stats.log_bytes_live),
        ("block cache", stats.cache_bytes),
        ("files in all", stats.space_bytes()),
    ] {
        line(text, &format!("  {name:<29}{:>12}", bytes_text(bytes)));
    }
    if stats.log_tables > 0 {
        let values = format!("{} of values", bytes_text(stats.log_value_bytes));
        let name = format!("logs kept for {}", counted(stats.log_tables, "table", "tables"));
        line(text, &format!("  {name:<29}{:>12}{values:>26}", bytes_text(stats.pinned_log_bytes)));
    }
    if stats.value_files > 0 {
        let live = format!("{} alive", bytes_text(stats.value_live_bytes));
        let name = counted(stats.value_files, "value file", "value files");
        line(text, &format!("  {name:<29}{:>12}{live:>26}", bytes_text(stats.value_file_bytes)));
    }
}

/// The current share of hot keys, and the measurements of the hot-key tuner.
fn hot_keys_text(family: &str, hot_keys: &HotKeyStats, text: &mut String) {
    if hot_keys.periods.is_empty() {
        return;
    }
    let percent = |ppm: u64| format!("{:.2}%", ppm as f64 / 10_000.0);
    let name = format!("  {family} hot keys that stay");
    line(text, &format!("{name:<31}{:>12}", percent(hot_keys.ppm)));
    for period in &hot_keys.periods {
        let name = format!("    {}, {}", percent(period.ppm), counted(period.flushes, "flush", "flushes"));
        let [flushed, back, saved] =
            [period.flush_bytes, period.written_back_bytes, period.saved_bytes].map(bytes_text);
        let writes = counted(period.writes, "write", "writes");
        line(text, &format!("{name:<31}{flushed:>12}   {back} written back, {saved} saved, {writes}"));
    }
}

fn written_text(stats: &Stats, text: &mut String) {
    let counts = &stats.counts;
    line(text, &format!("{:<31}{:>12}{:>22}", "written since the open", "bytes", "per user byte"));
    let mut cause = |name: &str, bytes: u64| {
        if bytes > 0 {
            let share = match counts.user_bytes {
                0 => "-".to_owned(),
                user_bytes => format!("{:.2}", ratio(bytes, user_bytes)),
            };
            line(text, &format!("  {name:<29}{:>12}{share:>22}", bytes_text(bytes)));
        }
    };
    cause("keys and values by users", counts.user_bytes);
    cause("log", counts.log_bytes);
    cause("log, of it mapped", counts.log_mapped_bytes);
    cause("log, of it written back", counts.written_back_bytes);
    cause("flushes", counts.flush_bytes);
    cause("flushes, of it log tables", counts.log_table_bytes);
    cause("value files", counts.value_file_bytes);
    for (level, &bytes) in counts.merge_bytes.iter().enumerate() {
        cause(&format!("merges into L{level}"), bytes);
    }
    cause("manifest", counts.manifest_bytes);
    cause("all (write amplification)", stats.total_written_bytes());
}

fn work_text(stats: &Stats, text: &mut String) {
    let counts = &stats.counts;
    line(text, "work since the open");
    let mut count = |name: &str, number: u64, remark: String| {
        if number > 0 {
            line(text, format!("  {name:<29}{:>12}   {remark}", grouped(number)).trim_end());
        }
    };
    count(
        "puts and deletes",
        counts.user_ops,
        format!("{} commit groups, {} syncs", grouped(counts.log_groups), grouped(counts.log_syncs)),
    );
    reads_text(counts, &mut count);
    memory_text(counts, &mut count);
    merges_text(counts, &mut count);
    count("files deleted", counts.files_deleted, String::new());
    count("writes slowed down", counts.slowdowns, String::new());
    count("writes stalled", counts.stalls, String::new());
    count("stalled ms", counts.stall_us.div_ceil(1000), String::new());
    count("snapshots held now", stats.open_snapshots, String::new());
    count("failed background jobs", counts.job_failures, String::new());
    if stats.damages_waiting > 0 {
        count("places that merges avoid", stats.damages_waiting, "`verify` names what is damaged".to_owned());
    }
    for trouble in stats.poisoned.iter().chain(&stats.job_error) {
        line(text, &format!("TROUBLE: {trouble}"));
    }
}

/// Takes the name of a number, the number, and a remark.
type Count<'a> = dyn FnMut(&str, u64, String) + 'a;

fn reads_text(counts: &Counts, count: &mut Count<'_>) {
    let percent = |part: u64, whole: u64| format!("{:.1}%", 100.0 * ratio(part, whole));
    let looks = counts.cache_hits + counts.cache_misses;
    let asked = counts.table_reads + counts.filter_rejections;
    count("gets", counts.gets, format!("{:.2} tables read a get", ratio(counts.table_reads, counts.gets)));
    count("scans", counts.scans, String::new());
    count("deleted entries passed", counts.scan_dead_entries, String::new());
    count("gaps found", counts.gaps_accepted, format!("{} more came too late", counts.gaps_refused));
    count(
        "tables spared by filters",
        counts.filter_rejections,
        format!("{} of those in question", percent(counts.filter_rejections, asked)),
    );
    count(
        "filters that let pass in vain",
        counts.filter_false_positives,
        percent(counts.filter_false_positives, counts.filter_false_positives + counts.filter_rejections),
    );
    count("blocks asked of the cache", looks, format!("{} hits", percent(counts.cache_hits, looks)));
}

fn memory_text(counts: &Counts, count: &mut Count<'_>) {
    count("logs rotated", counts.logs_rotated, String::new());
    count(
        "logs gone without a flush",
        counts.logs_collected,
        format!("{} writes written back", grouped(counts.written_back)),
    );
    count("flushes", counts.flushes, String::new());
    count("hot keys that stayed", counts.hot_kept, String::new());
    count(
        "condensed, not flushed",
        counts.full_memory_compactions,
        "memory of superseded versions".to_owned(),
    );
    count("flushes to log tables", counts.log_tables, String::new());
    count(
        "values read from logs",
        counts.log_reads,
        format!("{:.2} a get", ratio(counts.log_reads, counts.gets)),
    );
}

fn merges_text(counts: &Counts, count: &mut Count<'_>) {
    let read_mib = counts.log_merge_bytes.div_ceil(1 << 20);
    count("MiB of logs read by merges", read_mib, String::new());
    count("merges", counts.merges, format!("{} read", bytes_text(counts.merge_read_bytes)));
    let ms = |ns: u64| grouped(ns.div_ceil(1_000_000));
    let rent = format!(
        "readers paid {} ms in vain, {} ms for these",
        ms(counts.rent_paid_ns),
        ms(counts.rent_spent_ns)
    );
    count("merges bought by readers", counts.bought_merges, rent);
    count("merges on several threads", counts.merges_shared, String::new());
    count(
        "cells asked for overlap",
        counts.cells_sampled,
        format!("{} times that spared a rewrite", grouped(counts.rewrites_spared)),
    );
    count("reads of slow tiers", counts.slow_reads, String::new());
    count("MiB moved to slow tiers", counts.tier_out_bytes.div_ceil(1 << 20), String::new());
    count("MiB moved to the fast tier", counts.tier_in_bytes.div_ceil(1 << 20), String::new());
    count("tables moved as metadata", counts.trivial_moves, String::new());
    count("old versions dropped", counts.entries_dropped, String::new());
    count("tombstones dropped", counts.tombstones_dropped, String::new());
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}
