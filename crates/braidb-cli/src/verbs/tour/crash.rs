//! The step of the tour that kills a writing process and checks the database after it.

use super::narrate::Narrator;
use super::writer::{LEDGER, PREFIX, key, value};
use super::{Model, options, steps};
use crate::failure::{Outcome, storage};
use crate::figures::grouped;
use crate::host::clock::Stopwatch;
use crate::store::open_with;
use braidb::Db;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Acknowledged batches after which the tour kills the child.
const BATCHES: u64 = 20_000;

/// Kills the child and returns the database after recovery. Adds to `model` what the child wrote.
pub fn kill_and_recover(dir: &Path, model: &mut Model, say: &mut Narrator) -> Outcome<Db> {
    say.step("Crash: another process writes batches over two column families, and is killed with SIGKILL")?;
    let mut child = start(dir)?;
    let seen = watch_and_kill(dir, &mut child, say);
    // The child must end even if the tour failed.
    let _ = child.kill();
    child.wait().map_err(|error| storage("could not wait for the writing process", error))?;
    let acknowledged = seen?;

    let watch = Stopwatch::start();
    let db = open_with(dir, options())?;
    let (seconds, report) = (watch.seconds(), db.recovery().clone());
    say.line(&format!(
        "opened again in {:.0} ms: {} logs replayed, {} batches, {} writes; {}",
        seconds * 1e3,
        report.logs,
        grouped(report.frames),
        grouped(report.entries),
        match &report.cut {
            Some(cut) => format!("a torn end of {} bytes cut", cut.bytes),
            None => "no torn end".to_owned(),
        }
    ))?;
    check_batches(&db, acknowledged, model, say)?;
    steps::compare("the database after the crash", db.iter(), model.iter())?;
    say.line(&format!("and the {} paths from before are all there", grouped(paths(model))))?;
    Ok(db)
}

fn paths(model: &Model) -> u64 {
    model.keys().filter(|key| !key.starts_with(PREFIX.as_bytes())).count() as u64
}

fn start(dir: &Path) -> Outcome<Child> {
    let program = std::env::current_exe().map_err(|error| storage("could not find this program", error))?;
    Command::new(program)
        .arg("tour-writer")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| storage("could not start the writing process", error))
}

/// Kills the child while it writes. Returns how many batches it had acknowledged.
fn watch_and_kill(dir: &Path, child: &mut Child, say: &mut Narrator) -> Outcome<u64> {
    let output = child.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(output);
    let mut acknowledged = 0;
    while acknowledged < BATCHES {
        let more = next_acknowledgement(&mut lines, &mut acknowledged)?;
        say.check(more, || "the writing process ended by itself".to_owned())?;
        if acknowledged == 1 {
            let refused = open_with(dir, options()).err();
            say.check(refused.is_some(), || "two processes could open one database".to_owned())?;
            say.line("while it writes, no other process can open the database")?;
        }
    }
    child.kill().map_err(|error| storage("could not kill the writing process", error))?;
    while next_acknowledgement(&mut lines, &mut acknowledged)? {}
    say.line(&format!("killed in full flight, after {} acknowledged batches", grouped(acknowledged)))?;
    Ok(acknowledged)
}

/// Reads the line that acknowledges the next batch; `false` at the end of the output.
fn next_acknowledgement(lines: &mut BufReader<ChildStdout>, acknowledged: &mut u64) -> Outcome<bool> {
    let mut line = String::new();
    lines.read_line(&mut line).map_err(|error| storage("could not read from the writing process", error))?;
    if line.is_empty() {
        return Ok(false);
    }
    if line.strip_suffix('\n') != Some(acknowledged.to_string().as_str()) {
        return Err(storage("the writing process skipped a batch", format!("{line:?}")));
    }
    *acknowledged += 1;
    Ok(true)
}

/// Checks that every acknowledged batch is there as a whole, and at most one batch more: the one that was under way.
fn check_batches(db: &Db, acknowledged: u64, model: &mut Model, say: &mut Narrator) -> Outcome {
    let found = db.prefix(PREFIX).count() as u64;
    say.check(found == acknowledged || found == acknowledged + 1, || {
        format!("{acknowledged} batches were acknowledged, and {found} are there")
    })?;
    let mut ledger = Model::new();
    for number in 0..found {
        let (key, value) = (key(number), value(number).into_bytes());
        ledger.insert(key.as_bytes()[PREFIX.len()..].to_vec(), value.clone());
        model.insert(key.into_bytes(), value);
    }
    steps::compare("the ledger after the crash", db.column_family(LEDGER)?.iter(), ledger.iter())?;
    say.line(&format!(
        "{} batches are there: every acknowledged one{}, each whole in both column families",
        grouped(found),
        if found > acknowledged { " and the one that was under way" } else { "" }
    ))
}
