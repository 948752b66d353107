//! Charts with a line for each side: throughput over time, and latency by percentile.

use super::chart::{ABSENT, Chart, Table};
use super::numbers::{self, Unit};
use super::summary::{Cell, is_ours};
use super::svg::{self, Anchor, Svg, WIDTH};
use std::collections::BTreeMap;

const HEIGHT: f64 = 280.0;
const TOP: f64 = 28.0;
/// The room below the plot for the labels of ticks and the title of the axis.
const BOTTOM: f64 = 42.0;
/// The distance between two labels at the ends of lines.
const LABEL_HEIGHT: f64 = 15.0;
/// The letters of a side's name at the end of its line. The legend has the whole name.
const LABEL_LETTERS: usize = 14;
/// The most points of a line over time. A line with more points is a smear.
const POINTS: usize = 120;

/// A line, in units of the plot: from 0 (left, bottom) to 1 (right, top).
struct Line<'a> {
    series: usize,
    side: &'a str,
    /// The best height for the label.
    height: f64,
    points: Vec<(f64, f64)>,
}

/// The axes of a chart: the place of each tick, from 0 to 1, and its label.
struct Axes {
    x_title: String,
    y_title: String,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
}

/// A logarithmic axis between two powers of ten.
struct Powers {
    floor: i32,
    ceiling: i32,
}

impl Powers {
    /// The powers of ten around two numbers, of which `least` is positive.
    fn around(least: f64, most: f64) -> Powers {
        let floor = least.log10().floor() as i32;
        Powers { floor, ceiling: (most.max(least).log10().ceil() as i32).max(floor + 1) }
    }

    /// The height of a number, from 0 to 1. Smaller numbers than the lowest power are drawn on it.
    fn height(&self, number: f64) -> f64 {
        ((number.log10() - f64::from(self.floor)) / f64::from(self.ceiling - self.floor)).max(0.0)
    }

    /// The powers with their labels. A long axis has every second one.
    fn ticks(&self, label: impl Fn(i32) -> String) -> Vec<(f64, String)> {
        (self.floor..=self.ceiling)
            .filter(|power| self.ceiling - self.floor <= 6 || (power - self.floor) % 2 == 0)
            .map(|power| (self.height(10_f64.powi(power)), label(power)))
            .collect()
    }
}

/// The axis of operations a second.
enum Heights {
    /// From 0 on, with the labelled rates.
    Linear(Vec<f64>),
    /// For lines of which one is flat beside another.
    Logarithmic(Powers),
}

/// The factor between the highest and the lowest line, by their means, from which on an axis is logarithmic. On a linear axis of 200 units
/// the lowest line would keep fewer than 10.
const LOGARITHMIC_FROM: f64 = 20.0;

impl Heights {
    fn of(rates: &[(&str, Vec<f64>)]) -> Heights {
        let most = rates.iter().flat_map(|(_, rates)| rates).copied().fold(0.0, f64::max);
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        let means = rates.iter().map(|(_, rates)| mean(rates)).filter(|mean| *mean > 0.0);
        let lowest_mean = means.clone().fold(f64::INFINITY, f64::min);
        if means.fold(0.0, f64::max) < lowest_mean * LOGARITHMIC_FROM {
            return Heights::Linear(svg::ticks(most, 4));
        }
        // A line ends with a part of a second, which says little about its height.
        let whole = rates.iter().flat_map(|(_, rates)| &rates[..(rates.len() - 1).max(1)]).copied();
        let least = whole.filter(|rate| *rate > 0.0).fold(lowest_mean, f64::min);
        Heights::Logarithmic(Powers::around(least, most))
    }

    /// The height of a rate, from 0 to 1.
    fn of_rate(&self, rate: f64) -> f64 {
        match self {
            Heights::Linear(ticks) => rate / ticks.last().copied().unwrap_or(1.0),
            Heights::Logarithmic(powers) => powers.height(rate),
        }
    }

    fn title(&self) -> String {
        match self {
            Heights::Linear(_) => "operations a second".to_owned(),
            Heights::Logarithmic(_) => "operations a second, logarithmic".to_owned(),
        }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        match self {
            Heights::Linear(ticks) => {
                ticks.iter().map(|tick| (self.of_rate(*tick), numbers::short(*tick))).collect()
            }
            Heights::Logarithmic(powers) => powers.ticks(|power| numbers::short(10_f64.powi(power))),
        }
    }
}

