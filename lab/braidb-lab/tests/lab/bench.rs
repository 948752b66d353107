//! `bench`, through the real binary.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Place, lab};

#[test]
fn bench_measures_every_workload() {
    let place = Place::new("bench");
    let db = &place.db();
    let workloads = ["fillseq", "fillrandom", "overwrite", "readrandom", "readmissing", "seekrandom"];
    let options = ["--num", "5000", "--threads", "2", "--memtable-mib", "1", "--json"];
    let run = lab(&[&["bench", db], &workloads[..], &options[..]].concat()).exits(0);
    let lines = run.json_lines();
    let names: Vec<_> = lines.iter().map(|line| line["workload"].as_str().unwrap()).collect();
    assert_eq!(names, workloads);
    for line in &lines {
        let (writes, operations) = (line["user_bytes"] != 0, line["operations"].as_u64().unwrap());
        assert_eq!(operations, if line["workload"] == "seekrandom" { 500 } else { 5000 });
        assert_eq!(line["user_bytes"].as_u64().unwrap(), if writes { operations * 144 } else { 0 });
        assert_eq!(line["written_per_user_byte"].as_f64().unwrap() >= 1.0, writes, "{line:#}");
        assert!(line["latency_ns"]["max"].as_u64() >= line["latency_ns"]["p50"].as_u64());
        // The files on disk hold every row, and some files are open.
        assert_eq!(line["live_bytes"].as_u64(), Some(5000 * 144));
        assert!(line["space_amplification"].as_f64().unwrap() > 0.9, "{line:#}");
        assert!(line["levels"].is_u64() && line["merged_bytes"].is_u64(), "{line:#}");
        assert_eq!(line["worst_space_amplification"].is_f64(), line["workload"] == "overwrite", "{line:#}");
    }
    let found = |workload: usize| lines[workload]["entries_found"].as_u64().unwrap();
    assert_eq!((found(3), found(4)), (5000, 0));
    assert!((400 * 50..=500 * 50).contains(&found(5)), "{}", found(5));

    // A later run finds the data, and prints text.
    let run = lab(&["bench", db, "readrandom", "--num", "5000", "--reads", "100"]).exits(0);
    assert!(run.text().contains("100 entries found") && run.text().contains("p99.9"), "{run:?}");
    // A run whose options name other keys than the fill's is refused.
    let run = lab(&["bench", db, "readrandom", "--num", "9999"]).exits(2);
    run.tells("was filled with --num 5000 --key-bytes 16 --value-bytes 128");
    lab(&["bench", db, "overwrite", "--num", "5000", "--value-bytes", "1"]).exits(2).tells("was filled with");
    assert!(braidb::Options::new().verify(place.path("db/db")).unwrap().damages.is_empty());
    // A fill starts over.
    let run = lab(&["bench", db, "fillseq", "readrandom", "--num", "10", "--durability", "sync"]).exits(0);
    assert!(run.text().contains("10 entries found"), "{run:?}");
}

#[test]
fn bench_measures_a_queue() {
    let place = Place::new("queue");
    let db = &place.db();
    let options = ["--num", "20000", "--window", "2000", "--memtable-bytes", "65536"];
    let bench = |more: &[&str]| lab(&[&["bench", db, "queue"], &options[..], more].concat());
    for policy in
        [&["--guards", "none", "--runs", "1"][..], &["--guards", "balanced"], &["--guards", "sampled"]]
    {
        let run = bench(&[policy, &["--json"]].concat()).exits(0);
        let figures: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
        assert_eq!(figures["operations"].as_u64(), Some(22_000));
        assert_eq!(figures["user_bytes"].as_u64(), Some(22_000 * 144 + 20_000 * 16));
        assert_eq!(
            (figures["live_bytes"].as_u64(), figures["memtable_bytes"].as_u64()),
            (Some(288_000), Some(65_536))
        );
        assert!(figures["worst_space_amplification"].as_f64().unwrap() > 0.0, "{figures:#}");
        assert!(figures["merged_bytes"].as_u64().unwrap() > 0 && figures["levels"].as_u64().unwrap() > 0);
    }
    let run = bench(&[]).exits(0);
    run.shows(&["  merged ", "  space ", ", at worst)", "  files "]);
    // The rows that a queue leaves are not the rows of a fill.
    bench(&["readrandom"]).exits(2).tells("put a fill before it");
    lab(&["bench", db, "readrandom", "--num", "20000"]).exits(2).tells("fill it first");
    bench(&["--threads", "2"]).exits(2).tells("one thread");
    lab(&["bench", db, "queue", "--num", "10", "--window", "11"]).exits(2).tells("--window 11");
    // The engine refuses a wrong value of its option by name.
    bench(&["--runs", "0"]).exits(2).tells("max_runs_per_guard");
}

