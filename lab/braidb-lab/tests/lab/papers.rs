//! `paper`, through the real binary.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Place, lab};

#[test]
fn bench_repeats_a_paper() {
    let place = Place::new("paper");
    let db = &place.db();
    let sizes =
        ["--rows", "1000", "--writes", "3000", "--reads", "1000", "--rounds", "2", "--memtable-mib", "1"];
    let run = lab(&[&["paper", "accordion", db], &sizes[..]].concat()).exits(0);
    run.shows(&[
        "1,000 rows of 100 bytes, 3,000 writes, 1.0 MiB of memory; median of 2 rounds\n",
        "Write-only, Zipfian (4.2.1 and 4.2.4; Figures 5, 6, 8, 11 to 13, Tables 1 and 2)\n",
        "+47.6% (SSD), +25.4% (HDD)",
        "\nScans under writes, Zipfian (",
        "  latency, p99\n    none ",
    ]);
    run.tells("round 2: Gets under writes, Zipfian: none");
    // A benchmark may reuse the directory of a reproduction. A reproduction refuses a directory that is no benchmark's.
    lab(&["bench", db, "fillseq", "--num", "10"]).exits(0);
    braidb::Db::open(place.path("other")).unwrap().put("k", "v").unwrap();
    let other = place.path("other").display().to_string();
    lab(&["paper", "accordion", &other]).exits(2).tells("is not empty");
    lab(&["paper", "novel"]).exits(2);
    lab(&["paper", "--help"]).exits(0);
}

#[test]
fn bench_repeats_a_paper_of_mixed_loads() {
    let place = Place::new("triad");
    let sizes = ["--rows", "500", "--writes", "1000", "--rounds", "1"];
    let run = lab(&[&["paper", "triad", &place.db()], &sizes[..]].concat()).exits(0);
    run.shows(&[
        "500 rows of 263 bytes, 1,000 operations, 64.0 KiB of memory; median of 1 round\n",
        "\nWS1, 10% reads, 8 threads (5.3 and 5.4; Figures 9, 11)\n",
        "\nWS3, 50% reads, 16 threads (5.3; Figure 9)\n",
        "  read amplification, reads of files a get\n    none ",
        "\nProduction W4, 8 threads (5.2; Figures 8, 9)\n",
    ]);
    // The paper's figures stand in the line of their configuration.
    let lines: Vec<Vec<&str>> = run.text().lines().map(|line| line.split_whitespace().collect()).collect();
    let told = |line: &Vec<&str>| line.ends_with(&["at", "most", "+5%"]) && line.starts_with(&["all"]);
    assert_eq!(lines.iter().filter(|line| told(line)).count(), 1, "{}", run.text());
    run.tells("round 1: WS2, 50% reads, 8 threads: hot keys");
}

#[test]
fn bench_repeats_a_paper_on_fresh_and_aged_stores() {
    let place = Place::new("pebblesdb");
    let sizes = ["--rows", "300", "--reads", "200", "--rounds", "1"];
    let run = lab(&[&["paper", "pebblesdb", &place.db()], &sizes[..]].concat()).exits(0);
    run.shows(&[
        "300 rows of 1040 bytes, 300 operations, 64.0 KiB of memory; median of 1 round\n",
        "\nRandom writes, values of 128 bytes (5.2; Figures 4 (a), 4 (e))\n",
        "HyperLevelDB, RocksDB 1/2.5; LevelDB 1/1.6\n",
        "here beside leveled   paper\n  writes a second, settled\n    leveled ",
        "  bytes of tables at the end\n    leveled ",
        "\nYCSB F (5.3; Figure 5)\n",
    ]);
    let run = run.tells("round 1: Random reads, aged store: sampled, 8 runs");
    run.tells("round 1: YCSB E without inserts: 4 runs");
    lab(&["paper", "pebblesdb", "--device", "ssd"]).exits(2).tells("one thread");
}

#[test]
fn bench_repeats_a_paper_on_a_modelled_device() {
    let place = Place::new("kt-store");
    let db = &place.db();
    let sizes = ["--rows", "200", "--reads", "100", "--rounds", "1", "--device", "hdd"];
    let command = [&["paper", "kt-store", db], &sizes[..]].concat();
    let run = lab(&command).exits(0);
    run.shows(&[
        "200 rows of 4112 bytes, 50 operations, 256.0 KiB of memory on modelled hdd; median of 1 round\n",
        "\nLoad, values of 64 KiB (4.2; Figure 6)\n",
        "here beside leveled   beside plain beside WiscKey   paper\n  latency, mean\n    leveled ",
        "WiscKey 1/54.2 to 1/112.6\n",
        "\nYCSB F (4.5; Figure 11)\n",
    ]);
    let run = run.tells("round 1: YCSB E: ordered");
    assert!(!place.path("db").exists(), "nothing is written to DIR");
    lab(&command).prints(run.text());
    lab(&["paper", "triad", "--device", "hdd"]).exits(2).tells("one thread");
}

#[test]
fn bench_repeats_a_paper_whose_configurations_name_their_devices() {
    let place = Place::new("logstore");
    let report = place.path("report.md").display().to_string();
    let command = ["paper", "logstore", "--rows", "3000", "--memtable-mib", "1", "--report", &report];
    let run = lab(&command).exits(0);
    run.shows(&[
        "3,000 rows of 1040 bytes, 3,000 operations, 1.0 MiB of memory on modelled devices; median of 1 round\n",
        "\nGets, shares of the fast device (VI-A1; Figure 8)\n",
        "here beside all hdd beside all nvme   paper\n  operations a second\n    all hdd ",
        " beside all nvme beside all hdd, leveled beside all nvme, leveled   paper\n  operations a second, settled\n",
        "\nGets after the hot keys moved (VI-A2; Figure 9)\n",
        "15,764, predicted 14,940\n",
        "\nThe cost model beside measurements\n",
        "  B-10: 10% gets, 90% writes: operations a second, settled\n    all hdd ",
    ]);
    // On the disk alone no get waits for another device.
    let after = run.text().split("  gets from the slow device\n").nth(1).unwrap();
    let lines: Vec<Vec<&str>> = after.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["all", "hdd", "–", "–", "–", "–"], "{after}");
    assert!(lines[4][..4] == ["nvme", "+", "hdd", "0.0%"], "{after}");
    // An experiment of its own has the figures that it has among others.
    let alone = lab(&[&command[..6], &["--only", "shares"]].concat()).exits(0);
    let (_, tables) = alone.text().split_once("\n\n").unwrap();
    assert!(tables.starts_with("Gets, shares of the fast device") && run.text().contains(tables), "{tables}");
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("### Tables\n\n    LogStore\n    3,000 rows"), "{page}");
    // The chart of Figure 9 shows nine seconds of gets, with a line for each of five sides.
    let chart = std::fs::read_to_string(place.path("report-1.svg")).unwrap();
    assert_eq!(chart.matches("stroke-width=\"2\"").count(), 5, "{chart}");
    assert!(chart.contains(">9</text>") && chart.contains(">all hdd</text>"), "{chart}");
    assert!(!place.path("report-2.svg").exists());
    lab(&["paper", "logstore", "--only", "novel"]).exits(2).tells("B-10: 10% gets, 90% writes; E: ");
    lab(&["paper", "logstore", "--device", "hdd"]).exits(2).tells("names its devices");
    lab(&["paper", "logstore", "--report", "/nowhere/at/all"])
        .exits(2)
        .tells("/nowhere/at is not a directory");
}
