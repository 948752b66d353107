//! The figures of one workload, for people or as JSON.

use super::Args;
use super::measure::Measured;
use super::queue::Scans;
use super::space::LARGE_FILE_BYTES;
use crate::failure::{Outcome, printing};
use crate::figures::{bytes_text, counted, grouped, nanoseconds_text, ratio};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;

/// `scans` are those of the workload `queue`.
pub fn print(measured: &Measured, scans: Option<Scans>, args: &Args, directory_bytes: u64) -> Outcome {
    let text = match args.json {
        true => format!("{}\n", as_json(measured, scans, args, directory_bytes)),
        false => as_text(measured, scans, directory_bytes),
    };
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(printing)
}

/// The quantiles that are told, with their names.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)];

fn as_json(measured: &Measured, scans: Option<Scans>, args: &Args, directory_bytes: u64) -> Value {
    let (written, space) = (&measured.written, &measured.space);
    let latency: Map<String, Value> = QUANTILES
        .iter()
        .map(|(name, quantile)| ((*name).to_owned(), measured.latency.value_at_quantile(*quantile).into()))
        .collect();
    let causes: Map<String, Value> =
        written.causes.iter().map(|(cause, bytes)| (cause.clone(), (*bytes).into())).collect();
    let mut figures = json!({
        "workload": measured.workload.name(),
        "num": args.num,
        "key_bytes": args.key_bytes,
        "value_bytes": args.value_bytes,
        "threads": args.threads,
        "durability": format!("{:?}", args.durability).to_lowercase(),
        "memtable_bytes": args.memtable_bytes(),
        "cache_mib": args.cache_mib,
        "operations": measured.operations,
        "entries_found": measured.found,
        "seconds": measured.seconds,
        "settled_seconds": measured.settled_seconds,
        "operations_per_second": measured.operations as f64 / measured.seconds,
        "settled_operations_per_second": measured.operations as f64 / measured.settled_seconds,
        "latency_ns": latency,
        "user_bytes": written.user_bytes,
        "written_bytes": written.total,
        "written_by_cause": causes,
        "written_per_user_byte": ratio(written.total, written.user_bytes),
        "wchar_bytes": measured.usage.called_bytes,
        "written_per_wchar": ratio(written.total, measured.usage.called_bytes),
        "device_write_bytes": measured.usage.device_bytes,
        "cpu_us_per_operation": ratio(measured.usage.cpu_us, measured.operations),
        "stall_us": measured.stall_us,
        "peak_memory_bytes": measured.peak_memory_bytes,
        "directory_bytes": directory_bytes,
        "flushed_bytes": written.flushed_bytes,
        "merged_bytes": written.merged_bytes,
        "merged_per_flushed": ratio(written.merged_bytes, written.flushed_bytes),
        "most_merges_at_once": measured.most_merges_at_once,
        "allocated_bytes": space.allocated_bytes,
        "live_bytes": space.live_bytes,
        "space_amplification": space.amplification(),
        "table_files": space.table_files,
        "bytes_below_l0": space.deep_bytes,
        "share_in_large_files": ratio(space.large_file_bytes, space.deep_bytes),
        "levels": space.levels,
        "most_descriptors": measured.worst.descriptors(),
    });
    let mut add = |name: &str, figure: f64| figures[name] = figure.into();
    if measured.worst.space_amplification() > 0.0 {
        add("worst_space_amplification", measured.worst.space_amplification());
    }
    if let Some(scans) = scans {
        add("scan_us", scans.queue_us);
        add("fresh_scan_us", scans.fresh_us);
        add("scan_per_fresh_scan", scans.queue_us / scans.fresh_us);
    }
    figures
}

fn as_text(measured: &Measured, scans: Option<Scans>, directory_bytes: u64) -> String {
    let mut text = String::new();
    write_text(measured, directory_bytes, &mut text).expect("a string takes everything");
    write_space(measured, &mut text).expect("a string takes everything");
    if let Some(Scans { queue_us, fresh_us }) = scans {
        writeln!(
            text,
            "  scan      {queue_us:.1} µs for 1,000 rows from the front (median); {fresh_us:.1} µs in a fresh database, {:.2} times",
            queue_us / fresh_us
        )
        .expect("a string takes everything");
    }
    text
}

/// What the database takes of the machine.
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
            worst => format!(" ({worst:.2} at worst)"),
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
        "  files     {} on {}, {:.1}% of the bytes below L0 in files of {} or more; {} open at most",
        counted(space.table_files, "table", "tables"),
        counted(space.levels, "level", "levels"),
        100.0 * ratio(space.large_file_bytes, space.deep_bytes),
        bytes_text(LARGE_FILE_BYTES),
        counted(worst.descriptors(), "descriptor", "descriptors"),
    )
}

fn write_text(measured: &Measured, directory_bytes: u64, text: &mut String) -> std::fmt::Result {
    let (operations, written) = (measured.operations, &measured.written);
    let rate = |seconds: f64| grouped((operations as f64 / seconds.max(1e-9)) as u64);
    write!(
        text,
        "{:<12}{} operations in {:.2} s, {} a second",
        measured.workload.name(),
        grouped(operations),
        measured.seconds,
        rate(measured.seconds)
    )?;
    match measured.workload.writes() {
        true => writeln!(
            text,
            "; settled {:.2} s, {} a second",
            measured.settled_seconds,
            rate(measured.settled_seconds)
        )?,
        false => writeln!(text, "; {} entries found", grouped(measured.found))?,
    }
    let quantiles = QUANTILES.map(|(name, quantile)| {
        format!(
            "{} {}",
            name.replace('_', "."),
            nanoseconds_text(measured.latency.value_at_quantile(quantile))
        )
    });
    writeln!(text, "  latency   {}", quantiles.join(", "))?;
    if measured.workload.writes() {
        let causes = written.causes.iter().filter(|(_, bytes)| *bytes > 0);
        let causes: Vec<String> =
            causes.map(|(cause, bytes)| format!("{cause} {}", bytes_text(*bytes))).collect();
        writeln!(
            text,
            "  written   {} ({}); {:.3} for each user byte",
            bytes_text(written.total),
            causes.join(", "),
            ratio(written.total, written.user_bytes)
        )?;
        writeln!(
            text,
            "  kernel    wchar {}, the engine's count is {:.4} of it; sent to the device {}",
            bytes_text(measured.usage.called_bytes),
            ratio(written.total, measured.usage.called_bytes),
            bytes_text(measured.usage.device_bytes)
        )?;
    }
    writeln!(
        text,
        "  cost      {:.2} µs CPU an operation, {} peak memory, {} in the directory, {:.1} ms stalled",
        ratio(measured.usage.cpu_us, operations),
        bytes_text(measured.peak_memory_bytes),
        bytes_text(directory_bytes),
        measured.stall_us as f64 / 1e3
    )
}
