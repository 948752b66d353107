//! What a checkpoint takes from the running database: a state, the logs that belong to it, and second names for its files.
//!
//! # Why the state and the logs fit together
//!
//! The thread holds the catalog while it copies the state and learns how far the newest log reaches. No edit is made meanwhile. So each
//! record that the state's tables have is also covered by the logs, and each batch is in the logs as a whole or not at all. A log is taken
//! off the catalog's lists under the catalog too, and is unlinked afterwards. The thread opens all logs before it lets the catalog go, so an
//! unlink does not take their bytes.

use super::Jobs;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, TierId};
use crate::base::names;
use crate::log;
use crate::version::State;
use crate::version::table_file::TableFile;
use crate::version::table_file::puncher::Puncher;
use braidb_storage::File;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Microseconds between two looks at a table out of which another thread punches holes: 1 ms, about the time of a hole.
const LOOK_US: u64 = 1_000;

/// A moment of the database.
#[derive(Debug)]
pub struct Moment {
    /// Keeps its tables, and the files into which they point, from being deleted.
    pub state: State,
    /// The logs that an open of this state replays, ascending.
    pub logs: Vec<LogPart>,
}

/// A log, and the bytes of it that belong to the moment.
#[derive(Debug)]
pub struct LogPart {
    pub id: FileId,
    pub bytes: u64,
    pub file: Arc<dyn File>,
}

impl Jobs {
    /// The database as it is now.
    pub fn moment(&self) -> Result<Moment> {
        let catalog = self.catalog.lock();
        let state = catalog.state().clone();
        let (newest, written_out) = self.parts.queue.written_out()?;
        // The log of a poisoned database may lack bytes that its writer counts.
        self.parts.shared.health.check_writable()?;
        let mut ends = BTreeMap::from([(newest, written_out)]);
        let mut ids = catalog.logs().clone();
        for (log, sealed_bytes) in self.parts.shared.log_sync.live() {
            ids.insert(log);
            ends.extend(sealed_bytes.map(|bytes| (log, bytes)));
        }
        let first = state.min_replay_from();
        ids.retain(|&id| id >= first && id <= newest && !state.is_set_aside(id));
        let (fs, dir) = (&self.parts.env.fs, &self.parts.dir);
        for &id in &ids {
            let header = log::read_header(fs.as_ref(), &names::log(dir, id), id)?;
            ends.extend(header.and_then(|header| header.previous));
        }
        let part = |id: FileId| {
            let path = names::log(dir, id);
            let opened = fs.open(&path).and_then(|file| Ok((file.len()?, file)));
            let (length, file) = opened.map_err(|error| Error::io("open", &path, error))?;
            let known = state.cut_of(id).map(|cut| cut.offset).or_else(|| state.sealed_bytes(id));
            let bytes = known.or_else(|| ends.get(&id).copied()).unwrap_or(length);
            Ok(LogPart { id, bytes, file })
        };
        let logs = ids.into_iter().map(part).collect::<Result<_>>()?;
        Ok(Moment { state, logs })
    }

    /// The slow tiers that the database has now, and where the user said that they are.
    pub fn slow_tiers(&self) -> Vec<(TierId, Option<PathBuf>)> {
        let catalog = self.catalog.lock();
        catalog.state().slow_tiers().map(|tier| (tier.id, tier.place.map(Path::to_owned))).collect()
    }

    /// Gives a table a second name. No thread punches a hole between the look at the table's names and the link (rule 22).
    pub fn link_table(&self, table: &Arc<TableFile>, to: &Path) -> io::Result<()> {
        let puncher = loop {
            match Puncher::take_if_free(table) {
                Some(puncher) => break puncher,
                None => self.parts.env.runtime.pause_us(LOOK_US),
            }
        };
        let from = self.parts.tables.dirs().table(table.tier, table.id);
        let linked = self.parts.env.fs.link_out(&from, to);
        // Another thread may have left a hole to this one. A dropped puncher leaves it to the next collection of garbage.
        if self.parts.shared.health.check_writable().is_ok() {
            self.punch(puncher);
        }
        linked
    }

    /// Gives value file `id` a second name. Fails with `Unsupported` if a job appends to it. No thread punches a hole between the look at the
    /// file's names and the link (rule 22).
    pub fn link_value_file(&self, id: FileId, tier: TierId, to: &Path) -> io::Result<()> {
        if !self.tries.let_go(id) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let _held = self.hold_value_file(id);
        self.parts.env.fs.link_out(&self.parts.tables.dirs().values(tier, id), to)
    }
}
