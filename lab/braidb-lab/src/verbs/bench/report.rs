//! The figures of one workload, as text or as JSON.

use super::measure::Measured;
use super::{Measurement, Settings};
use crate::failure::Outcome;
use crate::figures::{bytes_text, counted, grouped, nanoseconds_text, ratio};
use crate::hot_keys::hot_keys_json;
use crate::verbs::print_text;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Prints the figures.
pub fn print(measured: &Measured, args: &Measurement, directory_bytes: u64) -> Outcome {
    let text = match args.json {
        true => format!("{}\n", as_json(measured, args, directory_bytes)),
        false => as_text(measured, directory_bytes),
    };
    print_text(&text)
}

/// The quantiles of latencies that are printed, with their names.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)];

fn as_json(measured: &Measured, args: &Measurement, directory_bytes: u64) -> Value {
    let written = &measured.written;
    let (settings, operations) = (&args.settings, measured.run.lane.operations);
    let causes: Map<String, Value> =
        written.causes.iter().map(|(cause, bytes)| (cause.clone(), (*bytes).into())).collect();
    let mut figures = json!({
        "workload": measured.workload.name,
        "num": settings.load.num,
        "key_bytes": settings.load.key_bytes,
        "value_bytes": settings.load.value_bytes,
        "distribution": settings.load.distribution(measured.workload).name(),
        "threads": settings.load.threads,
        "durability": format!("{:?}", settings.engine.durability).to_lowercase(),
        "memtable_bytes": settings.engine.memtable_bytes(),
        "cache_mib": settings.engine.cache_mib,
        "operations": operations,
        "entries_found": measured.run.lane.found,
        "checked": measured.run.lane.checked,
        "byte_sum": measured.run.lane.byte_sum,
        "families": settings.load.families,
        "seconds": measured.run.seconds,
        "settled_seconds": measured.run.settled_seconds,
        "operations_per_second": operations as f64 / measured.run.seconds,
        "settled_operations_per_second": operations as f64 / measured.run.settled_seconds,
        "latency_ns": latency(&measured.run.lane.latency),
        "user_bytes": written.user_bytes,
        "written_bytes": written.total,
        "written_without_log_bytes": written.without_log,
        "written_by_cause": causes,
        "written_per_user_byte": ratio(written.total, written.user_bytes),
        "wchar_bytes": measured.run.usage.called_bytes,
        "mapped_bytes": written.mapped_bytes,
        "written_per_wchar": ratio(written.total - written.mapped_bytes, measured.run.usage.called_bytes),
        "device_write_bytes": measured.run.usage.device_bytes,
        "background_cpu_us": measured.run.background_cpu_us,
        "cpu_us_per_operation": ratio(measured.run.usage.cpu_us, measured.run.all_operations()),
        "stall_us": measured.stall_us,
        "peak_memory_bytes": measured.run.peak_memory_bytes,
        "directory_bytes": directory_bytes,
        "flushed_bytes": written.flushed_bytes,
        "merged_bytes": written.merged_bytes,
        "written_back_bytes": written.written_back_bytes,
        "merged_per_flushed": ratio(written.merged_bytes, written.flushed_bytes),
        "merge_amplification": written.merge_amplification(),
        "flushes": measured.flushes,
        "merges": measured.merges,
        "most_merges_at_once": measured.most_merges_at_once,
    });
    for (name, figure) in lookup_and_space_figures(measured, settings) {
        figures[name] = figure;
    }
    if measured.workload.is_mixed() {
        figures["read_percent"] = settings.load.read_percent.into();
        figures["full_memory_compactions"] = measured.full_memory_compactions.into();
        figures["hot_kept"] = measured.hot_kept.into();
        figures["hot_keys"] = measured.hot_keys.as_ref().map(hot_keys_json).into();
        figures["writes"] = measured.run.lane.write_latency.len().into();
        figures["write_latency_ns"] = latency(&measured.run.lane.write_latency);
    }
    if let Some(writer) = &measured.run.writer {
        figures["writes"] = writer.operations.into();
        figures["writes_per_second"] = (writer.operations as f64 / measured.run.seconds).into();
        figures["write_latency_ns"] = latency(&writer.latency);
    }
    figures
}

/// The figures on lookups of gets, and on the space of the database.
fn lookup_and_space_figures(measured: &Measured, settings: &Settings) -> Vec<(&'static str, Value)> {
    let (lookups, space, worst) = (&measured.lookups, &measured.space, &measured.worst);
    let mut figures = vec![
        ("gets", lookups.gets.into()),
        ("table_reads", lookups.table_reads.into()),
        ("log_reads", lookups.log_reads.into()),
        ("scan_places", lookups.scan_places.into()),
        ("scan_bytes", lookups.scan_bytes.into()),
        ("looks_per_get", lookups.looks_per_get().into()),
        ("reads_per_get", lookups.reads_per_get().into()),
        ("allocated_bytes", space.allocated_bytes.into()),
        ("live_bytes", space.live_bytes.into()),
        ("space_amplification", space.amplification().into()),
        ("table_files", space.table_files.into()),
        ("levels", space.levels.into()),
    ];
    if worst.space_amplification() > 0.0 {
        figures.push(("worst_space_amplification", worst.space_amplification().into()));
        figures.push(("worst_directory_bytes", worst.directory_bytes().into()));
        figures.push(("worst_value_file_bytes", worst.value_file_bytes().into()));
        figures
            .push(("directory_bound_bytes", settings.engine.directory_bound_bytes(space.live_bytes).into()));
    }
    figures
}

