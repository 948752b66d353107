//! The hidden verb `tour-writer DIR`: writes until it is killed. Prints the number of each batch when the database has acknowledged the
//! batch.

use crate::failure::{Outcome, printing};
use crate::store::open_with;
use braidb::WriteBatch;
use std::io::Write;
use std::path::PathBuf;

/// Write until killed
#[derive(clap::Args)]
pub struct Args {
    dir: PathBuf,
}

/// The second column family that every batch writes to.
pub const LEDGER: &str = "ledger";
/// The prefix of a batch's key in the default family.
pub const PREFIX: &str = "crash/";

/// The key of batch `number` in the default family; in the ledger it comes without [`PREFIX`].
pub fn key(number: u64) -> String {
    format!("{PREFIX}{number:09}")
}

/// The value that batch `number` writes in both families.
pub fn value(number: u64) -> String {
    format!("batch {number}, {}", "x".repeat((number % 100) as usize))
}

pub fn run(args: &Args) -> Outcome {
    // Memory is small, so that the kill falls among flushes and merges.
    let db = open_with(&args.dir, super::options().memtable_bytes(128 << 10))?;
    let ledger = db.create_column_family(LEDGER)?;
    let mut out = std::io::stdout().lock();
    for number in 0.. {
        let mut batch = WriteBatch::new();
        batch.put(key(number), value(number)).put_in(&ledger, &key(number)[PREFIX.len()..], value(number));
        db.write(batch)?;
        // One write call prints the whole line, so the line is whole or not there.
        out.write_all(format!("{number}\n").as_bytes()).and_then(|()| out.flush()).map_err(printing)?;
    }
    Ok(())
}
