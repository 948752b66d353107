//! Every workload runs on a map in memory and checks its answers. A store with wrong answers is detected.
#![allow(clippy::disallowed_methods, reason = "makes and removes the directory of a store")]

use braidb_bench::drive::drive;
use braidb_bench::keys::Data;
use braidb_bench::results::{Machine, Run};
use braidb_bench::{Beside, Measured, Outcome, See, Settings, Store, WORKLOADS, WallTimer, Workload, run};
use clap::Parser;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

type Family = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in memory. Its answers are correct unless `lie` says how they are wrong.
#[derive(Default)]
struct Map {
    families: RwLock<BTreeMap<usize, Family>>,
    lie: Option<Lie>,
    settled: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// Each get finds nothing.
    Nothing,
    /// Each get finds the value of another key.
    OtherValue,
    /// Gets of missing keys find something.
    TooMuch,
    /// Scans leave out their second entry.
    Gap,
    /// Scans end one entry early.
    Short,
    /// Scans start one entry late.
    Late,
    /// Deletes do nothing.
    Undead,
}

impl Store for Map {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        self.families.write().entry(family).or_default().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        if self.lie != Some(Lie::Undead) {
            self.families.write().entry(family).or_default().remove(key);
        }
        Ok(())
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let families = self.families.read();
        let map = families.get(&family).expect("a fill came before");
        let value = match self.lie {
            Some(Lie::Nothing) => None,
            Some(Lie::OtherValue) => map.iter().find(|(other, _)| *other != key).map(|(_, value)| value),
            Some(Lie::TooMuch) => map.values().next(),
            _ => map.get(key),
        };
        if let Some(value) = value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let families = self.families.read();
        let all = families.get(&family).expect("a fill came before").range(from.to_vec()..).enumerate();
        let shown = all.filter(|(index, _)| match self.lie {
            Some(Lie::Gap) => *index != 1,
            Some(Lie::Late) => *index != 0,
            _ => true,
        });
        let limit = if self.lie == Some(Lie::Short) { limit - 1 } else { limit };
        Ok(shown.take(limit).map(|(_, (key, value))| see(key, value)).count())
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        mark();
        self.settled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn counts(&self) -> Vec<(String, u64)> {
        let settled = self.settled.load(Ordering::Relaxed);
        ["settled", "log_bytes", "flush_bytes"].map(|name| (name.to_owned(), settled)).into()
    }
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    settings: Settings,
}

fn settings(options: &str) -> Settings {
    let options = format!("bench --num 3000 --value-bytes 40 --seconds 1 {options}");
    Command::parse_from(options.split_whitespace()).settings
}

fn run_on(store: &Map, workload: &'static Workload, settings: &Settings) -> Outcome<Measured> {
    let data = Data::new(workload, settings);
    let beside = Beside { sample: &|_| {}, progress: &|_| {} };
    run(workload, store, settings, &data, &WallTimer::start(), beside)
}

/// A store in the state with which the workload starts.
fn store_for(workload: &Workload, settings: &Settings, lie: Option<Lie>) -> Map {
    let mut store = Map::default();
    if !workload.starts_empty() {
        run_on(&store, Workload::named("fillrandom").unwrap(), settings).unwrap();
    }
    store.lie = lie;
    store
}

fn rows(store: &Map) -> usize {
    store.families.read().values().map(BTreeMap::len).sum()
}

#[test]
fn every_workload_runs() {
    for workload in &WORKLOADS {
        let settings = settings("");
        settings.check(&[workload]).unwrap();
        let store = store_for(workload, &settings, None);
        let measured = run_on(&store, workload, &settings).unwrap();
        let (lane, name) = (&measured.lane, workload.name);
        if let Some(operations) = settings.operations(workload) {
            assert_eq!(lane.operations, operations, "{name}");
        }
        assert_eq!(lane.by_second.iter().sum::<u64>(), lane.operations, "{name}");
        assert_eq!(lane.all_latencies().len(), lane.operations, "{name}");
        // `bursts` puts for 10 seconds before it gets, and here it runs for one second.
        assert_eq!(lane.checked > 0, workload.reads() && name != "bursts", "{name}");
        assert_eq!(lane.write_latency.is_empty(), !workload.is_mixed(), "{name}");
        assert_eq!(measured.writer.is_some(), workload.is_beside_writer, "{name}");
        assert!(measured.settled_seconds >= measured.seconds, "{name}");
        assert_eq!(measured.counts[0], ("settled".to_owned(), 1), "{name}");
        assert_eq!(lane.user_bytes > 0, workload.writes() && !workload.is_beside_writer, "{name}");
        let expected = match name {
            "queue" | "pushpop" => 300..=301,
            "updaterandom" => 1800..=2000,
            "timeline" => 2800..=2900,
            "ycsb-d" | "ycsb-e" => 3100..=3200,
            _ => 3000..=3000,
        };
        assert!(expected.contains(&rows(&store)), "{name}: {} rows", rows(&store));
    }
}