/// Operations that ended in each second. `sides` gives each side its colour.
pub fn throughput(id: &str, workload: &str, cells: &[Cell<'_>], sides: &[&str]) -> Option<Chart> {
    let runs: Vec<(&str, &[u64])> = cells
        .iter()
        .map(|cell| (cell.side, cell.middle().operations_by_second.as_slice()))
        .filter(|(_, seconds)| !seconds.is_empty())
        .collect();
    let longest = runs.iter().map(|(_, seconds)| seconds.len()).max()?;
    let width = bucket_seconds(longest);
    let rates: Vec<(&str, Vec<f64>)> =
        runs.iter().map(|(side, seconds)| (*side, means(seconds, width))).collect();
    let heights = Heights::of(&rates);
    let line = |(side, rates): &(&'_ str, Vec<f64>)| -> (usize, Vec<(f64, f64)>) {
        let middle = |bucket: usize| {
            let (from, to) = (bucket * width, ((bucket + 1) * width).min(longest));
            (from + to) as f64 / 2.0 / longest as f64
        };
        let points =
            rates.iter().enumerate().map(|(bucket, rate)| (middle(bucket), heights.of_rate(*rate))).collect();
        (place(sides, side), points)
    };
    let lines = rates.iter().map(|rates| {
        let (series, points) = line(rates);
        // Lines end at different times, most of them near zero, so the label stands at the mean.
        let height = points.iter().map(|(_, up)| up).sum::<f64>() / points.len() as f64;
        Line { series, side: rates.0, height, points }
    });
    let in_plot = |tick: &f64| *tick <= longest as f64 && tick.fract() == 0.0;
    let x_ticks = svg::ticks(longest as f64, 5).into_iter().filter(in_plot);
    let axes = Axes {
        x_title: "seconds from the start".to_owned(),
        y_title: heights.title(),
        x_ticks: x_ticks.map(|tick| (tick / longest as f64, numbers::short(tick))).collect(),
        y_ticks: heights.ticks(),
    };
    let description = format!(
        "Operations a second over {}, a line for each of {}.",
        numbers::counted(longest, "second", "seconds"),
        numbers::counted(runs.len(), "side", "sides")
    );
    let svg = draw(id, &format!("Throughput of {workload} over time"), &description, &axes, lines.collect());
    let note = match width {
        1 => "A line ends with a part of a second.".to_owned(),
        _ => format!("Each point is the mean of {width} seconds. A line ends with a part of a second."),
    };
    let cell = |rate: Option<&f64>| rate.map_or(ABSENT.to_owned(), |rate| numbers::grouped(*rate));
    let row = |bucket: usize| {
        let from = numbers::grouped((bucket * width) as f64);
        let rates = rates.iter().map(|(_, rates)| cell(rates.get(bucket)));
        std::iter::once(from).chain(rates).collect()
    };
    let table = Table {
        head: head("from second", rates.iter().map(|(side, _)| *side)),
        rows: (0..longest.div_ceil(width)).map(row).collect(),
    };
    Some(Chart { title: workload.to_owned(), note, svg, table })
}

/// Latency by percentile. On the axis each further nine takes equal room, so that the tail is visible.
pub fn percentiles(id: &str, workload: &str, cells: &[Cell<'_>], sides: &[&str]) -> Option<Chart> {
    let is_shown =
        |(percent, us): &(f64, f64)| (0.0..=100.0).contains(percent) && us.is_finite() && *us >= 0.0;
    let runs: Vec<(&str, Vec<(f64, f64)>)> = cells
        .iter()
        .map(|cell| (cell.side, cell.middle().percentiles_us.iter().copied().filter(is_shown).collect()))
        .filter(|(_, percentiles): &(&str, Vec<_>)| !percentiles.is_empty())
        .collect();
    let all = || runs.iter().flat_map(|(_, percentiles)| percentiles).copied();
    let most = all().map(|(_, us)| us).max_by(f64::total_cmp)?;
    let least = all().map(|(_, us)| us).filter(|us| *us > 0.0).min_by(f64::total_cmp).unwrap_or(1.0);
    // The axis spans the powers of ten around all latencies. A latency of zero is drawn on the lowest power.
    let powers = Powers::around(least, most);

    let finite = all().filter(|(percent, _)| *percent < 100.0).map(|(percent, _)| nines(percent));
    let last_nine = finite.fold(1.0, f64::max);
    let has_maximum = all().any(|(percent, _)| percent >= 100.0);
    // The maximum has no number of nines, so it stands apart, at the right.
    let right = last_nine + if has_maximum { 0.7 } else { 0.0 };
    let across = |percent: f64| if percent < 100.0 { nines(percent) / right } else { 1.0 };

    let named = (1..=9).map(|count| 100.0 - 100.0 / 10_f64.powi(count));
    let ticks = std::iter::once(50.0).chain(named).filter(|percent| nines(*percent) <= last_nine + 1e-6);
    let ticks = ticks.chain(has_maximum.then_some(100.0));
    let axes = Axes {
        x_title: "percentile".to_owned(),
        y_title: "latency of an operation, logarithmic".to_owned(),
        x_ticks: ticks.map(|percent| (across(percent), numbers::percentile(percent))).collect(),
        y_ticks: powers.ticks(tick_time),
    };
    let line = |(side, percentiles): &(&'_ str, Vec<(f64, f64)>)| {
        let points: Vec<(f64, f64)> =
            percentiles.iter().map(|(percent, us)| (across(*percent), powers.height(*us))).collect();
        (place(sides, side), points)
    };
    let lines = runs.iter().map(|run| {
        let (series, points) = line(run);
        let height = points.last().map_or(0.0, |(_, up)| *up);
        Line { series, side: run.0, height, points }
    });
    let description = format!(
        "Latency by percentile on a logarithmic axis, a line for each of {}; the longest took {}.",
        numbers::counted(runs.len(), "side", "sides"),
        Unit::Microseconds.text(most)
    );
    let svg = draw(id, &format!("Latency of {workload} by percentile"), &description, &axes, lines.collect());
    Some(Chart { title: workload.to_owned(), note: String::new(), svg, table: percentile_table(&runs) })
}

fn percentile_table(runs: &[(&str, Vec<(f64, f64)>)]) -> Table {
    // Percentiles are not negative, so their bits sort as the numbers do.
    let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (column, (_, percentiles)) in runs.iter().enumerate() {
        for (percent, us) in percentiles {
            let absent = || vec![ABSENT.to_owned(); runs.len()];
            rows.entry(percent.abs().to_bits()).or_insert_with(absent)[column] = Unit::Microseconds.text(*us);
        }
    }
    let row = |(bits, cells): (u64, Vec<String>)| {
        std::iter::once(numbers::percentile(f64::from_bits(bits))).chain(cells).collect()
    };
    Table {
        head: head("percentile", runs.iter().map(|(side, _)| *side)),
        rows: rows.into_iter().map(row).collect(),
    }
}

fn head<'a>(first: &'a str, sides: impl Iterator<Item = &'a str>) -> Vec<String> {
    std::iter::once(first).chain(sides).map(str::to_owned).collect()
}

/// The number of nines of a percentile: 1 for 90, 3 for 99.9.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).log10()
}

