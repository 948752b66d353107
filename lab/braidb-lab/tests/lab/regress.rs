//! `regress` with a table of its own, in a repository that the test creates, through the real binary.
#![allow(clippy::disallowed_methods, reason = "makes the files of a repository")]

use crate::common::{LAB, Place};
use std::fs;
use std::process::Command;

/// A table whose lines write their names to a file, so that a test sees which lines ran.
const TOY: &str = "\
good  A figure beside its floor
  size NUM 7
  run a $RAN good; echo rate $NUM; echo '{\"rate\":5}'
  run b $RAN two; echo rate 2
  want a.rate / b.rate <= 2.5 ; 9 before
  show NUM
bad  A figure beyond its floor
  run a $RAN bad; echo '  PASS  what pair says'; echo rate 5
  want rate < 5
ends  A command that fails
  run a $RAN ends; echo why; false | true
limit  A limit of `pair` that fails before a figure that holds
  run a $RAN limit; echo '  FAIL  what pair says'; exit 1
  run b $RAN on; echo rate 3
  want rate == 3
median  The middle of three rounds
  rounds 3
  run a $RAN $ROUND; echo rate $((ROUND * ROUND))
  want rate == 4
base  Beside a commit
  run a $RAN base; echo $BASE
shared-one  On a modelled device
  modelled a $RAN modelled; echo rate $(wc -l <scratch/ran)
  want rate > 0
shared-two  The same command
  modelled a $RAN modelled; echo rate $(wc -l <scratch/ran)
  want rate > 0
root  What this user cannot run
  run a exit 77
edits  Changes the sources
  run a $RAN edits; echo changed >>crates/engine.rs
set RAN echo >>scratch/ran
";

/// A repository, which is removed when the test ends.
struct Repository(Place);

impl Repository {
    fn new(test: &str) -> Repository {
        let repository = Repository(Place::new(&format!("regress-{test}")));
        repository.write("crates/engine.rs", "engine");
        repository.write("docs/guide.md", "guide");
        repository.write(".gitignore", "/scratch\n");
        repository.write("scratch/table", TOY);
        repository.git(&["init", "--quiet"]);
        repository.commit();
        repository
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        let of_a_test =
            ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"];
        let done = Command::new("git")
            .current_dir(self.0.path(""))
            .args(of_a_test)
            .args(arguments)
            .output()
            .unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "a commit"]);
    }

    /// The lines that ran, the output, and the exit status.
    fn regress_with(&self, variable: Option<(&str, &str)>, arguments: &[&str]) -> (String, String, i32) {
        let ran = self.0.path("scratch/ran");
        let _ = fs::remove_file(&ran);
        let mut command = Command::new(LAB);
        command.args(["regress", "--table", "scratch/table", "--base", "HEAD"]).args(arguments);
        command.current_dir(self.0.path("")).env_remove("NUM").env_remove("ROUNDS").envs(variable);
        let done = command.output().unwrap();
        let told = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        let ran = fs::read_to_string(ran).unwrap_or_default();
        (ran.split_whitespace().collect::<Vec<_>>().join(" "), told.into_owned(), done.status.code().unwrap())
    }

    fn regress(&self, arguments: &[&str]) -> (String, String, i32) {
        self.regress_with(None, arguments)
    }

    fn rows(&self) -> usize {
        fs::read_to_string(self.0.path("scratch/regress/rows.jsonl")).unwrap_or_default().lines().count()
    }
}

