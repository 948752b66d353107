//! Recovery: rebuilds everything that was written and not lost, from the manifest's state and the logs.
//!
//! Logs are read from the oldest that some family replays, in the order of their ids. Each header holds the id and the final length of
//! the log before, so a hole between two logs shows. A record's position decides *whether* it counts (rule 3): a family replays the
//! logs at or after its `replay_from`. Its sequence number decides *which* version wins.
//!
//! The first end that is not whole ends the replay (rule 4). A crash may leave such an end, but only where nothing proves that the lost
//! part was synced. Proofs are a mark in a frame, here or in a later log, and the manifest. The manifest proves a part where the log
//! was sealed or cut, or where a family replays from a later log. (A flush syncs all logs before it advances `replay_from`.) Against a
//! proof the database refuses to open, because opening would lose acknowledged writes.
//!
//! # Which file holds a record at each instant
//!
//! While the logs are read, the logs hold every record, as before. Memory and new tables are copies that a crash forgets; the next open
//! deletes orphan tables. Then every record that no synced mark covers is written anew and synced, to tables or to the new log
//! (`recover/covered.rs` has the steps). Then ONE edit names the cut, the new tables and each family's new `replay_from`. A crash
//! before the edit leaves what this recovery found. A crash after it leaves the logs up to the cut, and the new log or tables for the
//! rest. The database accepts writes only after the edit. Recovery is therefore idempotent.

mod covered;

use self::covered::{Uncovered, is_unnamed, most_copied_bytes};
use super::options::Options;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, FileId, FileIds, MAX_SEQ, SeqNo};
use crate::base::key::hash;
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::report::{Cut, RecoveryReport};
use crate::base::tier_dirs::TierDirs;
use crate::jobs::output::{Outputs, Target};
use crate::jobs::value_output::TrieOf;
use crate::log::{self, EncodedBatch, End, Frame, LogWriter, Numbers, Scan};
use crate::memory::{LogsBySeq, Segment, SegmentWriter};
use crate::plan::Edge;
use crate::plan::tree::placement::TierMap;
use crate::plan::values::ValueOptions;
use crate::table::Reason;
use crate::version::{Change, Edit, RunId, State};
use crate::visible::rule::{DropProof, RetentionFilter};
use crate::write::RecoveredFamily;
use braidb_storage::Env;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A position in the sequence of logs: a log and an offset. Earlier logs, and the log's bytes below the offset, lie before it.
pub(super) type Place = (FileId, u64);

/// The place before the first log.
const NOWHERE: Place = (FileId(0), 0);

/// A database in recovery.
pub(super) struct Recovery<'a> {
    pub dir: &'a Path,
    pub env: &'a Env,
    pub options: &'a Options,
    pub state: &'a State,
    pub counters: Arc<Counters>,
    /// Indexed by family id.
    families: Vec<Family>,
    /// The logs that were replayed, ascending, and the end of the good part of each.
    replayed: Vec<Place>,
    /// Logs that no later open needs: logs that an open left before its edit, and logs without a frame.
    empty: Vec<FileId>,
    /// The covered end: all earlier bytes are stable.
    covered: Place,
    /// The replayed commits behind the covered end.
    uncovered: Uncovered,
    last_seq: SeqNo,
    /// The largest sequence number of the commits that were read.
    last_commit: SeqNo,
    /// The sequence numbers of the copies that were replayed. The original record of a copy is skipped.
    copies: BTreeSet<SeqNo>,
    logs_by_seq: LogsBySeq,
    report: RecoveryReport,
    outputs: Outputs,
    edit: Edit,
    /// Whether this is a check: the logs are walked and nothing is replayed.
    is_check: bool,
    /// Whether the device has no room for tables or copies. All records then stay in memory, beyond its budget, and in the logs.
    in_place: bool,
}

/// The replayed records of one family.
struct Family {
    id: FamilyId,
    writer: SegmentWriter,
    /// The places of the family's first and last record in memory.
    held: Option<(Place, Place)>,
    /// Tables written so far. If there is any, the memory that is left at the end becomes a table too.
    tables: u64,
}

