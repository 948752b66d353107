//! How much of the logs is stable for certain, and what recovery does with the rest.
//!
//! After a write-back error Linux leaves pages clean and readable. Recovery then reads bytes from the page cache that the device does
//! not have, and a later sync succeeds and writes nothing. So *only what a synced mark covers is stable*. These are synced marks:
//!
//! - the mark in a frame or a footer: the log up to the mark, and the earlier logs of its open. With the header's bit
//!   `covers_earlier_opens` it covers the logs of earlier opens too;
//! - a `LogSealed` edit, and a table that points into the log: the whole log, and the earlier logs that a mark in it would cover;
//! - `replay_from`: all logs before the log that it names, and the header of this log. A flush or a log collection synced them;
//! - a cut with the flag `CutCovered`: all logs up to the cut.
//!
//! A footer by itself covers nothing, since a rotation syncs nothing. A cut without the flag covers nothing either. Versions before the
//! flag cut where their recovery ended, after a sync that may have proved nothing.
//!
//! The *covered end* is the first place that no mark covers. Recovery writes all later commits anew before the open accepts a write:
//!
//! | uncovered commits | where they go | cut | `replay_from` |
//! |---|---|---|---|
//! | less than [`most_copied_bytes`] | as frames with the same numbers into the new log | at the covered end | the new log, for families without covered records |
//! | more | tables, with all that their families replay | at the covered end | the new log, for these families |
//! | before a cut without the flag | tables, with all that any family replays | none is needed | the new log, for all families |
//! | any, and the device is full | into the same bytes of the same logs | at the end of what was replayed | as it was |
//!
//! # Which file holds a record at each instant
//!
//! `r` is a commit behind the covered end of log 5, and log 9 will be the new one.
//!
//! 1. *Copying.* `r` is in log 5, perhaps only in the page cache. Recovery creates log 9. Its header says that it is the first of its
//!    open, and that it follows log 5 at the covered end. `r` is appended to log 9. A crash now leaves a log 9 that the manifest does
//!    not name. The next recovery ignores log 9, and finds what is left of log 5.
//! 2. *Log 9 is synced*, with its name: `r` is stable there. A crash leaves what step 1 leaves.
//! 3. *The edit* cuts log 5 at its covered end and names log 9. After its sync log 9 is the home of `r`, and the bytes behind the cut
//!    are never read again. `r` is replayed after the covered records, with its own number.
//! 4. *Logs that lie behind the cut as a whole are deleted*: each of their records is in log 9. A crash before the deletion leaves
//!    them. The cut sets them aside until no family replays an earlier log.
//!
//! With tables, step 1 writes tables in place of frames, and step 2 syncs them with their names. On a full device, steps 1 and 2
//! overwrite the bytes of log 5 with identical bytes, which makes the pages dirty again. They sync the pages through the descriptor
//! that wrote them. A crash at any time leaves what it would have left without the overwriting. Overwriting renews bytes and no names:
//! a log whose name a failed write-back lost would stay lost. But ext4 and XFS shut their journal down when a directory cannot be
//! written, so no opening succeeds there.

use super::{NOWHERE, Place, Recovery};
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, SeqNo};
use crate::base::mutant::mutant;
use crate::log::{self, EncodedBatch, End, HEADER_BYTES};
use crate::version::State;
use crate::visible::EntryKind;
use std::collections::BTreeSet;

/// From this many bytes on, uncovered commits go to tables: 1 MiB, or a quarter of a smaller memory. Fewer bytes are copied to the new log,
/// which costs one write and one sync. Tables spare a second open after another kill from writing them again.
pub(super) fn most_copied_bytes(memtable_bytes: usize) -> u64 {
    const MOST_BYTES: u64 = 1 << 20;
    MOST_BYTES.min(memtable_bytes as u64 / 4)
}

/// The offset that stands for the end of a log of any length.
const TO_ITS_END: u64 = u64::MAX;

/// A proof that bytes of the logs are stable.
#[derive(Clone, Copy, Debug)]
struct Proof {
    /// The log that holds the proof, or that the proof is about. The proof covers earlier logs of the same open.
    of: FileId,
    end: Place,
    /// Whether the proof covers logs of earlier opens too.
    covers_earlier_opens: bool,
}

