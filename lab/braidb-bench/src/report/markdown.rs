//! The tables of a report as Markdown. Figures without a column are in the rows of JSON alone.

use super::Report;
use super::figure::Shown;
use super::numbers;
use super::summary::{self, Cell};
use crate::results::Run;
use std::fmt::Write;

/// The text of a cell whose run lacks the figure.
const ABSENT: &str = "—";

/// Rows of cells below a head. The first column names the row.
struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// The whole document.
pub fn document(report: &Report) -> String {
    let title = if report.title.is_empty() { "Report" } else { &report.title };
    let mut text = format!("## {}\n\n", escaped(title));
    let told = circumstances(report);
    if told.is_empty() {
        text.push_str("Nothing is recorded about this measurement.\n");
    }
    for (name, value) in told {
        let _ = writeln!(text, "- {name}: {}", escaped(&value));
    }
    if !report.tables.is_empty() {
        let _ = write!(text, "\n### Tables\n\n{}", indented(&report.tables));
    }
    text.push_str(&summary_text(report));
    text
}

/// The circumstances of the measurement: names with their texts.
fn circumstances(report: &Report) -> Vec<(&'static str, String)> {
    let runs = &report.runs;
    let distinct = |of: fn(&Run) -> &str| {
        summary::in_order(runs.iter().map(of).filter(|text| !text.is_empty())).join("; ")
    };
    let seeds: Vec<String> = runs.iter().map(|run| run.seed.to_string()).collect();
    let most = |of: fn(&Run) -> f64| runs.iter().map(of).max_by(f64::total_cmp);
    let load =
        most(|run| run.machine.load).map(|load| format!("{load:.2} at most, at the beginning of a run"));
    let steal = most(|run| run.machine.steal_seconds).map(|steal| format!("{steal:.1} s at most in a run"));
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
        ("Loaded stores", distinct(|run| &run.origin)),
        ("Processor", distinct(|run| &run.machine.processor)),
        ("Device", distinct(|run| &run.machine.device)),
        ("Load", load.unwrap_or_default()),
        ("Time stolen by the hypervisor", steal.unwrap_or_default()),
        ("Runs", counted),
        ("Seeds", summary::in_order(seeds.iter().map(String::as_str)).join(", ")),
    ];
    all.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}

/// Plain text as a block of code. Indents keep any text in the block.
fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }).collect()
}

/// The figures of the summary. A *side* is a store with its options, or a commit. A report of one side has one table, with a column for
/// each figure. A report of several sides has a table for each figure, with a column for each side.
fn summary_text(report: &Report) -> String {
    let columns = summary::present(&report.runs);
    if columns.is_empty() {
        return "\nNo run has a figure to summarize.\n".to_owned();
    }
    let workloads = summary::by_workload(&report.runs);
    let sides = summary::sides(&report.runs);
    let mut text = String::new();
    if report.runs.len() > workloads.iter().map(|(_, cells)| cells.len()).sum() {
        text.push_str(
            "\nMedians of the rounds; ± is half of what lies between the lowest and the highest round.\n",
        );
    }
    if let [side] = sides.as_slice() {
        let _ = write!(text, "\n### {}\n\n{}", escaped(side), table(&side_table(&workloads, &columns)));
        return text;
    }
    for shown in &columns {
        let title = heading(shown);
        let _ = write!(text, "\n### {title}\n\n{}", table(&figure_table(&workloads, &sides, shown)));
    }
    text
}

/// The label of a figure, with a capital letter unless it is the name of a percentile.
fn heading(shown: &Shown) -> String {
    match shown.label.split_at(1) {
        (first, rest) if !rest.starts_with(|letter: char| letter.is_ascii_digit()) => {
            first.to_uppercase() + rest
        }
        _ => shown.label.to_owned(),
    }
}

/// All figures of one side, with a row for each workload.
fn side_table(workloads: &[(&str, Vec<Cell<'_>>)], columns: &[Shown]) -> Table {
    let head =
        std::iter::once("workload".to_owned()).chain(columns.iter().map(|shown| shown.label.to_owned()));
    let row = |(workload, cells): &(&str, Vec<Cell<'_>>)| {
        let figures = columns.iter().map(|shown| figure_text(cells.first(), shown));
        std::iter::once((*workload).to_owned()).chain(figures).collect()
    };
    Table { head: head.collect(), rows: workloads.iter().map(row).collect() }
}

/// One figure of all sides, with a row for each workload. It compares each side of this engine with the best other store.
fn figure_table(workloads: &[(&str, Vec<Cell<'_>>)], sides: &[&str], shown: &Shown) -> Table {
    let cell_of = |cells: &'_ [Cell<'_>], side: &str| cells.iter().position(|cell| cell.side == side);
    let stands = |cells: &[Cell<'_>], side: &str| {
        let at = cell_of(cells, side)?;
        summary::standing(&cells[at], cells, shown).map(|standing| standing.text())
    };
    let is_compared = |side: &&&str| workloads.iter().any(|(_, cells)| stands(cells, side).is_some());
    let compared: Vec<&str> = sides.iter().filter(is_compared).copied().collect();
    let mut head = vec!["workload".to_owned()];
    head.extend(sides.iter().map(|side| (*side).to_owned()));
    head.extend(compared.iter().map(|side| format!("{side} is")));
    let row = |(workload, cells): &(&str, Vec<Cell<'_>>)| {
        let figures = sides.iter().map(|side| figure_text(cell_of(cells, side).map(|at| &cells[at]), shown));
        let standings = compared.iter().map(|side| stands(cells, side).unwrap_or_else(|| ABSENT.to_owned()));
        std::iter::once((*workload).to_owned()).chain(figures).chain(standings).collect()
    };
    Table { head, rows: workloads.iter().map(row).collect() }
}

/// The median. Where the rounds differ by a percent or more, also half of the range in percent of the median.
fn figure_text(cell: Option<&Cell<'_>>, shown: &Shown) -> String {
    let Some(rounds) = cell.and_then(|cell| cell.figure(shown.name)) else { return ABSENT.to_owned() };
    let text = shown.unit.text(rounds.median);
    let percent = 50.0 * (rounds.highest - rounds.lowest) / rounds.median;
    match percent.is_finite() && percent >= 0.5 {
        true => format!("{text} ±{percent:.0}%"),
        false => text,
    }
}

/// A table whose first column holds names. The other columns hold figures and are aligned right.
fn table(table: &Table) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> =
        (0..table.head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned()).collect();
    let escape = |cells: &Vec<String>| cells.iter().map(|cell| escaped(cell)).collect::<Vec<String>>();
    let rows: String = table.rows.iter().map(|row| line(&escape(row))).collect();
    format!("{}{}{rows}", line(&escape(&table.head)), line(&rule))
}

/// Text whose letters Markdown does not take for markup. A line break becomes a space.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let letters: Vec<char> = text.chars().collect();
    for (at, &letter) in letters.iter().enumerate() {
        let is_word = |at: Option<usize>| {
            at.and_then(|at| letters.get(at)).is_some_and(|letter| letter.is_alphanumeric())
        };
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // An underscore within a word is no markup.
            '_' if is_word(at.checked_sub(1)) && is_word(Some(at + 1)) => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => escaped.extend(['\\', letter]),
            '#' if at == 0 => escaped.push_str("\\#"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("a|b<c>&_d_ e_f `x` *y*"), "a\\|b&lt;c>&amp;\\_d\\_ e_f \\`x\\` \\*y\\*");
        assert_eq!(escaped("two\nlines"), "two lines");
    }
}
