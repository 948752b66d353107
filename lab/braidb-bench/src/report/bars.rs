//! Bytes by cause: a stacked bar for each side.

use super::chart::{ABSENT, Chart, Table};
use super::numbers::{self, Unit};
use super::summary::{Cell, is_ours};
use super::svg::{self, Anchor, Svg, WIDTH};
use crate::results::Run;
use std::collections::BTreeSet;

/// The distance between the names of two neighbouring sides.
const ROW_HEIGHT: f64 = 46.0;
const BAR_HEIGHT: f64 = 18.0;
/// Room at both ends of the axis for half of a tick's label.
const MARGIN: f64 = 24.0;

/// The causes of all runs: the log and flushes first, then the others by name. The place of a cause in this list gives its colour.
pub fn causes(runs: &[Run]) -> Vec<&str> {
    let names: BTreeSet<&str> =
        runs.iter().flat_map(|run| run.bytes_by_cause.keys()).map(String::as_str).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    let first = ["log", "flush"];
    names.sort_by_key(|name| first.iter().position(|known| known == name).unwrap_or(first.len()));
    names
}

/// The name of a cause in the chart.
pub fn cause_text(name: &str) -> String {
    name.replace('_', " ")
}

/// Bytes that each side wrote in its middle run. `causes` gives each cause its colour.
pub fn bytes_by_cause(id: &str, workload: &str, cells: &[Cell<'_>], causes: &[&str]) -> Option<Chart> {
    let runs: Vec<(&str, &Run)> = cells
        .iter()
        .map(|cell| (cell.side, cell.middle()))
        .filter(|(_, run)| !run.bytes_by_cause.is_empty())
        .collect();
    let total = |run: &Run| run.bytes_by_cause.values().map(|bytes| *bytes as f64).sum::<f64>();
    let most = runs.iter().map(|(_, run)| total(run)).max_by(f64::total_cmp)?;
    let unit = unit_of(most);
    let ticks = svg::ticks(most / unit.0, 4);
    let end = ticks.last().copied().unwrap_or(1.0) * unit.0;
    let x = |bytes: f64| MARGIN / 2.0 + bytes / end * (WIDTH - 1.5 * MARGIN);
    let bottom = runs.len() as f64 * ROW_HEIGHT;

    let mut svg = Svg::default();
    for tick in &ticks {
        let class = if *tick == 0.0 { "base" } else { "grid" };
        svg.line((x(tick * unit.0), 4.0), (x(tick * unit.0), bottom), class);
        let label = numbers::fewest(*tick);
        svg.text((x(tick * unit.0), bottom + 17.0), Anchor::Middle, "tick", &label);
    }
    svg.text((WIDTH / 2.0, bottom + 35.0), Anchor::Middle, "axis", &format!("{} written", unit.1));
    for (number, (side, run)) in runs.iter().enumerate() {
        let top = number as f64 * ROW_HEIGHT;
        let class = if is_ours(side) { "label halo strong" } else { "label halo" };
        svg.text((x(0.0) + 4.0, top + 15.0), Anchor::Start, class, &svg::shortened(side, 40));
        let text = Unit::Bytes.text(total(run));
        svg.text((x(end), top + 15.0), Anchor::End, "label halo", &text);
        let mut from = 0.0;
        for (series, cause) in causes.iter().enumerate() {
            let Some(&bytes) = run.bytes_by_cause.get(*cause).filter(|bytes| **bytes > 0) else { continue };
            let bytes = bytes as f64;
            let (left, width) = (x(from), x(from + bytes) - x(from));
            // A gap of one unit separates neighbours of one colour. A bar of at most 3 units keeps its whole width.
            let shown = if width > 3.0 { width - 1.0 } else { width };
            let name = cause_text(cause);
            let title = format!("{side}, {name}: {}", Unit::Bytes.text(bytes));
            svg.rect((left, top + 21.0), (shown, BAR_HEIGHT), &svg::fill(series), &title);
            if svg::width_of(&name) + 8.0 <= width {
                let class = format!("inside on{}", series % svg::COLOURS);
                svg.text((left + shown / 2.0, top + 34.5), Anchor::Middle, &class, &name);
            }
            from += bytes;
        }
    }
    let description = format!("Bytes written, a bar for each of {}, parted by cause.", counted_sides(&runs));
    let svg = svg.finish(id, bottom + 42.0, &format!("Bytes written by {workload}, by cause"), &description);
    let named = causes.iter().map(|cause| cause_text(cause));
    let head = std::iter::once("side".to_owned()).chain(named).chain(std::iter::once("together".to_owned()));
    let row = |(side, run): &(&str, &Run)| {
        let cell = |cause: &&str| run.bytes_by_cause.get(*cause).map(|bytes| Unit::Bytes.text(*bytes as f64));
        let cells = causes.iter().map(|cause| cell(cause).unwrap_or_else(|| ABSENT.to_owned()));
        let cells = cells.chain(std::iter::once(Unit::Bytes.text(total(run))));
        std::iter::once((*side).to_owned()).chain(cells).collect()
    };
    let table = Table { head: head.collect(), rows: runs.iter().map(row).collect() };
    Some(Chart { title: workload.to_owned(), note: String::new(), svg, table })
}

fn counted_sides(runs: &[(&str, &Run)]) -> String {
    numbers::counted(runs.len(), "side", "sides")
}

/// The largest binary unit for `bytes`, and its name.
fn unit_of(bytes: f64) -> (f64, &'static str) {
    let units =
        [(1024.0_f64.powi(4), "TiB"), (1024.0_f64.powi(3), "GiB"), (1024.0 * 1024.0, "MiB"), (1024.0, "KiB")];
    units.into_iter().find(|(size, _)| bytes >= *size).unwrap_or((1.0, "bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::summary::by_workload;

    fn run(side: &str, bytes: &[(&str, u64)]) -> Run {
        let bytes_by_cause = bytes.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        Run { workload: "w".to_owned(), side: side.to_owned(), bytes_by_cause, ..Run::default() }
    }

    #[test]
    fn bars_of_a_side_end_at_its_total() {
        let runs = [run("a", &[("merge_l1", 300), ("log", 100)]), run("b", &[("log", 0)]), run("c", &[])];
        assert_eq!(causes(&runs), ["log", "merge_l1"]);
        let workloads = by_workload(&runs);
        let chart = bytes_by_cause("c0", "w", &workloads[0].1, &causes(&runs)).unwrap();
        assert_eq!(chart.table.rows, [["a", "100 B", "300 B", "400 B"], ["b", "0 B", "—", "0 B"]]);
        // The axis ends at 400 bytes. It starts at 12 and is 404 units long.
        assert!(chart.svg.contains("<rect x=\"12\" y=\"21\" width=\"100\""), "{}", chart.svg);
        assert!(chart.svg.contains("<rect x=\"113\" y=\"21\" width=\"302\""), "{}", chart.svg);
    }

    #[test]
    fn nothing_written_is_no_chart_and_zeros_are_one() {
        assert!(bytes_by_cause("c", "w", &by_workload(&[run("a", &[])])[0].1, &[]).is_none());
        let runs = [run("a", &[("log", 0)])];
        let chart = bytes_by_cause("c", "w", &by_workload(&runs)[0].1, &causes(&runs)).unwrap();
        assert!(!chart.svg.contains("<rect") && !chart.svg.contains("NaN"), "{}", chart.svg);
    }
}
