//! `regress [LINE…]`: runs lines of the table lines.txt, and holds their figures to floors.
//!
//! A line runs once for the same sources, whether it passes or fails. So after a kill, the next run of `regress` goes on with the line that
//! was killed.

mod figures;
mod rows;
mod table;

use super::pair::{self, drivers, git, host, lock};
use crate::failure;
use braidb_bench::Outcome;
use figures::Figures;
use rows::Row;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::{Command, Output};
use table::{Judged, Kind, Line, Step};

/// The table of lines.
const LINES: &str = include_str!("lines.txt");

/// The exit status by which a command says that this user or this machine cannot run it.
const CANNOT_RUN: i32 = 77;

/// Hold figures of this engine to their floors
///
/// Each line prints its name, PASS or FAIL, seconds, and each figure with its limit. A result is kept in scratch/regress/rows.jsonl by the
/// hash of crates, proof, lab, scripts and the Cargo files, and printed again as long as these are the same. Lines that measure wait for
/// other measurements of this machine. Without a LINE all lines run, with an hour of torture.
#[derive(clap::Args, Debug)]
#[command(after_help = pair::EXIT_STATUS)]
pub struct Args {
    /// Names of lines; `inserts` means all whose names begin with `inserts-`
    lines: Vec<String>,
    /// The commit that lines of `--list` call BASE
    #[arg(long, value_name = "COMMIT", default_value = "03c68b7", overrides_with = "base")]
    base: String,
    /// Run the lines again that have a result for these sources
    #[arg(long)]
    again: bool,
    /// Print the lines with their limits, and run nothing
    #[arg(long)]
    list: bool,
    /// Another table, for tests
    #[arg(long, hide = true)]
    table: Option<PathBuf>,
}

/// Runs the lines, and returns whether all passed.
pub fn run(args: &Args) -> failure::Outcome<bool> {
    regress(args).map_err(pair::of_tool)
}

fn regress(args: &Args) -> Outcome<bool> {
    let text = match &args.table {
        Some(path) => host::read_text(path)?.ok_or("there is no such table")?,
        None => LINES.to_owned(),
    };
    let lines = table::read(&text)?;
    let chosen = choose(&lines, &args.lines)?;
    if args.list {
        for line in chosen {
            println!("{:<22} {}", line.name, line.sentence);
            line.judged.iter().for_each(|judged| println!("{:<22}   {}", "", judged.text(&judged.figure)));
        }
        return Ok(true);
    }
    let root = git::root()?;
    let base = git::commit(&root, &args.base)?;
    let mut runner =
        Runner { scratch: root.join("scratch/regress"), root, base, again: args.again, has_built: false };
    let (mut passed, mut failed, mut left_out) = (0, 0, 0);
    for line in chosen {
        match runner.line(line)? {
            Some(row) if row.passes => passed += 1,
            Some(_) => failed += 1,
            None => left_out += 1,
        }
    }
    println!("{passed} passed, {failed} failed, {left_out} cannot run here");
    Ok(failed == 0)
}

/// The lines that the arguments name, in the order of the table.
fn choose<'a>(lines: &'a [Line], names: &[String]) -> Outcome<Vec<&'a Line>> {
    let is_meant = |line: &Line, name: &str| {
        line.name == name || line.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    };
    if let Some(name) = names.iter().find(|name| !lines.iter().any(|line| is_meant(line, name))) {
        return Err(format!("there is no line {name}; `braidb-lab regress --list` has all").into());
    }
    let is_chosen = |line: &&Line| names.is_empty() || names.iter().any(|name| is_meant(line, name));
    Ok(lines.iter().filter(is_chosen).collect())
}

impl Judged {
    /// The figure, its limit and the note; `value` stands for the figure.
    fn text(&self, value: &str) -> String {
        let limit = self.limit.as_ref().map_or_else(String::new, |(sign, limit)| format!(" {sign} {limit}"));
        let note = if self.note.is_empty() { String::new() } else { format!("  ({})", self.note) };
        format!("{value}{limit}{note}")
    }
}

/// What the commands of a line printed: the figures of each round, verdicts of `pair`, the last line of each command, and the end of the
/// output of one that failed.
#[derive(Default)]
struct Told {
    rounds: Vec<BTreeMap<String, Figures>>,
    verdicts: Vec<String>,
    last: Vec<String>,
    failure: Option<Vec<String>>,
}

struct Runner {
    root: PathBuf,
    scratch: PathBuf,
    base: String,
    again: bool,
    /// Whether the commands of this commit are built.
    has_built: bool,
}

