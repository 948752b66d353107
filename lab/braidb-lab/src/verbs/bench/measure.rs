//! Runs one workload on the engine, and reads the engine's figures.

use super::Settings;
use super::engine::Braid;
use super::space::{Space, Worst};
use crate::failure::Outcome;
use crate::figures::ratio;
use braidb::stats::{HotKeyStats, Stats};
use braidb_bench::keys::Data;
use braidb_bench::{Beside, Store, Timer, WallTimer, Workload, run};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::path::Path;

/// The measurement of a workload. Its counters are differences of two readings, background work included.
pub struct Measured {
    pub workload: &'static Workload,
    /// The figures that any store has.
    pub run: braidb_bench::Measured,
    /// The tables and logs that gets looked into.
    pub lookups: Lookups,
    /// The bytes that the engine says that it wrote.
    pub written: Written,
    pub stall_us: u64,
    /// The space at the end.
    pub space: Space,
    /// The worst state while the workload ran and at its end.
    pub worst: Worst,
    pub flushes: u64,
    /// How often a full memory was compacted instead of flushed.
    pub full_memory_compactions: u64,
    /// Keys that flushes left in memory.
    pub hot_kept: u64,
    /// The bound on hot keys, and the measurements of the hot-key tuner.
    pub hot_keys: Option<HotKeyStats>,
    pub merges: u64,
    /// The most merges at once since the database was opened.
    pub most_merges_at_once: u64,
    /// Gets by the device that they waited for, on a modelled machine.
    pub served: Option<Served>,
}

/// How many gets there were, by the slowest device that a get read from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Gets that read from no device.
    pub memory: u64,
    /// Gets that read from the fast or only device alone.
    pub fast: u64,
    /// Gets that read from the slow device; `None` on a machine with one device.
    pub slow: Option<u64>,
}

impl Served {
    pub fn all(&self) -> u64 {
        self.memory + self.fast + self.slow.unwrap_or(0)
    }

    /// The figures by their names in JSON. Without a get there are none.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let slow = self.slow.map(|slow| ("slow_device_gets", slow));
        let figures = [("memory_gets", self.memory), ("fast_device_gets", self.fast)].into_iter().chain(slow);
        let figures = figures.filter(|_| self.all() > 0);
        figures.map(|(name, gets)| (name.to_owned(), gets as f64)).collect()
    }
}

/// The tables and logs that gets looked into: the cost of gets, which memory and filters keep low.
pub struct Lookups {
    pub gets: u64,
    /// Lookups in tables whose filters let the key pass.
    pub table_reads: u64,
    /// Reads of values in logs.
    pub log_reads: u64,
    /// Reads of tables and logs that the block cache did not have.
    pub file_reads: u64,
    /// How many places of value files scans read, and how many bytes there.
    pub scan_places: u64,
    pub scan_bytes: u64,
}

impl Lookups {
    /// Read amplification: reads of files for each get. (TRIAD, section 5.1, counts accesses of the disk.)
    pub fn reads_per_get(&self) -> f64 {
        ratio(self.file_reads, self.gets)
    }

    /// Tables and logs looked into for each get, whether the block cache had them or not.
    pub fn looks_per_get(&self) -> f64 {
        ratio(self.table_reads + self.log_reads, self.gets)
    }
}

/// Bytes that the engine wrote, by cause.
pub struct Written {
    pub user_bytes: u64,
    pub flushed_bytes: u64,
    pub merged_bytes: u64,
    /// Bytes written back from old logs to newer ones.
    pub written_back_bytes: u64,
    pub causes: Vec<(String, u64)>,
    pub total: u64,
    /// All bytes without the log, as the papers count.
    pub without_log: u64,
    /// Bytes of `total` that went through mappings, which `wchar` leaves out.
    pub mapped_bytes: u64,
}

impl Written {
    /// Write amplification as TRIAD defines it: (flushed + merged) / flushed, without the log.
    pub fn merge_amplification(&self) -> f64 {
        ratio(self.flushed_bytes + self.merged_bytes, self.flushed_bytes)
    }
}

