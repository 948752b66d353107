//! `bench … --report FILE`: the results as one page, by the reports of `braidb-bench`.

use super::measure::Measured;
use super::{Measurement, Settings};
use crate::failure::{Failure, Outcome};
use crate::figures::ratio;
use crate::host::{clock, files};
use braidb_bench::drive::result_of;
use braidb_bench::report::Report;
use braidb_bench::results::{Machine, Run};

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

/// Writes the report, if the command line asks for one.
pub fn write(args: &Measurement, runs: Vec<Run>) -> Outcome {
    let Some(path) = &args.report else { return Ok(()) };
    let command: Vec<String> = std::env::args().collect();
    let report = Report {
        title: "braidb bench".to_owned(),
        commit: format!("braidb {}", env!("CARGO_PKG_VERSION")),
        command: command.join(" "),
        date: clock::today(),
        runs,
        pairs: Vec::new(),
    };
    let is_markdown = path.extension().is_some_and(|ending| ending == "md");
    let text = if is_markdown { report.to_markdown() } else { report.to_html() };
    files::write_text(path, &text).map_err(|error| Failure::file("write", path, &error))
}