#[test]
fn figures_are_held_to_their_limits() {
    let repository = Repository::new("limits");
    let (ran, told, status) = repository.regress(&["good", "bad", "ends", "limit", "median", "root"]);
    assert_eq!((ran.as_str(), status), ("good two bad ends limit on 1 2 3", 1), "{told}");
    for part in [
        "PASS a.rate / b.rate is 2.500 <= 2.500  (9 before)\n",
        "NUM is 7\n",
        "bad                    FAIL",
        "FAIL rate is 5 < 5\n",
        "    PASS a: what pair says\n",
        "    | a ended with exit status: 1\n    | why\n",
        "limit                  FAIL",
        "    FAIL a: what pair says\n    PASS rate is 3 == 3\n",
        "rate is 4 (1 to 9) == 4\n",
        "root                   NOT RUN",
        "2 passed, 3 failed, 1 cannot run here\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let (ran, told, status) = repository.regress(&["good", "--list"]);
    assert_eq!((ran.as_str(), status), ("", 0), "{told}");
    assert!(told.contains("A figure beside its floor") && told.contains("a.rate / b.rate <= 2.5"), "{told}");
}

#[test]
fn a_line_runs_once_for_the_same_sources() {
    let repository = Repository::new("once");
    let lines = ["good", "bad", "ends"];
    let (_, first, _) = repository.regress(&lines);
    let (ran, again, status) = repository.regress(&lines);
    assert_eq!((ran.as_str(), status, repository.rows()), ("", 1, 3), "{again}");
    assert!(again.contains("1 passed, 2 failed") && again.contains("FAIL rate is 5 < 5"), "{first}{again}");
    repository.write("docs/guide.md", "another guide");
    assert_eq!(repository.regress(&["good"]).0, "", "a document runs no line");
    for path in ["crates/new.rs", "lab/new.rs", "proof/new.rs", "scripts/new", "Cargo.toml", "Cargo.lock"] {
        repository.write(path, "new");
        assert_eq!(repository.regress(&["good"]).0, "good two", "{path}");
        assert_eq!(repository.regress(&["good"]).0, "", "{path}");
    }
    repository.commit();
    assert_eq!(repository.regress(&["good"]).0, "", "a commit of the working tree runs no line");
    assert_eq!(repository.regress(&["good", "--again"]).0, "good two");
    // A line that compares with the commit of `--base` runs again if `--base` names another commit.
    assert_eq!(repository.regress(&["base"]).0, "base");
    assert_eq!(repository.regress(&["base"]).0, "");
    repository.commit();
    assert_eq!(repository.regress(&["base"]).0, "base");
}

#[test]
fn other_sizes_and_changed_sources_are_not_kept() {
    let repository = Repository::new("sizes");
    let (ran, told, status) = repository.regress_with(Some(("NUM", "8")), &["good"]);
    assert_eq!((ran.as_str(), status, repository.rows()), ("good two", 0, 0), "{told}");
    assert!(told.contains("NUM is 8\n") && told.contains("not kept"), "{told}");
    let (ran, told, _) = repository.regress_with(Some(("ROUNDS", "1")), &["median"]);
    assert_eq!((ran.as_str(), repository.rows()), ("1", 0), "{told}");
    let (_, told, _) = repository.regress(&["edits"]);
    assert!(told.contains("the sources changed while edits ran"), "{told}");
    assert_eq!(repository.rows(), 0);
}

#[test]
fn equal_commands_on_modelled_devices_run_once() {
    let repository = Repository::new("modelled");
    // The name of several lines is what stands before their hyphen.
    let (ran, told, status) = repository.regress(&["shared"]);
    assert_eq!((ran.as_str(), status, repository.rows()), ("modelled", 0, 2), "{told}");
    repository.write("crates/engine.rs", "another engine");
    assert_eq!(repository.regress(&["shared-two"]).0, "modelled");
}

#[test]
fn wrong_names_tables_and_rows_are_refused() {
    let repository = Repository::new("wrong");
    for (arguments, expected) in [
        (vec!["godo"], "there is no line godo"),
        (vec!["share"], "there is no line share"),
        (vec!["good", "--base", "no-such-commit"], "no-such-commit is no commit"),
    ] {
        // If an option is given twice, the last one counts.
        let (ran, told, status) = repository.regress(&arguments);
        assert_eq!((ran.as_str(), status), ("", 2), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    repository.write("scratch/regress/rows.jsonl", "{\"line\":");
    let (ran, told, status) = repository.regress(&["good"]);
    assert_eq!((ran.as_str(), status), ("", 2), "{told}");
    assert!(told.contains("line 1 of") && told.contains("rows.jsonl is no row"), "{told}");
    repository.write("scratch/table", "good  x\n");
    assert!(repository.regress(&[]).1.contains("good: it runs nothing"));
}
