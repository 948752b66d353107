//! The summary of rounds: the median of each figure, the run that stands for the rounds, and the standing of this engine.

use super::figure::{Better, COLUMNS, Shown};
use super::numbers;
use crate::paired::median;
use crate::results::Run;
use std::collections::BTreeSet;

/// The rounds of a workload on one side.
#[derive(Debug)]
pub struct Cell<'a> {
    pub side: &'a str,
    pub runs: Vec<&'a Run>,
}

/// A figure over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Cell<'_> {
    /// A figure over the rounds that have it.
    pub fn figure(&self, name: &str) -> Option<Rounds> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| run.figures.get(name).copied()).collect();
        let lowest = values.iter().copied().min_by(f64::total_cmp)?;
        let highest = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Rounds { median: median(&values), lowest, highest })
    }

    /// The round whose curves are shown: the middle one by operations a second. Of an even number of rounds, the slower of the two in the
    /// middle.
    pub fn middle(&self) -> &Run {
        let rate = |run: &Run| run.figures.get("operations_per_second").copied().unwrap_or(0.0);
        let mut sorted = self.runs.clone();
        sorted.sort_by(|left, right| rate(left).total_cmp(&rate(right)));
        sorted[(sorted.len() - 1) / 2]
    }
}

/// Each workload with its cells. Workloads and sides come in the order of their first run.
pub fn by_workload(runs: &[Run]) -> Vec<(&str, Vec<Cell<'_>>)> {
    let sides = sides(runs);
    in_order(runs.iter().map(|run| run.workload.as_str()))
        .into_iter()
        .map(|workload| {
            let cell = |side| {
                let rounds = runs.iter().filter(|run| run.workload == workload && run.side == side);
                Cell { side, runs: rounds.collect() }
            };
            (workload, sides.iter().copied().map(cell).filter(|cell| !cell.runs.is_empty()).collect())
        })
        .collect()
}

/// The sides in the order of their first run.
pub fn sides(runs: &[Run]) -> Vec<&str> {
    in_order(runs.iter().map(|run| run.side.as_str()))
}

/// Each text once, in the order of first appearance.
pub fn in_order<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    texts.filter(|text| seen.insert(*text)).collect()
}

/// The figures of [`COLUMNS`] that at least one run has.
pub fn present(runs: &[Run]) -> Vec<Shown> {
    let has = |shown: &Shown| runs.iter().any(|run| run.figures.contains_key(shown.name));
    COLUMNS.into_iter().filter(has).collect()
}

/// Whether a side is this engine with any options: `BraidDB`, or `braidb` as the crate is called.
pub fn is_ours(side: &str) -> bool {
    let side = side.to_lowercase();
    side.starts_with("braiddb") || side.starts_with("braidb")
}

/// How a side compares with the best other store.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing<'a> {
    pub other: &'a str,
    /// The factor between the two figures, at least 1. Infinite if the better one has a cost of 0.
    pub factor: f64,
    pub is_behind: bool,
}

impl Standing<'_> {
    /// Two medians whose ratio is below this count as equal. It is half of the last digit that is shown.
    const LEVEL: f64 = 1.005;

    pub fn text(&self) -> String {
        let word = if self.is_behind { "behind" } else { "ahead of" };
        if self.factor < Self::LEVEL {
            format!("level with {}", self.other)
        } else if self.factor.is_finite() {
            format!("{word} {} by {}", self.other, numbers::times(self.factor))
        } else {
            format!("{word} {} by any number of times: one has 0", self.other)
        }
    }
}

/// How this engine's figure in `cell` compares with the best other store's in `cells`. A cell has the rounds of one store and workload.
/// `None` if `cell` is another store's, or if a figure is missing or cannot be compared.
pub fn standing<'a>(cell: &Cell<'_>, cells: &[Cell<'a>], shown: &Shown) -> Option<Standing<'a>> {
    if !is_ours(cell.side) {
        return None;
    }
    let ours = cell.figure(shown.name)?.median;
    let others = cells.iter().filter(|other| !is_ours(other.side));
    let others = others.filter_map(|other| Some((other.side, other.figure(shown.name)?.median)));
    let (other, best) = others.min_by(|left, right| match shown.better {
        Better::Higher => right.1.total_cmp(&left.1),
        _ => left.1.total_cmp(&right.1),
    })?;
    let (more, less) = (ours.max(best), ours.min(best));
    if !(less >= 0.0 && more.is_finite()) {
        return None;
    }
    let factor = if more == less { 1.0 } else { more / less };
    let is_behind = factor >= Standing::LEVEL && (ours < best) == (shown.better == Better::Higher);
    Some(Standing { other, factor, is_behind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(side: &str, rate: f64) -> Run {
        let p99_us = if rate > 0.0 { 1e6 / rate } else { 0.0 };
        let figures = [("operations_per_second".to_owned(), rate), ("p99_us".to_owned(), p99_us)].into();
        Run { workload: "w".to_owned(), side: side.to_owned(), figures, ..Run::default() }
    }

    #[test]
    fn the_middle_round_stands_for_all() {
        let runs = [run("a", 30.0), run("a", 10.0), run("b", 7.0), run("a", 20.0), run("b", 5.0)];
        let workloads = by_workload(&runs);
        let [(_, cells)] = &workloads[..] else { panic!("{workloads:?}") };
        assert_eq!([cells[0].side, cells[1].side], ["a", "b"]);
        let rate = "operations_per_second";
        assert_eq!(cells[0].figure(rate), Some(Rounds { median: 20.0, lowest: 10.0, highest: 30.0 }));
        assert_eq!(cells[1].figure(rate).unwrap().median, 6.0);
        assert_eq!(cells[1].figure("absent"), None);
        assert_eq!([cells[0].middle().figures[rate], cells[1].middle().figures[rate]], [20.0, 5.0]);
    }

    #[test]
    fn a_side_that_is_behind_is_described_in_words() {
        let told = |rates: [f64; 3]| {
            let runs = [run("BraidDB", rates[0]), run("LevelDB", rates[1]), run("LMDB", rates[2])];
            let workloads = by_workload(&runs);
            let cells = &workloads[0].1;
            ["operations_per_second", "p99_us"].map(|name| {
                let shown = COLUMNS.iter().find(|shown| shown.name == name).unwrap();
                standing(&cells[0], cells, shown).unwrap().text()
            })
        };
        assert_eq!(
            told([100.0, 190.0, 80.0]),
            ["behind LevelDB by 1.9 times", "behind LevelDB by 1.9 times"]
        );
        assert_eq!(
            told([100.0, 50.0, 20.0]),
            ["ahead of LevelDB by 2.0 times", "ahead of LevelDB by 2.0 times"]
        );
        assert_eq!(told([100.0, 50.0, 100.2])[0], "level with LMDB");
        assert_eq!(
            told([0.0, 50.0, 20.0]),
            [
                "behind LevelDB by any number of times: one has 0",
                "ahead of LevelDB by any number of times: one has 0"
            ]
        );
    }
}
