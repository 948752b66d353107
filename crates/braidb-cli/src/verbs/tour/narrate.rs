//! The output of the tour: numbered steps, with time to read them when a person is watching.

use crate::failure::{Failure, Outcome, printing};
use crate::host::clock::pause;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Prints the tour.
pub struct Narrator {
    steps: u32,
    /// The time between two steps, for a person to read. Zero if no person watches.
    pause: Duration,
}

impl Narrator {
    pub fn new() -> Narrator {
        let watched = std::io::stdout().is_terminal();
        Narrator { steps: 0, pause: Duration::from_millis(if watched { 2000 } else { 0 }) }
    }

    /// Starts the next step.
    pub fn step(&mut self, title: &str) -> Outcome {
        if self.steps > 0 {
            pause(self.pause);
        }
        self.steps += 1;
        self.print(&format!("\n{}. {title}", self.steps))
    }

    /// Prints an indented line.
    pub fn line(&mut self, text: &str) -> Outcome {
        text.lines().try_for_each(|line| self.print(&format!("   {line}")))
    }

    /// Fails the tour unless `right` is true.
    pub fn check(&self, right: bool, what: impl FnOnce() -> String) -> Outcome {
        if right { Ok(()) } else { Err(Failure::Storage(what())) }
    }

    /// Prints the last words.
    pub fn end(&mut self, text: &str) -> Outcome {
        self.print(&format!("\n{text}"))
    }

    fn print(&mut self, text: &str) -> Outcome {
        let mut out = std::io::stdout();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(printing)
    }
}
