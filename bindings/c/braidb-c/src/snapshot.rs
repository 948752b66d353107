//! Snapshots: the database at one moment.

use crate::database::{Database, Shared, usable};
use crate::guard::{ErrorOut, guard, quiet};
use crate::pointers::{Out, give, out};
use braidb_bindings::code::Code;
use std::ptr;
use std::sync::Arc;

/// `braidb_snapshot_t`.
#[derive(Debug)]
pub struct Snapshot {
    pub shared: Arc<Shared>,
    pub snapshot: braidb::Snapshot,
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_snapshot_create(
    db: Option<&Database>,
    snapshot: Out<'_, *mut Snapshot>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_snapshot_create", err, || {
        let place = out(snapshot, "snapshot", ptr::null_mut())?;
        let shared = usable(db)?.clone();
        let snapshot = shared.db.snapshot();
        *place = give(Snapshot { shared, snapshot });
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_snapshot_free(snapshot: Option<Box<Snapshot>>) {
    quiet("braidb_snapshot_free", (), || drop(snapshot));
}
