//! Gaps that scans offer to the commit queue, and where they wait for the commit lock.
//!
//! A scan must not wait for writers. So it leaves its gap in a list and tries the commit lock once. If a writer holds the lock, the
//! next commit looks at the list, after its batches entered memory and before it publishes their numbers.

use super::{CommitQueue, Core};
use crate::base::ids::FamilyId;
use crate::visible::gaps::Gap;
use braidb_storage::locks::Mutex;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

/// The list holds this many offers. It drops further offers; a later scan offers its gap again.
const MOST_OFFERS: usize = 64;
/// Offers that one commit looks at. Each takes up to 10 µs, with 1,024 puts in the ring.
const OFFERS_A_COMMIT: usize = 4;

/// The gaps that scans offered and that wait for the commit lock.
#[derive(Debug)]
pub(super) struct GapOffers {
    list: Mutex<Vec<(FamilyId, Gap)>>,
    any: AtomicBool,
    /// Puts that the ring of each family with gaps remembers.
    recent_puts: usize,
}

impl GapOffers {
    pub fn new(recent_puts: usize) -> GapOffers {
        GapOffers { list: Mutex::default(), any: AtomicBool::new(false), recent_puts }
    }

    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    fn add(&self, family: FamilyId, gap: Gap) {
        let mut list = self.list.lock();
        if list.len() < MOST_OFFERS {
            list.push((family, gap));
            self.any.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self) -> Vec<(FamilyId, Gap)> {
        let mut list = self.list.lock();
        let taken = list.len().min(OFFERS_A_COMMIT);
        let rest = list.split_off(taken);
        self.any.store(!rest.is_empty(), Ordering::Relaxed);
        mem::replace(&mut list, rest)
    }
}

impl CommitQueue {
    /// Leaves a gap that a scan found. It waits for [`CommitQueue::look_at_gaps`] or the next commit.
    pub fn offer_gap(&self, family: FamilyId, gap: Gap) {
        self.gap_offers.add(family, gap);
    }

    /// Looks at all offers now, unless a writer holds the commit lock.
    pub fn look_at_gaps(&self) {
        if self.gap_offers.any()
            && let Some(mut core) = self.try_lock()
        {
            while self.gap_offers.any() {
                self.take_gaps(&mut core);
            }
        }
    }

    /// Accepts or refuses the oldest offers. Call it after all puts that have numbers entered memory.
    pub(super) fn take_gaps(&self, core: &mut Core) {
        let last_seq = core.last_seq;
        for (family, gap) in self.gap_offers.take() {
            let is_accepted = core.room.offer_gap(family, gap, last_seq, self.gap_offers.recent_puts);
            let counters = &self.shared.counters;
            if is_accepted { counters.gaps_accepted.add(1) } else { counters.gaps_refused.add(1) }
        }
    }
}
