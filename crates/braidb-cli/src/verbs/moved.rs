//! The verbs that moved to `braidb-lab`: each takes any arguments, and says where it went.

use crate::failure::{Failure, Outcome};
use std::ffi::OsString;

/// Moved to `braidb-lab`, which is run in a clone of the repository
#[derive(clap::Args)]
// `--help` is an argument like any other, so that it gets the answer too.
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Refuses the verb `name`.
pub fn run(name: &str) -> Outcome {
    Err(Failure::Use(format!(
        "`{name}` moved to braidb-lab; in a clone of BraidDB, run: cargo run --release -p braidb-lab -- {name} …"
    )))
}
