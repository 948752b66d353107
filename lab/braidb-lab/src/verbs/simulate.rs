//! `simulate`.

use super::bench::engine;
use crate::failure::Outcome;
use crate::figures::{bytes_text, grouped, ratio};
use crate::progress::{Progress, Unit};
use crate::text;
use crate::verbs::print_text;
use braidb::Options;
use braidb::stats::{Forecast, Load};
use braidb::tuning::Guards;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Predict what a load will cost: bytes written by merges, and space
///
/// The compaction policy runs through the load over sizes alone. Nothing is written, and terabytes take seconds. Keys are drawn evenly, or
/// come in order. The simulation assumes that merges keep up with the writes, and that no values stay in logs. Where merges keep up and
/// values go to tables, predictions differed by at most 14% from the bytes that the engine merged. These loads had 30,000 to 270,000 puts.
/// Where merges fell behind, the engine merged from half as much to 1.6 times as much.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// Writes
    #[arg(long, default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 50))]
    num: u64,
    /// Different keys, each as likely as any other [default: each write has its own]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    keys: Option<u64>,
    /// Bytes of a key and its value
    #[arg(long, default_value_t = 144, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    entry_bytes: u64,
    /// Keys come in order, and again from the first after the last
    #[arg(long)]
    sequential: bool,
    /// Gets of random keys, evenly between the writes
    #[arg(long, default_value_t = 0)]
    gets: u64,
    /// Scans of 50 entries from random keys, evenly between the writes
    #[arg(long, default_value_t = 0)]
    scans: u64,
    /// Memory for writes, in MiB
    #[arg(long, default_value_t = 64)]
    memtable_mib: usize,
    /// Runs that a cell of the tree holds before they are merged; 1 is a leveled tree [default: the engine's]
    #[arg(long)]
    runs: Option<usize>,
    /// Where levels are cut into cells: none, balanced or sampled [default: the engine's]
    #[arg(long, value_parser = engine::guards)]
    guards: Option<Guards>,
    /// Whether samples tell how much the runs of a cell overlap [default: the engine's]
    #[arg(long, value_name = "BOOL")]
    overlap_samples: Option<bool>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let mut options = Options::new().memtable_bytes(args.memtable_mib.saturating_mul(1 << 20));
    if let Some(runs) = args.runs {
        options = options.tuning(|tuning| tuning.max_runs_per_guard(runs));
    }
    if let Some(guards) = args.guards {
        options = options.tuning(|tuning| tuning.guards(guards));
    }
    if let Some(yes) = args.overlap_samples {
        options = options.tuning(|tuning| tuning.overlap_samples(yes));
    }
    let load = Load {
        entries: args.num,
        entry_bytes: args.entry_bytes,
        keys: args.keys.unwrap_or(u64::MAX),
        is_sequential: args.sequential,
        gets: args.gets,
        scans: args.scans,
    };
    let progress = Progress::new(Unit::Number("writes"), load.entries);
    let forecast = options.forecast_with_progress(&load, |writes| progress.show(writes, load.entries, ""));
    drop(progress);
    let forecast = forecast?;
    let text = if args.json { format!("{:#}", as_json(&forecast)) } else { as_text(&forecast) };
    print_text(&format!("{text}\n"))
}

fn as_json(forecast: &Forecast) -> Value {
    let levels: Vec<Value> = forecast
        .levels
        .iter()
        .zip(forecast.merged_bytes)
        .map(|(level, merged)| {
            json!({
                "cells": level.cells,
                "runs": level.runs,
                "slices": level.slices,
                "bytes": level.bytes,
                "merged_bytes": merged,
            })
        })
        .collect();
    json!({
        "flushed_bytes": forecast.flushed_bytes,
        "merged_bytes": forecast.merged_bytes.iter().sum::<u64>(),
        "merge_amplification": forecast.merge_amplification(),
        "merges": forecast.merges,
        "bought_merges": forecast.bought_merges,
        "probes": forecast.probes,
        "rearrangements": forecast.rearrangements,
        "live_bytes": forecast.live_bytes,
        "space_bytes": forecast.space_bytes,
        "peak_space_bytes": forecast.peak_space_bytes,
        "levels": levels,
    })
}

fn as_text(forecast: &Forecast) -> String {
    let Forecast { flushed_bytes, live_bytes, space_bytes, peak_space_bytes, .. } = *forecast;
    let merged: u64 = forecast.merged_bytes.iter().sum();
    let (written, of_live) = (forecast.merge_amplification(), |bytes| ratio(bytes, live_bytes));
    let mut text = format!(
        "flushed {}, merged {} ({written:.2} bytes written a byte flushed), {} merges, {} changes of metadata\n\
         live {}, space {} ({:.2}), at most {} ({:.2})\n",
        bytes_text(flushed_bytes),
        bytes_text(merged),
        grouped(forecast.merges),
        grouped(forecast.rearrangements),
        bytes_text(live_bytes),
        bytes_text(space_bytes),
        of_live(space_bytes),
        bytes_text(peak_space_bytes),
        of_live(peak_space_bytes),
    );
    if forecast.probes > 0 || forecast.bought_merges > 0 {
        let (bought, probes) = (grouped(forecast.bought_merges), grouped(forecast.probes));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "readers buy {bought} merges, and gets ask {probes} tables");
    }
    text.push_str("level    cells     runs   slices        bytes  merged into it");
    for (number, (level, &merged)) in forecast.levels.iter().zip(&forecast.merged_bytes).enumerate() {
        if level.bytes == 0 && merged == 0 {
            continue;
        }
        let (bytes, merged) = (bytes_text(level.bytes), bytes_text(merged));
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\nL{number:<4} {:>8} {:>8} {:>8} {bytes:>12} {merged:>15}",
            grouped(level.cells),
            grouped(level.runs),
            grouped(level.slices),
        );
    }
    text
}