pub fn measure(
    engine: &Braid,
    dir: &Path,
    workload: &'static Workload,
    settings: &Settings,
) -> Outcome<Measured> {
    measure_through(engine, (engine, &WallTimer::start()), dir, workload, settings)
}

/// Measures the engine through another store and its clock, as a model needs.
pub fn measure_through(
    engine: &Braid,
    (store, timer): (&dyn Store, &dyn Timer),
    dir: &Path,
    workload: &'static Workload,
    settings: &Settings,
) -> Outcome<Measured> {
    let data = Data::new(workload, &settings.load);
    let live_bytes = settings.live_bytes(workload, &data, 0);
    let (bar, template) = match settings.load.operations(workload) {
        Some(operations) => {
            let template = "{prefix:16} {bar:40} {human_pos} of {human_len}, {per_sec}, {eta} left";
            (ProgressBar::new(operations), template)
        }
        None => (ProgressBar::no_length(), "{prefix:16} {human_pos}, {per_sec}, {elapsed}"),
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
    bar.set_prefix(workload.name);
    engine.db.settle()?;
    let stats = engine.db.stats();
    let worst = Worst::default();
    let sample = |operation| {
        let is_steady = settings.is_steady(workload, operation);
        worst.sample(dir, if is_steady { live_bytes } else { 0 });
    };
    let beside = Beside { sample: &sample, progress: &|operations| bar.inc(operations) };
    let run = run(workload, store, &settings.load, &data, timer, beside)?;
    let after = engine.db.stats();
    let space = Space::of(&engine.db, dir, settings.live_bytes(workload, &data, run.inserted));
    bar.finish_and_clear();

    let (old, new) = (&stats.counts, &after.counts);
    Ok(Measured {
        workload,
        run,
        lookups: Lookups {
            gets: new.gets - old.gets,
            table_reads: new.table_reads - old.table_reads,
            log_reads: new.log_reads - old.log_reads,
            scan_places: new.scan_places - old.scan_places,
            scan_bytes: new.scan_bytes - old.scan_bytes,
            file_reads: new.cache_misses - old.cache_misses,
        },
        written: written_between(&stats, &after),
        stall_us: new.stall_us - old.stall_us,
        space,
        worst,
        flushes: new.flushes - old.flushes,
        full_memory_compactions: new.full_memory_compactions - old.full_memory_compactions,
        hot_kept: new.hot_kept - old.hot_kept,
        hot_keys: after.families[0].hot_keys.clone(),
        merges: new.merges - old.merges,
        most_merges_at_once: new.most_merges_at_once,
        served: None,
    })
}

fn written_between(before: &Stats, after: &Stats) -> Written {
    let (old, new) = (&before.counts, &after.counts);
    let merged = old.merge_bytes.iter().zip(&new.merge_bytes).map(|(old, new)| new - old);
    let flushed_bytes = new.flush_bytes - old.flush_bytes;
    // Written-back bytes go to a log, but they are the price of flushing less.
    let written_back_bytes = new.written_back_bytes - old.written_back_bytes;
    let log_bytes = new.log_bytes - old.log_bytes - written_back_bytes;
    let mut causes = vec![
        ("log".to_owned(), log_bytes),
        ("write_back".to_owned(), written_back_bytes),
        ("flush".to_owned(), flushed_bytes),
    ];
    causes.extend(merged.clone().enumerate().map(|(level, bytes)| (format!("merge_l{level}"), bytes)));
    causes.push(("value_files".to_owned(), new.value_file_bytes - old.value_file_bytes));
    causes.push(("manifest".to_owned(), new.manifest_bytes - old.manifest_bytes));
    let total = after.total_written_bytes() - before.total_written_bytes();
    Written {
        user_bytes: new.user_bytes - old.user_bytes,
        flushed_bytes,
        merged_bytes: merged.sum(),
        written_back_bytes,
        causes,
        total,
        without_log: total - log_bytes,
        mapped_bytes: new.log_mapped_bytes - old.log_mapped_bytes,
    }
}
