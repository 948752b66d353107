//! Gives space back: deletes files that nothing needs any more (rule 1), and punches out of tables what no slice needs. What
//! cannot be given back now stays for the next open, and costs space, never data.
//!
//! *Logs and value files.* A job locks the catalog, whose last edit is synced. It finds that the state does not name the file and that
//! nothing holds it. So it takes the file off the catalog's lists ([`Gone`]). From here on no edit names the file: a number is given once,
//! and a job that names an older file holds it. So the job lets go of the catalog before it unlinks. Other jobs commit meanwhile; a crash
//! leaves a file that no edit names, which the next open deletes. Two kinds of files are deleted under the catalog: outputs of a refused
//! edit, and older manifests.
//!
//! *Holes.* A slice leaves the state with a synced edit, and dies with the last view that holds it. Its table may live on for
//! other slices. Blocks that no living slice can read are then punched out. Each table tracks the ranges of its living slices
//! ([`TableFile::held`](crate::version::table_file::TableFile::held)). The next open punches the holes that a crash after the
//! edit prevented.

use super::{Catalog, Jobs};
use crate::base::error::Result;
use crate::base::ids::{FileId, TierId};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::tier_dirs::TierDirs;
use crate::log::Forgotten;
use crate::version::table_file::TableFile;
use crate::version::table_file::puncher::Puncher;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Dead tables that one job unlinks after a reader has ended: 8. ext4 takes up to 95 ms to free a table's blocks, so a merge that waits for
/// the thread waits less than a second.
const TABLES_A_JOB: usize = 8;

/// Files that an open found and no edit names: a crash interrupted the jobs that wrote them.
#[derive(Debug, Default)]
pub struct Orphans {
    pub tables: Vec<(TierId, FileId)>,
    pub value_files: Vec<(TierId, FileId)>,
}

impl Orphans {
    /// The paths of all orphans on `tier`.
    pub fn paths_on(&self, tier: TierId, dirs: &TierDirs) -> Vec<PathBuf> {
        let there = |files: &[(TierId, FileId)]| -> Vec<FileId> {
            files.iter().filter(|(of, _)| *of == tier).map(|&(_, id)| id).collect()
        };
        let tables = there(&self.tables).into_iter().map(|id| dirs.table(tier, id));
        let value_files = there(&self.value_files).into_iter().map(|id| dirs.values(tier, id));
        tables.chain(value_files).collect()
    }
}

/// The deletions that run, by number. A thread that waits for space waits for the deletions that have begun. It waits for no later ones,
/// because jobs and readers may begin deletions without end.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// The number of the deletion that began last, from 1; 0 before the first.
    last: u64,
    running: BTreeSet<u64>,
}

/// A thread that gives files back, counted until the drop.
pub(super) struct Deleting<'a> {
    jobs: &'a Jobs,
    number: u64,
}

impl Deleting<'_> {
    pub fn new(jobs: &Jobs) -> Deleting<'_> {
        let mut deletions = jobs.deletions.lock();
        deletions.last += 1;
        let number = deletions.last;
        deletions.running.insert(number);
        Deleting { jobs, number }
    }
}

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.jobs.deletions.lock().running.remove(&self.number);
        self.jobs.ended.notify_all();
    }
}

/// Logs and value files that are off the lists of the catalog: the last edit, which is synced, does not name them, no job and no view holds
/// them, and no later edit names them. [`Jobs::unlink_gone`] deletes them. Without this call they stay on disk until the next open.
#[must_use = "the files are deleted once the catalog is let go"]
pub(super) struct Gone<'a> {
    logs: BTreeSet<FileId>,
    value_files: Vec<(FileId, TierId)>,
    /// The open files of what is unlinked. They are closed after the unlinks, which frees the blocks.
    forgotten: Forgotten,
    /// Counts the thread, because a writer without space waits for its deletions.
    _deleting: Deleting<'a>,
}

impl Gone<'_> {
    fn nothing(jobs: &Jobs) -> Gone<'_> {
        let (logs, value_files) = (BTreeSet::new(), Vec::new());
        Gone { logs, value_files, forgotten: Forgotten::default(), _deleting: Deleting::new(jobs) }
    }
}

