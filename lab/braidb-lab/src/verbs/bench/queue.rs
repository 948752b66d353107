//! The end of the workload `queue`: how long a scan from the front takes, beside a fresh database with the same rows.
//!
//! A reader of a queue does not know where the queue begins. Deleted rows lie in front of its first row until merges drop them, and a scan
//! has to pass them.

use super::Settings;
use crate::failure::{Outcome, storage};
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::store::open_with;
use crate::text::escaped;
use braidb::Db;
use braidb_bench::Workload;
use braidb_bench::keys::Data;
use std::path::Path;

/// Rows that a scan reads.
const ROWS: usize = 1000;
/// The number of scans. Their median counts.
const SCANS: usize = 101;

/// Median times of scans.
#[derive(Clone, Copy, Debug)]
pub struct Scans {
    pub queue_us: f64,
    pub fresh_us: f64,
}

/// Measures scans of the queue `db`, and of a database in `fresh_dir`. The fresh database is created for this comparison and removed
/// afterwards.
pub fn compare(db: &Db, fresh_dir: &Path, workload: &Workload, settings: &Settings) -> Outcome<Scans> {
    let (data, load) = (&Data::new(workload, &settings.load), &settings.load);
    let queue_us = median_us(db, data, settings)?;
    let remove = || match files::is_free(fresh_dir) {
        Ok(true) => Ok(()),
        _ => files::remove_dir(fresh_dir)
            .map_err(|error| storage(&format!("could not remove {}", fresh_dir.display()), error)),
    };
    remove()?;
    let fresh = open_with(fresh_dir, settings.engine.options())?;
    let mut key = Vec::new();
    for row in load.num..load.num + load.window() {
        data.write_key(row, &mut key);
        fresh.put(&key, data.value(row, row))?;
    }
    fresh.flush()?;
    fresh.settle()?;
    let fresh_us = median_us(&fresh, data, settings)?;
    fresh.close()?;
    remove()?;
    Ok(Scans { queue_us, fresh_us })
}

fn median_us(db: &Db, data: &Data, settings: &Settings) -> Outcome<f64> {
    let wanted = ROWS.min(usize::try_from(settings.load.window()).unwrap_or(usize::MAX));
    let mut first = Vec::new();
    data.write_key(settings.load.num, &mut first);
    let mut times = Vec::with_capacity(SCANS);
    for _ in 0..SCANS {
        let watch = Stopwatch::start();
        let rows: Vec<_> = db.iter().take(ROWS).collect::<Result<_, _>>()?;
        times.push(watch.elapsed().as_nanos() as f64 / 1e3);
        if rows.len() != wanted || rows[0].0 != first {
            return Err(storage(
                "a scan from the front is wrong",
                format!("{} rows, and not {wanted} from {} on", rows.len(), escaped(&first)),
            ));
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times[SCANS / 2])
}
