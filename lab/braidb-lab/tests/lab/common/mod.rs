//! Tools that the tests of the laboratory share: a directory for each test, and the real binary.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]
#![allow(dead_code, reason = "the tests of `braidb` use the rest")]

#[path = "../../../../../crates/braidb-cli/tests/command/common/run.rs"]
mod run;
#[path = "../../../../../crates/braidb-cli/tests/command/common/terminal.rs"]
pub mod terminal;

#[allow(unused_imports, reason = "the tests of `braidb` use the rest")]
pub use run::{Place, Run, names};

impl Run {
    /// Fails unless the output contains all these parts.
    #[track_caller]
    pub fn shows(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.text().contains(part), "{part:?} is not in {self:?}");
        }
    }

    /// The output as JSON, a value a line.
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The laboratory's command.
pub const LAB: &str = env!("CARGO_BIN_EXE_braidb-lab");

/// Runs the laboratory's command with nothing on standard input.
pub fn lab(arguments: &[&str]) -> Run {
    run::run(LAB, arguments, b"")
}
