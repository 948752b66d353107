//! Each example runs twice on one database: the second run finds the data of the first.

use std::error::Error;
use std::path::Path;

#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/cache.rs"]
mod cache;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/counters.rs"]
mod counters;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/durability.rs"]
mod durability;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/queue.rs"]
mod queue;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/quick_start.rs"]
mod quick_start;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/secondary_index.rs"]
mod secondary_index;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/time_series.rs"]
mod time_series;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/transfer.rs"]
mod transfer;
#[allow(dead_code, reason = "its main is for `cargo run --example`")]
#[path = "../examples/word_index.rs"]
mod word_index;

fn runs_twice(name: &str, run: fn(&Path) -> Result<(), Box<dyn Error>>) {
    let dir = std::env::temp_dir().join(format!("braidb-example-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    for time in 1..=2 {
        run(&dir).unwrap_or_else(|error| panic!("run {time} of {name}: {error}"));
    }
    std::fs::remove_dir_all(&dir).expect("the example leaves a database");
}

#[test]
fn quick_start_runs() {
    runs_twice("quick-start", quick_start::run);
}

#[test]
fn queue_runs() {
    runs_twice("queue", queue::run);
}

#[test]
fn transfer_runs() {
    runs_twice("transfer", transfer::run);
}

#[test]
fn word_index_runs() {
    runs_twice("word-index", word_index::run);
}

#[test]
fn durability_runs() {
    runs_twice("durability", durability::run);
}

#[test]
fn cache_runs() {
    runs_twice("cache", cache::run);
}

#[test]
fn counters_runs() {
    runs_twice("counters", counters::run);
}

#[test]
fn secondary_index_runs() {
    runs_twice("secondary-index", secondary_index::run);
}

#[test]
fn time_series_runs() {
    runs_twice("time-series", time_series::run);
}