fn latency(latency: &Histogram<u64>) -> Value {
    let quantile =
        |(name, quantile): &(&str, f64)| ((*name).to_owned(), latency.value_at_quantile(*quantile).into());
    QUANTILES.iter().map(quantile).collect::<Map<String, Value>>().into()
}

pub fn latency_text(latency: &Histogram<u64>) -> String {
    let quantile = |(name, quantile): (&str, f64)| {
        format!("{} {}", name.replace('_', "."), nanoseconds_text(latency.value_at_quantile(quantile)))
    };
    QUANTILES.map(quantile).join(", ")
}

fn as_text(measured: &Measured, directory_bytes: u64) -> String {
    let mut text = String::new();
    write_text(measured, directory_bytes, &mut text).expect("a string takes everything");
    write_space(measured, &mut text).expect("a string takes everything");
    text
}

/// Writes the space of the database as text.
fn write_space(measured: &Measured, text: &mut String) -> std::fmt::Result {
    let (written, space, worst) = (&measured.written, &measured.space, &measured.worst);
    if measured.workload.writes() {
        writeln!(
            text,
            "  merged    {} of {} flushed, {:.3} times; at most {} at once",
            bytes_text(written.merged_bytes),
            bytes_text(written.flushed_bytes),
            ratio(written.merged_bytes, written.flushed_bytes),
            counted(measured.most_merges_at_once, "merge", "merges"),
        )?;
        let meanwhile = match worst.space_amplification() {
            0.0 => String::new(),
            ratio => format!(" ({ratio:.2}, {}, at worst)", bytes_text(worst.directory_bytes())),
        };
        writeln!(
            text,
            "  space     {} on disk, {:.3} times what is live{meanwhile}",
            bytes_text(space.allocated_bytes),
            space.amplification(),
        )?;
    }
    writeln!(
        text,
        "  files     {} on {}",
        counted(space.table_files, "table", "tables"),
        counted(space.levels, "level", "levels"),
    )
}

fn write_text(measured: &Measured, directory_bytes: u64, text: &mut String) -> std::fmt::Result {
    let (operations, written) = (measured.run.lane.operations, &measured.written);
    let rate = |operations: u64, seconds: f64| grouped((operations as f64 / seconds.max(1e-9)) as u64);
    write!(
        text,
        "{:<17}{} operations in {:.2} s, {} a second",
        measured.workload.name,
        grouped(operations),
        measured.run.seconds,
        rate(operations, measured.run.seconds)
    )?;
    let is_mixed = measured.workload.is_mixed();
    if is_mixed || !measured.workload.reads() {
        let settled = measured.run.settled_seconds;
        write!(text, "; settled {settled:.2} s, {} a second", rate(operations, settled))?;
    }
    if measured.workload.reads() {
        write!(text, "; {} entries found", grouped(measured.run.lane.found))?;
    }
    match is_mixed {
        true => writeln!(
            text,
            "\n  gets      {}\n  puts      {}",
            latency_text(&measured.run.lane.latency),
            latency_text(&measured.run.lane.write_latency)
        )?,
        false => writeln!(text, "\n  latency   {}", latency_text(&measured.run.lane.latency))?,
    }
    if measured.lookups.gets > 0 {
        let (looks, reads) = (measured.lookups.looks_per_get(), measured.lookups.reads_per_get());
        writeln!(text, "  lookups   {looks:.3} tables and logs a get, {reads:.3} of them read from files")?;
    }
    if let Some(writer) = &measured.run.writer {
        writeln!(
            text,
            "  beside    {} writes, {} a second; {}",
            grouped(writer.operations),
            rate(writer.operations, measured.run.seconds),
            latency_text(&writer.latency)
        )?;
    }
    if measured.workload.writes() {
        let causes = written.causes.iter().filter(|(_, bytes)| *bytes > 0);
        let causes: Vec<String> =
            causes.map(|(cause, bytes)| format!("{cause} {}", bytes_text(*bytes))).collect();
        writeln!(
            text,
            "  written   {} ({}), {} without the log; {:.3} for each user byte",
            bytes_text(written.total),
            causes.join(", "),
            bytes_text(written.without_log),
            ratio(written.total, written.user_bytes)
        )?;
        writeln!(
            text,
            "  kernel    wchar {}, the engine's count without {} mapped is {:.4} of it; sent to the device {}",
            bytes_text(measured.run.usage.called_bytes),
            bytes_text(written.mapped_bytes),
            ratio(written.total - written.mapped_bytes, measured.run.usage.called_bytes),
            bytes_text(measured.run.usage.device_bytes)
        )?;
    }
    writeln!(
        text,
        "  cost      {:.2} µs CPU an operation, {:.2} s of it in the background, {} peak memory, {} in the directory, {:.1} ms stalled",
        ratio(measured.run.usage.cpu_us, measured.run.all_operations()),
        measured.run.background_cpu_us as f64 / 1e6,
        bytes_text(measured.run.peak_memory_bytes),
        bytes_text(directory_bytes),
        measured.stall_us as f64 / 1e3
    )
}
