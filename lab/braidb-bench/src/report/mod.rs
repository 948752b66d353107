//! Reports on runs and pairs of runs: one page of HTML with charts, and Markdown with tables.

mod bars;
mod chart;
mod curves;
mod figure;
mod html;
mod markdown;
mod numbers;
mod page;
mod ratios;
mod summary;
mod svg;

use crate::Outcome;
use crate::results::{Pair, Run};
use serde::{Deserialize, Serialize};

/// A report: its results, and how they were measured. Equal reports give equal bytes, as HTML and as Markdown.
///
/// ```
/// use braidb_bench::report::Report;
///
/// let mut report = Report { title: "Fill".to_owned(), ..Report::default() };
/// let row = r#"{"workload":"fillrandom","side":"LevelDB","seed":1,"figures":{"operations_per_second":359000},
///     "bytes_by_cause":{},"operations_by_second":[359000],"percentiles_us":[[50,2.1]],
///     "machine":{"load":0.5,"steal_seconds":0,"device":"ext4 on /dev/vda","processor":"2 x Quick 9"}}"#;
/// report.add_rows("rows.jsonl", &row.replace('\n', " ")).unwrap();
/// assert!(report.to_markdown().contains("| fillrandom | 359,000 |"));
/// assert!(report.to_html().starts_with("<!DOCTYPE html>"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub pairs: Vec<Pair>,
    /// Tables beside the runs as plain text, such as a paper's figures beside measured ones. Empty if there are none.
    pub tables: String,
}

impl Report {
    /// Adds the rows of `text`, one JSON object a line. Each is a [`Run`] or a [`Pair`]; a pair has the field `ratios` in its figures, and
    /// the fields `a` and `b`. Empty lines are skipped. Either all lines are added or none.
    ///
    /// # Errors
    ///
    /// A line is no JSON, or neither a run nor a pair. The error names `file` and the line.
    pub fn add_rows(&mut self, file: &str, text: &str) -> Outcome {
        let mut runs = Vec::new();
        let mut pairs = Vec::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |kind: &str, error: serde_json::Error| {
                format!("{file}, line {}: {kind}: {error}; mend the line or remove it", at + 1)
            };
            let row: serde_json::Value =
                serde_json::from_str(line).map_err(|error| wrong("this is no JSON object", error))?;
            if row.get("a").is_some() && row.get("b").is_some() {
                let pair =
                    Pair::deserialize(&row).map_err(|error| wrong("this is no pair of runs", error))?;
                pairs.push(pair);
            } else {
                runs.push(Run::deserialize(&row).map_err(|error| wrong("this is no run", error))?);
            }
        }
        self.runs.append(&mut runs);
        self.pairs.append(&mut pairs);
        Ok(())
    }

    /// One page of HTML. It loads nothing and has no script.
    pub fn to_html(&self) -> String {
        page::page(self)
    }

    /// The summary and the ratios as Markdown, which starts with a heading of the second level.
    pub fn to_markdown(&self) -> String {
        markdown::document(self)
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
    fn rows_are_runs_and_pairs() {
        let pair = Pair { a: "new".to_owned(), b: "old".to_owned(), ..Pair::default() };
        let text = format!("{}\n\n{}\n", row(), serde_json::to_string(&pair).unwrap());
        let mut report = Report::default();
        report.add_rows("rows.jsonl", &text).unwrap();
        assert_eq!((report.runs.len(), report.pairs.as_slice()), (1, &[pair][..]));
        assert_eq!(report.runs[0].side, "LMDB");
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        for (wrong, told) in [
            ("{\"workload\":", "this is no JSON object"),
            ("[1, 2]", "this is no run"),
            ("{\"workload\":\"x\"}", "missing field `side`"),
            ("{\"a\":\"x\",\"b\":\"y\"}", "this is no pair of runs: missing field `workload`"),
        ] {
            let mut report = Report::default();
            let error =
                report.add_rows("rows.jsonl", &format!("{}\n\n{wrong}\n", row())).unwrap_err().to_string();
            assert!(error.starts_with("rows.jsonl, line 3: ") && error.contains(told), "{error}");
            assert_eq!(report, Report::default(), "a file with a wrong line adds nothing");
        }
    }
}