/// The result of a recovery. The caller creates the new log, then commits the edit, then keeps the outputs.
pub(super) struct Recovered {
    pub families: Vec<RecoveredFamily>,
    /// The place at which the old logs are cut.
    pub cut: Option<Place>,
    /// The logs behind the cut whose records are all in the new log or in a table. They are deleted once the edit is stable.
    pub superseded: Vec<FileId>,
    /// Uncovered commits for the new log, with the first number of each batch.
    copies: Vec<(EncodedBatch, SeqNo)>,
    /// The sequence number of the first uncovered commit.
    first_uncovered: Option<SeqNo>,
    pub last_seq: SeqNo,
    /// The logs of the records in memory, by sequence number.
    pub logs_by_seq: LogsBySeq,
    pub report: RecoveryReport,
    /// The tables that recovery wrote. They are deleted with the result, unless the caller takes and keeps them.
    pub outputs: Option<Outputs>,
    pub edit: Edit,
    /// Families without records in memory, which need no log before the new one.
    settled: Vec<FamilyId>,
    /// Families with records in memory, all of which are copied to the new log.
    copied: Vec<FamilyId>,
}

/// Most logs that recovery keeps for the next open. With more, it writes all memory to tables.
const LOGS_TO_KEEP: u64 = 8;

impl Family {
    /// Notes that a record in the family's memory lies at `place`. Replay goes upwards, so one comparison is enough for nearly all
    /// records.
    fn holds(&mut self, place: Place) {
        match &mut self.held {
            None => self.held = Some((place, place)),
            Some((_, last)) if *last <= place => *last = place,
            Some((first, _)) => *first = place.min(*first),
        }
    }
}

