//! Slow tiers: emptying one, and checkpoints of databases that have some.

use crate::database::{Database, give_json, usable};
use crate::failure::Result;
use crate::guard::{ErrorOut, guard};
use crate::pointers::{Out, Text, elements};
use braidb_bindings::code::Code;
use braidb_bindings::reports;
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;

/// What [`braidb_evacuate`] calls, with the context and the bytes that are left.
type OnProgress = Option<extern "C-unwind" fn(*mut c_void, u64)>;

/// `braidb_tier_copy_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TierCopy {
    from: Text,
    to: Text,
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_evacuate(
    db: Option<&Database>,
    path: Text,
    on_progress: OnProgress,
    context: *mut c_void,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_evacuate", err, || {
        let path = path.path("path")?;
        usable(db)?.db.evacuate(path, |left_bytes| {
            if let Some(on_progress) = on_progress {
                on_progress(context, left_bytes);
            }
        })?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_checkpoint_to(
    db: Option<&Database>,
    dir: Text,
    tiers: *const TierCopy,
    count: usize,
    json: Out<'_, *mut c_char>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_checkpoint_to", err, || {
        let json = json.neutral(ptr::null_mut());
        let tiers = elements(tiers, count, "tiers")?;
        let pairs: Result<Vec<(&Path, &Path)>> =
            tiers.iter().map(|tier| Ok((tier.from.path("from")?, tier.to.path("to")?))).collect();
        let report = usable(db)?.db.checkpoint_to(dir.path("dir")?, &pairs?)?;
        give_json(json, || reports::checkpoint(&report));
        Ok(Code::OK)
    })
}
