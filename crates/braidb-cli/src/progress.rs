//! Shows how far a verb is: one line on standard error, if it is a terminal. It has whole numbers and fits in 80 columns.

use crate::figures::{grouped, whole_bytes_text};
use crate::host::clock::Stopwatch;
use indicatif::{ProgressBar, ProgressStyle};

/// Columns of the line: one less than the narrowest usual terminal has, because some terminals wrap a full line.
const COLUMNS: usize = 79;
/// The most columns of the bar. A longer bar would show nothing more.
const BAR_COLUMNS: usize = 30;

/// What a verb counts.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Bytes,
    /// Things with this name.
    Number(&'static str),
}

impl Unit {
    /// `2 of 3`, with the unit. Without a known whole, `all` is 0.
    fn part(self, done: u64, all: u64) -> String {
        match (self, all) {
            (Unit::Bytes, 0) => whole_bytes_text(done),
            (Unit::Bytes, all) => format!("{} of {}", whole_bytes_text(done), whole_bytes_text(all)),
            (Unit::Number(name), 0) => format!("{} {name}", grouped(done)),
            (Unit::Number(name), all) => format!("{} of {} {name}", grouped(done), grouped(all)),
        }
    }
}

/// The line that tells how far a verb is. The drop of the value removes the line.
pub struct Progress {
    bar: ProgressBar,
    unit: Unit,
    watch: Stopwatch,
}

impl Progress {
    /// Shows the first line at once.
    pub fn new(unit: Unit, all: u64) -> Progress {
        // On a terminal that is narrower, the end of the line is cut off.
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is right");
        let progress =
            Progress { bar: ProgressBar::new_spinner().with_style(style), unit, watch: Stopwatch::start() };
        progress.show(0, all, "");
        progress
    }

    /// A line that is never shown.
    pub fn hidden(unit: Unit) -> Progress {
        Progress { bar: ProgressBar::hidden(), unit, watch: Stopwatch::start() }
    }

    /// Whether the line is not shown: standard error is no terminal, or the rows go there.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Shows that `done` of `all` is done, and then the text `more`; `all` is 0 if it is unknown.
    pub fn show(&self, done: u64, all: u64, more: &str) {
        if !self.is_hidden() {
            self.bar.set_message(line(self.unit, done, all, more, self.watch.seconds()));
        }
    }

    /// Prints something else on standard error.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The text of the line after `seconds`.
fn line(unit: Unit, done: u64, all: u64, more: &str, seconds: f64) -> String {
    // An estimated whole may be too small.
    let all = if all == 0 { 0 } else { all.max(done) };
    let mut text = unit.part(done, all);
    for more in [more, &left_text(done, all, seconds)].into_iter().filter(|more| !more.is_empty()) {
        if text.len() + 2 + more.len() <= COLUMNS {
            text += &format!(", {more}");
        }
    }
    if all == 0 {
        return text;
    }
    let columns = COLUMNS.saturating_sub(text.len() + 1).min(BAR_COLUMNS);
    let filled = (u128::from(done) * columns as u128 / u128::from(all)) as usize;
    format!("{}{} {text}", "█".repeat(filled), "░".repeat(columns - filled)).trim_start().to_owned()
}

/// The time that the rest takes at the rate until now; empty as long as it is not known.
fn left_text(done: u64, all: u64, seconds: f64) -> String {
    if done == 0 || all == 0 || seconds < 1.0 {
        return String::new();
    }
    match (seconds * (all - done) as f64 / done as f64) as u64 {
        left @ 0..120 => format!("{left} s left"),
        left @ 120..7200 => format!("{} min left", left / 60),
        left => format!("{} h left", grouped(left / 3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_line_has_a_bar_and_what_is_done_and_left() {
        let shown = line(Unit::Bytes, GIB / 2, 2 * GIB, "1,234 rows", 10.0);
        let bar = format!("{}{}", "█".repeat(7), "░".repeat(23));
        assert_eq!(shown, format!("{bar} 512 MiB of 2 GiB, 1,234 rows, 30 s left"));
        assert_eq!(line(Unit::Number("rows"), 1234, 0, "", 10.0), "1,234 rows");
        assert!(
            line(Unit::Number("rows"), 3, 2, "", 0.0).ends_with("█ 3 of 3 rows"),
            "more than was expected"
        );
        assert!(line(Unit::Bytes, 0, 5, "", 9.0).ends_with("░ 0 B of 5 B"));
        let left =
            |seconds| line(Unit::Bytes, 1, 2, "", seconds).split_once(", ").map(|(_, left)| left.to_owned());
        let left = [0.5, 1.0, 119.9, 600.0, 7200.0].map(left);
        assert_eq!(
            left,
            [None, Some("1 s left"), Some("119 s left"), Some("10 min left"), Some("2 h left")]
                .map(|left| left.map(str::to_owned))
        );
    }

    #[test]
    fn no_line_is_wider_than_79_columns_or_has_a_fraction() {
        let numbers = [0, 1, 999, 1 << 20, 1023 << 30, 1 << 50, u64::MAX];
        for unit in [Unit::Bytes, Unit::Number("writes"), Unit::Number("rows")] {
            for (done, all) in numbers.iter().flat_map(|&done| numbers.map(|all| (done, all))) {
                for more in ["", "18,446,744,073,709,551,615 rows"] {
                    let line = line(unit, done, all, more, 12_345.678);
                    assert!(line.chars().count() <= COLUMNS && !line.contains('.'), "{line}");
                }
            }
        }
    }
}
