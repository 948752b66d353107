//! Ratios of two sides with their spread. Each figure has a row on one logarithmic axis, where half and double are equally far from 1.

use super::chart::{ABSENT, Chart, Table};
use super::figure::{self, Better};
use super::numbers;
use super::svg::{self, Anchor, Svg, WIDTH};
use crate::paired::Verdict;
use crate::results::{Limit, Pair, PairedFigure};

/// The distance between the names of two neighbouring figures.
const ROW_HEIGHT: f64 = 46.0;
const MARGIN: f64 = 16.0;
/// The room above the rows for the labels of ticks.
const TOP: f64 = 24.0;
/// The largest ratio on the axis. Ratios beyond 1/4 and 4 are drawn at the edge with an arrow, so that an outlier does not squeeze the
/// others.
const EDGE: f64 = 4.0;

/// The axis: its ends as logarithms, and its ticks.
struct Axis {
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// The axis around all finite ratios of the rows, at least from 0.9 to 1.1.
    fn around(figures: &[PairedFigure]) -> Axis {
        let (mut least, mut most) = (0.9, 1.1);
        for figure in figures {
            let shown = [
                figure.median,
                figure.median - figure.spread,
                figure.median + figure.spread,
                1.0 - figure.spread_of_same,
                1.0 + figure.spread_of_same,
                figure.limit.map_or(1.0, bound),
            ];
            for ratio in shown.into_iter().filter(|ratio| ratio.is_finite()) {
                least = ratio.clamp(1.0 / EDGE, least);
                most = ratio.clamp(most, EDGE);
            }
        }
        let pad = (f64::ln(most) - f64::ln(least)) * 0.03;
        let (from, to) = (least.ln() - pad, most.ln() + pad);
        let sets: [&[f64]; 4] = [
            &[0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2],
            &[0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
            &[0.5, 0.75, 1.0, 1.25, 1.5, 2.0],
            &[0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0],
        ];
        let inside = |set: &[f64]| -> Vec<f64> {
            set.iter().copied().filter(|tick| (from..=to).contains(&tick.ln())).collect()
        };
        let reaches = |set: &&[f64]| {
            set[0] * 0.9 <= least && set[set.len() - 1] * 1.1 >= most && inside(set).len() <= 7
        };
        let set = sets.into_iter().find(reaches).unwrap_or(sets[3]);
        Axis { from, to, ticks: inside(set) }
    }

    /// The place of `ratio`, at an edge if the ratio is beyond the axis.
    fn x(&self, ratio: f64) -> f64 {
        let place = if ratio > 0.0 { (ratio.ln() - self.from) / (self.to - self.from) } else { 0.0 };
        MARGIN + place.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    }

    fn holds(&self, ratio: f64) -> bool {
        ratio > 0.0 && (self.from..=self.to).contains(&ratio.ln())
    }
}

fn bound(limit: Limit) -> f64 {
    match limit {
        Limit::AtLeast(least) => least,
        Limit::AtMost(most) => most,
    }
}

/// A limit in signs: ≥ 0.97.
pub fn limit_text(limit: Limit) -> String {
    match limit {
        Limit::AtLeast(least) => format!("≥ {least}"),
        Limit::AtMost(most) => format!("≤ {most}"),
    }
}

/// PASS, FAIL or nothing. The long form also tells if the spread saved the line.
pub fn verdict_text(figure: &PairedFigure, is_long: bool) -> &'static str {
    match Verdict::of(figure) {
        None => "",
        Some(Verdict::Beyond) => "FAIL",
        Some(Verdict::WithinSpread) if is_long => "PASS within the spread",
        Some(Verdict::Within | Verdict::WithinSpread) => "PASS",
    }
}