impl Recovery<'_> {
    /// The covered end of `logs`, ascending: all replayed bytes before it are stable.
    pub(super) fn find_covered_end(&self, logs: &[FileId]) -> Result<Place> {
        if mutant!("cut_trusted") {
            self.sync_through_other_descriptors(logs)?;
            return Ok((FileId(u64::MAX), TO_ITS_END));
        }
        let mut proofs = self.proofs_of_manifest(logs)?;
        let for_all = |proofs: &[Proof]| {
            let for_all = proofs.iter().filter(|proof| proof.covers_earlier_opens);
            for_all.map(|proof| proof.end).max().unwrap_or(NOWHERE)
        };
        for &log in logs.iter().rev() {
            // A proof covers this whole log already, so its marks add nothing.
            if for_all(&proofs) >= (log, TO_ITS_END) {
                break;
            }
            proofs.extend(self.proof_of_marks(log)?);
        }
        let starts: BTreeSet<FileId> = self.state.cuts().map(|(_, cut)| cut.resume).collect();
        let open_of = |log: FileId| starts.range(..=log).count();
        let mut covered = for_all(&proofs);
        for logs in logs.chunk_by(|a, b| open_of(*a) == open_of(*b)) {
            let last = logs[logs.len() - 1];
            let end = (last, self.known_end(last).unwrap_or(TO_ITS_END));
            let own = proofs.iter().filter(|proof| logs.contains(&proof.of)).map(|proof| proof.end);
            covered = covered.max(own.max().unwrap_or(NOWHERE));
            if covered < end {
                break;
            }
        }
        Ok(covered)
    }

    /// The proofs in the manifest for `logs`.
    fn proofs_of_manifest(&self, logs: &[FileId]) -> Result<Vec<Proof>> {
        let covered = self.state.cuts().filter(|(_, cut)| cut.is_covered);
        let mut proofs: Vec<Proof> = covered
            .map(|(of, cut)| Proof { of, end: (of, cut.offset), covers_earlier_opens: true })
            .collect();
        let sealed = self.state.logs_sealed().map(|log| (log, TO_ITS_END));
        let replayed = self.state.families().values().map(|family| (family.replay_from, HEADER_BYTES));
        let ends: BTreeSet<Place> = sealed.chain(replayed).filter(|(log, _)| logs.contains(log)).collect();
        for end in ends {
            let (path, of) = (self.log_path(end.0), end.0);
            let header = log::read_header(self.env.fs.as_ref(), &path, of)?;
            let covers_earlier_opens = header.is_some_and(|header| header.covers_earlier_opens);
            proofs.push(Proof { of, end, covers_earlier_opens });
        }
        Ok(proofs)
    }

    /// The proof that the largest mark in a log gives.
    fn proof_of_marks(&self, of: FileId) -> Result<Option<Proof>> {
        let path = self.log_path(of);
        let scan = log::scan(self.env.fs.as_ref(), &path, of, self.known_end(of), &mut |_| Ok(()))?;
        let Some(header) = scan.header else { return Ok(None) };
        let end = match scan.max_mark {
            _ if mutant!("footer_trusted") && matches!(scan.end, End::Sealed { .. }) => (of, TO_ITS_END),
            0 => return Ok(None),
            // A mark of 1 covers earlier logs only.
            1 => (of, 0),
            bytes => (of, bytes),
        };
        Ok(Some(Proof { of, end, covers_earlier_opens: header.covers_earlier_opens }))
    }

    /// Syncs as recovery did before it had a covered end, for a mutant.
    fn sync_through_other_descriptors(&self, logs: &[FileId]) -> Result<()> {
        for &id in logs {
            let path = self.log_path(id);
            let file = self.env.fs.open(&path).map_err(|error| Error::io("open", &path, error))?;
            file.sync_data().map_err(|error| Error::io("sync", &path, error))?;
        }
        self.env.fs.sync_dir(self.dir).map_err(|error| Error::io("sync", self.dir, error))
    }

    /// Whether the uncovered commits begin before a cut without the flag `CutCovered`. A new cut at the covered end would lie in front of
    /// that cut, and would also remove the commits of the opens between the two places.
    pub(super) fn is_uncovered_before_a_cut(&self) -> bool {
        self.replayed.last().is_some_and(|newest| self.covered < *newest)
            && self.state.cuts().any(|(log, cut)| !cut.is_covered && (log, cut.offset) > self.covered)
    }

    /// The place where the logs are cut: the covered end, as the end or the middle of a replayed log. On a full device the cut is the
    /// end of the newest log, since all bytes were written again. `None` if no replayed log has a covered byte.
    pub(super) fn cut(&self) -> Option<Place> {
        let end = if self.in_place { (FileId(u64::MAX), TO_ITS_END) } else { self.covered };
        // A log whose header is not covered is dropped as a whole.
        let &(log, bytes) = self.replayed.iter().rev().find(|(log, _)| (*log, HEADER_BYTES) <= end)?;
        Some((log, if log == end.0 { bytes.min(end.1) } else { bytes }))
    }

    /// Writes the uncovered bytes of the logs again in place, and syncs them.
    pub(super) fn rewrite_in_place(&self) -> Result<()> {
        for &(log, end) in self.replayed.iter().filter(|end| self.covered < **end) {
            let from = if log == self.covered.0 { self.covered.1 } else { 0 };
            log::rewrite(self.env.fs.as_ref(), &self.log_path(log), log, from, end)?;
        }
        self.env.fs.sync_dir(self.dir).map_err(|error| Error::io("sync", self.dir, error))
    }
}

