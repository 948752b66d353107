//! Reports on runs: Markdown with tables, and charts over time as SVG.

mod figure;
mod markdown;
mod numbers;
mod over_time;
mod summary;

use crate::Outcome;
use crate::results::Run;
pub use over_time::over_time;

/// A report: its results, and how they were measured. Equal reports give equal bytes.
///
/// ```
/// use braidb_bench::report::Report;
///
/// let mut report = Report { title: "Fill".to_owned(), ..Report::default() };
/// let row = r#"{"workload":"fillrandom","side":"LevelDB","seed":1,"figures":{"operations_per_second":359000},
///     "bytes_by_cause":{},"operations_by_second":[359000],
///     "machine":{"load":0.5,"steal_seconds":0,"device":"ext4 on /dev/vda","processor":"2 x Quick 9"}}"#;
/// report.add_rows("rows.jsonl", &row.replace('\n', " ")).unwrap();
/// assert!(report.to_markdown().contains("| fillrandom | 359,000 |"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub title: String,
    /// The commit of the engine that was measured.
    pub commit: String,
    /// The command that measures these figures again.
    pub command: String,
    /// The day of the measurement as the report shows it: `2026-11-23`.
    pub date: String,
    /// The runs, in any order. Several runs of a workload on one side are its rounds.
    pub runs: Vec<Run>,
    /// Further tables as plain text, such as a paper's figures next to measured ones. Empty if there are none.
    pub tables: String,
}

impl Report {
    /// Adds the rows of `text`, a [`Run`] as JSON on each line. Empty lines are skipped. Either all lines are added or none.
    ///
    /// # Errors
    ///
    /// A line is no run. The error names `file` and the line.
    pub fn add_rows(&mut self, file: &str, text: &str) -> Outcome {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let run = |(at, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| {
                format!("{file}, line {}: this is no run: {error}; mend the line or remove it", at + 1)
            })
        };
        self.runs.append(&mut lines.map(run).collect::<Result<Vec<Run>, String>>()?);
        Ok(())
    }

    /// The summary as Markdown, which starts with a heading of the second level.
    pub fn to_markdown(&self) -> String {
        markdown::document(self)
    }

    /// Operations a second of a workload over time as SVG, a line for each side. Of several rounds the middle one is drawn. `None` if no
    /// run of the workload has two seconds.
    pub fn over_time(&self, workload: &str) -> Option<String> {
        let workloads = summary::by_workload(&self.runs);
        let (_, cells) = workloads.iter().find(|(name, _)| *name == workload)?;
        let sides: Vec<(&str, &[u64])> =
            cells.iter().map(|cell| (cell.side, cell.middle().operations_by_second.as_slice())).collect();
        over_time(workload, &sides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> String {
        let run = Run { workload: "fillseq".to_owned(), side: "LMDB".to_owned(), ..Run::default() };
        serde_json::to_string(&run).unwrap()
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let mut report = Report::default();
        for (wrong, told) in [
            ("{\"workload\":", "EOF while parsing"),
            ("[1, 2]", "this is no run"),
            ("{\"workload\":\"x\"}", "missing field `side`"),
        ] {
            let error =
                report.add_rows("rows.jsonl", &format!("{}\n\n{wrong}\n", row())).unwrap_err().to_string();
            assert!(error.starts_with("rows.jsonl, line 3: ") && error.contains(told), "{error}");
            assert_eq!(report, Report::default(), "a file with a wrong line adds nothing");
        }
        report.add_rows("rows.jsonl", &format!("{}\n\n{}\n", row(), row())).unwrap();
        assert_eq!((report.runs.len(), report.runs[1].side.as_str()), (2, "LMDB"));
    }
}
