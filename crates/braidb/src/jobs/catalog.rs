//! The catalog: the manifest, the state that it describes, and what is under way.
//!
//! One lock holds it. Edits are committed under the lock, and their outcome is installed before the lock is let go (`jobs/mod.rs`).

use super::damage::Damages;
use super::hints::Hints;
use super::tiers::TierState;
use crate::base::ids::{FamilyId, FileId, TierId};
use crate::plan::Claims;
use crate::version::{Manifest, State};
use std::collections::{BTreeMap, BTreeSet};

/// The manifest, and what is under way.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) manifest: Manifest,
    /// The state that the manifest describes.
    pub(super) state: State,
    pub(super) claims: Claims,
    /// Jobs that were submitted and have not ended.
    pub(super) jobs: usize,
    /// Flushes and merges that have not given back their flushing set or claims.
    pub(super) flushes_running: usize,
    pub(super) merges_running: usize,
    /// Whether a running merge was bought by what readers paid.
    pub(super) is_buying: bool,
    pub(super) tiers: TierState,
    /// Whether a log collection runs.
    pub(super) collecting_logs: bool,
    /// Callers of `compact`. They plan the merges; the scheduler plans only what keeps writers from waiting.
    pub(super) manual: usize,
    /// Callers of `settle`, who ask for all merges that are wanted.
    pub(super) settling: usize,
    pub(super) is_stopped: bool,
    /// Threads that read samples of tables, and hold versions meanwhile.
    pub(super) sampling_threads: usize,
    /// Logs on disk.
    pub(super) logs: BTreeSet<FileId>,
    /// Value files on disk that an edit has named, and their tiers.
    pub(super) value_files: BTreeMap<FileId, TierId>,
    /// The value files of the current round of collection.
    pub(super) collected: BTreeSet<FileId>,
    /// The value files that merges empty where they come by.
    pub(super) carried: BTreeSet<FileId>,
    pub(super) damages: Damages,
    /// Bytes of the logs that earlier opens wrote.
    pub(super) older_log_bytes: BTreeMap<FileId, u64>,
    /// Bytes that flushes would have left in logs since the oldest logs were let go; and the last log that was let go.
    pub(super) refused_bytes: u64,
    pub(super) let_go: Option<FileId>,
    pub(super) hints: BTreeMap<FamilyId, Hints>,
}

impl Catalog {
    /// The catalog of a database that was opened just now. `logs` are the logs of earlier opens, with their bytes.
    pub(super) fn new(
        manifest: Manifest,
        state: State,
        logs: Vec<(FileId, u64)>,
        new_log: FileId,
    ) -> Catalog {
        Catalog {
            manifest,
            claims: Claims::default(),
            jobs: 0,
            flushes_running: 0,
            merges_running: 0,
            is_buying: false,
            tiers: TierState::default(),
            collecting_logs: false,
            manual: 0,
            settling: 0,
            is_stopped: false,
            sampling_threads: 0,
            value_files: state.value_files().iter().map(|(&id, file)| (id, file.tier)).collect(),
            collected: BTreeSet::new(),
            carried: BTreeSet::new(),
            damages: Damages::default(),
            state,
            logs: logs.iter().map(|(id, _)| *id).chain([new_log]).collect(),
            older_log_bytes: logs.into_iter().collect(),
            refused_bytes: 0,
            let_go: None,
            hints: BTreeMap::new(),
        }
    }
}