/// A power of ten of microseconds, with the unit that fits.
fn tick_time(power: i32) -> String {
    let (power, unit) = match power {
        ..0 => (power + 3, "ns"),
        0..3 => (power, "µs"),
        3..6 => (power - 3, "ms"),
        _ => (power - 6, "s"),
    };
    format!("{} {unit}", numbers::short(10_f64.powi(power)))
}

/// Seconds for each point, so that a line of `seconds` seconds has no more than `POINTS` points.
fn bucket_seconds(seconds: usize) -> usize {
    let round = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600];
    round.into_iter().find(|width| seconds.div_ceil(*width) <= POINTS).unwrap_or(seconds.div_ceil(POINTS))
}

/// The mean of each `width` seconds. The last mean covers the remaining seconds.
fn means(seconds: &[u64], width: usize) -> Vec<f64> {
    seconds.chunks(width).map(|bucket| bucket.iter().sum::<u64>() as f64 / bucket.len() as f64).collect()
}

fn place(sides: &[&str], side: &str) -> usize {
    sides.iter().position(|known| *known == side).unwrap_or(sides.len())
}

fn draw(id: &str, title: &str, description: &str, axes: &Axes, lines: Vec<Line<'_>>) -> String {
    let names: Vec<String> = lines.iter().map(|line| svg::shortened(line.side, LABEL_LETTERS)).collect();
    let bottom = HEIGHT - BOTTOM;
    // If there is no room for labels of all lines, the legend alone names them.
    let has_labels = lines.len() as f64 * LABEL_HEIGHT <= bottom - TOP + LABEL_HEIGHT;
    let left = axes.y_ticks.iter().map(|(_, label)| svg::width_of(label)).fold(0.0, f64::max) + 8.0;
    let widest = names.iter().map(|name| svg::strong_width_of(name)).fold(0.0, f64::max);
    let right = if has_labels { WIDTH - widest - 26.0 } else { WIDTH - 16.0 };
    let x = |share: f64| left + share * (right - left);
    let y = |share: f64| bottom - share * (bottom - TOP);

    let mut svg = Svg::default();
    svg.text((0.0, 11.0), Anchor::Start, "axis", &axes.y_title);
    for (share, label) in &axes.y_ticks {
        let class = if *share == 0.0 { "base" } else { "grid" };
        svg.line((left, y(*share)), (right, y(*share)), class);
        svg.text((left - 7.0, y(*share) + 4.0), Anchor::End, "tick", label);
    }
    // The last label tells most (the maximum, the end), so labels get room from the right.
    let mut free_until = f64::INFINITY;
    for (share, label) in axes.x_ticks.iter().rev() {
        svg.line((x(*share), bottom), (x(*share), bottom + 4.0), "base");
        let half = svg::width_of(label) / 2.0;
        if x(*share) + half + 8.0 <= free_until {
            svg.text((x(*share), bottom + 17.0), Anchor::Middle, "tick", label);
            free_until = x(*share) - half;
        }
    }
    svg.text(((left + right) / 2.0, bottom + 35.0), Anchor::Middle, "axis", &axes.x_title);

    for line in &lines {
        let points: Vec<(f64, f64)> = line.points.iter().map(|(along, up)| (x(*along), y(*up))).collect();
        svg.curve(&points, line.series, if is_ours(line.side) { "ours" } else { "" });
    }
    for line in &lines {
        let end = line.points.last().map_or((0.0, 0.0), |(along, up)| (x(*along), y(*up)));
        svg.mark(end, line.series);
    }
    let wanted: Vec<f64> = lines.iter().map(|line| y(line.height)).collect();
    let labels = if has_labels { spread_out(&wanted, TOP, bottom) } else { Vec::new() };
    for ((line, name), height) in lines.iter().zip(&names).zip(labels) {
        svg.mark((right + 16.0, height), line.series);
        let class = if is_ours(line.side) { "label strong" } else { "label" };
        svg.text((right + 25.0, height + 4.5), Anchor::Start, class, name);
    }
    svg.finish(id, HEIGHT, title, description)
}