#[test]
fn threads_and_families_change_no_answer() {
    for name in ["fillseq", "ycsb-a", "ycsb-d", "ycsb-e", "ycsb-f", "seekrandom", "readmissing", "timeline"] {
        let workload = Workload::named(name).unwrap();
        let settings = settings("--threads 4 --families 7");
        let store = store_for(workload, &settings, None);
        run_on(&store, workload, &settings).unwrap();
        assert_eq!(store.families.read().len(), 7, "{name}");
    }
}

#[test]
fn a_store_that_lies_is_found_out() {
    let cases = [
        (Lie::Nothing, "readrandom", "is missing"),
        (Lie::Nothing, "ycsb-f", "is missing"),
        (Lie::OtherValue, "ycsb-a", "never written under it"),
        (Lie::TooMuch, "readmissing", "never written"),
        (Lie::Gap, "seekrandom", "comes behind"),
        (Lie::Gap, "timeline", "comes behind"),
        (Lie::Gap, "ycsb-e", "comes behind"),
        (Lie::Short, "seekrandom", "a scan of 49 entries"),
        (Lie::Short, "timeline", "a scan of"),
        (Lie::Short, "ycsb-e", "a scan of"),
        (Lie::Late, "ycsb-e", "comes behind None"),
        (Lie::Undead, "pushpop", "should be the smallest"),
    ];
    for (lie, name, told) in cases {
        let workload = Workload::named(name).unwrap();
        let settings = settings("");
        let store = store_for(workload, &settings, Some(lie));
        let error = run_on(&store, workload, &settings).unwrap_err().to_string();
        assert!(error.contains(told) && error.starts_with(name), "{lie:?}: {error}");
    }
}

/// Without checks a run accepts the values of other keys. The sum of bytes then shows them.
#[test]
fn sums_tell_what_unchecked_runs_read() {
    let workload = |name| Workload::named(name).unwrap();
    let settings = settings("--unchecked");
    let store = store_for(workload("readrandom"), &settings, None);
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let data = |name| Data::new(workload(name), &settings);
    let (gets, seeks, mut key) = (data("readrandom"), data("seekrandom"), Vec::new());
    let (mut of_gets, mut of_seeks) = (0, 0);
    for operation in 0..3000 {
        gets.write_key(gets.drawn(operation, 0), &mut key);
        of_gets += sum(&store.families.read()[&0][&key]);
    }
    for operation in 0..300 {
        seeks.write_key(seeks.drawn(operation, 0), &mut key);
        let entries = |(key, value): (&Vec<u8>, &Vec<u8>)| sum(key) + sum(value);
        of_seeks += store.families.read()[&0].range(key.clone()..).take(50).map(entries).sum::<u64>();
    }
    for (name, expected) in [("readrandom", of_gets), ("seekrandom", of_seeks), ("readmissing", 0)] {
        let lane = run_on(&store, workload(name), &settings).unwrap().lane;
        assert_eq!(lane.byte_sum, expected, "{name}");
        assert_eq!(lane.checked > 0, name == "readmissing", "{name}");
    }
    let store = store_for(workload("readrandom"), &settings, Some(Lie::OtherValue));
    assert_ne!(run_on(&store, workload("readrandom"), &settings).unwrap().lane.byte_sum, of_gets);
}

