//! The kept single values, by place.

use super::block::Block;
use super::clock::Looked;
use super::{Place, PlaceHasher};
use crate::base::foreground::ForegroundRwLock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

/// The parts of the map: 1,024, each with its lock, so that few gets of several threads meet at one lock. A part that doubles its memory moves
/// its values under the lock: of 4 million values these are 4,000.
const PARTS: usize = 1024;

type Part = HashMap<Place, Arc<Block>, BuildHasherDefault<PlaceHasher>>;

/// The map.
#[derive(Debug)]
pub struct Values {
    parts: Box<[ForegroundRwLock<Part>]>,
}

impl Default for Values {
    fn default() -> Values {
        Values { parts: std::iter::repeat_with(ForegroundRwLock::default).take(PARTS).collect() }
    }
}

impl Values {
    fn part(&self, place: &Place) -> &ForegroundRwLock<Part> {
        let mut hasher = PlaceHasher::default();
        place.hash(&mut hasher);
        // A map takes the highest and the lowest bits of the hash.
        &self.parts[(hasher.finish() >> 32) as usize % PARTS]
    }

    pub fn get(&self, place: &Place) -> Option<Arc<Block>> {
        let value = self.part(place).read().get(place).cloned()?;
        value.note_use();
        Some(value)
    }

    /// Keeps a value, and returns whether none was kept at this place.
    pub fn put(&self, place: Place, value: &Arc<Block>) -> bool {
        let mut part = self.part(&place).write();
        let Entry::Vacant(vacant) = part.entry(place) else { return false };
        vacant.insert(value.clone());
        true
    }

    /// Takes a value out, unless it is spared. The clock calls this under its lock.
    pub fn take(&self, place: &Place, is_spared: impl FnOnce(&Block) -> bool) -> Looked {
        let mut part = self.part(place).write();
        let Entry::Occupied(value) = part.entry(*place) else {
            unreachable!("the clock holds a value that is kept")
        };
        if is_spared(value.get()) { Looked::Spared } else { Looked::Taken(value.remove()) }
    }
}
