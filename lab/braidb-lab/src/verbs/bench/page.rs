//! `bench … --report FILE`: the results as one page, by the reports of `braidb-bench`.

use super::Settings;
use super::measure::Measured;
use crate::failure::{Failure, Outcome};
use crate::figures::ratio;
use crate::host::{clock, files};
use braidb_bench::drive::result_of;
use braidb_bench::report::Report;
use braidb_bench::results::{Machine, Run};
use std::path::Path;

/// A run for the report. Figures of the engine replace figures of the kernel.
pub fn run_of(measured: &Measured, settings: &Settings, machine: Machine) -> Run {
    let worst = measured.worst.directory_bytes();
    let mut run = result_of(&measured.run, measured.workload, &settings.load, "BraidDB", &machine, worst);
    // Fills do not sample space, because their live bytes grow.
    if worst == 0 {
        run.figures.remove("worst_directory_bytes");
    }
    let written = &measured.written;
    run.bytes_by_cause = written.causes.iter().filter(|(_, bytes)| *bytes > 0).cloned().collect();
    run.figures.insert("mapped_bytes".to_owned(), written.mapped_bytes as f64);
    run.figures.insert("stall_us".to_owned(), measured.stall_us as f64);
    if written.user_bytes > 0 {
        let per_user_byte = ratio(written.total, written.user_bytes);
        run.figures.insert("written_per_user_byte".to_owned(), per_user_byte);
    }
    if measured.lookups.gets > 0 {
        run.figures.insert("reads_per_get".to_owned(), measured.lookups.reads_per_get());
        run.figures.insert("looks_per_get".to_owned(), measured.lookups.looks_per_get());
    }
    run
}

/// Refuses the path of a report if its directory is missing.
pub fn require_parent(path: &Path) -> Outcome {
    // A path without a parent is a name in the current directory.
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) if !parent.is_dir() => {
            Err(Failure::Use(format!("--report: {} is not a directory", parent.display())))
        }
        _ => Ok(()),
    }
}

/// Writes a report of runs and of tables, which may be empty.
pub fn write(path: &Path, title: &str, runs: Vec<Run>, tables: String) -> Outcome {
    let command: Vec<String> = std::env::args().collect();
    let report = Report {
        title: title.to_owned(),
        commit: format!("braidb {}", env!("CARGO_PKG_VERSION")),
        command: command.join(" "),
        date: clock::today(),
        runs,
        pairs: Vec::new(),
        tables,
    };
    let is_markdown = path.extension().is_some_and(|ending| ending == "md");
    let text = if is_markdown { report.to_markdown() } else { report.to_html() };
    files::write_text(path, &text).map_err(|error| Failure::file("write", path, &error))
}
