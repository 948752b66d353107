//! Runs several workloads in a process of its own, for the drivers of `rivals` and of `braidb-lab pair`.

use crate::host::files;
use crate::keys::Data;
use crate::results::{Machine, Run};
use crate::run::{Beside, Measured, run};
use crate::settings::Settings;
use crate::store::{Outcome, Store};
use crate::timer::WallTimer;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Opens a store in a directory.
pub type Open<'a> = dyn Fn(&Path) -> Outcome<Box<dyn Store>> + 'a;

/// Runs the workloads one after the other on stores in `dir`/store. The directory is removed before each workload that starts with an empty
/// store, and stays at the end. If the first workload needs a filled store, it gets the one that an earlier call left, or a copy of it.
/// `tell` gets each result at once.
///
/// # Errors
///
/// Wrong settings, an error of the store, or a wrong answer of the store.
pub fn drive(
    dir: &Path,
    workloads: &[&'static Workload],
    settings: &Settings,
    side: &str,
    machine: &Machine,
    open: &Open<'_>,
    tell: &mut dyn FnMut(&Run) -> Outcome,
) -> Outcome {
    settings.check(workloads)?;
    let dir = dir.join("store");
    if let Some(first) = workloads.first().filter(|first| !first.starts_empty() && !dir.exists()) {
        return Err(format!(
            "{} needs {}, which is not there: put a fill before it",
            first.name,
            dir.display()
        )
        .into());
    }
    let mut store: Option<Box<dyn Store>> = None;
    for (place, &workload) in workloads.iter().enumerate() {
        if workload.starts_empty() {
            drop(store.take());
            files::remove_if_there(&dir)?;
        }
        let open = match store.take() {
            Some(open) => open,
            None => open(&dir)?,
        };
        let earlier =
            workloads[..place].iter().filter(|earlier| earlier.name == workload.name).count() as u64;
        let drawn = if settings.draws_on { earlier * settings.operations(workload).unwrap_or(0) } else { 0 };
        let settings = Settings { first_operation: drawn, ..settings.clone() };
        tell(&measured_on(open.as_ref(), &dir, workload, &settings, side, machine)?)?;
        store = Some(open);
    }
    Ok(())
}

fn measured_on(
    store: &dyn Store,
    dir: &Path,
    workload: &'static Workload,
    settings: &Settings,
    side: &str,
    machine: &Machine,
) -> Outcome<Run> {
    let data = Data::new(workload, settings);
    let worst_directory_bytes = AtomicU64::new(0);
    let sample = |_| {
        worst_directory_bytes.fetch_max(files::allocated_below(dir).unwrap_or(0), Ordering::Relaxed);
    };
    let beside = Beside { sample: &sample, progress: &|_| {} };
    let measured = run(workload, store, settings, &data, &WallTimer::start(), beside)?;
    Ok(result_of(&measured, workload, settings, side, machine, worst_directory_bytes.into_inner()))
}

/// The figures of a run, by their names in rows and reports.
pub fn result_of(
    measured: &Measured,
    workload: &Workload,
    settings: &Settings,
    side: &str,
    machine: &Machine,
    worst_directory_bytes: u64,
) -> Run {
    let (lane, all) = (&measured.lane, measured.all_operations() as f64);
    let latencies = lane.all_latencies();
    let us = |percentile: f64| latencies.value_at_quantile(percentile / 100.0) as f64 / 1e3;
    let count =
        |name: &str| measured.counts.iter().find(|(known, _)| known == name).map_or(0, |found| found.1);
    let user_bytes = lane.user_bytes + measured.writer.as_ref().map_or(0, |writer| writer.user_bytes);
    let written_bytes = measured.usage.called_bytes + count("mapped_bytes");
    let mut figures = BTreeMap::from(
        [
            ("operations", lane.operations as f64),
            ("checked", lane.checked as f64),
            ("byte_sum", lane.byte_sum as f64),
            ("seconds", measured.seconds),
            ("settled_seconds", measured.settled_seconds),
            ("operations_per_second", lane.operations as f64 / measured.seconds),
            ("settled_operations_per_second", lane.operations as f64 / measured.settled_seconds),
            ("cpu_us_per_operation", measured.usage.cpu_us as f64 / all),
            ("called_bytes", measured.usage.called_bytes as f64),
            ("mapped_bytes", count("mapped_bytes") as f64),
            ("device_bytes", measured.usage.device_bytes as f64),
            ("p50_us", us(50.0)),
            ("p99_us", us(99.0)),
            ("p99_9_us", us(99.9)),
            ("longest_us", us(100.0)),
            ("worst_directory_bytes", worst_directory_bytes as f64),
            ("peak_memory_bytes", measured.peak_memory_bytes as f64),
        ]
        .map(|(name, figure)| (name.to_owned(), figure)),
    );
    if user_bytes > 0 {
        figures.insert("user_bytes".to_owned(), user_bytes as f64);
        figures.insert("written_per_user_byte".to_owned(), written_bytes as f64 / user_bytes as f64);
    }
    if let Some(writer) = &measured.writer {
        figures.insert("writes_per_second".to_owned(), writer.operations as f64 / measured.seconds);
    }
    let is_cause =
        |(name, bytes): &&(String, u64)| name.ends_with("_bytes") && name != "mapped_bytes" && *bytes > 0;
    let causes = measured.counts.iter().filter(is_cause);
    let without_log: u64 =
        causes.clone().filter(|(name, _)| name != "log_bytes").map(|(_, bytes)| bytes).sum();
    if !measured.counts.is_empty() {
        // Flushes, merges, written-back log records, value files and the manifest.
        figures.insert("written_without_log_bytes".to_owned(), without_log as f64);
    }
    let mut by_second = lane.by_second.clone();
    by_second.resize(by_second.len().max(measured.settled_seconds.ceil() as usize), 0);
    Run {
        workload: workload.name.to_owned(),
        side: side.to_owned(),
        seed: settings.seed,
        figures,
        bytes_by_cause: causes
            .map(|(name, bytes)| (name.trim_end_matches("_bytes").to_owned(), *bytes))
            .collect(),
        operations_by_second: by_second,
        machine: machine.clone(),
        origin: String::new(),
    }
}
