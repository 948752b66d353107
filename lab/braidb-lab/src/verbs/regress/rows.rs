//! Kept results of lines: a line of JSON in scratch/regress/rows.jsonl for each.
//!
//! The last row of a line with the hash of the sources counts. Rows of other sources stay in the file: they tell how a figure changed.

use crate::verbs::pair::{git, host};
use braidb_bench::Outcome;
use braidb_bench::host::{clock, machine};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The result of a line.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    pub line: String,
    /// The commit of `--base`; empty if the line does not depend on it.
    pub base: String,
    pub passes: bool,
    /// Texts of the figures with their limits.
    pub figures: Vec<String>,
    pub seconds: u64,
    /// The hash of the sources.
    hash: String,
    /// HEAD after the line had run. The sources may differ from it.
    pub commit: String,
    pub date: String,
    /// The load of the machine when the line began.
    load: f64,
    /// Processor time that went to other machines while the line ran.
    steal_seconds: f64,
}

/// The state of sources and machine before a line runs.
pub struct Started {
    pub hash: String,
    unix_seconds: u64,
    load: f64,
    steal_seconds: f64,
}

pub fn start(root: &Path) -> Outcome<Started> {
    Ok(Started {
        hash: git::hash_of_sources(root)?,
        unix_seconds: host::unix_seconds(),
        load: machine::load(),
        steal_seconds: machine::steal_seconds(),
    })
}

impl Started {
    /// Makes the row of a line that has just ended.
    pub fn row(
        &self,
        root: &Path,
        line: &str,
        base: &str,
        passes: bool,
        figures: Vec<String>,
    ) -> Outcome<Row> {
        Ok(Row {
            line: line.to_owned(),
            base: base.to_owned(),
            passes,
            figures,
            seconds: host::unix_seconds().saturating_sub(self.unix_seconds),
            hash: self.hash.clone(),
            commit: git::git(root, &["rev-parse", "--short", "HEAD"])?,
            date: clock::today(),
            load: self.load,
            steal_seconds: (machine::steal_seconds() - self.steal_seconds).max(0.0),
        })
    }
}

fn file(root: &Path) -> PathBuf {
    root.join("scratch/regress/rows.jsonl")
}

/// The kept row of a line for the sources with this hash.
pub fn find(root: &Path, line: &str, base: &str, hash: &str) -> Outcome<Option<Row>> {
    let file = file(root);
    let mut found = None;
    for (number, text) in host::read_text(&file)?.unwrap_or_default().lines().enumerate() {
        let row: Row = serde_json::from_str(text).map_err(|error| {
            format!("line {} of {} is no row: {error}; remove the line", number + 1, file.display())
        })?;
        if row.hash == hash && row.line == line && row.base == base {
            found = Some(row);
        }
    }
    Ok(found)
}

/// Keeps a row, unless the sources changed while the line ran.
pub fn keep(root: &Path, row: &Row) -> Outcome {
    if git::hash_of_sources(root)? != row.hash {
        eprintln!("regress: the sources changed while {} ran, so its result is not kept", row.line);
        return Ok(());
    }
    host::append_line(&file(root), &serde_json::to_string(row)?)
}
