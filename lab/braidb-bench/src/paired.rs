//! Paired ratios: the comparison of two sides that ran in turns, and the verdict on a limit.
//!
//! A round runs side A and side B one after the other, so that both meet the same machine. It takes the ratio of their figures. The median
//! of the ratios is the result. Each round also runs A twice more, and the ratios A / A show how much chance moves a median. A limit is
//! widened by their spread, so that an unchanged build does not fail by chance.

use crate::Outcome;
use crate::results::{Limit, Pair, PairedFigure, Run};
use std::fmt;

/// The standard error of a median of normally distributed ratios over the standard error of their mean: 1.25 (√(π/2)).
const MEDIAN_OVER_MEAN: f64 = 1.25;

/// `a` divided by `b`: 1 if both are 0, infinite if only `b` is 0.
pub fn ratio(a: f64, b: f64) -> f64 {
    match (a == 0.0, b == 0.0) {
        (true, true) => 1.0,
        (false, true) => f64::INFINITY,
        (_, false) => a / b,
    }
}

/// The middle of `values`, or the mean of the two in the middle; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[middle],
        _ if sorted[middle].is_infinite() => f64::INFINITY,
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The standard error of the median of `ratios`: 1.25 s / √n, with s the standard deviation (over n - 1) of the n ratios. Infinite for
/// fewer than two ratios, and where a ratio is infinite.
pub fn spread(ratios: &[f64]) -> f64 {
    let count = ratios.len() as f64;
    if ratios.len() < 2 || ratios.iter().any(|ratio| ratio.is_infinite()) {
        return f64::INFINITY;
    }
    let mean = ratios.iter().sum::<f64>() / count;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
    MEDIAN_OVER_MEAN * variance.sqrt() / count.sqrt()
}

/// Compares the runs of a workload on two sides, figure by figure. `judged` are runs of A and B, one pair a round. `same` are runs of A and
/// A, which differ from the runs in `judged`. A figure is compared if every run has it.
///
/// # Errors
///
/// There is no run, the runs are of several workloads, or a limit names a figure that a run lacks.
pub fn pair(judged: &[(Run, Run)], same: &[(Run, Run)], limits: &[(String, Limit)]) -> Outcome<Pair> {
    let Some((a, b)) = judged.first() else { return Err("there are no rounds to compare".into()) };
    let runs = || judged.iter().chain(same).flat_map(|(left, right)| [left, right]);
    if let Some(other) = runs().find(|run| run.workload != a.workload) {
        return Err(
            format!("runs of {} and of {} are compared with each other", a.workload, other.workload).into()
        );
    }
    let names: Vec<&String> =
        a.figures.keys().filter(|name| runs().all(|run| run.figures.contains_key(*name))).collect();
    if let Some((missing, _)) = limits.iter().find(|(name, _)| !names.contains(&name)) {
        let known: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        return Err(format!(
            "the limit names the figure {missing}, which not every run of {} has; they have {}",
            a.workload,
            known.join(", ")
        )
        .into());
    }
    let figure = |name: &String| {
        let ratios_of = |rounds: &[(Run, Run)]| -> Vec<f64> {
            rounds.iter().map(|(left, right)| ratio(left.figures[name], right.figures[name])).collect()
        };
        let (ratios, ratios_of_same) = (ratios_of(judged), ratios_of(same));
        PairedFigure {
            name: name.clone(),
            median: median(&ratios),
            spread: spread(&ratios),
            spread_of_same: spread(&ratios_of_same),
            limit: limits.iter().find(|(limited, _)| limited == name).map(|(_, limit)| *limit),
            ratios,
            ratios_of_same,
        }
    };
    Ok(Pair {
        workload: a.workload.clone(),
        a: a.side.clone(),
        b: b.side.clone(),
        figures: names.into_iter().map(figure).collect(),
    })
}

/// Whether a ratio keeps its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The median is within the limit.
    Within,
    /// The median is beyond the limit, by no more than the spread of the ratios A / A.
    WithinSpread,
    /// The median is beyond the limit by more than the spread of the ratios A / A.
    Beyond,
}

impl Verdict {
    /// The verdict on a figure; `None` where the figure has no limit. A spread that is not finite does not widen the limit.
    pub fn of(figure: &PairedFigure) -> Option<Verdict> {
        let excess = match figure.limit? {
            Limit::AtLeast(least) => least - figure.median,
            Limit::AtMost(most) => figure.median - most,
        };
        // A NaN is beyond every limit.
        Some(match figure.spread_of_same {
            _ if excess <= 0.0 => Verdict::Within,
            spread if spread.is_finite() && excess <= spread => Verdict::WithinSpread,
            _ => Verdict::Beyond,
        })
    }