/// The table of a pair for HTML and Markdown. With `has_rounds` the table has every single ratio.
pub fn table(pair: &Pair, has_rounds: bool) -> Table {
    let mut head = ["figure", "median", "± spread", "± spread of A beside A", "limit", "verdict"].to_vec();
    if has_rounds {
        head.extend(["rounds", "rounds of A beside A"]);
    }
    let list = |ratios: &[f64]| {
        let texts: Vec<String> = ratios.iter().map(|ratio| numbers::ratio(*ratio)).collect();
        if texts.is_empty() { ABSENT.to_owned() } else { texts.join(" ") }
    };
    let or_absent = |text: String| if text.is_empty() { ABSENT.to_owned() } else { text };
    let row = |figure: &PairedFigure| {
        let mut cells = vec![
            figure::shown(&figure.name).label,
            numbers::ratio(figure.median),
            numbers::ratio(figure.spread),
            numbers::ratio(figure.spread_of_same),
            or_absent(figure.limit.map(limit_text).unwrap_or_default()),
            or_absent(verdict_text(figure, true).to_owned()),
        ];
        if has_rounds {
            cells.extend([list(&figure.ratios), list(&figure.ratios_of_same)]);
        }
        cells
    };
    Table {
        head: head.into_iter().map(str::to_owned).collect(),
        rows: pair.figures.iter().map(row).collect(),
    }
}

/// The chart of a pair; `None` if the pair has no figures.
pub fn chart(id: &str, pair: &Pair) -> Option<Chart> {
    if pair.figures.is_empty() {
        return None;
    }
    let axis = Axis::around(&pair.figures);
    let bottom = TOP + pair.figures.len() as f64 * ROW_HEIGHT;
    let mut svg = Svg::default();
    for (number, figure) in pair.figures.iter().enumerate() {
        band(&mut svg, &axis, figure, TOP + number as f64 * ROW_HEIGHT);
    }
    for tick in &axis.ticks {
        let class = if *tick == 1.0 { "one" } else { "grid" };
        svg.line((axis.x(*tick), TOP - 6.0), (axis.x(*tick), bottom), class);
        for y in [12.0, bottom + 17.0] {
            svg.text((axis.x(*tick), y), Anchor::Middle, "tick", &numbers::fewest(*tick));
        }
    }
    for (number, figure) in pair.figures.iter().enumerate() {
        row(&mut svg, &axis, figure, TOP + number as f64 * ROW_HEIGHT);
    }
    svg.text((WIDTH / 2.0, bottom + 35.0), Anchor::Middle, "axis", "A over B, logarithmic");
    let failed = pair.figures.iter().filter(|figure| Verdict::of(figure) == Some(Verdict::Beyond)).count();
    let judged = pair.figures.iter().filter(|figure| figure.limit.is_some()).count();
    let description = format!(
        "Medians of the ratios of {}, {} with a limit, {failed} of them failed.",
        numbers::counted(pair.figures.len(), "figure", "figures"),
        numbers::grouped(judged as f64),
    );
    let title = format!("Ratios of {}: {} over {}", pair.workload, pair.a, pair.b);
    Some(Chart {
        title: pair.workload.clone(),
        note: format!("A is {}, B is {}.", pair.a, pair.b),
        svg: svg.finish(id, bottom + 42.0, &title, &description),
        table: table(pair, true),
    })
}

/// The spread of A beside A around 1, drawn behind everything else.
fn band(svg: &mut Svg, axis: &Axis, figure: &PairedFigure, top: f64) {
    if figure.ratios_of_same.is_empty() || figure.spread_of_same.is_nan() {
        return;
    }
    let (left, right) = (axis.x(1.0 - figure.spread_of_same), axis.x(1.0 + figure.spread_of_same));
    let title = format!("A beside A: 1 ± {}", numbers::ratio(figure.spread_of_same));
    svg.rect((left, top + 21.0), (right - left, 20.0), "band", &title);
}

