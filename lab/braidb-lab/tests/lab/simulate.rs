//! `simulate`, through the real binary.
#![allow(clippy::disallowed_methods, reason = "the shared tools work on real files")]

use crate::common::terminal::shows;
use crate::common::{LAB, lab};

#[test]
fn simulate_predicts_without_writing() {
    let run = lab(&["simulate", "--num", "1000000000", "--json"]).exits(0);
    let figures: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    assert_eq!(figures["flushed_bytes"].as_u64(), Some(153_000_000_000));
    let amplification = |more: &[&str]| {
        let run = lab(&[&["simulate", "--json"], more].concat()).exits(0);
        let figures: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
        let bytes = |name: &str| figures[name].as_u64().unwrap();
        assert!(bytes("space_bytes") > bytes("live_bytes") / 1000 * 999);
        assert_eq!(figures["levels"].as_array().unwrap().len(), 7);
        figures["merge_amplification"].as_f64().unwrap()
    };
    let leveled = amplification(&["--runs", "1"]);
    assert!(amplification(&["--runs", "4", "--guards", "balanced"]) < leveled * 0.7);
    assert!(amplification(&["--runs", "8", "--guards", "sampled", "--memtable-mib", "128"]) < leveled);
    assert!((amplification(&["--sequential"]) - 1.0).abs() < 1e-9);
    let run = lab(&["simulate", "--num", "50000000", "--keys", "10000000"]).exits(0);
    run.shows(&["flushed 7.0 GiB, merged ", "live 1.4 GiB, space ", "\nL0 ", "\nL1 "]);
    lab(&["simulate", "--runs", "0"]).exits(2).tells("max_runs_per_guard");
    lab(&["simulate", "--num", "0"]).exits(2);
}

#[test]
fn a_simulation_shows_how_far_it_is() {
    shows(LAB, &["simulate", "--num", "1000000"], None, " 1,000,000 of 1,000,000 writes");
}
