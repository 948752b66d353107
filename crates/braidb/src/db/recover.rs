//! Recovery: from the manifest's state and the logs, everything that was written and not lost.
//!
//! Logs are read from the oldest that some family replays, in the order of their ids. Each names the one before it and that
//! one's final length, so a hole between two logs shows. *Whether* a record counts is decided by its position (rule 3): a
//! family replays the logs at or after its `replay_from`; *which* version wins, by its number.
//!
//! The first end that is not whole ends the replay (rule 4). It is an honest end (a crash took what was not synced) only if
//! nothing proves that the lost part was synced. Proofs are: a mark in a frame, here or in a later log; the manifest, where a
//! family replays from a later log (a flush syncs all logs before it advances), or where the log was sealed or cut.
//! Against a proof the database refuses to open: opening would lose acknowledged writes.
//!
//! # Which file holds a record at each instant
//!
//! While the logs are read: the logs, as before; memory and new tables are copies that a crash forgets (orphan tables are
//! collected by the next open). Then what no synced mark covers is written anew and synced: to tables, or to the new log
//! (`recover/covered.rs` has that story); then ONE edit names the cut, the new tables and each family's new `replay_from`. Before
//! the edit a crash leaves what this recovery found; after it, the logs up to the cut, and the new log or tables in the rest's
//! stead. Only then does the database accept writes. So recovery is idempotent.

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
use crate::jobs::output::{Outputs, Target};
use crate::log::{self, EncodedBatch, End, Frame, LogWriter, Numbers, Scan};
use crate::memory::{LogsBySeq, Segment, SegmentWriter};
use crate::plan::Edge;
use crate::version::{Change, Edit, RunId, State};
use crate::visible::rule::{DropProof, RetentionFilter};
use crate::write::RecoveredFamily;
use braidb_storage::Env;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place in the sequence of logs: a log and an offset. All earlier logs stand before it, and the bytes of the log below the offset.
type Place = (FileId, u64);

/// Before the first log.
const NOWHERE: Place = (FileId(0), 0);

/// A database in recovery.
pub(super) struct Recovery<'a> {
    pub dir: &'a Path,
    pub env: &'a Env,
    pub options: &'a Options,
    pub state: &'a State,
    pub counters: Arc<Counters>,
    /// By family id.
    families: Vec<Family>,
    /// The logs that were replayed, ascending, and where the good part of each ends.
    replayed: Vec<Place>,
    /// Logs that no later open needs: logs that an open left before its edit, and logs without a frame.
    empty: Vec<FileId>,
    /// What stands before is stable.
    covered: Place,
    /// What stands behind, and is replayed.
    uncovered: Uncovered,
    last_seq: SeqNo,
    /// The largest number of the commits that were read.
    last_commit: SeqNo,
    /// The numbers of the copies that were taken. Beside a copy its record would be one too many.
    copies: BTreeSet<SeqNo>,
    logs_by_seq: LogsBySeq,
    report: RecoveryReport,
    outputs: Outputs,
    edit: Edit,
    /// Nothing is replayed; the logs are only walked.
    is_check: bool,
    /// The device has no room for tables or copies: all of it stays in memory, whatever the budget, and in the logs.
    in_place: bool,
}

/// What was replayed of one family.
struct Family {
    id: FamilyId,
    writer: SegmentWriter,
    /// Where its first and its last record in memory stand.
    held: Option<(Place, Place)>,
    /// Tables written so far; with any, the rest of its memory becomes one too.
    tables: u64,
}

/// What recovery brought back. The caller makes the new log, then commits the edit, then keeps the outputs.
pub(super) struct Recovered {
    pub families: Vec<RecoveredFamily>,
    /// Where the old logs are cut.
    pub cut: Option<Place>,
    /// The logs behind the cut of which every record stands in the new log or in a table. They go once the edit is stable.
    pub superseded: Vec<FileId>,
    /// Uncovered commits for the new log, with the first number of each batch.
    copies: Vec<(EncodedBatch, SeqNo)>,
    /// The first number of an uncovered commit.
    first_uncovered: Option<SeqNo>,
    pub last_seq: SeqNo,
    /// Where the records in memory stand in the logs.
    pub logs_by_seq: LogsBySeq,
    pub report: RecoveryReport,
    pub outputs: Outputs,
    pub edit: Edit,
    /// Families that need no log before the new one.
    settled: Vec<FamilyId>,
    /// Of these, those with records in the new one.
    copied: Vec<FamilyId>,
}

/// More logs than this are not kept for the next open: their memory becomes tables now.
const LOGS_TO_KEEP: u64 = 8;

impl Family {
    /// A record in its memory stands at `place`. Replay goes upwards, so that one comparison is enough for nearly all records.
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
            dir: dir.to_owned(),
            files: files.clone(),
            options: options.table_options(0),
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
            uncovered: Uncovered::new(most_copied_bytes(options.memtable_bytes)),
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

    /// Replays `on_disk`, the logs in the directory, ascending.
    pub fn run(mut self, on_disk: &[FileId]) -> Result<Recovered> {
        self.walk(on_disk)?;
        if self.in_place {
            self.rewrite_in_place()?;
        }
        self.settle_memory()?;
        self.outputs.sync_names()?;
        Ok(self.finish())
    }

