//! The tables of a report as Markdown, for a document that is read in a terminal too: prose ends at 140 columns.

use super::Report;
use super::chart::{ABSENT, Table};
use super::figure;
use super::page::{behind_text, circumstances, others_table};
use super::ratios;
use super::summary::{self, Standing};
use std::fmt::Write;

const COLUMNS: usize = 140;

/// The whole document.
pub fn document(report: &Report) -> String {
    let title = if report.title.is_empty() { "Report" } else { &report.title };
    let mut text = format!("## {}\n\n", escaped(title));
    let told: Vec<String> = circumstances(report)
        .into_iter()
        .map(|(name, value)| match name {
            "Commit" | "Command" => format!("{name}: {}.", code(&value)),
            _ => format!("{name}: {}.", escaped(&value)),
        })
        .collect();
    match told.is_empty() {
        true => text.push_str("Nothing is recorded about this measurement.\n"),
        false => text.push_str(&wrapped(&told.join(" "), "")),
    }
    text.push_str(&summary_text(report));
    if !report.pairs.is_empty() {
        text.push_str("\n### Ratios\n");
    }
    for pair in &report.pairs {
        let sides =
            format!("{}: A is {}, B is {}.", escaped(&pair.workload), escaped(&pair.a), escaped(&pair.b));
        let _ = write!(text, "\n{}\n", wrapped(&sides, ""));
        match pair.figures.is_empty() {
            true => text.push_str("No figure was compared.\n"),
            false => text.push_str(&table(&ratios::table(pair, false), 1)),
        }
    }
    let others = others_table(&report.runs);
    if !others.rows.is_empty() {
        let _ = write!(text, "\n### All other figures\n\n{}", table(&others, 3));
    }
    text
}

fn summary_text(report: &Report) -> String {
    let groups = [
        ("Operations a second", figure::RATES.as_slice(), true),
        ("Processor, bytes and memory", figure::COSTS.as_slice(), false),
        ("Latency", figure::LATENCIES.as_slice(), false),
    ];
    let workloads = summary::by_workload(&report.runs);
    let mut text = String::new();
    let mut all = Vec::new();
    for (title, names, has_standing) in groups {
        let columns = summary::present(&report.runs, names);
        let Some(main) = columns.first() else { continue };
        let compared = |cells: &[summary::Cell<'_>]| {
            cells.iter().any(|cell| summary::standing(cell, cells, main).is_some())
        };
        let has_standing = has_standing && workloads.iter().any(|(_, cells)| compared(cells));
        let mut head = vec!["workload".to_owned(), "store".to_owned()];
        head.extend(columns.iter().map(|shown| shown.label.clone()));
        head.extend(has_standing.then(|| "beside the best other store".to_owned()));
        let mut rows = Vec::new();
        for (workload, cells) in &workloads {
            for cell in cells {
                let mut row = vec![(*workload).to_owned(), cell.side.to_owned()];
                row.extend(columns.iter().map(|shown| match cell.figure(&shown.name) {
                    None => ABSENT.to_owned(),
                    Some(rounds) => {
                        let range =
                            rounds.range(shown.unit).map_or(String::new(), |range| format!(" ({range})"));
                        format!("{}{range}", shown.unit.text(rounds.median))
                    }
                }));
                let standing = summary::standing(cell, cells, main);
                row.extend(has_standing.then(|| standing.as_ref().map_or(ABSENT.to_owned(), Standing::text)));
                rows.push(row);
            }
        }
        let _ = write!(text, "\n### {title}\n\n{}", table(&Table { head, rows }, 2));
        all.extend(columns);
    }
    if text.is_empty() {
        return "\nNo run has a figure to summarize.\n".to_owned();
    }
    let mut behind = String::new();
    for (workload, cells) in &workloads {
        for (side, told) in summary::behind(cells, &all) {
            let line = format!("{}, {}", escaped(workload), escaped(&behind_text(&side, &told)));
            behind.push_str(&wrapped(&line, "- "));
        }
    }
    if !behind.is_empty() {
        let _ = write!(text, "\n### Where BraidDB is behind the best other store\n\n{behind}");
    }
    text
}

/// A table whose first `names` columns are names; the others are figures, at the right.
fn table(table: &Table, names: usize) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule: Vec<String> =
        (0..table.head.len()).map(|column| if column < names { "---" } else { "---:" }.to_owned()).collect();
    let escape = |cells: &Vec<String>| cells.iter().map(|cell| escaped(cell)).collect::<Vec<String>>();
    let rows: String = table.rows.iter().map(|row| line(&escape(row))).collect();
    format!("{}{}{rows}", line(&escape(&table.head)), line(&rule))
}

/// Text in which no letter is markup; a line break is a space.
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
            // Within a word, an underscore is a letter.
            '_' if is_word(at.checked_sub(1)) && is_word(Some(at + 1)) => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => escaped.extend(['\\', letter]),
            '#' if at == 0 => escaped.push_str("\\#"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A code span around `text`, whatever backticks it holds.
fn code(text: &str) -> String {
    let text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// A paragraph in lines of at most `COLUMNS`, as far as words allow. The first line begins with `mark`, the others are
/// indented as far.
fn wrapped(text: &str, mark: &str) -> String {
    let indent = " ".repeat(mark.len());
    let mut lines = vec![mark.to_owned()];
    let mut is_new = true;
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line from the start on");
        if !is_new && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{indent}{word}"));
            continue;
        }
        if !is_new {
            line.push(' ');
        }
        line.push_str(word);
        is_new = false;
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(escaped("a|b<c>&_d_ e_f `x` *y*"), "a\\|b&lt;c>&amp;\\_d\\_ e_f \\`x\\` \\*y\\*");
        assert_eq!(escaped("two\nlines"), "two lines");
        assert_eq!(code("a `b` c"), "``a `b` c``");
        assert_eq!(code("`b`"), "`` `b` ``");
    }

    #[test]
    fn paragraphs_end_at_the_last_column() {
        let text = wrapped(&"word ".repeat(100), "- ");
        assert!(text.starts_with("- word word") && text.ends_with("word\n"));
        assert!(
            text.lines().all(|line| line.len() <= COLUMNS)
                && text.lines().nth(1).unwrap().starts_with("  word")
        );
        let long = "x".repeat(200);
        assert_eq!(wrapped(&long, ""), long + "\n");
    }
}