impl Runner {
    /// Prints the row of a line, which runs if it has none. `None` if it cannot run here.
    fn line(&mut self, line: &Line) -> Outcome<Option<Row>> {
        let started = rows::start(&self.root)?;
        let base = if line.has_base() { self.base.as_str() } else { "" }.to_owned();
        let is_kept = !line.sizes.iter().any(|(name, _)| host::path_of(name).is_some())
            && (host::path_of("ROUNDS").is_none() || line.rounds == 1 && !line.uses("ROUNDS"));
        if is_kept
            && !self.again
            && let Some(row) = rows::find(&self.root, &line.name, &base, &started.hash)?
        {
            print(&row, &format!("  ({}, {})", row.date, row.commit));
            return Ok(Some(row));
        }
        let Some(told) = self.told(line, &started.hash)? else {
            println!("{:<22} NOT RUN: this user or machine cannot", line.name);
            return Ok(None);
        };
        let (texts, hold) = judge(line, &told);
        let passes = hold && told.failure.is_none();
        let row = started.row(&self.root, &line.name, &base, passes, texts)?;
        print(&row, if is_kept { "" } else { "  (not kept: a size is set)" });
        told.failure.iter().flatten().for_each(|text| println!("    | {text}"));
        if is_kept {
            rows::keep(&self.root, &row)?;
        }
        Ok(Some(row))
    }

    /// Runs the commands of a line. A command that fails ends the line.
    fn told(&mut self, line: &Line, hash: &str) -> Outcome<Option<Told>> {
        let directory = self.scratch.join("db");
        let mut variables: Vec<(String, String)> = self.built(line)?;
        for (name, commit) in &line.commands {
            let commit = if commit == "BASE" { self.base.clone() } else { git::commit(&self.root, commit)? };
            let program =
                drivers::command(&self.root, &commit, &self.scratch.join(format!("target-{commit}")))?;
            variables.push((name.clone(), program.display().to_string()));
        }
        let out = self.scratch.join("out").join(&line.name);
        host::create_dir(&out)?;
        let given = |name: &str| host::path_of(name).map(|value| value.display().to_string());
        variables.extend(
            line.sizes.iter().map(|(name, value)| (name.clone(), given(name).unwrap_or(value.clone()))),
        );
        let given = [
            ("BASE", self.base.clone()),
            ("DIR", directory.display().to_string()),
            ("OUT", out.display().to_string()),
        ];
        variables.extend(given.map(|(name, value)| (name.to_owned(), value)));
        let _held = if line.is_alone { lock::acquire()? } else { None };
        if line.is_alone {
            variables.push((lock::HELD.to_owned(), "1".to_owned()));
        }
        let rounds = if line.rounds == 1 { 1 } else { number_of("ROUNDS").unwrap_or(line.rounds) };
        // What a killed run of another line left there.
        host::remove_dir(&directory)?;
        let mut told = Told::default();
        for round in 1..=rounds {
            let mut by_label = BTreeMap::new();
            for step in &line.steps {
                eprintln!("regress: {}, {}", line.name, step.label);
                if step.kind != Kind::Then {
                    host::remove_dir(&directory)?;
                }
                let round = ("ROUND".to_owned(), round.to_string());
                let variables =
                    || variables.iter().chain([&round]).map(|(name, value)| (name.as_str(), value.as_str()));
                let output = self.output(step, variables().collect(), hash)?;
                let stdout = String::from_utf8_lossy(&output.stdout);
                host::write_text(&out.join(&step.label), &stdout)?;
                let verdict = |text: &str| {
                    let (word, rest) = text.trim().split_once(' ')?;
                    ["PASS", "FAIL"]
                        .contains(&word)
                        .then(|| format!("{word} {}: {}", step.label, rest.trim()))
                };
                let verdicts: Vec<String> = stdout.lines().filter_map(verdict).collect();
                // If a command only missed a limit (exit status 1, with verdicts), the next commands still run.
                let is_judged = output.status.code() == Some(1) && !verdicts.is_empty();
                told.verdicts.extend(verdicts);
                if output.status.code() == Some(CANNOT_RUN) {
                    return Ok(None);
                }
                if !output.status.success() && !is_judged {
                    told.failure = Some(end_of(step, &output));
                    host::remove_dir(&directory)?;
                    return Ok(Some(told));
                }
                told.last.extend(stdout.lines().rfind(|text| !text.trim().is_empty()).map(str::to_owned));
                by_label.insert(step.label.clone(), figures::told(&stdout));
            }
            told.rounds.push(by_label);
        }
        host::remove_dir(&directory)?;
        Ok(Some(told))
    }

