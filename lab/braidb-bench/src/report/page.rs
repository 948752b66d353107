//! The page: its sections in their order.

use super::Report;
use super::chart::{ABSENT, Chart, Table};
use super::figure::{self, Shown};
use super::html::{self, escaped};
use super::numbers;
use super::summary::{self, Cell, Standing};
use super::{bars, curves, ratios};
use crate::results::Run;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(report: &Report) -> String {
    let title = if report.title.is_empty() { "Report" } else { &report.title };
    let mut sections = vec![("measured", "What was measured", measured(report))];
    if !report.tables.is_empty() {
        let tables = format!("<pre tabindex=\"0\">{}</pre>\n", escaped(&report.tables));
        sections.push(("tables", "Tables", tables));
    }
    sections.extend([
        ("summary", "Summary", tables(report)),
        ("throughput", "Throughput over time", throughput(report)),
        ("latency", "Latency by percentile", percentiles(report)),
        ("bytes", "Bytes written, by cause", bytes(report)),
        ("ratios", "Ratios with their spread", pairs(report)),
        ("details", "All other figures", others(report)),
    ]);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header>\n<h1>{0}</h1>\n<nav aria-label=\"Sections\"><ul>\n",
        escaped(title)
    );
    for (id, name, _) in &sections {
        let _ = writeln!(html, "<li><a href=\"#{id}\">{name}</a></li>");
    }
    html.push_str("</ul></nav>\n</header>\n<main>\n");
    for (id, name, body) in &sections {
        let _ = write!(html, "<section id=\"{id}\">\n<h2>{name}</h2>\n{body}</section>\n");
    }
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