    pub fn passes(self) -> bool {
        self != Verdict::Beyond
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AtLeast(least) => write!(f, "at least {least}"),
            Limit::AtMost(most) => write!(f, "at most {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(side: &str, figures: &[(&str, f64)]) -> Run {
        let figures = figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect();
        Run { workload: "fillrandom".to_owned(), side: side.to_owned(), figures, ..Run::default() }
    }

    fn figure(median: f64, spread_of_same: f64, limit: Limit) -> PairedFigure {
        PairedFigure { median, spread_of_same, limit: Some(limit), ..PairedFigure::default() }
    }

    #[test]
    fn nothing_over_nothing_is_one() {
        assert_eq!(ratio(0.0, 0.0), 1.0);
        assert_eq!(ratio(3.0, 0.0), f64::INFINITY);
        assert_eq!(ratio(0.0, 3.0), 0.0);
        assert_eq!(ratio(3.0, 2.0), 1.5);
    }

    #[test]
    fn medians_of_odd_even_and_infinite_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[1.0, f64::INFINITY, 2.0]), 2.0);
        assert_eq!(median(&[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_spread_by_hand() {
        // The deviations from the mean 1 are -0.1, 0 and 0.1, so s is 0.1.
        assert!((spread(&[0.9, 1.0, 1.1]) - 1.25 * 0.1 / 3_f64.sqrt()).abs() < 1e-12);
        // The squares of the deviations from 4 add up to 28, and 28 / 6 is the variance of seven.
        let seven = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        assert!((spread(&seven) - 1.25 * (28_f64 / 6.0).sqrt() / 7_f64.sqrt()).abs() < 1e-12);
        assert_eq!(spread(&[1.0, 1.0]), 0.0);
        assert_eq!(spread(&[1.0]), f64::INFINITY);
        assert_eq!(spread(&[1.0, f64::INFINITY, 1.0]), f64::INFINITY);
    }

    #[test]
    fn limits_are_widened_by_the_spread_of_the_same_side() {
        let least = Limit::AtLeast(0.97);
        assert_eq!(Verdict::of(&figure(0.97, 0.0, least)), Some(Verdict::Within));
        assert_eq!(Verdict::of(&figure(0.96, 0.02, least)), Some(Verdict::WithinSpread));
        assert_eq!(Verdict::of(&figure(0.94, 0.02, least)), Some(Verdict::Beyond));
        let most = Limit::AtMost(1.1);
        assert_eq!(Verdict::of(&figure(1.05, 0.0, most)), Some(Verdict::Within));
        assert_eq!(Verdict::of(&figure(1.12, 0.03, most)), Some(Verdict::WithinSpread));
        assert_eq!(Verdict::of(&figure(1.14, 0.03, most)), Some(Verdict::Beyond));
        assert!(Verdict::WithinSpread.passes() && !Verdict::Beyond.passes());
        assert_eq!(Verdict::of(&PairedFigure::default()), None);
    }

    #[test]
    fn what_is_not_finite_passes_by_no_spread() {
        for spread in [0.5, f64::INFINITY, f64::NAN] {
            assert_eq!(
                Verdict::of(&figure(f64::INFINITY, spread, Limit::AtMost(2.0))),
                Some(Verdict::Beyond),
                "{spread}"
            );
            assert_eq!(Verdict::of(&figure(f64::NAN, spread, Limit::AtLeast(0.5))), Some(Verdict::Beyond));
        }
        assert_eq!(Verdict::of(&figure(0.9, f64::INFINITY, Limit::AtLeast(0.97))), Some(Verdict::Beyond));
        assert_eq!(Verdict::of(&figure(1.0, f64::INFINITY, Limit::AtLeast(0.97))), Some(Verdict::Within));
    }

    #[test]
    fn figures_are_compared_round_by_round() {
        let round = |a: f64, b: f64| (run("a", &[("rate", a), ("only_a", 1.0)]), run("b", &[("rate", b)]));
        let judged = [round(90.0, 100.0), round(240.0, 200.0), round(50.0, 50.0)];
        let same = [(run("a", &[("rate", 9.0)]), run("a", &[("rate", 10.0)])), round(110.0, 100.0)];
        let limits = [("rate".to_owned(), Limit::AtLeast(0.97))];
        let pair = pair(&judged, &same, &limits).unwrap();
        assert_eq!((pair.a.as_str(), pair.b.as_str(), pair.figures.len()), ("a", "b", 1));
        let rate = &pair.figures[0];
        assert_eq!(rate.ratios, [0.9, 1.2, 1.0]);
        assert_eq!(rate.ratios_of_same, [0.9, 1.1]);
        assert_eq!(rate.median, 1.0);
        // s is √0.02 for two ratios at a distance of 0.2.
        assert!((rate.spread_of_same - 1.25 * 0.02_f64.sqrt() / 2_f64.sqrt()).abs() < 1e-12);
        assert_eq!(rate.limit, Some(Limit::AtLeast(0.97)));
    }

    #[test]
    fn a_limit_on_a_missing_figure_is_an_error() {
        let judged = [(run("a", &[("rate", 1.0)]), run("b", &[("rate", 1.0)]))];
        let error = pair(&judged, &judged, &[("p98_us".to_owned(), Limit::AtMost(1.0))]).unwrap_err();
        assert!(error.to_string().contains("p98_us") && error.to_string().contains("rate"), "{error}");
        assert!(pair(&[], &judged, &[]).is_err());
        let other = Run { workload: "fillseq".to_owned(), ..judged[0].0.clone() };
        assert!(pair(&judged, &[(other.clone(), other)], &[]).is_err());
    }
}