#[test]
fn settings_that_cannot_be_met_are_refused() {
    let check = |options: &str, name: &str| settings(options).check(&[Workload::named(name).unwrap()]);
    assert!(check("--key-bytes 3", "fillseq").unwrap_err().contains("--key-bytes 3"));
    assert!(check("--threads 2", "queue").unwrap_err().contains("one thread"));
    assert!(check("--window 3001", "pushpop").unwrap_err().contains("--window 3001"));
    assert!(check("--families 2", "pushpop").unwrap_err().contains("--families 2"));
    assert!(check("--distribution latest", "overwrite").unwrap_err().contains("inserts nothing"));
    assert_eq!(check("--distribution latest", "ycsb-e"), Ok(()));
    for options in ["--zipf-exponent 1", "--zipf-exponent x", "--num 0", "--read-percent 101"] {
        let options = format!("bench {options}");
        assert!(Command::try_parse_from(options.split_whitespace()).is_err(), "{options}");
    }
}

#[test]
fn a_workload_ends_when_its_time_is_over() {
    let (settings, gets) = (settings(""), Workload::named("readrandom").unwrap());
    let store = store_for(gets, &settings, None);
    let operations = |timed_seconds| {
        let settings = Settings { timed_seconds, ..settings.clone() };
        run_on(&store, gets, &settings).unwrap().lane.operations
    };
    assert_eq!([None, Some(0)].map(operations), [3000, 0]);
}

#[test]
fn a_drive_tells_the_figures_of_each_workload() {
    let dir = std::env::temp_dir().join(format!("braidb-drive-{}", std::process::id()));
    let named = |names: &[&str]| -> Vec<&'static Workload> {
        names.iter().map(|name| Workload::named(name).unwrap()).collect()
    };
    let settings = settings("--threads 2");
    let drive = |names: &[&str]| {
        let mut told = Vec::new();
        let outcome = drive(
            &dir,
            &named(names),
            &settings,
            "map",
            &Machine::default(),
            &|_| Ok(Box::new(Map::default())),
            &mut |run| {
                told.push(run.clone());
                Ok(())
            },
        );
        outcome.map(|()| told)
    };
    let told = drive(&["fillrandom", "ycsb-a", "fillseq", "readmissing"]).unwrap();
    let names: Vec<&str> = told.iter().map(|run| run.workload.as_str()).collect();
    assert_eq!(names, ["fillrandom", "ycsb-a", "fillseq", "readmissing"]);
    for run in &told {
        let figure = |name: &str| run.figures[name];
        assert_eq!((run.side.as_str(), figure("operations")), ("map", 3000.0));
        assert_eq!(figure("written_without_log_bytes"), 1.0);
        assert_eq!(run.figures.contains_key("written_per_user_byte"), run.workload != "readmissing");
        assert!(figure("longest_us") >= figure("p99_us") && figure("p99_us") >= figure("p50_us"));
        assert_eq!(run.operations_by_second.iter().sum::<u64>(), 3000);
    }
    assert_eq!(told[0].figures["user_bytes"], 3000.0 * 56.0);
    assert_eq!(told[3].figures["checked"], 3000.0);
    assert!(drive(&["readrandom"]).unwrap_err().to_string().contains("put a fill before it"));
    // No later workload knows the keys that ycsb-d inserts.
    for after in ["readmissing", "seekrandom"] {
        let error = drive(&["fillrandom", "ycsb-d", after]).unwrap_err().to_string();
        assert!(error.contains("cannot be measured on what ycsb-d leaves"), "{error}");
    }
}

#[test]
fn a_store_that_is_there_needs_no_fill() {
    let dir = std::env::temp_dir().join(format!("braidb-drive-again-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("store")).unwrap();
    let workloads = ["readrandom", "readmissing", "readrandom"].map(|name| Workload::named(name).unwrap());
    // The sums of repeated gets tell whether the gets draw the same keys.
    let sums = |draws_on| {
        let settings = Settings { draws_on, ..settings("--reads 500") };
        let open =
            |_: &Path| -> Outcome<Box<dyn Store>> { Ok(Box::new(store_for(workloads[0], &settings, None))) };
        let (mut sums, machine) = (Vec::new(), Machine::default());
        let tell = &mut |run: &Run| {
            assert_eq!(run.figures["operations"], 500.0);
            sums.push(run.figures["byte_sum"]);
            Ok(())
        };
        drive(&dir, &workloads, &settings, "map", &machine, &open, tell).unwrap();
        sums
    };
    let (again, on) = (sums(false), sums(true));
    assert!(dir.join("store").exists());
    assert!(again[0] == again[2] && on[0] == again[0] && on[2] != on[0], "{again:?} {on:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}
