//! Hot keys as JSON, for `braidb stats` and `braidb-lab bench`.

use braidb::stats::HotKeyStats;
use serde_json::{Value, json};

/// The number of hot keys that stay in memory, and the measurements of the hot-key tuner.
pub fn hot_keys_json(hot_keys: &HotKeyStats) -> Value {
    let periods = hot_keys.periods.iter().map(|period| {
        json!({
            "ppm": period.ppm,
            "flushes": period.flushes,
            "writes": period.writes,
            "flush_bytes": period.flush_bytes,
            "written_back_bytes": period.written_back_bytes,
            "saved_bytes": period.saved_bytes,
        })
    });
    json!({ "ppm": hot_keys.ppm, "periods": periods.collect::<Vec<Value>>() })
}
