//! Renders rows of JSON, such as the files in `scratch/`, as a report:
//!
//! ```text
//! cat scratch/*.jsonl | cargo run -p braidb-bench --example render_report -- html TITLE COMMIT COMMAND DATE > report.html
//! ```

use braidb_bench::Outcome;
use braidb_bench::report::Report;
use std::io::{Read, Write};

const USAGE: &str =
    "usage: render_report html|markdown TITLE COMMIT COMMAND DATE, with rows of JSON on standard input";

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [form, title, commit, command, date] = arguments.as_slice() else { return Err(USAGE.into()) };
    let render = match form.as_str() {
        "html" => Report::to_html,
        "markdown" => Report::to_markdown,
        other => return Err(format!("there is no form {other}; {USAGE}").into()),
    };
    let mut rows = String::new();
    std::io::stdin().read_to_string(&mut rows)?;
    let mut report = Report {
        title: title.clone(),
        commit: commit.clone(),
        command: command.clone(),
        date: date.clone(),
        ..Report::default()
    };
    report.add_rows("standard input", &rows)?;
    std::io::stdout().write_all(render(&report).as_bytes())?;
    Ok(())
}
