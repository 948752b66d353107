//! Runs this program in child processes, so that processor time, bytes and memory of each run are counted apart. Reads and combines the
//! figures of the runs.

use crate::Outcome;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The figures of one run, by name.
pub type Figures = BTreeMap<String, f64>;

/// Runs this program with `arguments`. Returns its standard output; what it says on standard error is said here too.
pub fn output_of(arguments: &[OsString]) -> Outcome<String> {
    let program = std::env::current_exe()?;
    let output =
        Command::new(&program).args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("could not run {}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{arguments:?} ended with {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs this program, and reads the figures that it prints as JSON.
pub fn figures_of(arguments: &[OsString]) -> Outcome<Figures> {
    Ok(serde_json::from_str(&output_of(arguments)?)?)
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
