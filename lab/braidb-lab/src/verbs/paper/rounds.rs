//! Measures the experiments of a paper: every round runs every experiment with every configuration.

use super::{Args, Configuration, Experiment, Paper, Predicted, Rounds, named};
use crate::failure::{Failure, Outcome, storage};
use crate::host::files;
use crate::store::{BENCH_DB, open_with};
use crate::verbs::bench::device::{self, Modelled};
use crate::verbs::bench::engine::Braid;
use crate::verbs::bench::measure::{Measured, measure};
use crate::verbs::bench::placement::DeviceArgs;
use crate::verbs::bench::{Settings, page, start_empty};
use braidb::Options;
use braidb_bench::host::machine;
use braidb_bench::results::{Machine, Run};
use braidb_bench::{Distribution, Workload};
use std::collections::BTreeMap;
use std::path::Path;

/// What was measured: the figures for the tables, and the runs for a report.
pub struct Results {
    pub rounds: Rounds,
    /// What was predicted, by the title of the experiment and the name of the configuration.
    pub predicted: BTreeMap<(&'static str, &'static str), Predicted>,
    pub runs: Vec<Run>,
}

/// One measurement that is due.
struct Turn<'a> {
    experiment: &'a Experiment,
    configuration: &'a Configuration,
    settings: &'a Settings,
    options: Options,
}

/// Measures on this machine, in the directory of the command line or in a temporary one.
pub fn measure_here(paper: &Paper, args: &Args) -> Outcome<Results> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("braidb-paper-{}", std::process::id())),
    };
    let results = measure_all(paper, args, |turn| {
        start_empty(&dir, &turn.options)?;
        let db_dir = dir.join(BENCH_DB);
        let watch = machine::Watch::start(&dir);
        let engine = Braid::new(open_with(&db_dir, turn.options)?, turn.settings.load.families)?;
        let measured = measure_one(turn.experiment, turn.settings, |workload, settings| {
            measure(&engine, &db_dir, workload, settings)
        })?;
        engine.db.close()?;
        let run = page::run_of(&measured, turn.settings, watch.stop());
        Ok((measured, run))
    })?;
    if args.dir.is_none() {
        files::remove_dir(&dir)
            .map_err(|error| storage(&format!("could not remove {}", dir.display()), error))?;
    }
    Ok(results)
}

/// Measures on modelled devices: `devices` names those of a configuration, and each measurement begins with empty ones.
pub fn measure_on_devices(
    paper: &Paper,
    args: &Args,
    devices: impl Fn(&Configuration) -> DeviceArgs,
) -> Outcome<Results> {
    let needs_threads =
        |experiment: &Experiment| experiment.threads > 1 || experiment.workload().is_beside_writer;
    if let Some(experiment) = args.experiments(paper).find(|experiment| needs_threads(experiment)) {
        let title = experiment.title;
        return Err(Failure::Use(format!(
            "--device: a modelled device has one thread, and {title} has more"
        )));
    }
    measure_all(paper, args, |turn| {
        let load = &turn.settings.load;
        let rows_bytes = load.num * (load.key_bytes + load.value_bytes) as u64;
        let devices = devices(turn.configuration);
        let devices = match turn.experiment.scale.pages_mib(rows_bytes) {
            Some(mib) => devices.with_page_cache_mib(mib),
            None => devices,
        };
        let modelled = Modelled::begin(&devices, Path::new("paper"), turn.options, turn.settings)?;
        let measured = measure_one(turn.experiment, turn.settings, |workload, settings| {
            modelled.measure(workload, settings)
        })?;
        let host = Machine { device: devices.title().unwrap_or_default(), ..Machine::default() };
        let mut run = page::run_of(&measured, turn.settings, host);
        device::forget_host(&mut run);
        run.figures.extend(measured.served.unwrap_or_default().figures());
        if let Some(seconds) = load.timed_seconds {
            // The operation that time cuts ends in the next second.
            run.operations_by_second.truncate(seconds as usize);
        }
        Ok((measured, run))
    })
}

/// Measures all with `measured`, which returns the figures of a turn and its run.
fn measure_all(
    paper: &Paper,
    args: &Args,
    measured: impl Fn(Turn<'_>) -> Outcome<(Measured, Run)>,
) -> Outcome<Results> {
    let mut results = Results { rounds: Rounds::new(), predicted: BTreeMap::new(), runs: Vec::new() };
    for round in 0..args.rounds(paper) {
        for experiment in args.experiments(paper) {
            let settings = args.settings(paper, experiment, round);
            for configuration in paper.configurations {
                if !configuration.experiments.contains(&experiment.title) {
                    continue;
                }
                if let Some(predict) = paper.sizes.further.predict
                    && let Some(predicted) = predict(experiment, configuration, &settings)?
                {
                    results.predicted.insert((experiment.title, configuration.name), predicted);
                }
                eprintln!("round {}: {}: {}", round + 1, experiment.title, configuration.name);
                let options = (configuration.options)(settings.engine.options());
                let turn = Turn { experiment, configuration, settings: &settings, options };
                let (measured, run) = measured(turn)?;
                let figures = experiment.figures.iter().map(|figure| figure.of(&measured)).collect();
                results.rounds.entry((experiment.title, configuration.name)).or_default().push(figures);
                let (workload, side) = (experiment.title.to_owned(), configuration.name.to_owned());
                results.runs.push(Run { workload, side, ..run });
            }
        }
    }
    Ok(results)
}

/// Measures the workload of an experiment on an empty database, which is first filled, aged and warmed if the experiment needs it.
fn measure_one(
    experiment: &Experiment,
    settings: &Settings,
    measure: impl Fn(&'static Workload, &Settings) -> Outcome<Measured>,
) -> Outcome<Measured> {
    let mut whole = settings.clone();
    whole.load.timed_seconds = None;
    if !experiment.workload().starts_empty() {
        measure(named("fillrandom"), &whole)?;
    }
    if experiment.scale.aging_percent > 0 {
        measure(named(AGING), &aging(&whole, experiment.scale.aging_percent))?;
    }
    if let Some(warming) = experiment.warming {
        measure(named(warming), &whole)?;
    }
    measure(experiment.workload(), settings)
}

/// The workload that ages a database. It overwrites rows, and its draws differ from those of overwrite, which may be measured next.
const AGING: &str = "logstore-write";

/// The settings under which [`AGING`] overwrites this share of the rows.
fn aging(settings: &Settings, percent_of_rows: u64) -> Settings {
    let mut aging = settings.clone();
    aging.load.operations = Some((settings.load.num.saturating_mul(percent_of_rows) / 100).max(1));
    aging.load.distribution = Some(Distribution::Uniform);
    aging
}
