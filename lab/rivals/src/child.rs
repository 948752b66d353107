//! Runs this program in child processes, so that processor time, bytes and memory of each run are counted apart. Reads and combines the
//! figures of the runs.

use crate::Outcome;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The figures of one run, by name.
pub type Figures = BTreeMap<String, f64>;

/// Runs this program with `arguments`, under `wrapper` if there is one. Returns standard output and standard error.
pub fn output_of(wrapper: &[&str], arguments: &[OsString]) -> Outcome<(String, String)> {
    let program = std::env::current_exe()?.into_os_string();
    let mut line: Vec<OsString> = wrapper.iter().map(OsString::from).collect();
    line.push(program);
    line.extend_from_slice(arguments);
    let output = Command::new(&line[0]).args(&line[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("could not run {}: {error}", line[0].display()))?;
    let (out, err) =
        (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr).into_owned());
    if !output.status.success() {
        return Err(format!("{line:?} ended with {}: {err}", output.status).into());
    }
    Ok((out, err))
}

/// Runs this program, and reads the figures that it prints as JSON.
pub fn figures_of(arguments: &[OsString]) -> Outcome<Figures> {
    Ok(serde_json::from_str(&output_of(&[], arguments)?.0)?)
}

/// Processor time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The number of instructions that a run of this program executes in all its threads.
pub fn instructions(arguments: &[OsString]) -> Outcome<f64> {
    let valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let (_, told) = output_of(&valgrind, arguments)?;
    // The line is `==PID== I refs: 1,234`. Its spaces depend on the release of valgrind.
    let line = told.lines().find(|line| line.split_whitespace().skip(1).take(2).eq(["I", "refs:"]));
    let count = line.and_then(|line| line.split_whitespace().last());
    let count = count.ok_or_else(|| format!("cachegrind does not tell its count: {told}"))?;
    Ok(count.replace(',', "").parse()?)
}

/// The median of each figure.
pub fn medians(runs: &[Figures]) -> Figures {
    let of = |name: &String| {
        let mut values: Vec<f64> = runs.iter().filter_map(|figures| figures.get(name).copied()).collect();
        values.sort_by(f64::total_cmp);
        (name.clone(), values[values.len() / 2])
    };
    runs.first().map(|figures| figures.keys().map(of).collect()).unwrap_or_default()
}

/// All sides in one JSON object, each figure with the name of its side in front.
pub fn as_json(sides: &[(String, Figures)]) -> String {
    let named = |(side, figures): &(String, Figures)| -> Vec<(String, f64)> {
        figures.iter().map(|(name, figure)| (format!("{side}_{name}"), *figure)).collect()
    };
    let all: Figures = sides.iter().flat_map(named).collect();
    serde_json::to_string(&all).expect("figures are JSON")
}
