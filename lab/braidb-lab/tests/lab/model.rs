//! `model`: the cost model of LogStore, through the real binary.
#![allow(clippy::disallowed_methods, reason = "the shared tools work on real files")]

use crate::common::lab;
use serde_json::Value;

/// The figures of `braidb-lab model --json` with these arguments.
#[track_caller]
fn figures(arguments: &[&str]) -> Value {
    let says = |name: &str| arguments.iter().any(|argument| argument.starts_with(name));
    let given = if says("--memtable-mib") || says("--amplification") { &[][..] } else { &GIVEN };
    let run = lab(&[&["model", "--json"], given, arguments].concat()).exits(0);
    serde_json::from_slice(&run.out).unwrap()
}

/// A number of the figures, such as `paper/reads_per_second`.
#[track_caller]
fn number(figures: &Value, path: &str) -> f64 {
    let found = figures.pointer(&format!("/{path}")).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("{path} is no number: {figures:#}"))
}

#[track_caller]
fn is_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found} and not {expected}");
}

/// The store of LogStore VI: 100 GB of records of 1 KB, and as much memory as serves 70% of the reads (VI-A3).
const PAPER: [&str; 6] = ["--key-bytes", "0", "--value-bytes", "1024", "--memory", "5.3%"];

/// A given amplification, so that no merges are simulated, which takes seconds without optimization.
const GIVEN: [&str; 2] = ["--amplification", "5"];

#[test]
fn one_device_does_what_the_paper_says() {
    // Table IV has the reads, section VI-B1 the puts. LevelDB has seven levels, and a read there makes one access.
    for (device, reads, puts) in
        [("hdd", 200.0, 1_110.0), ("ssd", 5_000.0, 1_776.0), ("nvme", 20_000.0, 3_552.0)]
    {
        let found = figures(&[&PAPER[..], &["--fast", device, "--fast-probes", "1"]].concat());
        is_near(number(&found, "paper/reads_per_second"), reads, 0.005);
        is_near(number(&found, "paper/puts_per_second"), puts, 0.001);
        assert_eq!((&found["paper"]["reads_limit"], &found["slow"]), (&"fast".into(), &Value::Null));
    }
}

#[test]
fn two_devices_do_what_the_paper_says() {
    let store = [&PAPER[..], &["--slow", "hdd", "--fast-share", "52.7"]].concat();
    let found = figures(&store);
    // Section VI-A3 and Table IV: 22.7% of the reads are for NVMe, 7.3% for the disk, which allows 822 a second.
    is_near(number(&found, "paper/fast_reads_share"), 0.227, 0.01);
    is_near(number(&found, "paper/reads_per_second"), 822.0, 0.01);
    // Section VI-B1.
    is_near(number(&found, "paper/puts_per_second"), 6_658.0, 0.001);
    let limits = ["reads_limit", "puts_limit", "mixed_limit"].map(|name| found["paper"][name].clone());
    assert_eq!(limits, ["slow", "slow", "slow"].map(Value::from));
    // Equation 9.
    is_near(number(&found, "paper/mixed_per_second"), 1.0 / (0.5 / 822.0 + 0.5 / 6_658.0), 0.01);
    // Caches serve fewer reads than the hottest records would, and one client waits for NVMe too.
    assert!(number(&found, "refined/memory_reads_share") < 0.62);
    assert!(number(&found, "refined/reads_per_second") < 822.0);
    assert_eq!(number(&found, "paper/table_accesses"), 0.0);
}

#[test]
fn more_of_the_fast_device_buys_reads() {
    let store = [&PAPER[..], &["--slow", "hdd", "--fast-share", "50"]].concat();
    let buys = |more: &str| {
        let found = figures(&[&store[..], &["--more", more]].concat());
        number(&found, "paper/with_more/reads_per_second") - number(&found, "paper/reads_per_second")
    };
    let (one, ten) = (buys("1GB"), buys("10GB"));
    assert!(one > 0.0 && ten > 10.0 * one, "the disk serves less and less: {one}, {ten}");
    // With 60 GB more the disk has nothing, and NVMe has three levels.
    let found = figures(&[&store[..], &["--more", "60GB"]].concat());
    is_near(number(&found, "paper/with_more/reads_per_second"), 6_000.0 / (3.0 * 0.3), 0.01);
    is_near(number(&found, "paper/with_more/puts_per_second"), 480e6 / (2.0 * 11.0 * 2.0 * 1024.0), 1e-6);
    assert_eq!(found["paper"]["with_more"]["puts_limit"], "fast");
}