#[test]
fn bench_draws_few_keys_often() {
    let place = Place::new("zipfian");
    let db = &place.db();
    let bench = |more: &[&str]| {
        let options =
            ["--num", "5000", "--writes", "20000", "--value-bytes", "84", "--memtable-mib", "1", "--json"];
        // The commands run without memory compaction and without hot keys. Whether these make a flush needless depends on how soon they
        // happen.
        let command = ["bench", db, "updaterandom", "--memory", "none", "--hot-keys-percent", "0"];
        let run = lab(&[&command[..], &options, more].concat()).exits(0);
        let figures: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
        let number = |name: &str| figures[name].as_u64().unwrap();
        assert_eq!((number("operations"), number("user_bytes")), (20_000, 2_000_000));
        let log = figures["written_by_cause"]["log"].as_u64().unwrap();
        assert!(log > 2_000_000, "{figures:#}");
        assert_eq!(number("written_without_log_bytes"), number("written_bytes") - log);
        assert!(number("flushes") > 0 && figures["merges"].is_u64(), "{figures:#}");
        number("live_bytes") / 100
    };
    // If all keys are equally likely, 20,000 draws meet nearly all of 5000 keys.
    let (uniform, zipfian) = (bench(&["--distribution", "uniform"]), bench(&["--distribution", "zipfian"]));
    assert!((4850..5000).contains(&uniform) && (2000..4500).contains(&zipfian), "{uniform}, {zipfian}");
    // The database that updaterandom leaves lacks keys.
    lab(&["bench", db, "readrandom", "--num", "5000"]).exits(2).tells("fill it first");
    lab(&["bench", db, "updaterandom", "getwhilewriting"]).exits(2).tells("put a fill before it");
}

#[test]
fn bench_measures_reads_beside_a_writer() {
    let place = Place::new("whilewriting");
    let db = &place.db();
    let bench = |more: &[&str]| {
        let options = ["--num", "5000", "--reads", "3000", "--distribution", "zipfian"];
        lab(&[&["bench", db, "fillrandom", "getwhilewriting"], &options[..], more].concat()).exits(0)
    };
    let run = bench(&["seekwhilewriting", "--json", "--threads", "2"]);
    let lines = run.json_lines();
    assert_eq!((lines.len(), &lines[0]["writes"]), (3, &serde_json::Value::Null));
    for (line, entries) in lines[1..].iter().zip([1, 50]) {
        let number = |name: &str| line[name].as_u64().unwrap();
        assert_eq!(number("operations"), 3000);
        assert!(number("entries_found") > 2800 * entries, "{line:#}");
        // The writer's operations are counted apart.
        assert_eq!(number("user_bytes"), number("writes") * 144);
        assert!(number("writes") > 0 && line["writes_per_second"].as_f64().unwrap() > 0.0, "{line:#}");
        for latency in ["latency_ns", "write_latency_ns"] {
            assert!(line[latency]["p99"].as_u64() >= line[latency]["p50"].as_u64(), "{line:#}");
        }
        assert!(line["worst_space_amplification"].is_f64(), "{line:#}");
    }
    let run = bench(&["--write-rate", "1000"]);
    run.shows(&["\ngetwhilewriting  3,000 operations in ", "; 3,000 entries found\n", "\n  beside    "]);
    lab(&["bench", db, "getwhilewriting", "--write-rate", "0"]).exits(2);
}

