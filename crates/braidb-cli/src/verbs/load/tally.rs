//! The counts of a load, and what they mean for its user.

use super::rows::{Form, Oddities};
use crate::failure::{Failure, Outcome};
use crate::figures::{counted, grouped};

/// The counts of rows by their outcome.
#[derive(Debug, Default)]
pub struct Tally {
    /// Rows in batches that the database has taken.
    pub written: u64,
    pub present: u64,
    pub refused: u64,
    /// Whether the user was told of the first escape.
    pub is_escape_told: bool,
}

impl Tally {
    /// How many rows a load wrote or found stored before it ended early, as text.
    pub fn brought(&self) -> String {
        let written = counted(self.written, "row", "rows");
        format!("{written} written, {} stored before", grouped(self.present))
    }

    pub fn print(&self, seconds: f64, oddities: &Oddities) {
        let rows = self.written + self.present + self.refused;
        eprintln!(
            "{} in {seconds:.1} s ({} a second): {} written, {} stored before, {} refused",
            counted(rows, "row", "rows"),
            grouped((rows as f64 / seconds.max(1e-9)) as u64),
            grouped(self.written),
            grouped(self.present),
            grouped(self.refused)
        );
        if oddities.has_mark {
            eprintln!("the byte order mark at the start was left out");
        }
        if oddities.empty_lines > 0 {
            eprintln!("{} passed over", counted(oddities.empty_lines, "empty line was", "empty lines were"));
        }
        if oddities.escaped > 0 {
            let rows = counted(oddities.escaped, "row had escapes and was", "rows had escapes and were");
            eprintln!("{rows} changed by them, as `dump` writes rows; --raw takes rows as they are");
        }
    }

    pub fn verdict(&self, oddities: &Oddities, form: Form) -> Outcome {
        match (oddities.cr_lf, form) {
            (0, _) | (_, Form { is_lenient: true, .. }) => {}
            (rows, Form { is_raw: true, .. }) => eprintln!(
                "{} in CR LF, and the CR belongs to the value; --lenient leaves it out",
                counted(rows, "row ended", "rows ended")
            ),
            _ => eprintln!("the file has CR LF line ends: --lenient takes them"),
        }
        let refused = counted(self.refused, "row was", "rows were");
        match (self.refused, self.written + self.present) {
            (0, _) => Ok(()),
            (_, 0) => Err(Failure::Use(format!("{refused} refused; nothing is loaded"))),
            _ => Err(Failure::Use(format!("{refused} refused; the others are loaded"))),
        }
    }
}