/// Heights of labels between `top` and `bottom`, with `LABEL_HEIGHT` between neighbours and otherwise as near to `wanted` as possible.
fn spread_out(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|left, right| wanted[*left].total_cmp(&wanted[*right]).then(left.cmp(right)));
    let mut heights = wanted.to_vec();
    // Labels that would overlap form a block around the mean of their wanted heights. A block that meets the next one absorbs it.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    let span = |count: usize| (count as f64 - 1.0) * LABEL_HEIGHT;
    for &label in &order {
        let mut block = (wanted[label], 1);
        while let Some(&(mean, count)) = blocks.last() {
            if mean + span(count) / 2.0 + LABEL_HEIGHT <= block.0 - span(block.1) / 2.0 {
                break;
            }
            let members = count + block.1;
            let joined = (mean * count as f64 + block.0 * block.1 as f64) / members as f64;
            let low = (bottom - span(members) / 2.0).max(top + span(members) / 2.0);
            block = (joined.clamp(top + span(members) / 2.0, low), members);
            blocks.pop();
        }
        blocks.push(block);
    }
    let places = blocks.iter().flat_map(|(mean, count)| {
        (0..*count).map(move |member| mean - span(*count) / 2.0 + member as f64 * LABEL_HEIGHT)
    });
    for (label, height) in order.iter().zip(places) {
        heights[*label] = height;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_stay_inside() {
        for wanted in [
            vec![100.0, 101.0, 102.0],
            vec![28.0; 10],
            vec![228.0; 12],
            vec![50.0, 228.0, 227.0, 49.0, 120.0],
            vec![150.0],
        ] {
            let mut heights = spread_out(&wanted, 28.0, 228.0);
            assert_eq!(heights.len(), wanted.len());
            heights.sort_by(f64::total_cmp);
            let apart = heights.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_HEIGHT - 1e-9);
            let inside = heights.iter().all(|height| (27.9..=228.1).contains(height));
            assert!(apart && inside, "{wanted:?}: {heights:?}");
        }
        assert_eq!(spread_out(&[50.0, 100.0], 28.0, 228.0), [50.0, 100.0]);
    }

    #[test]
    fn long_runs_are_drawn_by_means() {
        assert_eq!([1, 120, 121, 1800].map(bucket_seconds), [1, 1, 2, 15]);
        assert_eq!(bucket_seconds(1_000_000), 8334);
        assert_eq!(means(&[1, 3, 5, 7, 9], 2), [2.0, 6.0, 9.0]);
    }

    #[test]
    fn lines_far_apart_have_a_logarithmic_axis() {
        let heights =
            |slow: &[f64]| Heights::of(&[("fast", vec![20_000.0, 20_000.0, 9.0]), ("slow", slow.to_vec())]);
        assert!(matches!(heights(&[1_900.0]), Heights::Linear(_)));
        let far = heights(&[90.0, 0.0, 110.0, 1.0]);
        assert_eq!(
            far.ticks().iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>(),
            ["10", "100", "1k", "10k", "100k"]
        );
        assert_eq!([10.0, 1_000.0, 1e5, 0.0].map(|rate| far.of_rate(rate)), [0.0, 0.5, 1.0, 0.0]);
    }

    #[test]
    fn nines_and_their_ticks() {
        assert!((nines(99.9) - 3.0).abs() < 1e-9 && nines(0.0) == 0.0);
        assert_eq!([-1, 0, 2, 3, 7].map(tick_time), ["100 ns", "1 µs", "100 µs", "1 ms", "10 s"]);
    }
}
