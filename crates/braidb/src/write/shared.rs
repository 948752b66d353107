//! What the commit queue, the jobs and the handles of one open database share.

use super::{FlushQueue, Health, Pressure, RoomParts};
use crate::base::counters::Counters;
use crate::base::ids::FileIds;
use crate::log::LogSync;
use crate::memory::view::ViewCell;
use crate::version::DirLock;
use crate::visible::snapshots::Snapshots;
use braidb_storage::Random;
use std::sync::Arc;

/// The shared parts of one open database. A clone leads to the same parts.
#[derive(Clone, Debug)]
pub struct Shared {
    pub view: Arc<ViewCell>,
    pub snapshots: Arc<Snapshots>,
    pub health: Arc<Health>,
    pub pressure: Arc<Pressure>,
    pub flushes: Arc<FlushQueue>,
    pub log_sync: Arc<LogSync>,
    pub dir_lock: Arc<DirLock>,
    pub files: Arc<FileIds>,
    pub counters: Arc<Counters>,
}

impl Shared {
    /// The parts that the memory room uses. `random` seeds its segments.
    pub fn for_room(&self, random: Arc<dyn Random>) -> RoomParts {
        RoomParts {
            view: self.view.clone(),
            pressure: self.pressure.clone(),
            random,
            counters: self.counters.clone(),
            flushes: self.flushes.clone(),
        }
    }
}
