//! The table of a comparison, and its verdicts, for people.

use braidb_bench::paired::{Verdict, median};
use braidb_bench::results::{Pair, PairedFigure, Run};
use std::fmt::Write as _;

/// The figures that a table prints if the runs have them, with their labels.
const SHOWN: [(&str, &str); 10] = [
    ("settled_operations_per_second", "operations a second, settled"),
    ("cpu_us_per_operation", "CPU an operation, us"),
    ("called_bytes", "bytes written by calls"),
    ("mapped_bytes", "bytes written to the mapped log"),
    ("p50_us", "p50, us"),
    ("p99_us", "p99, us"),
    ("p99_9_us", "p99.9, us"),
    ("longest_us", "max, us"),
    ("worst_directory_bytes", "directory at its worst, bytes"),
    ("peak_memory_bytes", "peak memory, bytes"),
];

/// The table of one workload: the figures of [`SHOWN`], and those with a limit.
pub fn of(pair: &Pair, judged: &[(Run, Run)]) -> String {
    let mut text = format!(
        "{}: A is {}, B is {}; {} rounds. A and B are medians, the rest is of the ratios A / B.\n",
        pair.workload,
        pair.a,
        pair.b,
        judged.len()
    );
    let label_of = |name: &str| SHOWN.iter().find(|(shown, _)| *shown == name).map(|(_, label)| *label);
    let shown = SHOWN.iter().filter_map(|(name, _)| pair.figures.iter().find(|figure| figure.name == *name));
    let limited =
        pair.figures.iter().filter(|figure| figure.limit.is_some() && label_of(&figure.name).is_none());
    let heads = ["", "A", "B", "median", "spread", "A beside A", "lowest", "highest"];
    let mut rows: Vec<[String; 8]> = vec![heads.map(str::to_owned)];
    rows.extend(shown.chain(limited).map(|figure| {
        let of_side = |side: fn(&(Run, Run)) -> &Run| {
            let values: Vec<f64> = judged.iter().map(|round| side(round).figures[&figure.name]).collect();
            plain(median(&values))
        };
        let label = label_of(&figure.name).unwrap_or(&figure.name).to_owned();
        let lowest = figure.ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = figure.ratios.iter().copied().fold(0.0, f64::max);
        let (spread, same) = (format!("±{:.4}", figure.spread), format!("±{:.4}", figure.spread_of_same));
        let (a, b) = (of_side(|round| &round.0), of_side(|round| &round.1));
        [label, a, b, in_four(figure.median), spread, same, in_four(lowest), in_four(highest)]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    for row in &rows {
        let mut line = format!("  {:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            write!(line, "  {cell:>width$}").expect("a write to a string succeeds");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The verdicts on a pair, a line for each limit, and whether all pass.
pub fn verdicts(pair: &Pair) -> (String, bool) {
    let (mut text, mut all_pass) = (String::new(), true);
    for figure in &pair.figures {
        let Some(verdict) = Verdict::of(figure) else { continue };
        all_pass &= verdict.passes();
        let word = if verdict.passes() { "PASS" } else { "FAIL" };
        writeln!(text, "  {word}  {}: {}", pair.workload, why(figure, verdict))
            .expect("a write to a string succeeds");
    }
    (text, all_pass)
}

fn why(figure: &PairedFigure, verdict: Verdict) -> String {
    let limit = figure.limit.expect("a verdict has a limit");
    let spread = figure.spread_of_same;
    let how = match verdict {
        Verdict::Within => "within the limit".to_owned(),
        Verdict::WithinSpread => {
            format!("beyond the limit by less than the spread of A beside A, {spread:.4}")
        }
        Verdict::Beyond => format!("beyond the limit by more than the spread of A beside A, {spread:.4}"),
    };
    format!("{} is {} times, {limit} wanted: {how}", figure.name, in_four(figure.median))
}

/// A ratio with four decimals; a ratio below 0.01 with its first four digits.
fn in_four(ratio: f64) -> String {
    match ratio > 0.0 && ratio < 0.01 {
        true => format!("{ratio:.3e}"),
        false => format!("{ratio:.4}"),
    }
}

/// A figure with as many digits as are meaningful.
fn plain(figure: f64) -> String {
    match figure.abs() {
        large if large >= 1_000.0 => format!("{figure:.0}"),
        _ => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_bench::paired::pair;
    use braidb_bench::results::Limit;

    fn run(rate: f64) -> Run {
        let figures = [("cpu_us_per_operation", rate), ("other", 1.0)];
        let figures = figures.map(|(name, figure)| (name.to_owned(), figure)).into();
        Run { workload: "fillrandom".to_owned(), side: "x".to_owned(), figures, ..Run::default() }
    }

    fn compared(limits: &[(&str, Limit)]) -> (Pair, Vec<(Run, Run)>) {
        let judged = vec![(run(2.2), run(2.0)), (run(2.4), run(2.0)), (run(2.0), run(2.0))];
        let same = vec![(run(1.0), run(1.0)), (run(1.01), run(1.0))];
        let limits: Vec<(String, Limit)> =
            limits.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
        (pair(&judged, &same, &limits).unwrap(), judged)
    }

    #[test]
    fn a_table_shows_known_and_limited_figures() {
        let (pair, judged) = compared(&[]);
        let text = of(&pair, &judged);
        let row = text.lines().find(|line| line.contains("CPU an operation")).expect("it is shown");
        let cells: Vec<&str> = row.split_whitespace().skip(4).collect();
        // The ratios are 1.1, 1.2 and 1, with a deviation of 0.1; the ratios A / A are 1 and 1.01.
        assert_eq!(cells, ["2.200", "2.000", "1.1000", "±0.0722", "±0.0063", "1.0000", "1.2000"], "{text}");
        assert!(!text.contains("other"), "{text}");
        let (pair, judged) = compared(&[("other", Limit::AtLeast(1.0))]);
        assert!(of(&pair, &judged).contains("other"));
    }

    #[test]
    fn a_verdict_says_why() {
        let (pair, _) =
            compared(&[("cpu_us_per_operation", Limit::AtMost(1.03)), ("other", Limit::AtLeast(1.0))]);
        let (text, all_pass) = verdicts(&pair);
        assert!(!all_pass);
        assert!(
            text.contains("FAIL  fillrandom: cpu_us_per_operation is 1.1000 times, at most 1.03 wanted: beyond the limit by more than"),
            "{text}"
        );
        assert!(
            text.contains("PASS  fillrandom: other is 1.0000 times, at least 1 wanted: within the limit"),
            "{text}"
        );
    }
}
