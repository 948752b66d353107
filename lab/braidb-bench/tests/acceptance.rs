//! Acceptance that resumes: scripts/accept/common.sh and `pair row`, in a repository that the test creates.
#![allow(clippy::disallowed_methods, reason = "makes the files of a repository")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A list of lines. Each line writes its runs to a file, so that a test sees which lines ran.
const TOY: &str = r#"#!/usr/bin/env bash
set -uo pipefail
cd "$(dirname "$0")/../.."
. scripts/accept/common.sh
results=$(results_of_lines)
ran() { echo "$1" >>scratch/ran; echo "* a row of $1's table"; echo "* and another"; echo "the figure of $1 is ${2:-7} \"times\""; }
good() { ran good "$@"; }
bad() { ran bad; return 1; }
torture() { ran torture; }
shared() { ran shared; echo once >>"$results/shared"; echo "measured $(wc -l <"$results/shared") times"; }
edits() { ran edits; echo changed >>crates/engine.rs; }
[ -z "${IMPATIENT:-}" ] || most_seconds=-1
holder() { measuring cat "$BRAIDB_MEASURING_LOCK"; }
line good     good
line bad      bad
line torture  torture
line shared   shared
if [ -n "${WITH_MORE:-}" ]; then
    line good    good 8
    line edits   edits
    line later   shared
    line holder  holder
fi
sum_up
"#;

/// A repository, which is removed when the test ends.
struct Repository(PathBuf);