/// The uncovered commits, collected during the replay.
#[derive(Debug)]
pub(super) struct Uncovered {
    /// Bytes of the commits' frames.
    pub bytes: u64,
    /// Bytes from which on nothing is copied to the new log.
    most_copied_bytes: u64,
    /// The sequence number of the first uncovered commit.
    pub first_seq: Option<SeqNo>,
    /// The entries that the families replay. Each stretch of numbers without a gap is a batch with its first number.
    copies: Vec<(EncodedBatch, SeqNo)>,
}

impl Uncovered {
    pub fn new(most_copied_bytes: u64) -> Uncovered {
        Uncovered { bytes: 0, most_copied_bytes, first_seq: None, copies: Vec::new() }
    }

    /// Whether all uncovered commits are copied to the new log.
    pub fn are_copied(&self) -> bool {
        self.bytes < self.most_copied_bytes
    }

    /// Adds a replayed frame: its length, and the number of its first entry.
    pub fn add_frame(&mut self, bytes: u64, first: SeqNo) {
        self.bytes += bytes;
        self.first_seq.get_or_insert(first);
        if !self.are_copied() {
            self.copies = Vec::new();
        }
    }

    /// Adds an entry of the last frame, if its family replays the entry.
    pub fn add_entry(&mut self, seq: SeqNo, entry: &log::Entry<'_>) {
        if !self.are_copied() {
            return;
        }
        let goes_on = self.copies.last().is_some_and(|(batch, first)| first + batch.count() as u64 == seq);
        if !goes_on {
            self.copies.push((EncodedBatch::default(), seq));
        }
        let (batch, _) = self.copies.last_mut().expect("one was just pushed");
        push(batch, entry);
    }

    /// The copies of the families whose memory `are_kept`, by family id.
    pub fn copies_of(self, are_kept: &[bool]) -> Vec<(EncodedBatch, SeqNo)> {
        let mut kept = Uncovered::new(u64::MAX);
        for (batch, first) in &self.copies {
            for (seq, entry) in (*first..).zip(batch.entries()) {
                if are_kept[entry.family.0 as usize] {
                    kept.add_entry(seq, &entry);
                }
            }
        }
        kept.copies
    }
}

fn push(batch: &mut EncodedBatch, entry: &log::Entry<'_>) {
    match entry.kind {
        EntryKind::Put => batch.push_put(entry.family, entry.key, entry.value),
        EntryKind::Delete => batch.push_delete(entry.family, entry.key),
    }
}

/// Whether log `log` is the first of an open whose edit is not in the manifest.
pub(super) fn is_unnamed(state: &State, log: FileId, header: Option<log::Header>) -> bool {
    // Versions before the header's bit replayed such a log where it continued the log before, and then cut it.
    let is_named = || {
        state.logs_named().any(|named| named == log)
            || state.families().values().any(|family| family.replay_from == log)
    };
    header.is_some_and(|header| header.is_first_of_open) && !is_named()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::FamilyId;
    use crate::log::Header;
    use crate::version::{Change, Edit, TableStore};
    use braidb_storage::real::RealFs;
    use std::path::Path;
    use std::sync::Arc;

    /// The engine of commit ae2ffe8 replays log 9, whose open died before its edit, and cuts it. If the log before is sealed, only the cut
    /// names log 9.
    #[test]
    fn a_log_that_the_manifest_names_in_any_way_counts() {
        let store = TableStore::detached(Arc::new(RealFs), Path::new("nowhere"));
        let initial = State::initial(store, FileId(1));
        let first = |log| {
            let header = Header { is_first_of_open: true, ..Header::default() };
            move |state: &State| is_unnamed(state, FileId(log), Some(header))
        };
        let with = |change| {
            let mut edit = Edit::default();
            edit.push(change);
            initial.apply(&edit).unwrap()
        };
        assert!(first(9)(&initial));
        assert!(
            !is_unnamed(&initial, FileId(9), Some(Header::default())),
            "only the first log of an open is"
        );
        assert!(!is_unnamed(&initial, FileId(9), None), "a log without a header is judged by replay");
        let cut = with(Change::LogCut { log: FileId(9), offset: 100, resume: FileId(12) });
        assert_eq!([9, 10, 12].map(|log| first(log)(&cut)), [false, true, false]);
        let replayed = with(Change::ReplayFrom { family: FamilyId::DEFAULT, log: FileId(9) });
        assert_eq!([9, 10].map(|log| first(log)(&replayed)), [false, true]);
        let sealed = with(Change::LogSealed { log: FileId(9), bytes: 100 });
        assert_eq!([9, 10].map(|log| first(log)(&sealed)), [false, true]);
    }
}
