//! `bench … --report FILE`: writes the results as Markdown, by the reports of `braidb-bench`, and charts into the same directory.

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

/// Writes a report of runs and of tables, which may be empty. Also writes a chart for each workload of `timed` next to the report: the
/// first chart of `out.md` is `out-1.svg`.
pub fn write(path: &Path, title: &str, runs: Vec<Run>, tables: String, timed: &[&str]) -> Outcome {
    let command: Vec<String> = std::env::args().collect();
    let report = Report {
        title: title.to_owned(),
        commit: format!("braidb {}", env!("CARGO_PKG_VERSION")),
        command: command.join(" "),
        date: clock::today(),
        runs,
        tables,
    };
    let write = |path: &Path, text: &str| {
        files::write_text(path, text).map_err(|error| Failure::file("write", path, &error))
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    for (number, chart) in (1..).zip(timed.iter().filter_map(|workload| report.over_time(workload))) {
        write(&path.with_file_name(format!("{stem}-{number}.svg")), &chart)?;
    }
    write(path, &report.to_markdown())
}