    /// Runs a command and returns its output. A modelled command does not run if the output of an earlier run with equal sources and
    /// variables is kept.
    fn output(&self, step: &Step, variables: Vec<(&str, &str)>, hash: &str) -> Outcome<Output> {
        let mut key = DefaultHasher::new();
        let used: Vec<_> = variables.iter().filter(|(name, _)| step.command.contains(name)).collect();
        (hash, &step.command, used).hash(&mut key);
        let kept = self.scratch.join("modelled").join(format!("{:016x}", key.finish()));
        let is_kept = step.kind == Kind::Modelled;
        if is_kept
            && !self.again
            && let Some(stdout) = host::read_text(&kept)?
        {
            return Ok(Output {
                status: Default::default(),
                stdout: stdout.into_bytes(),
                stderr: Vec::new(),
            });
        }
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("set -o pipefail; {}", step.command)])
            .current_dir(&self.root)
            .envs(variables);
        let output = command.output().map_err(|error| format!("could not start bash: {error}"))?;
        if is_kept && output.status.success() {
            host::create_dir(&self.scratch.join("modelled"))?;
            host::write_text(&kept, &String::from_utf8_lossy(&output.stdout))?;
        }
        Ok(output)
    }

    /// Builds `braidb` and `braidb-lab` for release if the line has them, and returns their paths.
    fn built(&mut self, line: &Line) -> Outcome<Vec<(String, String)>> {
        let target = host::path_of("CARGO_TARGET_DIR").unwrap_or_else(|| self.root.join("target"));
        if !self.has_built && (line.uses("$LAB") || line.uses("$BRAIDB")) {
            drivers::cargo(&self.root, &["-p", "braidb-cli", "-p", "braidb-lab"], &target)?;
            self.has_built = true;
        }
        let program = |name: &str| target.join("release").join(name).display().to_string();
        Ok(vec![("LAB".to_owned(), program("braidb-lab")), ("BRAIDB".to_owned(), program("braidb"))])
    }
}

/// The texts of the figures, and whether all keep to their limits.
fn judge(line: &Line, told: &Told) -> (Vec<String>, bool) {
    // A line without figures shows the last line that each command printed.
    let has_figures = !line.judged.is_empty() || !told.verdicts.is_empty();
    let mut texts = if has_figures { told.verdicts.clone() } else { told.last.clone() };
    let mut hold = !told.verdicts.iter().any(|verdict| verdict.starts_with("FAIL "));
    for judged in line.judged.iter().filter(|_| told.failure.is_none()) {
        let figure = median(line, told, &judged.figure);
        let value = |figure: &Result<f64, String>| {
            figure.as_ref().map_or_else(Clone::clone, |figure| figures::plain(*figure))
        };
        let name = format!("{} is {}{}", judged.figure, value(&figure), spread(line, told, &judged.figure));
        let Some((sign, limit)) = &judged.limit else {
            texts.push(format!("     {}", judged.text(&name)));
            continue;
        };
        let limit = median(line, told, limit);
        let keeps =
            matches!((&figure, &limit), (Ok(figure), Ok(limit)) if figures::holds(*figure, sign, *limit));
        hold &= keeps;
        let judged = Judged { limit: Some((sign, value(&limit))), ..judged.clone() };
        texts.push(format!("{} {}", if keeps { "PASS" } else { "FAIL" }, judged.text(&name)));
    }
    (texts, hold)
}

/// The median of an expression over the rounds.
fn median(line: &Line, told: &Told, text: &str) -> Result<f64, String> {
    Ok(braidb_bench::paired::median(&of_rounds(line, told, text)?))
}

/// The least and the largest value of an expression, if several rounds have one.
fn spread(line: &Line, told: &Told, text: &str) -> String {
    let mut values = of_rounds(line, told, text).unwrap_or_default();
    values.sort_by(f64::total_cmp);
    match values.as_slice() {
        [least, .., largest] => format!(" ({} to {})", figures::plain(*least), figures::plain(*largest)),
        _ => String::new(),
    }
}

/// The values of an expression by round.
fn of_rounds(line: &Line, told: &Told, text: &str) -> Result<Vec<f64>, String> {
    let size = |name: &str| {
        let (_, value) = line.sizes.iter().find(|(size, _)| size == name)?;
        number_of(name).or_else(|| value.parse().ok())
    };
    let of_round =
        |by_label| figures::evaluate(text, &|name| size(name).or_else(|| figures::find(name, by_label)));
    told.rounds.iter().map(of_round).collect()
}

/// The number in an environment variable.
fn number_of<Number: std::str::FromStr>(variable: &str) -> Option<Number> {
    host::path_of(variable)?.to_str()?.parse().ok()
}

/// The last lines of a command that failed.
fn end_of(step: &Step, output: &Output) -> Vec<String> {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let end = lines[lines.len().saturating_sub(15)..].iter().map(|line| (*line).to_owned());
    [format!("{} ended with {}", step.label, output.status)].into_iter().chain(end).collect()
}

/// Prints a row. A single figure stands in the line of its name.
fn print(row: &Row, note: &str) {
    let verdict = if row.passes { "PASS" } else { "FAIL" };
    let head = format!("{:<22} {verdict} {:>6} s", row.line, row.seconds);
    match row.figures.as_slice() {
        [only] => {
            println!("{head}  {}{note}", only.trim_start_matches("PASS ").trim_start_matches("FAIL ").trim())
        }
        figures => {
            println!("{head}{note}");
            figures.iter().for_each(|figure| println!("    {figure}"));
        }
    }
}
