//! The text of a paper's tables: each figure of an experiment, with a line for each configuration.

use super::rounds::Results;
use super::{Experiment, Figure, Paper, Rounds, Statement};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The tables of one experiment, one for each figure.
pub fn of_experiment(paper: &Paper, experiment: &Experiment, rounds: &Rounds) -> String {
    let beside = beside_baselines(paper, experiment, |name| format!("beside {name}"));
    let mut text =
        format!("\n{} ({})\n{:36} {:>14}{beside}   paper\n", experiment.title, experiment.place, "", "here");
    for (at, &figure) in experiment.figures.iter().enumerate() {
        let medians: BTreeMap<&str, f64> = rounds
            .iter()
            .filter(|((title, _), _)| *title == experiment.title)
            .map(|((_, name), rounds)| (*name, median(rounds.iter().map(|figures| figures[at]))))
            .collect();
        text.push_str(&table(paper, experiment, figure, &medians));
    }
    text
}

/// A column for each baseline that takes part in the experiment.
fn beside_baselines(paper: &Paper, experiment: &Experiment, cell: impl Fn(&str) -> String) -> String {
    let baselines = paper.baselines.iter().filter(|name| paper.has(name, experiment.title));
    baselines
        .map(|name| format!(" {:>width$}", cell(name), width = 14.max("beside ".len() + name.len())))
        .collect()
}

/// One figure of an experiment. It has a line for each configuration that was measured.
fn table(paper: &Paper, experiment: &Experiment, figure: Figure, medians: &BTreeMap<&str, f64>) -> String {
    let is_here = |told: &&Statement| told.experiments.contains(&experiment.title) && told.figure == figure;
    let stated: Vec<&Statement> = paper.statements.iter().filter(is_here).collect();
    let measured = paper.configurations.iter().map(|configuration| configuration.name);
    let mut text = format!("  {}\n", figure.name());
    for name in measured.filter(|name| medians.contains_key(name)) {
        let here = medians.get(name).copied();
        let beside = |baseline: &str| match (here, medians.get(baseline)) {
            (Some(here), Some(of_baseline)) if name != baseline => (paper.comparison)(here / of_baseline),
            _ => none(),
        };
        let beside = beside_baselines(paper, experiment, beside);
        let told: Vec<&str> =
            stated.iter().filter(|statement| statement.configuration == name).map(|told| told.text).collect();
        let line = writeln!(
            text,
            "    {name:32} {:>14}{beside}   {}",
            here.map_or_else(none, |here| figure.text(here)),
            if told.is_empty() { none() } else { told.join("; ") },
        );
        line.expect("a string takes everything");
    }
    text
}

/// The predictions next to what was measured, and how much too high they are. Empty if nothing was predicted.
pub fn predictions(paper: &Paper, results: &Results) -> String {
    let mut text = String::new();
    for experiment in paper.experiments {
        let title = experiment.title;
        let names = paper.configurations.iter().map(|configuration| configuration.name);
        let lines: String = names
            .filter_map(|name| {
                let predicted = results.predicted.get(&(title, name))?;
                let here = median(results.rounds.get(&(title, name))?.iter().map(|figures| figures[0]));
                let cells = [predicted.by_paper, predicted.refined].map(|rate| {
                    format!(" {:>14} {:>10}", experiment.figures[0].text(rate), change_text(rate / here))
                });
                Some(format!("    {name:32} {:>14}{}\n", experiment.figures[0].text(here), cells.concat()))
            })
            .collect();
        if !lines.is_empty() {
            let head = format!("  {title}: {}\n", experiment.figures[0].name());
            text.extend([head, lines]);
        }
    }
    match text.is_empty() {
        true => text,
        false => format!(
            "\nThe cost model beside measurements\n{:36} {:>14} {:>14} {:>10} {:>14} {:>10}\n{text}",
            "", "here", "by the paper", "off by", "refined", "off by"
        ),
    }
}

/// The text where nothing was measured, or the paper's text has no figure.
pub fn none() -> String {
    "–".to_owned()
}

pub fn change_text(ratio: f64) -> String {
    if ratio.is_finite() { format!("{:+.1}%", (ratio - 1.0) * 100.0) } else { none() }
}

/// The text for ratios of very different figures.
pub fn factor_text(ratio: f64) -> String {
    match ratio {
        ratio if !ratio.is_finite() || ratio == 0.0 => none(),
        ratio if ratio < 0.1 => format!("1/{:.1}", 1.0 / ratio),
        ratio => format!("{ratio:.2}"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::super::{Further, Predicted, Scale, Sizes, configuration, experiment};
    use super::*;
    use braidb_bench::Distribution;

    /// A paper with two configurations and an experiment of two figures.
    fn paper() -> Paper {
        const EXPERIMENTS: [Experiment; 1] = [experiment(
            "writes",
            "Figure 1",
            ("updaterandom", Distribution::Uniform),
            Scale::WHOLE,
            &[Figure::SettledWrites, Figure::Latency(995)],
        )];
        let configuration = |name| configuration(name, &["writes"], |options| options);
        let told =
            |figure, configuration, text| Statement { experiments: &["writes"], figure, configuration, text };
        Paper {
            title: "A paper",
            sizes: Sizes {
                rows: 1,
                key_bytes: 8,
                row_bytes: 9,
                writes: |rows| rows,
                reads: |_| 1,
                memtable_bytes: |_| 1 << 20,
                further: Further::NOTHING,
            },
            experiments: &EXPERIMENTS,
            baselines: &["plain"],
            comparison: change_text,
            configurations: Box::leak(Box::new([configuration("plain"), configuration("braided")])),
            statements: Box::leak(Box::new([told(Figure::SettledWrites, "braided", "+47%")])),
        }
    }

    #[test]
    fn a_table_has_what_was_measured_beside_what_is_told() {
        let paper = paper();
        let rounds = Rounds::from([
            (("writes", "plain"), vec![vec![1000.0, 2000.0], vec![9.0, 9.0], vec![2000.0, 3000.0]]),
            (("writes", "braided"), vec![vec![1500.0, 1000.0]]),
        ]);
        let text = of_experiment(&paper, &paper.experiments[0], &rounds);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            &[][..],
            &["writes", "(Figure", "1)"],
            &["here", "beside", "plain", "paper"],
            &["writes", "a", "second,", "settled"],
            &["plain", "1,000", "–", "–"],
            &["braided", "1,500", "+50.0%", "+47%"],
            &["latency,", "p99.5"],
            &["plain", "2.0", "µs", "–", "–"],
            &["braided", "1.0", "µs", "-50.0%", "–"],
        ];
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn predictions_stand_beside_what_was_measured() {
        let paper = Paper { baselines: &[], ..paper() };
        let rounds = Rounds::from([
            (("writes", "plain"), vec![vec![1000.0, 9.0]]),
            (("writes", "braided"), vec![vec![1500.0, 9.0]]),
        ]);
        let mut results = Results { rounds, predicted: BTreeMap::new(), runs: Vec::new() };
        assert_eq!(predictions(&paper, &results), "");
        results.predicted.insert(("writes", "braided"), Predicted { by_paper: 3000.0, refined: 1485.0 });
        let text = predictions(&paper, &results);
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["braided", "1,500", "3,000", "+100.0%", "1,485", "-1.0%"], "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[test]
    fn a_factor_far_below_one_is_a_fraction() {
        assert_eq!([4.314, 0.84, 1.0 / 54.0, f64::NAN].map(factor_text), ["4.31", "0.84", "1/54.0", "–"]);
    }
}