impl<'a> Recovery<'a> {
    pub fn new(
        dir: &'a Path,
        env: &'a Env,
        options: &'a Options,
        state: &'a State,
        files: Arc<FileIds>,
        counters: Arc<Counters>,
    ) -> Recovery<'a> {
        let family = |id: &FamilyId| {
            let (_, writer) = Segment::new(env.random.next_u64());
            Family { id: *id, writer, held: None, tables: 0 }
        };
        let target = Target {
            fs: env.fs.clone(),
            dirs: TierDirs::from(dir),
            tier_map: Arc::new(TierMap::fast()),
            files: files.clone(),
            counters: counters.clone(),
            options: options.table_options(0),
            // Recovery writes as few files as it can, so it leaves all values in tables. A later merge moves large ones to value files.
            values: ValueOptions { threshold: None, ..options.value_options() },
            reason: Reason::Recovery,
            rewrites: None,
            trie: TrieOf { tries: Arc::default(), family: FamilyId::DEFAULT },
        };
        Recovery {
            dir,
            env,
            options,
            state,
            counters,
            families: state.families().keys().map(family).collect(),
            replayed: Vec::new(),
            empty: Vec::new(),
            covered: NOWHERE,
            uncovered: Uncovered::new(most_copied_bytes(options.full_memory_bytes())),
            last_seq: state.last_seq(),
            last_commit: 0,
            copies: BTreeSet::new(),
            logs_by_seq: LogsBySeq::default(),
            report: RecoveryReport::default(),
            outputs: Outputs::new(target),
            edit: Edit::default(),
            is_check: false,
            in_place: false,
        }
    }

    /// Replays the logs `on_disk`, the ids in the directory, ascending.
    pub fn run(mut self, on_disk: &[FileId]) -> Result<Recovered> {
        self.walk(on_disk)?;
        if self.in_place {
            self.rewrite_in_place()?;
        }
        self.settle_memory()?;
        self.outputs.sync_names()?;
        Ok(self.finish())
    }

    /// Makes recovery write no tables and no copies: bytes that no synced mark covers are written again in place.
    pub fn in_place(mut self) -> Recovery<'a> {
        self.in_place = true;
        self
    }

    /// Walks the logs as `run` does, changes nothing, and returns the error that would prevent an open. Returns what an open would report,
    /// and the end of the good part of each log that it would replay.
    pub fn check(mut self, on_disk: &[FileId]) -> Result<(RecoveryReport, Vec<Place>)> {
        self.is_check = true;
        self.walk(on_disk)?;
        Ok((self.report, self.replayed))
    }

    /// Reads the logs that may be replayed.
    fn walk(&mut self, on_disk: &[FileId]) -> Result<()> {
        let first = self.state.min_replay_from();
        let logs = self.logs_that_count(on_disk, first)?;
        self.check_none_missing(&logs, first)?;
        self.check_beginning(&logs, first)?;
        self.covered = self.find_covered_end(&logs)?;
        self.replay_written_back(&logs)?;
        for (index, &id) in logs.iter().enumerate() {
            if !self.replayed.is_empty() && !self.continues(id)? && !mutant!("gap_replayed_over") {
                self.set_aside(&logs[index..])?;
                break;
            }
            self.replay(id)?;
        }
        Ok(())
    }

    /// The logs in the directory that may be replayed. A log does not count if every family replays from a later one, a cut sets it
    /// aside, or its open ended before the edit.
    fn logs_that_count(&mut self, on_disk: &[FileId], first: FileId) -> Result<Vec<FileId>> {
        let mut logs = Vec::new();
        for &id in on_disk.iter().filter(|&&id| id >= first && !self.state.is_set_aside(id)) {
            let header = log::read_header(self.env.fs.as_ref(), &self.log_path(id), id)?;
            match is_unnamed(self.state, id, header) {
                true => self.pass_over_abandoned(id)?,
                false => logs.push(id),
            }
        }
        Ok(logs)
    }

    /// Passes over a log that its open began and the manifest does not name. If the open ended before its edit, the log holds copies
    /// only, with mark 0. Every commit and the footer come after the edit and the log's first sync, and carry a larger mark.
    fn pass_over_abandoned(&mut self, id: FileId) -> Result<()> {
        let path = self.log_path(id);
        let scan = log::scan(self.env.fs.as_ref(), &path, id, None, &mut |_| Ok(()))?;
        if scan.max_mark > 0 || matches!(scan.end, End::Sealed { .. }) {
            let what = "the log was written to, although the manifest does not name it: the manifest is damaged, or older";
            return Err(Error::corruption(&path, 0, what));
        }
        // The copies may be all that is left of their commits. Their sequence numbers must not be given again (rule 3).
        self.last_seq = self.last_seq.max(scan.last_seq);
        self.empty.push(id);
        Ok(())
    }

    fn log_path(&self, id: FileId) -> PathBuf {
        names::log(self.dir, id)
    }

    /// The logs that the manifest names. These logs, or at least their headers, were synced before the edit that names them.
    fn relied_on(&self) -> impl Iterator<Item = FileId> {
        let replayed = self.state.families().values().map(|family| family.replay_from);
        replayed.chain(self.state.logs_named())
    }

    fn check_none_missing(&self, logs: &[FileId], first: FileId) -> Result<()> {
        for id in self.relied_on() {
            if id.0 > 0 && id >= first && !self.state.is_set_aside(id) && !logs.contains(&id) {
                return Err(Error::corruption(&self.log_path(id), 0, "the log is missing"));
            }
        }
        Ok(())
    }

    /// The newest log for which it is known that its header and all earlier logs were synced. There are three proofs: a family replays from
    /// the log, the manifest has its final length, or replay goes on with it behind a cut with `CutCovered`.
    fn synced_before(&self) -> FileId {
        let replayed = self.state.families().values().map(|family| family.replay_from);
        let covered = self.state.cuts().filter(|(_, cut)| cut.is_covered).map(|(_, cut)| cut.resume);
        let synced = replayed.chain(self.state.logs_sealed()).chain(covered);
        synced.max().expect("there is a default family")
    }

    /// Replays the copies of records whose logs are gone. The copies come first, because they are older than all other records that are
    /// replayed. They stay in memory, where they were before, even beyond its budget.
    fn replay_written_back(&mut self, logs: &[FileId]) -> Result<()> {
        let fs = self.env.fs.clone();
        let sealed = self.state.logs_sealed().max();
        for &log in logs {
            let path = self.log_path(log);
            let header = log::read_header(fs.as_ref(), &path, log)?;
            if self.is_check
                || mutant!("written_back_not_replayed")
                || !header.is_some_and(|header| header.written_back)
            {
                continue;
            }
            log::scan(fs.as_ref(), &path, log, self.known_end(log), &mut |frame| {
                // A record written back counts only if it is known to be stable: it lies before the covered end, or its log is not newer
                // than the newest log whose length the manifest has. The edit that relies on such records names that length. If an older
                // log ends at a cut without `CutCovered`, all replayed records go to tables instead.
                if let Numbers::Own { replay_from } = frame.numbers
                    && ((log, frame.offset) < self.covered || Some(log) <= sealed)
                {
                    self.replay_copies(log, replay_from, frame);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Replays the copies for families that replay from `replay_from` or a later log. Other families replay the original records.
    fn replay_copies(&mut self, log: FileId, replay_from: FileId, frame: &Frame) {
        for (seq, entry) in frame.entries() {
            let from = self.state.families().get(&entry.family).map(|known| known.replay_from);
            if !from.is_some_and(|from| (replay_from..=log).contains(&from)) {
                continue;
            }
            let family = &mut self.families[entry.family.0 as usize];
            let newest =
                family.writer.segment().get(entry.key, hash(entry.key), MAX_SEQ).map(|found| found.seq);
            if newest.is_none_or(|newest| newest < seq) {
                // Copies are replayed before all commits. So this log is the home of all sequence numbers below the first commit of a
                // replayed log.
                if self.logs_by_seq.of(seq).is_none() {
                    self.logs_by_seq.log_began(0, log);
                }
                family.holds((log, frame.offset));
                family.writer.insert(entry.key, seq, entry.kind, entry.value);
                self.copies.insert(seq);
                self.last_seq = self.last_seq.max(seq);
                self.report.entries += 1;
            }
        }
    }

    /// Checks that the oldest log follows a log that is not replayed any more. Otherwise logs are missing, or the manifest is older
    /// than the logs, as after a log collection.
    fn check_beginning(&self, logs: &[FileId], first: FileId) -> Result<()> {
        let Some(&oldest) = logs.first() else { return Ok(()) };
        let header = log::read_header(self.env.fs.as_ref(), &self.log_path(oldest), oldest)?;
        match header.and_then(|header| header.previous) {
            Some((previous, _)) if previous >= first => {
                let what = format!(
                    "the log is missing, although log {oldest} follows it and the manifest replays from {first}"
                );
                Err(Error::corruption(&self.log_path(previous), 0, what))
            }
            _ => Ok(()),
        }
    }

    /// Whether log `id` follows the newest replayed log without a hole.
    fn continues(&self, id: FileId) -> Result<bool> {
        let header = log::read_header(self.env.fs.as_ref(), &self.log_path(id), id)?;
        // A log without a header holds nothing, so it leaves no hole, unless a later log shows one.
        Ok(header.is_none_or(|header| header.previous == self.replayed.last().copied()))
    }

    /// The length of log `id` in the manifest, if it is known.
    fn known_end(&self, id: FileId) -> Option<u64> {
        self.state.cut_of(id).map(|cut| cut.offset).or_else(|| self.state.sealed_bytes(id))
    }

    fn replay(&mut self, id: FileId) -> Result<()> {
        let path = self.log_path(id);
        let fs = self.env.fs.clone();
        let known_end = self.known_end(id);
        let scan =
            log::scan(fs.as_ref(), &path, id, known_end, &mut |frame| self.replay_frame(id, &path, frame))?;
        self.last_seq = self.last_seq.max(scan.last_seq);
        self.report.logs += 1;
        let end = match scan.end {
            End::Sealed { length } => length,
            End::Open { offset } => offset,
            End::Torn { offset, bytes, whole_frames_behind } => {
                let cut = Cut { path: path.clone(), offset, bytes, whole_frames_behind };
                self.report.cut.get_or_insert(cut);
                offset
            }
        };
        let relied = self.synced_before();
        if scan.header.is_none() {
            // The process died while it created this log. The log holds nothing, and the log created next continues the log before this
            // one. If it does not, the hole shows there.
            return match self.relied_on().any(|relied| relied == id) {
                true => Err(Error::corruption(
                    &path,
                    0,
                    "the header of the log is gone, although the manifest relies on it",
                )),
                false => Ok(()),
            };
        }
        let is_whole = matches!(scan.end, End::Sealed { .. }) || known_end.is_some();
        if id < relied && !is_whole {
            let what = "the log ends here, although the manifest relies on more of it";
            return Err(Error::corruption(&path, end, what));
        }
        // A log without a frame is passed over, so that the next log shows whether a frame is missing. The first log is kept: without
        // it the next log would follow nothing.
        let is_empty = scan.frames == 0 && matches!(scan.end, End::Open { .. });
        match !is_empty || known_end.is_some() || self.replayed.is_empty() {
            true => self.replayed.push((id, end)),
            false => self.empty.push(id),
        }
        Ok(())
    }

    fn replay_frame(&mut self, log: FileId, path: &Path, frame: &Frame) -> Result<()> {
        self.report.frames += 1;
        let first = match frame.numbers {
            Numbers::From(first) => first,
            // The copies were replayed before all other records.
            Numbers::Own { .. } => return Ok(()),
        };
        // A second guard against frames in the wrong place. The first is the checksum, which includes the place; the mutant disables both
        // guards.
        if first <= self.last_commit && !mutant!("checksum_without_place") {
            let what =
                format!("the numbers of a batch begin at {first}, but {} was given before", self.last_commit);
            return Err(Error::corruption(path, frame.offset, what));
        }
        if self.logs_by_seq.of(first) != Some(log) {
            self.logs_by_seq.log_began(first, log);
        }
        let is_uncovered = (log, frame.offset) >= self.covered;
        if is_uncovered {
            self.uncovered.add_frame(frame.bytes, first);
        }
        for (seq, entry) in frame.entries() {
            self.last_commit = seq;
            let Some(known) = self.state.families().get(&entry.family) else {
                let what = format!("a record names column family {}, which does not exist", entry.family.0);
                return Err(Error::corruption(path, frame.offset, what));
            };
            let is_replayed = if mutant!("replay_by_sequence") {
                let slices = self.state.families().values().flat_map(|family| family.version.slices());
                let flushed = slices.map(|slice| slice.seqs.1).max().unwrap_or(0);
                seq > flushed
            } else {
                log >= known.replay_from
            };
            if is_replayed && !self.is_check {
                let family = &mut self.families[entry.family.0 as usize];
                family.holds((log, frame.offset));
                if self.copies.contains(&seq) {
                    continue;
                }
                if is_uncovered {
                    self.uncovered.add_entry(seq, &entry);
                }
                family.writer.insert(entry.key, seq, entry.kind, entry.value);
                self.report.entries += 1;
            }
        }
        let bytes = |family: &Family| family.writer.segment().bytes();
        let held: u64 = self.families.iter().map(bytes).sum();
        if held >= self.options.full_memory_bytes() as u64 && !self.in_place {
            let fullest = (0..self.families.len()).max_by_key(|&index| bytes(&self.families[index]));
            self.write_table(fullest.expect("there is a default family"))?;
        }
        Ok(())
    }

    /// Writes the memory of a family to a table, which joins L0 in the edit.
    fn write_table(&mut self, index: usize) -> Result<()> {
        let family = &mut self.families[index];
        if family.writer.segment().is_empty() {
            return Ok(());
        }
        let (_, writer) = Segment::new(self.env.random.next_u64());
        let full = std::mem::replace(&mut family.writer, writer);
        // The database has no readers yet.
        let retention = RetentionFilter::new(DropProof::new(Vec::new(), MAX_SEQ));
        let before = self.outputs.tables.len();
        let written = &self.counters.flush_bytes;
        self.outputs.belong_to(family.id);
        self.outputs.write(
            &mut full.segment().cursor(),
            retention,
            |_| false,
            |_, _| Edge::None,
            || Ok(()),
            written,
        )?;
        for table in &self.outputs.tables[before..] {
            let epoch = self.state.families()[&family.id].version.next_epoch() + family.tables;
            let run = RunId { level: 0, cell: Vec::new(), epoch };
            self.edit.add_whole_table(family.id, &run, table);
            family.tables += 1;
        }
        self.counters.flushes.add(1);
        Ok(())
    }

    /// Sets the logs `behind` aside, without replay: `behind[0]` does not continue the newest replayed log. Fails if anything proves
    /// that the missing part was synced.
    fn set_aside(&mut self, behind: &[FileId]) -> Result<()> {
        let &(newest, end) = self.replayed.last().expect("there is a hole behind it");
        let hole = |proof: String| {
            let what = format!("the log ends here, but {proof}");
            Err(Error::corruption(&names::log(self.dir, newest), end, what))
        };
        for &id in behind {
            if id <= self.synced_before() {
                return hole(format!("a flush relied on all of it, up to log {id}"));
            }
            let path = self.log_path(id);
            let scan: Scan = log::scan(self.env.fs.as_ref(), &path, id, None, &mut |_| Ok(()))?;
            if scan.max_mark > 0 {
                return hole(format!("log {id} says that the logs before it were synced"));
            }
            self.last_seq = self.last_seq.max(scan.last_seq);
            self.report.set_aside.push(path);
        }
        Ok(())
    }

    /// Decides which families keep their memory, with their logs, and which families' memory becomes tables.
    fn settle_memory(&mut self) -> Result<()> {
        if self.in_place {
            return Ok(());
        }
        let all = self.replayed.len() as u64 > LOGS_TO_KEEP || self.is_uncovered_before_a_cut();
        for index in 0..self.families.len() {
            let family = &self.families[index];
            let is_uncovered = family.held.is_some_and(|(_, last)| last >= self.covered);
            let is_rewritten = is_uncovered && !self.uncovered.are_copied();
            if all || family.tables > 0 || is_rewritten {
                self.write_table(index)?;
                self.families[index].held = None;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Recovered {
        let cut = self.cut();
        // Logs set aside behind a gap are not superseded: they are all that is left of their records.
        let behind_the_cut = |log: &FileId| cut.is_some_and(|(last, _)| *log > last);
        let superseded = self.replayed.iter().map(|(log, _)| *log).chain(self.empty.iter().copied());
        let superseded = superseded.filter(behind_the_cut).collect();
        let (mut settled, mut copied, mut families) = (Vec::new(), Vec::new(), Vec::new());
        let are_kept: Vec<bool> =
            self.families.iter().map(|family| !family.writer.segment().is_empty()).collect();
        self.report.rewritten_bytes = self.uncovered.bytes;
        let (first_uncovered, copies) = match self.in_place {
            true => (None, Vec::new()),
            false => (self.uncovered.first_seq, self.uncovered.copies_of(&are_kept)),
        };
        for family in self.families {
            let first = family.held.map(|(first, _)| first);
            // All of the family's records in memory are copied to the new log, so the family needs no older log.
            let is_copied = !self.in_place && first.is_some_and(|first| first >= self.covered);
            match first {
                None => settled.push(family.id),
                Some(_) if is_copied => copied.push(family.id),
                Some(_) => {}
            }
            let first_log = first.map(|(log, _)| log);
            let version = self.state.families()[&family.id].version.clone();
            families.push(RecoveredFamily { writer: family.writer, first_log, version });
        }
        Recovered {
            families,
            cut,
            superseded,
            copies,
            first_uncovered,
            last_seq: self.last_seq,
            logs_by_seq: self.logs_by_seq,
            report: self.report,
            outputs: Some(self.outputs),
            edit: self.edit,
            settled,
            copied,
        }
    }
}

impl Recovered {
    /// Appends the uncovered commits to the new log, with their numbers. They may use the room that puts leave free.
    pub fn copy_uncovered(&self, log: &mut LogWriter) -> Result<()> {
        for (batch, first) in &self.copies {
            log.append(&[(batch, *first)], false)?;
        }
        log.write_out()
    }

    /// Completes the edit once the new log is stable: where the old logs end, and which families still need them.
    pub fn complete_edit(&mut self, new_log: FileId) {
        let unneeded = self.settled.iter().chain(&self.copied);
        for &family in unneeded.clone() {
            self.edit.push(Change::ReplayFrom { family, log: new_log });
        }
        if unneeded.count() < self.families.len()
            && let Some((log, offset)) = self.cut
        {
            self.edit.push(Change::LogCut { log, offset, resume: new_log });
            self.edit.push(Change::CutCovered { log });
        }
        for &family in &self.copied {
            self.families[family.0 as usize].first_log = Some(new_log);
        }
        if let Some(first) = self.first_uncovered {
            self.logs_by_seq.log_began(first, new_log);
        }
    }
}
