//! What the database reports, as JSON and as text. Names are those of the fields in `braidb::stats`.

use braidb::stats::{
    CheckpointReport, Cut, FamilyStats, LevelStats, LogStats, RecoveryReport, Stats, TierStats, VerifyReport,
};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;

/// A path as text. Bytes that are no UTF-8 are replaced.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub fn verification(report: &VerifyReport) -> Value {
    let damages = report.damages.iter().map(|damage| {
        json!({ "path": text(&damage.path), "offset": damage.offset, "bytes": damage.bytes, "what": damage.what })
    });
    let notes = report.notes.iter().map(|note| {
        json!({ "path": text(&note.path), "offset": note.offset, "bytes": note.bytes, "what": note.what })
    });
    json!({
        "files": report.files,
        "bytes": report.bytes,
        "damages": damages.collect::<Vec<Value>>(),
        "notes": notes.collect::<Vec<Value>>(),
    })
}

pub fn checkpoint(report: &CheckpointReport) -> Value {
    json!({
        "files": report.files,
        "linked_bytes": report.linked_bytes,
        "copied_bytes": report.copied_bytes,
    })
}

pub fn recovery(report: &RecoveryReport) -> Value {
    let cut = |cut: &Cut| {
        json!({
            "path": text(&cut.path),
            "offset": cut.offset,
            "bytes": cut.bytes,
            "whole_frames_behind": cut.whole_frames_behind,
        })
    };
    json!({
        "logs": report.logs,
        "frames": report.frames,
        "entries": report.entries,
        "rewritten_bytes": report.rewritten_bytes,
        "cut": report.cut.as_ref().map(cut),
        "manifest_cut": report.manifest_cut.as_ref().map(cut),
        "set_aside": report.set_aside.iter().map(|path| text(path)).collect::<Vec<String>>(),
    })
}

/// All statistics. What [`figures`] has, and what is no single number.
pub fn statistics(stats: &Stats) -> Value {
    let mut all: Map<String, Value> =
        figures(stats).into_iter().map(|(name, number)| (name, number.into())).collect();
    all.insert("families".to_owned(), stats.families.iter().map(family).collect());
    all.insert("logs".to_owned(), stats.logs.iter().map(log).collect());
    all.insert("tiers".to_owned(), stats.tiers.iter().map(tier).collect());
    all.insert("merge_bytes_total".to_owned(), stats.counts.merge_bytes.to_vec().into());
    all.insert("poisoned".to_owned(), stats.poisoned.clone().into());
    all.insert("job_error".to_owned(), stats.job_error.clone().into());
    Value::from(all)
}

/// Every statistic that is one number: what there is now, and, with names that end in `_total`, what was counted since the open.
pub fn figures(stats: &Stats) -> Vec<(String, u64)> {
    let now = [
        ("memory_bytes", stats.memory_bytes),
        ("memory_held_bytes", stats.memory_held_bytes),
        ("log_bytes_live", stats.log_bytes_live),
        ("pinned_logs", stats.pinned_logs),
        ("pinned_log_bytes", stats.pinned_log_bytes),
        ("log_tables", stats.log_tables),
        ("log_value_bytes", stats.log_value_bytes),
        ("value_files", stats.value_files),
        ("value_file_bytes", stats.value_file_bytes),
        ("value_live_bytes", stats.value_live_bytes),
        ("damages_waiting", stats.damages_waiting),
        ("cache_bytes", stats.cache_bytes),
        ("cache_limit_bytes", stats.cache_limit_bytes),
        ("table_memory_bytes", stats.table_memory_bytes),
        ("open_snapshots", stats.open_snapshots),
        ("space_bytes", stats.space_bytes()),
        ("is_poisoned", u64::from(stats.poisoned.is_some())),
        ("has_job_error", u64::from(stats.job_error.is_some())),
    ];
    let now = now.into_iter().map(|(name, number)| (name.to_owned(), number));
    let counted = stats.counts.named().into_iter().map(|(name, number)| (format!("{name}_total"), number));
    let merged = ("merge_bytes_all_total".to_owned(), stats.counts.merge_bytes.iter().sum());
    let written = ("written_bytes_total".to_owned(), stats.total_written_bytes());
    now.chain(counted).chain([merged, written]).collect()
}

/// What [`figures`] has as lines `braidb_NAME NUMBER`, which Prometheus reads.
pub fn metrics(stats: &Stats) -> String {
    let mut text = String::new();
    for (name, number) in figures(stats) {
        writeln!(text, "braidb_{name} {number}").expect("a text takes all that is written");
    }
    text
}

fn family(family: &FamilyStats) -> Value {
    let memory = family.memory.iter().map(|memory| {
        json!({
            "layout": memory.layout,
            "segments": memory.segments,
            "entries": memory.entries,
            "bytes": memory.bytes,
        })
    });
    let written = family.written_bytes.iter().map(|(reason, bytes)| (reason.to_string(), (*bytes).into()));
    json!({
        "name": family.name,
        "memory_bytes": family.memory_bytes,
        "segments": family.segments,
        "memory": memory.collect::<Vec<Value>>(),
        "written_bytes": written.collect::<Map<String, Value>>(),
        "hot_keys_ppm": family.hot_keys.as_ref().map(|hot_keys| hot_keys.ppm),
        "levels": family.levels.iter().map(level).collect::<Vec<Value>>(),
    })
}

fn level(level: &LevelStats) -> Value {
    json!({
        "level": level.level,
        "tables": level.tables,
        "slices": level.slices,
        "cells": level.cells,
        "runs": level.runs,
        "most_runs": level.most_runs,
        "bytes": level.bytes,
        "entries": level.entries,
        "tombstones": level.tombstones,
    })
}

fn log(log: &LogStats) -> Value {
    json!({
        "id": log.id,
        "bytes": log.bytes,
        "live_entries": log.live_entries,
        "live_bytes": log.live_bytes,
    })
}

fn tier(tier: &TierStats) -> Value {
    json!({
        "id": tier.id,
        "path": text(&tier.path),
        "bytes": tier.bytes,
        "cells": tier.cells,
        "free_bytes": tier.free_bytes,
        "reads": tier.reads,
        "is_closed": tier.is_closed,
    })
}