#[test]
fn bench_mixes_reads_and_writes() {
    let place = Place::new("mixed");
    let db = &place.db();
    let bench = |more: &[&str]| {
        let command = ["bench", db, "fillrandom", "mixed", "--num", "3000", "--operations", "10000"];
        let row = ["--key-bytes", "8", "--value-bytes", "255"];
        // Memory is small, so that something is flushed with any timing.
        let engine = ["--memtable-bytes", "65536", "--memory", "none", "--runs", "1", "--guards", "none"];
        let heat = ["--hot-keys-percent", "0", "--log-bytes", "1048576"];
        lab(&[&command[..], &row, &engine, &heat, more].concat()).exits(0)
    };
    let mixed = |more: &[&str]| -> serde_json::Value {
        let run = bench(&[&["--json"], more].concat());
        serde_json::from_str(run.text().lines().nth(1).unwrap()).unwrap()
    };
    let few = mixed(&["--read-percent", "10", "--distribution", "hot-1-99", "--threads", "2"]);
    let half = mixed(&["--distribution", "hot-20-80", "--threads", "3"]);
    for (line, distribution, reads) in [(&few, "hot-1-99", 900..1100), (&half, "hot-20-80", 4850..5150)] {
        let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name}: {line:#}"));
        assert_eq!(
            (line["workload"].as_str(), line["distribution"].as_str()),
            (Some("mixed"), Some(distribution))
        );
        // Every key is there, so each get finds one.
        assert!(reads.contains(&number("gets")), "{line:#}");
        assert_eq!((number("entries_found"), number("operations")), (number("gets"), 10_000));
        assert_eq!(number("writes"), 10_000 - number("gets"));
        assert_eq!(number("user_bytes"), number("writes") * 263);
        for latency in ["latency_ns", "write_latency_ns"] {
            assert!(line[latency]["max"].as_u64() >= line[latency]["p50"].as_u64(), "{line:#}");
        }
        let flushed = number("flushed_bytes");
        assert!(flushed > 0, "{line:#}");
        let amplification = (flushed + number("merged_bytes")) as f64 / flushed as f64;
        assert!((line["merge_amplification"].as_f64().unwrap() - amplification).abs() < 1e-9);
        let looks_per_get = (number("table_reads") + number("log_reads")) as f64 / number("gets") as f64;
        assert!((line["looks_per_get"].as_f64().unwrap() - looks_per_get).abs() < 1e-9);
        // A block in the block cache is not read from a file.
        assert!(line["reads_per_get"].as_f64().unwrap() <= looks_per_get);
        assert_eq!(number("live_bytes"), 3000 * 263);
        assert_eq!(number("directory_bound_bytes"), 2 * 3000 * 263 + (1 << 20) + 4 * 65_536);
        // Values lie in the directory, as they do not compress.
        assert!(number("worst_directory_bytes") > 3000 * 255, "{line:#}");
        assert_eq!(line["written_by_cause"]["write_back"].as_u64(), Some(number("written_back_bytes")));
        assert!(line["background_cpu_us"].is_u64(), "{line:#}");
    }
    // The operations are equal for any number of threads.
    let again = mixed(&["--read-percent", "10", "--distribution", "hot-1-99"]);
    assert_eq!((&again["gets"], &again["user_bytes"]), (&few["gets"], &few["user_bytes"]));
    let run = bench(&["--distribution", "uniform"]);
    for part in
        ["\nmixed ", "; settled ", " entries found\n  gets ", "\n  puts ", "\n  lookups ", ", at worst)"]
    {
        assert!(run.text().contains(part), "{part}: {run:?}");
    }
    lab(&["bench", db, "mixed", "--read-percent", "101"]).exits(2);
    lab(&["bench", db, "fillseq", "--hot-keys-percent", "51"]).exits(2).tells("hot_keys_percent");
    lab(&["bench", db, "fillseq", "--log-bytes", "1"]).exits(2).tells("log_bytes");
}