    /// Writes no tables and no copies: what no synced mark covers is written again where it stands.
    pub fn in_place(mut self) -> Recovery<'a> {
        self.in_place = true;
        self
    }

    /// Walks the logs as `run` does, changes nothing, and says what would keep the database from opening.
    pub fn check(mut self, on_disk: &[FileId]) -> Result<()> {
        self.is_check = true;
        self.walk(on_disk)
    }

    /// Reads the logs that count.
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

    /// Of the logs in the directory, each log that may be replayed: no family is past it, no cut sets it aside, and no open left it
    /// before its edit.
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
    /// alone, with mark 0. Every commit, and the footer, came after the edit and the log's first sync, and so says more.
    fn pass_over_abandoned(&mut self, id: FileId) -> Result<()> {
        let path = self.log_path(id);
        let scan = log::scan(self.env.fs.as_ref(), &path, id, None, &mut |_| Ok(()))?;
        if scan.max_mark > 0 || matches!(scan.end, End::Sealed { .. }) {
            let what = "the log was written to, although the manifest does not name it: the manifest is damaged, or older";
            return Err(Error::corruption(&path, 0, what));
        }
        // The copies may be all that is left of their commits, whose numbers are not given again (rule 3).
        self.last_seq = self.last_seq.max(scan.last_seq);
        self.empty.push(id);
        Ok(())
    }

    fn log_path(&self, id: FileId) -> PathBuf {
        names::log(self.dir, id)
    }

    /// The logs that the manifest names. They, or their headers at least, were synced before it did.
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

    /// All logs before this one are known to be synced to their ends, and so is its header: some family was flushed up to it, it was
    /// closed with a length that the manifest tells, or replay goes on with it behind a covered cut.
    fn synced_before(&self) -> FileId {
        let replayed = self.state.families().values().map(|family| family.replay_from);
        let covered = self.state.cuts().filter(|(_, cut)| cut.is_covered).map(|(_, cut)| cut.resume);
        let synced = replayed.chain(self.state.logs_sealed()).chain(covered);
        synced.max().expect("there is a default family")
    }

    /// Copies of records whose logs are gone come first: they are older than all else that is replayed. They stay in memory, where
    /// they were before, whatever the budget.
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
                // The edit that relies on copies names the length of their log or of a later one. That covers them, unless an older log
                // ends at a cut without the flag; then all that is replayed goes to tables.
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

    /// Takes the copies that families need which replay from `replay_from` or later. The others replay the records themselves.
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
                // Until a log begins with a number, the home is that of all numbers.
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

    /// The oldest log that is there follows one that is not replayed any more. Otherwise some are missing, or the manifest
    /// is older than they are, as after a log collection.
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

    /// Whether log `id` follows the newest one without a hole.
    fn continues(&self, id: FileId) -> Result<bool> {
        let header = log::read_header(self.env.fs.as_ref(), &self.log_path(id), id)?;
        // A log without a header holds nothing, so it leaves no hole either; unless there is more behind it.
        Ok(header.is_none_or(|header| header.previous == self.replayed.last().copied()))
    }

    /// How long the manifest knows log `id` to be.
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
            // A log that was being made when the process died. It holds nothing, and the next log that was made continues
            // the one before it; if that is not so, the hole shows there.
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
        // A log that was begun and got no frame is passed over, so that the next one shows whether a frame of it is missing. Not the
        // first, without which there would be nothing to follow.
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
            // They were taken before all else.
            Numbers::Own { .. } => return Ok(()),
        };
        // A second guard against frames in the wrong place, which the mutant of the first does without.
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
        if held >= self.options.memtable_bytes as u64 && !self.in_place {
            let fullest = (0..self.families.len()).max_by_key(|&index| bytes(&self.families[index]));
            self.write_table(fullest.expect("there is a default family"))?;
        }
        Ok(())
    }

    /// Writes the memory of a family to a table that joins L0 in the edit at the end.
    fn write_table(&mut self, index: usize) -> Result<()> {
        let family = &mut self.families[index];
        if family.writer.segment().is_empty() {
            return Ok(());
        }
        let (_, writer) = Segment::new(self.env.random.next_u64());
        let full = std::mem::replace(&mut family.writer, writer);
        // There are no readers yet.
        let sieve = RetentionFilter::new(DropProof::new(Vec::new(), MAX_SEQ));
        let before = self.outputs.tables.len();
        let written = &self.counters.flush_bytes;
        self.outputs.write(
            &mut full.segment().cursor(),
            sieve,
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

    /// Log `behind[0]` does not continue the newest one: the logs from there on are not replayed, unless something proves
    /// that what is missing before them was synced.
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

    /// Decides which families keep their memory, with their logs, and which turn it into tables.
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
        // Of logs set aside behind a gap none is among them: they are all that is left of what they hold.
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
            // All that it has in memory is copied to the new log, so it needs no older one.
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
            outputs: self.outputs,
            edit: self.edit,
            settled,
            copied,
        }
    }
}

impl Recovered {
    /// Appends the uncovered commits to the new log, with their numbers. The room that puts leave alone is there for this.
    pub fn copy_uncovered(&self, log: &mut LogWriter) -> Result<()> {
        for (batch, first) in &self.copies {
            log.append(&[(batch, *first)], false)?;
        }
        log.write_out()
    }

    /// Completes the edit once the new log exists and is stable: where the old ones end, and which families still need them.
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
