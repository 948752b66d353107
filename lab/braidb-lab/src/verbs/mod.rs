//! The verbs. A verb has its arguments (`Args`) and `run`, which executes it.

pub mod bench;
pub mod device;
pub mod model;
pub mod pair;
pub mod paper;
pub mod regress;
pub mod simulate;

use crate::failure::{Outcome, printing};
use std::io::Write as _;

/// Prints a text, which appears at once.
fn print_text(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(printing)
}