/// The circumstances of the measurement: names with their texts. HTML and Markdown both show them.
pub fn circumstances(report: &Report) -> Vec<(&'static str, String)> {
    let runs = &report.runs;
    let distinct = |of: fn(&Run) -> &str| {
        summary::in_order(runs.iter().map(of).filter(|text| !text.is_empty())).join("; ")
    };
    let range = |of: fn(&Run) -> f64| {
        let least = runs.iter().map(of).min_by(f64::total_cmp)?;
        let most = runs.iter().map(of).max_by(f64::total_cmp)?;
        Some((least, most))
    };
    let seeds = summary::in_order(
        runs.iter().map(|run| run.seed.to_string()).collect::<Vec<_>>().iter().map(String::as_str),
    )
    .join(", ");
    let load = range(|run| run.machine.load).map_or(String::new(), |(least, most)| match least == most {
        true => format!("{least:.2} at the beginning of each run"),
        false => format!("{least:.2} to {most:.2} at the beginning of a run"),
    });
    let steal = range(|run| run.machine.steal_seconds).map_or(String::new(), |(_, most)| {
        let all: f64 = runs.iter().map(|run| run.machine.steal_seconds).sum();
        format!("{most:.1} s at most in a run, {all:.1} s in all of them")
    });
    let counted = match runs.len() {
        0 => String::new(),
        count => format!(
            "{} of {} on {}",
            numbers::counted(count, "run", "runs"),
            numbers::counted(summary::by_workload(runs).len(), "workload", "workloads"),
            numbers::counted(summary::sides(runs).len(), "side", "sides")
        ),
    };
    let all = [
        ("Date", report.date.clone()),
        ("Commit", report.commit.clone()),
        ("Command", report.command.clone()),
        ("Processor", distinct(|run| &run.machine.processor)),
        ("Device", distinct(|run| &run.machine.device)),
        ("Load", load),
        ("Time stolen by the hypervisor", steal),
        ("Runs", counted),
        ("Seeds", seeds),
    ];
    all.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

fn measured(report: &Report) -> String {
    let told = circumstances(report);
    if told.is_empty() {
        return sentence("Nothing is recorded about this measurement.");
    }
    let mut html = "<dl>\n".to_owned();
    for (name, text) in told {
        let text = match name {
            "Command" | "Commit" => format!("<code>{}</code>", escaped(&text)),
            _ => escaped(&text),
        };
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{text}</dd></div>");
    }
    html.push_str("</dl>\n");
    html
}

fn sentence(text: &str) -> String {
    format!("<p class=\"none\">{text}</p>\n")
}

/// Rates, costs and latencies, with a table for each workload.
fn tables(report: &Report) -> String {
    let runs = &report.runs;
    let groups = [figure::RATES.as_slice(), &figure::COSTS, &figure::LATENCIES].concat();
    let columns = summary::present(runs, &groups);
    if columns.is_empty() {
        return sentence("No run has a figure to summarize.");
    }
    let mut html = String::new();
    if summary::by_workload(runs).iter().any(|(_, cells)| cells.iter().any(|cell| cell.runs.len() > 1)) {
        html.push_str(
            "<p>Medians of the rounds; below each, the lowest and the highest where they differ.</p>\n",
        );
    }
    for (workload, cells) in summary::by_workload(runs) {
        html.push_str(&html::table(workload, &summary_table(&cells, &columns)));
        let behind = summary::behind(&cells, &columns);
        if !behind.is_empty() {
            html.push_str("<ul class=\"standing\">\n");
            for (side, told) in behind {
                let _ = writeln!(html, "<li>{}</li>", escaped(&behind_text(&side, &told)));
            }
            html.push_str("</ul>\n");
        }
    }
    html
}

/// A sentence with the figures in which a side of this engine is behind.
fn behind_text(side: &str, told: &[String]) -> String {
    match told {
        [] => format!("{side} is behind no other store here."),
        told => format!("{side}: {}.", told.join("; ")),
    }
}

fn summary_table(cells: &[Cell<'_>], columns: &[Shown]) -> Table {
    let head = std::iter::once("store".to_owned()).chain(columns.iter().map(|shown| shown.label.clone()));
    let row = |cell: &Cell<'_>| {
        let figure = |shown: &Shown| {
            let Some(rounds) = cell.figure(&shown.name) else { return ABSENT.to_owned() };
            let text = shown.unit.text(rounds.median);
            // Below the median stands the range. The main figure of this engine also tells its standing.
            let standing = match shown.name.as_str() {
                "operations_per_second" => summary::standing(cell, cells, shown),
                _ => None,
            };
            let below: Vec<String> =
                rounds.range(shown.unit).into_iter().chain(standing.as_ref().map(Standing::text)).collect();
            if below.is_empty() { text } else { format!("{text}\n{}", below.join("\n")) }
        };
        std::iter::once(cell.side.to_owned()).chain(columns.iter().map(figure)).collect()
    };
    Table { head: head.collect(), rows: cells.iter().map(row).collect() }
}

/// Charts below their legend, or the sentence `none` if there are no charts.
fn grid(legend: &str, charts: &[Chart], none: &str) -> String {
    if charts.is_empty() {
        return sentence(none);
    }
    let figures: String = charts.iter().map(html::figure).collect();
    format!("{legend}<div class=\"charts\">\n{figures}</div>\n")
}

fn throughput(report: &Report) -> String {
    let sides = summary::sides(&report.runs);
    let charts: Vec<Chart> = summary::by_workload(&report.runs)
        .iter()
        .enumerate()
        .filter_map(|(at, (workload, cells))| curves::throughput(&format!("t{at}"), workload, cells, &sides))
        .collect();
    grid(&html::legend(sides.iter().copied(), true), &charts, "No run recorded operations by second.")
}

fn percentiles(report: &Report) -> String {
    let sides = summary::sides(&report.runs);
    let charts: Vec<Chart> = summary::by_workload(&report.runs)
        .iter()
        .enumerate()
        .filter_map(|(at, (workload, cells))| curves::percentiles(&format!("p{at}"), workload, cells, &sides))
        .collect();
    grid(&html::legend(sides.iter().copied(), true), &charts, "No run recorded latencies by percentile.")
}

fn bytes(report: &Report) -> String {
    let causes = bars::causes(&report.runs);
    let charts: Vec<Chart> = summary::by_workload(&report.runs)
        .iter()
        .enumerate()
        .filter_map(|(at, (workload, cells))| {
            bars::bytes_by_cause(&format!("b{at}"), workload, cells, &causes)
        })
        .collect();
    let names: Vec<String> = causes.iter().map(|cause| bars::cause_text(cause)).collect();
    let legend = html::legend(names.iter().map(String::as_str), false);
    grid(&legend, &charts, "No run tells what its bytes were written for.")
}

fn pairs(report: &Report) -> String {
    let charts: Vec<Chart> = report
        .pairs
        .iter()
        .enumerate()
        .filter_map(|(at, pair)| ratios::chart(&format!("r{at}"), pair))
        .collect();
    let read = "<p>A dot is the median of the ratios A over B, the bar through it their spread. The grey band is the spread of A \
                beside A around 1. The upright tick is the limit, its arrow points to what passes. A line passes if its median \
                keeps the limit, or misses it by no more than the spread of A beside A. ↑: higher is better, ↓: lower is better. \
                A triangle at an edge is a ratio beyond the axis.</p>\n";
    grid(read, &charts, "No sides were compared in turns.")
}

/// The table of the figures without a column in the summary, over the rounds.
fn others_table(runs: &[Run]) -> Table {
    let columns = summary::others(runs);
    let mut rows = Vec::new();
    for (workload, cells) in summary::by_workload(runs) {
        for cell in &cells {
            for shown in &columns {
                let Some(rounds) = cell.figure(&shown.name) else { continue };
                let range = rounds.range(shown.unit).unwrap_or_else(|| ABSENT.to_owned());
                let texts = [workload, cell.side, &shown.label, &shown.unit.text(rounds.median), &range];
                rows.push(texts.map(str::to_owned).to_vec());
            }
        }
    }
    let head = ["workload", "store", "figure", "median", "lowest to highest"];
    Table { head: head.map(str::to_owned).to_vec(), rows }
}

fn others(report: &Report) -> String {
    let table = others_table(&report.runs);
    if table.rows.is_empty() {
        return sentence("No run has a figure beside those above.");
    }
    let count = numbers::counted(table.rows.len(), "figure", "figures");
    format!(
        "<details open=\"\"><summary>{count}</summary>\n{}</details>\n",
        html::table("All other figures", &table)
    )
}