impl Jobs {
    /// Takes the logs that no family replays any more, as a synced edit says. Logs that a table of the state or of a view
    /// points into stay.
    pub(super) fn take_logs_below(&self, catalog: &mut Catalog, replay_from: FileId) -> Gone<'_> {
        let mut gone = Gone::nothing(self);
        let of_this_open = self.parts.shared.log_sync.sizes().into_iter().map(|(log, _)| log);
        let is_held = |id| self.parts.tables.bodies().is_held(id);
        gone.logs.extend(catalog.take_logs(of_this_open, replay_from, is_held));
        gone.forgotten = self.parts.shared.log_sync.forget_below(replay_from);
        gone
    }

    /// Takes the value files that no table of the state names and no reader holds; none while it is unknown which edit is the last, and none
    /// after the close.
    pub(super) fn take_value_files_gone(&self, catalog: &mut Catalog) -> Gone<'_> {
        let mut gone = Gone::nothing(self);
        if self.parts.shared.health.check_writable().is_ok() {
            gone.value_files = self.take_value_files(catalog);
        }
        gone
    }

    /// Deletes files that were taken. The caller has let go of the catalog: an unlink takes up to 100 ms, and so does the close of an
    /// unlinked log. Returns the number of logs.
    pub(super) fn unlink_gone(&self, gone: Gone<'_>) -> u64 {
        for &id in &gone.logs {
            self.unlink(&names::log(&self.parts.dir, id));
        }
        for &(id, tier) in &gone.value_files {
            // While a descriptor is open, the file system does not free the space of an unlinked file.
            self.parts.tables.close(id);
            self.unlink(&self.parts.tables.dirs().values(tier, id));
            self.has_given_back(tier);
        }
        gone.logs.len() as u64
    }

    /// Gives back the tables, parts of tables, and logs behind tables that neither the manifest nor any view refers to. A
    /// poisoned handle gives nothing back: its last edit may not be the last one, or another process may be in the directory. After a close
    /// began, only the closing thread gives back: another process may open the directory once the close returned.
    pub fn collect_garbage(&self) {
        let Some(_deleting) = self.begin_deleting() else { return };
        self.give_tables_back(usize::MAX);
        // The last table that pointed into a log or value file may be gone. If a commit holds the catalog, the next collection takes them.
        let gone = self.catalog.try_lock().and_then(|mut catalog| self.take_bodies(&mut catalog));
        gone.into_iter().for_each(|gone| _ = self.unlink_gone(gone));
    }

    /// As [`Jobs::collect_garbage`], and waits for a commit that is under way.
    pub(super) fn collect_all_garbage(&self) {
        let Some(_deleting) = self.begin_deleting() else { return };
        self.give_all_back();
    }

    /// As [`Jobs::collect_all_garbage`], by the thread that closes the database.
    pub(super) fn collect_garbage_at_close(&self) {
        if self.has_garbage() && self.parts.shared.health.check_unpoisoned().is_ok() {
            self.give_all_back();
        }
    }

    fn give_all_back(&self) {
        self.give_tables_back(usize::MAX);
        self.give_bodies_back();
    }

    /// Gives back what the end of a reader left, a few tables in one job. The job holds a merge thread, so the rest goes to another job behind
    /// the merges that wait.
    pub(super) fn collect_some_garbage(self: &Arc<Self>) {
        let Some(deleting) = self.begin_deleting() else { return };
        let has_more = self.give_tables_back(TABLES_A_JOB);
        self.give_bodies_back();
        drop(deleting);
        if has_more {
            self.collect_garbage_soon();
        }
    }

    /// Gives back all that nothing holds, for a writer that found no space. Returns whether there was something.
    pub fn collect_garbage_now(self: &Arc<Self>) -> bool {
        let had_garbage = self.has_garbage() || self.is_deleting();
        self.collect_all_garbage();
        had_garbage && self.wait_for_deletions().is_ok()
    }

    /// Waits for the deletions that have begun, and for no later ones.
    pub fn wait_for_deletions(self: &Arc<Self>) -> Result<()> {
        let last = self.deletions.lock().last;
        self.wait_until(&[], |_| self.deletions.lock().running.first().is_none_or(|&number| number > last))
    }

    /// Whether there may be something to give back.
    pub(super) fn has_garbage(&self) -> bool {
        self.parts.tables.has_garbage() || self.parts.tables.bodies().any_died()
    }

    /// `None` if there is nothing to give back, or the handle is closed or poisoned.
    fn begin_deleting(&self) -> Option<Deleting<'_>> {
        if !self.has_garbage() {
            return None;
        }
        // Counted before the check: a close first refuses, and then waits for the threads that are counted.
        let deleting = Deleting::new(self);
        self.parts.shared.health.check_writable().ok().map(|()| deleting)
    }

    /// Punches all holes, and unlinks at most `most` dead tables. Returns whether that many were dead.
    fn give_tables_back(&self, most: usize) -> bool {
        self.parts.tables.takes_garbage();
        self.punch_all(&self.parts.tables.take_frayed());
        let dead = self.parts.tables.take_dead(most);
        for &(tier, id) in &dead {
            self.unlink(&self.parts.tables.dirs().table(tier, id));
            self.has_given_back(tier);
        }
        dead.len() == most
    }

    /// Unlinks logs and value files that no table points into any more.
    fn give_bodies_back(&self) {
        let gone = self.take_bodies(&mut self.catalog.lock());
        gone.into_iter().for_each(|gone| _ = self.unlink_gone(gone));
    }

    /// Takes logs and value files that no table points into any more. No file is taken while it is unknown which edit is the last: an edit
    /// poisons the handle under the catalog.
    fn take_bodies(&self, catalog: &mut Catalog) -> Option<Gone<'_>> {
        self.parts.shared.health.check_unpoisoned().ok()?;
        self.parts.tables.bodies().take_any_died().then(|| {
            let mut gone = self.take_logs_below(catalog, catalog.state().min_replay_from());
            gone.value_files = self.take_value_files(catalog);
            gone
        })
    }

    /// Whether a thread gives files back now. A thread is counted before it takes anything from the lists of what is dead.
    pub(super) fn is_deleting(&self) -> bool {
        !self.deletions.lock().running.is_empty()
    }

    /// Punches out of tables what none of their living slices reaches. If another thread punches a table now, the table is left
    /// to it. The next call of `collect_garbage` retries what failed.
    fn punch_all(&self, tables: &[Arc<TableFile>]) {
        // Every table's puncher is taken before the first hole: a panic then puts the other tables back on the list that waits for holes.
        let punchers: Vec<Puncher> = tables.iter().filter_map(Puncher::take).collect();
        punchers.into_iter().for_each(|puncher| self.punch(puncher));
    }

    pub(super) fn punch(&self, puncher: Puncher) {
        let path = self.parts.tables.dirs().table(puncher.tier(), puncher.table_id());
        let mut taken = Some(puncher);
        while let Some(mut puncher) = taken {
            // A hole would be in the other database, too, which may read what is dead here (rule 22).
            let is_alone = matches!(self.parts.env.fs.links(&path), Ok(1)) || mutant!("linked_file_punched");
            let holes = if is_alone { puncher.new_holes() } else { Ok(Vec::new()) };
            let Ok(holes) = holes else { return };
            for hole in holes {
                match self.parts.env.fs.punch_hole(&path, hole.start, hole.end - hole.start) {
                    Ok(()) => {
                        self.has_given_back(puncher.tier());
                        self.parts.shared.counters.hole_bytes.add(puncher.punched(hole));
                    }
                    // Some file systems do not support holes. There a merge rewrites the living rest of a table sooner or later.
                    Err(error) if error.kind() == ErrorKind::Unsupported => {}
                    Err(_) => return,
                }
            }
            taken = puncher.end();
        }
    }

    /// Unlinks files that the open found and nothing refers to: tables and value files of interrupted jobs, old logs, and logs that
    /// recovery `superseded` behind its cut. If superseded logs stayed, each kill of a process would leave a log for as long as a family
    /// replays from before the cut.
    pub fn collect_after_open(&self, orphans: &Orphans, superseded: &[FileId]) {
        let mut catalog = self.catalog.lock();
        // A process that lost the lock may have removed an orphan after the open listed it, and recovery may have used its number again.
        let is_unnamed = |(tier, id): &&(TierId, FileId)| {
            let is_table = catalog.state().table(*id).is_some_and(|table| table.tier == *tier);
            let value_file = catalog.state().value_files().get(id);
            let is_value_file = value_file.is_some_and(|file| file.tier == *tier);
            !is_table && (!is_value_file || mutant!("value_file_forgotten_at_open"))
        };
        let dirs = self.parts.tables.dirs();
        let tables = orphans.tables.iter().filter(is_unnamed).map(|&(tier, id)| dirs.table(tier, id));
        let value_files = orphans.value_files.iter().filter(is_unnamed);
        let value_files = value_files.map(|&(tier, id)| dirs.values(tier, id));
        // No later edit names these files: numbers are not given twice.
        let mut unneeded: Vec<PathBuf> = tables.chain(value_files).collect();
        let replay_from = catalog.state().min_replay_from();
        // `take_logs_below` handles the logs before `replay_from`.
        let bodies = catalog.state().log_bodies();
        let is_unneeded = |log: &&FileId| **log >= replay_from && !bodies.contains_key(log);
        let superseded: Vec<FileId> = superseded.iter().filter(is_unneeded).copied().collect();
        for log in superseded {
            catalog.take_superseded(log);
            unneeded.push(names::log(&self.parts.dir, log));
        }
        let gone = self.take_logs_below(&mut catalog, replay_from);
        // Punches the holes that a crash prevented.
        let mut living: BTreeMap<FileId, u64> = BTreeMap::new();
        for slice in catalog.state().families().values().flat_map(|family| family.version.slices()) {
            *living.entry(slice.table.id).or_default() += slice.bytes;
        }
        let is_frayed =
            |table: &&Arc<TableFile>| living.get(&table.id).is_some_and(|&bytes| bytes < table.full_bytes());
        let frayed: Vec<_> = catalog.state().tables().filter(is_frayed).cloned().collect();
        drop(catalog);
        unneeded.iter().for_each(|path| self.unlink(path));
        self.unlink_gone(gone);
        self.punch_all(&frayed);
    }

    pub(super) fn unlink(&self, path: &Path) {
        if self.parts.env.fs.unlink(path).is_ok() {
            self.parts.shared.counters.files_deleted.add(1);
        }
    }
}