#[test]
fn bench_runs_the_workloads_of_others_and_checks_what_it_reads() {
    let place = Place::new("ycsb");
    let db = &place.db();
    let options = ["--num", "3000", "--families", "3", "--seconds", "1", "--memtable-mib", "1", "--json"];
    let run = |workloads: &[&str]| -> Vec<serde_json::Value> {
        lab(&[&["bench", db], workloads, &options].concat()).exits(0).json_lines()
    };
    let ycsb = ["ycsb-load", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "logstore-b90", "logstore-b10"];
    for line in run(&[&ycsb[..], &["logstore-write", "bursts", "ycsb-d"]].concat()) {
        let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name}: {line:#}"));
        let checked = match line["workload"].as_str().unwrap() {
            "ycsb-load" | "logstore-write" | "bursts" => 0..1,
            "ycsb-a" | "ycsb-f" => 1400..3001,
            "logstore-b10" => 250..350,
            "logstore-b90" => 2650..2750,
            _ => 2800..3001,
        };
        assert!(checked.contains(&number("checked")), "{line:#}");
        assert_eq!(number("families"), 3);
    }
    // The database that ycsb-d leaves has more keys than a fill.
    lab(&["bench", db, "readrandom", "--num", "3000"]).exits(2).tells("fill it first");
    assert_eq!(run(&["ycsb-load", "ycsb-e", "timeline"]).len(), 3);
    let zipfian = ["--distribution", "zipfian", "--zipf-exponent", "0.9", "--ranks", "ordered"];
    lab(&[&["bench", db, "pushpop", "fillseq", "mixed", "--num", "3000"], &zipfian[..]].concat()).exits(0);
    lab(&["bench", db, "fillseq", "--zipf-exponent", "1"]).exits(2).tells("between 0 and 1");
    lab(&["bench", db, "overwrite", "--distribution", "latest"]).exits(2).tells("inserts nothing");
}

#[test]
fn bench_holds_a_steady_load() {
    let place = Place::new("steady");
    let db = &place.db();
    let run = lab(&["bench", "steady", db, "--keys", "2000", "--seconds", "1", "--rate", "4000"]).exits(0);
    run.shows(&["written in minutes 1 to 1", "\nsteady-written-per-user-byte ", "\n  log "]);
    lab(&["bench", db, "readrandom", "--num", "2000"]).exits(2).tells("fill it first");
}

#[test]
fn bench_writes_a_report() {
    let place = Place::new("report");
    let db = &place.db();
    let report = |name: &str| place.path(name).display().to_string();
    let tables = report("out.md");
    let command = ["bench", db, "fillrandom", "readrandom", "--num", "2000"];
    lab(&[&command[..], &["--report", &tables, "--device", "nvme"]].concat()).exits(0);
    let tables = std::fs::read_to_string(&tables).unwrap();
    assert!(
        tables.contains("### braidb on modelled nvme\n") && tables.contains("\n| fillrandom | "),
        "{tables}"
    );
    // The command tells an unusable path before it measures anything.
    let nowhere = report("nowhere/out.md");
    lab(&[&command[..], &["--report", &nowhere]].concat()).exits(2).tells("nowhere is not a directory");
}