impl Repository {
    fn new(test: &str) -> Repository {
        let path = std::env::temp_dir().join(format!("braidb-accept-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let repository = Repository(path);
        let common = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/accept/common.sh");
        repository.write("scripts/accept/common.sh", &fs::read_to_string(common).unwrap());
        repository.write("scripts/accept/toy", TOY);
        repository.write("crates/engine.rs", "engine");
        repository.write("docs/guide.md", "guide");
        repository.write("Cargo.toml", "manifest");
        repository.write(".gitignore", "/scratch\n");
        repository.git(&["init", "--quiet"]);
        repository.commit();
        repository
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let of_a_test =
            ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"];
        let done = Command::new("git").current_dir(&self.0).args(of_a_test).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", "a commit"]);
    }

    /// The lines that ran, the output, and the exit status.
    fn accept_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> (String, String, i32) {
        let ran = self.0.join("scratch/ran");
        let _ = fs::remove_file(&ran);
        let mut command = Command::new("bash");
        command.arg("scripts/accept/toy").args(arguments).current_dir(&self.0);
        command.env("BRAIDB_PAIR", env!("CARGO_BIN_EXE_pair"));
        command.env("BRAIDB_MEASURING_LOCK", self.0.join("scratch/lock")).env_remove("BRAIDB_MEASURING");
        for size in [
            "RUNS",
            "NUM",
            "OPERATIONS",
            "POINTS",
            "ROUNDS",
            "REOPENINGS",
            "BEFORE",
            "SEED",
            "TORTURE_MINUTES",
        ] {
            command.env_remove(size);
        }
        let done = command.envs(environment.iter().copied()).output().unwrap();
        let told = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        let ran = fs::read_to_string(ran).unwrap_or_default();
        let ran = ran.split_whitespace().collect::<Vec<&str>>().join(" ");
        (ran, told.into_owned(), done.status.code().unwrap())
    }

    fn accept(&self, arguments: &[&str]) -> (String, String, i32) {
        self.accept_with(&[], arguments)
    }

    fn rows(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.0.join("scratch/rows/toy.jsonl")).unwrap_or_default();
        text.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_line_runs_once_for_the_same_sources() {
    let repository = Repository::new("once");
    let (ran, told, status) = repository.accept(&[]);
    assert_eq!((ran.as_str(), status), ("good bad torture shared", 1), "{told}");
    assert!(told.contains("3 passed, 1 failed"), "{told}");
    let rows = repository.rows();
    assert_eq!(rows.len(), 4);
    let figure = "the figure of good is 7 \"times\"\na row of good's table\nand another";
    assert_eq!(rows[0]["figure"], figure);
    let indented =
        |text: &str| -> Vec<String> { text.lines().map(|line| line.trim_start().to_owned()).collect() };
    let has_table = |told: &str| indented(told).windows(3).any(|lines| lines.join("\n") == figure);
    assert!(has_table(&told), "{told}");
    assert_eq!((&rows[1]["verdict"], &rows[1]["line"]), (&"FAIL".into(), &"bad".into()));

    assert_eq!(rows[0]["hash"].as_str().map(str::len), Some(40));
    assert_eq!(rows[0]["command"], "good");
    assert!(rows[0]["load"].is_number() && rows[0]["steal_seconds"].is_number(), "{}", rows[0]);
    assert!(
        rows[0]["date"].as_str().unwrap().ends_with('Z') && !rows[0]["commit"].as_str().unwrap().is_empty()
    );

    // The second run takes the whole table from the rows. A failed line still fails.
    let (ran, again, status) = repository.accept(&[]);
    assert_eq!((ran.as_str(), status), ("", 1), "{again}");
    assert!(again.contains("3 passed, 1 failed"), "{again}");
    assert!(has_table(&again), "{again}");
    let (ran, again, status) = repository.accept(&["good"]);
    assert_eq!((ran.as_str(), status), ("", 0), "{again}");
    assert_eq!(repository.rows().len(), 4);
}

#[test]
fn sources_change_the_hash_and_documents_do_not() {
    let repository = Repository::new("hash");
    let all = "good bad torture shared";
    assert_eq!(repository.accept(&[]).0, all);
    repository.write("docs/guide.md", "another guide");
    repository.write("docs/new.md", "new");
    assert_eq!(repository.accept(&[]).0, "", "changed documents run no line");
    for (path, text) in [
        ("crates/engine.rs", "another engine"),
        ("crates/new.rs", "a new file"),
        ("Cargo.toml", "another manifest"),
        ("lab/rivals/src/main.rs", "a new directory"),
        ("scripts/new", "a new script"),
    ] {
        repository.write(path, text);
        assert_eq!(repository.accept(&[]).0, all, "{path}");
        assert_eq!(repository.accept(&[]).0, "", "{path}");
    }
    repository.commit();
    assert_eq!(repository.accept(&[]).0, "", "a commit of the working tree runs no line");
    fs::remove_dir_all(repository.0.join("lab")).unwrap();
    assert_eq!(repository.accept(&[]).0, all, "a removed directory runs all lines");
    repository.write("crates/engine.rs", "engine");
    fs::remove_file(repository.0.join("crates/new.rs")).unwrap();
    fs::remove_file(repository.0.join("scripts/new")).unwrap();
    repository.write("Cargo.toml", "manifest");
    assert_eq!(repository.accept(&[]).0, "", "the earlier sources have their rows");
}

#[test]
fn a_line_is_run_again_when_asked_or_changed() {
    let repository = Repository::new("again");
    repository.accept(&[]);
    assert_eq!(repository.accept(&["--again", "bad"]).0, "bad");
    assert_eq!(repository.rows().len(), 5);
    // Of two rows the last counts. `--again` also repeats the measurement that lines share.
    let (ran, told, _) = repository.accept(&["--again", "shared", "shared"]);
    assert_eq!(ran, "shared");
    assert!(told.contains("measured 1 times"), "{told}");
    // A line with another command has no row yet.
    let (ran, told, _) = repository.accept_with(&[("WITH_MORE", "1")], &["good"]);
    assert_eq!(ran, "good");
    assert!(told.contains("good 8") && told.contains("the figure of good is 8"), "{told}");
}

#[test]
fn other_sizes_are_not_kept() {
    let repository = Repository::new("sizes");
    let all = "good bad torture shared";
    assert_eq!(repository.accept_with(&[("RUNS", "1")], &[]).0, all);
    assert!(repository.rows().is_empty());
    let (ran, ..) = repository.accept_with(&[("TORTURE_MINUTES", "1")], &[]);
    assert_eq!(ran, all);
    let (ran, told, _) = repository.accept(&[]);
    assert_eq!(ran, "torture", "{told}");
    let (ran, told, _) = repository.accept_with(&[("TORTURE_MINUTES", "60")], &[]);
    assert_eq!(ran, "", "{told}");
    assert_eq!(repository.accept_with(&[("SEED", "5")], &["good"]).0, "good");
}

#[test]
fn what_lines_share_outlives_the_script_but_not_the_sources() {
    let repository = Repository::new("shared");
    repository.accept(&["shared"]);
    fs::remove_file(repository.0.join("scratch/rows/toy.jsonl")).unwrap();
    let (_, told, _) = repository.accept(&["shared"]);
    assert!(told.contains("measured 2 times"), "{told}");
    let (_, told, _) = repository.accept_with(&[("NUM", "5")], &["shared"]);
    assert!(told.contains("measured 1 times"), "{told}");
    let (_, told, _) = repository.accept(&["--again", "shared", "shared"]);
    assert!(told.contains("measured 1 times"), "{told}");
    repository.write("crates/engine.rs", "another engine");
    let (_, told, _) = repository.accept(&["shared"]);
    assert!(told.contains("measured 1 times"), "{told}");
}

#[test]
fn a_line_that_changes_the_sources_is_not_kept() {
    let repository = Repository::new("edits");
    let (ran, told, _) = repository.accept_with(&[("WITH_MORE", "1")], &["edits"]);
    assert_eq!(ran, "edits");
    assert!(told.contains("the sources changed while edits ran"), "{told}");
    assert!(repository.rows().is_empty());
}

#[test]
fn what_lines_share_is_measured_anew_when_the_sources_change_while_the_script_runs() {
    let repository = Repository::new("meanwhile");
    let lines = ["shared", "edits", "later"];
    let (ran, told, _) = repository.accept_with(&[("WITH_MORE", "1")], &lines);
    assert_eq!(ran, "shared edits shared", "{told}");
    assert!(!told.contains("measured 2 times"), "the row of `later` has results of other sources: {told}");
    // After a return to the earlier sources, the measurement of `later` with other sources does not count.
    repository.write("crates/engine.rs", "engine");
    fs::remove_file(repository.0.join("scratch/rows/toy.jsonl")).unwrap();
    let (_, told, _) = repository.accept(&["shared"]);
    assert!(told.contains("measured 1 times"), "{told}");
}

#[test]
fn a_line_that_takes_long_is_warned_of() {
    let repository = Repository::new("long");
    let (_, told, _) = repository.accept_with(&[("IMPATIENT", "1")], &["good", "torture"]);
    assert!(told.contains("warning: good took") && !told.contains("warning: torture"), "{told}");
    let (_, told, _) = repository.accept(&["good", "torture"]);
    assert!(!told.contains("warning"), "{told}");
}

#[test]
fn the_lock_names_the_measuring_process() {
    let repository = Repository::new("lock");
    let (_, told, status) = repository.accept_with(&[("WITH_MORE", "1")], &["holder"]);
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("toy, cat") && told.contains("process "), "{told}");
}

#[test]
fn wrong_names_and_rows_are_refused() {
    let repository = Repository::new("wrong");
    let (ran, told, status) = repository.accept(&["godo"]);
    assert_eq!((ran.as_str(), status), ("", 1), "{told}");
    assert!(told.contains("there is no line godo; there are good bad torture shared"), "{told}");
    let (_, told, status) = repository.accept(&["--agian", "good"]);
    assert_eq!(status, 2, "{told}");
    let (_, told, status) = repository.accept(&["--again"]);
    assert_eq!(status, 2, "{told}");
    repository.write("scratch/rows/toy.jsonl", "{\"topic\":");
    let (ran, told, status) = repository.accept(&["good"]);
    assert_eq!((ran.as_str(), status), ("", 2), "{told}");
    assert!(told.contains("line 1 of") && told.contains("toy.jsonl is no row"), "{told}");
}
