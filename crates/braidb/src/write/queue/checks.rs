//! The second phase of a transaction's commit: under the commit lock, the queue checks that the transaction's reads are still true.
//!
//! The reads are true at a number, `Check::true_at`. Each write above this number is in the ring of recent writes, or in a batch that stands
//! before the transaction in its group. If one of them concerns the reads, the commit is refused. If the ring has lost a write, the commit is
//! refused as an overrun: the transaction compares its reads again without the lock (`db/transaction.rs`), and comes back with a later number.
//! So no commit walks over memory or tables under the lock.
//!
//! An excise is no write with a number; `write/queue/pending_excises.rs` says which transactions it refuses.
//!
//! The queue remembers the writes of a group before it publishes their numbers. A group that fails remembers nothing.

use super::waiting::Waiter;
use super::{CommitQueue, Core};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key;
use crate::base::mutant::mutant;
use crate::log::EncodedBatch;
use crate::write::Check;
use crate::write::recent::{RecentWrites, Since};
use std::sync::Arc;

/// A transaction behind batches of more than 4,096 entries in its group is not compared with each entry under the lock. It counts as an overrun.
const MOST_EARLIER_ENTRIES: usize = 4 << 10;

impl CommitQueue {
    /// Checks each transaction of a group, against the batches before it too that passed.
    pub(super) fn check_group(&self, core: &mut Core, waiters: &[Arc<Waiter>]) {
        for (index, waiter) in waiters.iter().enumerate() {
            let Some(check) = &waiter.check else { continue };
            let earlier = waiters[..index].iter().filter(|other| other.checked_outcome().is_ok());
            // The check keeps its outcome.
            let _ = self.check(core, check, earlier.map(|other| &*other.batch));
        }
    }

    /// Checks a transaction that commits behind the `earlier` batches, which have no numbers yet.
    ///
    /// # Errors
    ///
    /// `Conflict` if the transaction must not commit.
    pub(super) fn check<'a>(
        &self,
        core: &mut Core,
        check: &Check,
        mut earlier: impl Iterator<Item = &'a EncodedBatch> + Clone,
    ) -> Result<()> {
        if self.has_read_excised(core, check) {
            check.refuse();
            return check.outcome();
        }
        let (last_seq, most) = (core.last_seq, self.recent_writes);
        let recent = core.recent.get_or_insert_with(|| RecentWrites::new(most, last_seq));
        match recent.look(check.reads(), check.true_at()) {
            Since::Unknown => check.overrun(),
            Since::Changed => check.refuse(),
            Since::Unchanged
                if earlier.clone().map(EncodedBatch::count).sum::<usize>() > MOST_EARLIER_ENTRIES =>
            {
                check.overrun();
            }
            Since::Unchanged => {
                let touches = |batch: &EncodedBatch| {
                    let reads = check.reads();
                    let mut entries = batch.entries();
                    entries.any(|entry| reads.may_touch(entry.family, key::hash(entry.key), entry.key, false))
                };
                match earlier.any(touches) && !mutant!("conflict_within_a_group_unseen") {
                    true => check.refuse(),
                    false => check.pass(),
                }
            }
        }
        check.outcome()
    }
}

impl Core {
    /// Remembers the writes of a group, which have the numbers from `first` on. Ends a ring that no transaction has asked for long.
    pub(super) fn remember(&mut self, group: &[&EncodedBatch], first: SeqNo) {
        let Some(recent) = &mut self.recent else { return };
        let entries = group.iter().flat_map(|batch| batch.entries());
        (first..).zip(entries).for_each(|(seq, entry)| recent.add(seq, entry.family, entry.key));
        if recent.is_idle() {
            self.idle = self.recent.take();
        }
    }
}