#[test]
fn bench_measures_on_a_modelled_device() {
    let place = Place::new("modelled");
    let db = &place.db();
    let options = ["--num", "3000", "--memtable-bytes", "65536", "--page-cache-mib", "1", "--cache-mib", "1"];
    let workloads = ["fillrandom", "readrandom", "ycsb-e", "fillseq"];
    let on = |device: &str, more: &[&str]| {
        let command = ["bench", db, "--device", device];
        lab(&[&command[..], &workloads, &options, more].concat()).exits(0).text().to_owned()
    };
    let hdd = on("hdd", &["--json"]);
    assert_eq!(hdd, on("hdd", &["--json"]), "the same figures in each run");
    let lines: Vec<serde_json::Value> = hdd.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), workloads.len());
    for (line, workload) in lines.iter().zip(workloads) {
        assert_eq!(line["workload"], workload);
        let figure = |name: &str| line["figures"][name].as_f64().unwrap();
        match workload {
            // The bytes that a fill wrote fit into the page cache.
            "readrandom" => assert_eq!(figure("device_read_bytes"), 0.0, "{line:#}"),
            _ => assert!(figure("device_busy_ns") > 0.0, "{line:#}"),
        }
        assert!(line["figures"]["called_bytes"].is_null(), "the host's figures mean nothing: {line:#}");
    }
    // A scan costs processor time for each entry, and a read-modify-write for both operations.
    let cpu_us = |workload: &str, more: &[&str]| {
        let command = ["bench", db, "--device", "nvme", "fillrandom", workload, "--json"];
        let lines = lab(&[&command[..], &options, more].concat()).exits(0).json_lines();
        lines[1]["figures"]["cpu_us_per_operation"].as_f64().unwrap()
    };
    // The merges that scans buy cost little compared with 3,000 scans.
    let scan_us = |entries| cpu_us("seekrandom", &["--reads", "3000", "--entries", entries]);
    assert!(scan_us("100") > 5.0 * scan_us("1"));
    assert!(cpu_us("ycsb-f", &[]) > 1.5);
    let text = on("nvme", &[]);
    assert!(text.contains(" modelled s, ") && text.contains("  device    nvme: "), "{text}");
    assert!(!place.path("db").exists(), "nothing is written to DIR");
    lab(&["bench", db, "readrandom", "--device", "ssd"]).exits(2).tells("put a fill before readrandom");
    lab(&["bench", db, "fillseq", "--threads", "2", "--device", "ssd"]).exits(2).tells("one thread");
    lab(&["bench", db, "fillseq", "--device", "ssd", "--device-mib", "1"]).exits(3).tells("is full");
}

#[test]
fn bench_measures_on_two_modelled_devices() {
    let place = Place::new("two-devices");
    let db = &place.db();
    let options =
        ["--num", "20000", "--memtable-bytes", "262144", "--page-cache-mib", "1", "--cache-mib", "1"];
    let on = |more: &[&str]| {
        let command = ["bench", db, "fillrandom", "ycsb-c", "--device", "nvme"];
        lab(&[&command[..], &options, more].concat()).exits(0).text().to_owned()
    };
    for (placement, share) in [("tiers", "50"), ("random", "50"), ("cache", "100")] {
        let two = ["--slow-device", "hdd", "--placement", placement, "--fast-share", share];
        let json = on(&[&two[..], &["--json"]].concat());
        assert_eq!(json, on(&[&two[..], &["--json"]].concat()), "the same figures in each run");
        for line in json.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let figure = |name: &str| line["figures"][name].as_f64().unwrap();
            let [fast, slow, both] =
                ["fast_device_busy_ns", "slow_device_busy_ns", "device_busy_ns"].map(figure);
            assert!(fast > 0.0 && slow > 0.0 && fast + slow == both, "{line:#}");
            let side = format!("braidb on modelled nvme and hdd, {placement} placement");
            assert_eq!(line["side"], side.as_str());
        }
        let text = on(&two);
        assert!(text.contains("\n  fast      nvme: ") && text.contains("\n  slow      hdd: "), "{text}");
    }
    assert!(!place.path("db").exists() && !place.path("db-slow").exists(), "nothing is written to DIR");
    let refused = |more: &[&str]| lab(&[&["bench", db, "fillseq"], more].concat()).exits(2);
    refused(&["--slow-device", "hdd", "--placement", "cache"]).tells("--device");
    refused(&["--device", "nvme", "--placement", "cache"]).tells("--slow-device");
    refused(&["--device", "nvme", "--fast-share", "10"]).tells("--slow-device");
}

#[test]
fn bench_measures_nothing_that_is_not_filled() {
    let place = Place::new("unfilled");
    let db = &place.db();
    for workload in ["overwrite", "readrandom", "readmissing", "seekrandom", "getwhilewriting", "mixed"] {
        lab(&["bench", db, workload, "fillseq", "--num", "10"]).exits(2).tells("fill it first");
    }
    assert!(!place.path("db").exists());
    lab(&["bench", db, "fillseq", "--num", "10"]).exits(0);
    std::fs::remove_dir_all(place.path("db/db")).unwrap();
    lab(&["bench", db, "readrandom", "--num", "10"]).exits(2).tells("fill it first");
}