#[test]
fn even_reads_go_to_devices_by_their_data() {
    // Equation 1. Caches hold no more than their share, and some of what they hold twice.
    let even = ["--slow", "hdd", "--zipf", "0", "--memory", "10GB", "--fast-share", "30%"];
    for ranks in ["ordered", "hashed"] {
        let found = figures(&[&even[..], &["--ranks", ranks]].concat());
        is_near(number(&found, "paper/memory_reads_share"), 0.1, 1e-6);
        is_near(number(&found, "paper/slow_reads_share"), 0.63, 1e-6);
        let memory = number(&found, "refined/memory_reads_share");
        assert!((0.04..0.1).contains(&memory), "{memory}");
        is_near(number(&found, "refined/slow_reads_share"), 0.7 * (1.0 - memory), 1e-6);
    }
    // If hot keys lie anywhere, the fast device cannot hold all of them, and each takes a page of the page cache.
    let shares = |ranks| {
        let found = figures(&["--slow", "hdd", "--ranks", ranks]);
        ["memory", "slow"].map(|name| number(&found, &format!("refined/{name}_reads_share")))
    };
    let ([ordered_memory, ordered_slow], [hashed_memory, hashed_slow]) =
        (shares("ordered"), shares("hashed"));
    assert!(hashed_memory < 0.9 * ordered_memory, "{hashed_memory} and {ordered_memory}");
    is_near(hashed_slow, (1.0 - hashed_memory) / 2.0, 1e-6);
    assert!(hashed_slow > 2.0 * ordered_slow, "{hashed_slow} and {ordered_slow}");
}

#[test]
fn a_given_amplification_stands_in_place_of_the_simulated() {
    let found = figures(&[&PAPER[..], &["--slow", "hdd", "--amplification=10"]].concat());
    is_near(number(&found, "paper/puts_per_second"), 6_658.0, 0.001);
    // Merges read and write 9 bytes a byte, half of them on the disk. A seek takes as long as the transfer of 2.5 MB.
    let transferred = 4.5 * ((1.0 + 2.5e6 / 131_072.0) + (1.0 + 2.5e6 / 1_048_576.0));
    is_near(number(&found, "refined/puts_per_second"), 150e6 / transferred / 1024.0, 1e-6);
    assert_eq!(found["refined"]["puts_limit"], "slow");
    // The simulator predicts about 4.6 for a million records with 8 MiB of memory for writes.
    let found = figures(&["--data", "1040MB", "--memtable-mib", "8"]);
    assert!((4.0..5.0).contains(&number(&found, "amplification")), "{found:#}");
    let larger = figures(&["--data", "20GB", "--memtable-mib", "8"]);
    assert!(number(&larger, "amplification") > number(&found, "amplification") + 0.3, "{larger:#}");
}

#[test]
fn nothing_limits_what_memory_serves() {
    let found = figures(&["--memory", "1TB", "--reads", "100"]);
    for form in ["paper", "refined"] {
        assert_eq!(number(&found, &format!("{form}/memory_reads_share")), 1.0);
        for name in ["reads_per_second", "reads_limit", "mixed_per_second", "mixed_limit"] {
            assert_eq!(found[form][name], Value::Null, "{form} {name}");
        }
    }
    assert!(lab(&[&["model", "--memory", "1TB"][..], &GIVEN].concat()).exits(0).text().contains("no limit"));
}

#[test]
fn the_text_has_both_forms_side_by_side() {
    let run = lab(&["model", "--fast", "ssd", "--slow", "disk7200", "--data", "1GiB", "--more", "10MiB"]);
    let run = run.exits(0);
    run.shows(&[
        "1.0 GiB: 1,032,444 records of 1.0 KiB, 50.0% of it on fast ssd, 2.0% in memory; ",
        "equations 1 to 9",
        "refined",
        "reads that slow disk7200 serves",
        ", slow disk7200\n",
        "50% reads, 50% puts",
        "10.0 MiB more of fast ssd buy\n  reads a second ",
    ]);
    // Nothing is bought where there is no slow device.
    assert!(!lab(&[&["model"][..], &GIVEN].concat()).exits(0).text().contains("more of"));
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    for (arguments, tells) in [
        (&["--data", "1000"][..], "--data 1000: a record alone has 1040 bytes"),
        (&["--data", "1XB"], "--data <BYTES>': expected bytes"),
        (&["--memory", "101%"], "from 0 to 100"),
        (&["--slow", "hdd", "--fast-share=-1"], "from 0 to 100"),
        (&["--slow", "hdd", "--fast-share", "NaN"], "from 0 to 100"),
        (&["--zipf", "5"], "a number from 0 to 4"),
        (&["--fast-probes", "0"], "above 0"),
        (&["--amplification", "0.5"], "a number from 1"),
        (&["--blocks", "101"], "from 0 to 100"),
        (&["--fast", "tape"], "disk7200"),
        // Without a slow device these say nothing.
        (&["--fast-share", "50"], "--slow"),
        (&["--slow-probes", "1"], "--slow"),
    ] {
        lab(&[&["model"], arguments].concat()).exits(2).tells(tells);
    }
}
