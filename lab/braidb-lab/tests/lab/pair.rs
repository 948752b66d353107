//! `pair` with a driver that measures nothing, through the real binary.
#![allow(clippy::disallowed_methods, reason = "reads what the tool leaves in a directory")]

use crate::common::{LAB, Place};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-driver.sh");

/// A repository without a commit, which is removed when the test ends.
struct Scratch(Place);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let place = Place::new(&format!("pair-{test}"));
        let done = Command::new("git").args(["init", "--quiet"]).arg(place.path("")).status().unwrap();
        assert!(done.success());
        Scratch(place)
    }

    /// `braidb-lab pair` in this directory, with the driver that measures nothing.
    fn command(&self) -> Command {
        let mut command = Command::new(LAB);
        command.arg("pair").arg("--dir").arg(self.0.path("")).current_dir(self.0.path(""));
        command.env("BRAIDB_PAIR_DRIVER", DRIVER).env("FAKE_LOG", self.0.path("log"));
        command.env("BRAIDB_MEASURING_LOCK", self.0.path("lock")).env_remove("BRAIDB_MEASURING");
        command
    }

    /// What the command does with `arguments`.
    fn compare(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path(name)).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn equal_sides_pass_and_a_slow_side_fails() {
    let scratch = Scratch::new("verdict");
    let limits = ["--limit", "cpu_us_per_operation<=1.03", "--limit", "settled_operations_per_second>=0.97"];
    let equal = scratch.compare(&[&[". x=1", "."], &limits[..], &["--", "fillrandom"]].concat());
    let told = text(&equal.stdout);
    assert_eq!(equal.status.code(), Some(0), "{told}{}", text(&equal.stderr));
    assert!(told.contains("all limits hold") && !told.contains("FAIL"), "{told}");
    assert!(told.contains("operations a second, settled"), "{told}");

    let slow = scratch.compare(&[&[". slow=10", "."], &limits[..], &["--", "fillrandom"]].concat());
    let told = text(&slow.stdout);
    assert_eq!(slow.status.code(), Some(1), "{told}");
    assert!(told.contains("a limit fails") && told.contains("FAIL"), "{told}");
    assert!(told.contains("0.9000 times, at least 0.97 wanted"), "{told}");
}

#[test]
fn rounds_have_a_seed_each_and_change_their_order() {
    let scratch = Scratch::new("order");
    let done = scratch.compare(&["--rounds", "4", "--seed", "50", ". x=1", ".", "--", "fillrandom"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let (a, b) = (". x=1", ".");
    let expected: Vec<String> = [[a, b, a, a], [a, a, a, b], [b, a, a, a], [a, a, b, a]]
        .iter()
        .zip(50..)
        .flat_map(|(sides, seed)| sides.map(|side| format!("{side}: {seed}")))
        .collect();
    assert_eq!(scratch.read("log").lines().collect::<Vec<_>>(), expected);
    // Each run's store lay in this directory, which is removed when its run has ended.
    assert!(!scratch.0.path("braidb-pair-run").exists());
}

#[test]
fn a_limit_concerns_its_workload() {
    let scratch = Scratch::new("limits");
    let json = scratch.0.path("pairs.jsonl").display().to_string();
    let limit = "gets/cpu_us_per_operation<=1.03";
    let arguments =
        ["--rounds", "2", "--limit", limit, "--json", &json, ".", ". x=1", "--", "fillrandom", "gets"];
    let done = scratch.compare(&arguments);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let pairs = scratch.read("pairs.jsonl");
    let pairs = pairs.lines().map(|pair| serde_json::from_str::<serde_json::Value>(pair).unwrap());
    let limited = |pair: serde_json::Value| {
        pair["figures"].as_array().unwrap().iter().filter(|figure| !figure["limit"].is_null()).count()
    };
    assert_eq!(pairs.map(limited).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_repeat_decides_and_both_are_printed() {
    let scratch = Scratch::new("repeat");
    let limit = "--limit=cpu_us_per_operation<=1.03";
    let done = scratch.compare(&["--rounds", "2", "--repeat", limit, ". slow=10", ".", "--", "fillrandom"]);
    let told = text(&done.stdout);
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("FAIL").count(), 2, "{told}");
    assert!(told.contains("the second measurement decides"), "{told}");
    let log = scratch.read("log");
    assert!(log.contains(": 1\n") && log.contains(": 1001\n"), "{log}");
}

#[test]
fn trouble_is_told_with_its_cause() {
    let scratch = Scratch::new("trouble");
    for (arguments, expected) in [
        (vec![". fail=1", ".", "--", "fillrandom"], "the engine has no option fail"),
        (vec![".", "no-such-commit", "--", "fillrandom"], "no-such-commit is no commit"),
        (vec!["--limit", "p98_us<=1", ".", ".", "--", "fillrandom"], "the limit names the figure p98_us"),
        (
            vec!["--limit", "gets/p98_us<=1", ".", ".", "--", "fillrandom"],
            "the limit names gets, which did not run",
        ),
        (vec!["--limit", "p98_us<1", ".", ".", "--", "fillrandom"], "is no limit"),
        (vec![".", ".", "--"], "required"),
        (vec!["--rounds", "1", ".", ".", "--", "fillrandom"], "2..=1000"),
    ] {
        let done = scratch.compare(&arguments);
        let told = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
}

#[test]
fn a_second_measurement_waits_for_the_first() {
    let scratch = Scratch::new("lock");
    let lock = scratch.0.path("lock");
    let holder = fs::File::create(&lock).unwrap();
    fs::write(&lock, "process 42: a measurement\n").unwrap();
    holder.lock().unwrap();
    let log = scratch.0.path("stderr");
    let mut waiting = scratch
        .command()
        .args(["--rounds", "2", ".", ".", "--", "fillrandom"])
        .stdout(fs::File::create(scratch.0.path("stdout")).unwrap())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    while !has_line(&log, "process 42: a measurement") {
        assert!(waiting.try_wait().unwrap().is_none(), "pair did not wait: {}", scratch.read("stderr"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!scratch.0.path("log").exists(), "a driver ran meanwhile");
    drop(holder);
    assert!(waiting.wait().unwrap().success(), "{}", scratch.read("stderr"));
    assert_eq!(scratch.read("log").lines().count(), 8);
}

fn has_line(path: &Path, part: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains(part))
}