fn row(svg: &mut Svg, axis: &Axis, figure: &PairedFigure, top: f64) {
    let shown = figure::shown(&figure.name);
    let arrow = match shown.better {
        Better::Higher => " ↑",
        Better::Lower => " ↓",
        Better::Neither => "",
    };
    let limit = figure.limit.map(limit_text).unwrap_or_default();
    let name = format!("{}{arrow}", svg::shortened(&shown.label, 28));
    svg.text((0.0, top + 14.0), Anchor::Start, "label halo", format!("{name}  {limit}").trim_end());
    let (class, verdict) = match Verdict::of(figure) {
        None => ("open", ""),
        Some(verdict) if verdict.passes() => ("pass", "PASS"),
        Some(_) => ("fail", "FAIL"),
    };
    let spread = match figure.spread {
        spread if spread.is_finite() => format!(" ± {spread:.3}"),
        _ => String::new(),
    };
    let text = format!("{}{spread}", numbers::ratio(figure.median));
    svg.text((WIDTH - 44.0, top + 14.0), Anchor::End, "label halo", &text);
    svg.text((WIDTH, top + 14.0), Anchor::End, &format!("label strong halo word {class}"), verdict);

    let middle = top + 31.0;
    if let Some(limit) = figure.limit.filter(|limit| bound(*limit).is_finite()) {
        let x = axis.x(bound(limit));
        svg.line((x, top + 20.0), (x, top + 42.0), "limit");
        // The arrow points towards the ratios that pass.
        let way = if matches!(limit, Limit::AtLeast(_)) { 1.0 } else { -1.0 };
        svg.polygon((x, top + 20.0), &[(0.0, 0.0), (way * 6.0, 3.5), (0.0, 7.0)], "tip");
    }
    if figure.median.is_nan() {
        return;
    }
    if figure.spread.is_finite() && figure.median.is_finite() {
        let (from, to) = (axis.x(figure.median - figure.spread), axis.x(figure.median + figure.spread));
        svg.line((from, middle), (to, middle), &format!("whisker {class}"));
    }
    let x = axis.x(figure.median);
    if !axis.holds(figure.median) {
        let way = if x > WIDTH / 2.0 { 1.0 } else { -1.0 };
        svg.polygon((x, middle), &[(way * 10.0, 0.0), (0.0, -6.0), (0.0, 6.0)], &format!("dot {class}"));
    } else if class == "fail" {
        let diamond = [(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)];
        svg.polygon((x, middle), &diamond, "dot fail");
    } else {
        svg.circle((x, middle), &format!("dot {class}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(median: f64, spread: f64) -> PairedFigure {
        let ratios = vec![median; 3];
        PairedFigure { name: "p99_us".to_owned(), median, spread, ratios, ..PairedFigure::default() }
    }

    #[test]
    fn an_axis_holds_one_and_outliers_are_at_its_edge() {
        for (figures, ticks) in [
            (vec![figure(1.0, 0.01)], vec![0.9, 0.95, 1.0, 1.05, 1.1]),
            (vec![figure(0.6, 0.05)], vec![0.6, 0.7, 0.8, 0.9, 1.0, 1.1]),
            (vec![figure(1.9, 0.0)], vec![1.0, 1.25, 1.5]),
            (vec![figure(230.0, 5.0)], vec![1.0, 1.5, 2.0, 3.0, 4.0]),
            (vec![figure(f64::INFINITY, f64::INFINITY), figure(0.0, 0.0)], vec![0.25, 0.5, 1.0]),
        ] {
            let axis = Axis::around(&figures);
            assert_eq!(axis.ticks, ticks);
            assert!(axis.holds(1.0));
            let x = figures.iter().map(|figure| axis.x(figure.median));
            assert!(x.into_iter().all(|x| (MARGIN..=WIDTH - MARGIN).contains(&x)));
        }
    }

    #[test]
    fn verdicts_are_words() {
        let limited = |median: f64, spread_of_same: f64| PairedFigure {
            limit: Some(Limit::AtLeast(0.97)),
            spread_of_same,
            ..figure(median, 0.01)
        };
        let figures = vec![limited(1.0, 0.0), limited(0.96, 0.02), limited(0.9, 0.02), figure(1.0, 0.1)];
        let pair = Pair { a: "new".to_owned(), b: "old".to_owned(), figures, ..Pair::default() };
        let verdicts: Vec<String> = table(&pair, false).rows.into_iter().map(|row| row[5].clone()).collect();
        assert_eq!(verdicts, ["PASS", "PASS within the spread", "FAIL", "—"]);
        let svg = chart("c", &pair).unwrap().svg;
        assert_eq!((svg.matches(">PASS<").count(), svg.matches(">FAIL<").count()), (2, 1));
        assert!(chart("c", &Pair::default()).is_none());
    }
}
