//! `pair row`: keeps the results of acceptance by the hash of the sources, so that each line runs once for these sources.
//!
//! A row is a line of JSON in scratch/rows/TOPIC.jsonl. The last row with the line, its command and the hash counts. Rows of other sources
//! stay in the file: they tell how a figure changed.

use super::git;
use super::host;
use braidb_bench::Outcome;
use braidb_bench::host::machine;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keeps the results of lines for scripts/accept
#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    /// Prints the state before a line runs, which `keep` needs
    Start,
    /// Prints the hash of the sources that rows are kept by
    Hash,
    /// Prints the row of a line: verdict, seconds, date and commit on one line, its figure and its table on the next. Exit status 1 if
    /// there is none
    Show(Line),
    /// Keeps the row of a line that ran, unless the sources changed meanwhile
    Keep(Keep),
}

#[derive(clap::Args, Debug)]
pub struct Line {
    /// The list that the line is on: store, guards, memory, heat, faults, ruler
    topic: String,
    /// The name of the line
    line: String,
    /// The command that the line runs
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(clap::Args, Debug)]
pub struct Keep {
    /// The output of `pair row start` before the line ran
    #[arg(long)]
    started: String,
    /// PASS or FAIL
    #[arg(long)]
    verdict: Verdict,
    /// The figure that the line found
    #[arg(long)]
    figure: String,
    #[command(flatten)]
    line: Line,
}

/// Whether a line holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "UPPERCASE")]
#[value(rename_all = "UPPER")]
pub enum Verdict {
    Pass,
    Fail,
}

/// The state of sources and machine before a line runs.
#[derive(Debug, Serialize, Deserialize)]
struct Started {
    hash: String,
    unix_seconds: u64,
    load: f64,
    steal_seconds: f64,
}

/// The result of a line.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    topic: String,
    line: String,
    command: String,
    figure: String,
    verdict: Verdict,
    seconds: u64,
    /// The hash of the sources.
    hash: String,
    /// HEAD after the line had run. The sources may differ from it.
    commit: String,
    /// The time after the line had run, UTC.
    date: String,
    /// The load of the machine when the line began.
    load: f64,
    /// Processor time that went to other machines while the line ran.
    steal_seconds: f64,
}

/// Runs a verb. For [`Verb::Show`], returns whether there is a row.
pub fn run(verb: &Verb) -> Outcome<bool> {
    let root = git::root()?;
    match verb {
        Verb::Start => println!("{}", serde_json::to_string(&started(&root)?)?),
        Verb::Hash => println!("{}", git::hash_of_sources(&root)?),
        Verb::Show(line) => return show(&root, line),
        Verb::Keep(kept) => keep(&root, kept)?,
    }
    Ok(true)
}

fn started(root: &Path) -> Outcome<Started> {
    Ok(Started {
        hash: git::hash_of_sources(root)?,
        unix_seconds: host::unix_seconds(),
        load: machine::load(),
        steal_seconds: machine::steal_seconds(),
    })
}

fn file_of(root: &Path, topic: &str) -> PathBuf {
    root.join("scratch/rows").join(format!("{topic}.jsonl"))
}

fn show(root: &Path, line: &Line) -> Outcome<bool> {
    let file = file_of(root, &line.topic);
    let Some(text) = host::read_text(&file)? else { return Ok(false) };
    let (hash, command) = (git::hash_of_sources(root)?, line.command.join(" "));
    let mut found = None;
    for (number, text) in text.lines().enumerate() {
        let row: Row = serde_json::from_str(text).map_err(|error| {
            format!("line {} of {} is no row: {error}; remove the line", number + 1, file.display())
        })?;
        if row.hash == hash && row.line == line.line && row.command == command {
            found = Some(row);
        }
    }
    let Some(row) = found else { return Ok(false) };
    let verdict = if row.verdict == Verdict::Pass { "PASS" } else { "FAIL" };
    println!("{verdict} {} {} {}\n{}", row.seconds, row.date, row.commit, row.figure);
    Ok(true)
}

fn keep(root: &Path, kept: &Keep) -> Outcome {
    let before: Started = serde_json::from_str(&kept.started)
        .map_err(|error| format!("--started takes what `pair row start` printed: {error}"))?;
    let now = started(root)?;
    if now.hash != before.hash {
        eprintln!("pair: the sources changed while {} ran, so its result is not kept", kept.line.line);
        return Ok(());
    }
    let row = Row {
        topic: kept.line.topic.clone(),
        line: kept.line.line.clone(),
        command: kept.line.command.join(" "),
        figure: kept.figure.clone(),
        verdict: kept.verdict,
        seconds: now.unix_seconds.saturating_sub(before.unix_seconds),
        hash: now.hash,
        commit: git::git(root, &["rev-parse", "--short", "HEAD"])?,
        date: date()?,
        load: before.load,
        steal_seconds: (now.steal_seconds - before.steal_seconds).max(0.0),
    };
    host::append_line(&file_of(root, &kept.line.topic), &serde_json::to_string(&row)?)
}

/// Now, as `2026-11-23T19:37:00Z`.
fn date() -> Outcome<String> {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
