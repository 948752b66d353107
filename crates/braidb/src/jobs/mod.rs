//! Background work. The scheduler asks policies for plans, and the executor carries them out. This module alone commits edits
//! to the manifest.
//!
//! # Which file holds a record at each instant
//!
//! *Flush.* (1) The commit queue took all memory of the family and rotated the log. The record is in memory and in a log at or
//! after its family's `replay_from`. (2) All logs before the new one are synced, oldest first, with their names. (3) The table
//! is written, synced, and its name synced. The record stands in two places; a crash leaves an orphan table. (4) The edit adds
//! the table and advances `replay_from`. The log is the record's home before the sync of the edit, the table after it. (5) The
//! view drops the flushing set and shows the table, in one swap. (6) Logs before the smallest `replay_from` are unlinked,
//! unless tables point into them.
//!
//! *Flush to a log table.* See `jobs/log_table.rs`.
//!
//! *Values in value files.* See `jobs/value_files.rs`.
//!
//! *Excise.* See `jobs/excise.rs`, and `jobs/value_holes.rs` on the values that it takes.
//!
//! *Write-back.* See `write/queue/collection.rs`.
//!
//! *Merge.* All outputs are synced with their names before the edit that names them. Until the sync of the edit the record
//! stands in an input; after the sync in an output. Inputs are unlinked when no view holds them. A large merge is carried out
//! in increments (`plan/tree/incremental.rs`). The first edit of a large merge only cuts slices, and each increment is a merge
//! as described here.
//!
//! *Move, split, join.* The table stays where it is; the edit gives its slices another level or cell, or cuts them in two.
//!
//! *Hole.* A block is punched out of a table when no slice that reaches it lives, neither in the state nor in any view. The
//! last edit of the state is synced by then. Each record in the block stands elsewhere, or no reader can see it.
//!
//! # Lock order
//!
//! Commits to the manifest happen under `catalog`. The changed versions are installed under `catalog`, too, so that views show
//! versions in the order of their edits.

mod asked;
mod catalog;
pub mod checkpoint;
mod cleanup;
mod collect_logs;
mod compact;
mod cuts;
mod damage;
mod excise;
mod flush;
mod hints;
mod log_table;
mod memory_compaction;
mod merge;
pub mod output;
mod pacer;
mod running;
mod stretch;
mod subcompactions;
pub mod tier_room;
pub mod trie;
mod value_files;
mod value_holes;
pub mod value_output;
mod wanted;

use crate::base::error::{Error, Result};
use crate::base::foreground::ForegroundMutex;
use crate::base::ids::{FamilyId, FileId, TierId};
use crate::base::key::COMPARATOR;
use crate::plan::form::FormOptions;
use crate::plan::memory::limits::MemoryLimits;
use crate::plan::memory::segments::SegmentOptions;
use crate::plan::tree::MoveTimes;
use crate::plan::tree::placement::TierMap;
use crate::plan::values::{Rewrites, ValueOptions};
use crate::plan::{Claims, Picker, Plan, TreeOptions};
use crate::table::{Reason, TableOptions};
use crate::version::state::Family;
use crate::version::table_file::TableFile;
use crate::version::{Change, CommitError, Edit, Manifest, State, TableStore, Version};
use crate::write::{CommitQueue, Shared};
use braidb_storage::locks::{Condvar, Mutex};
use braidb_storage::{Env, Lane};
use catalog::Catalog;
use cleanup::Deletions;
pub use cleanup::Orphans;
use hints::{EntriesReturned, Hints};
use memory_compaction::MemoryCompactor;
use output::{Outputs, Target};
use pacer::Pacer;
use running::{MergeKind, Running, StepOn, Work};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use tier_room::Share;
use trie::Tries;
use value_output::TrieOf;

/// How long a thread that waits for jobs sleeps before it looks again: 100 ms. The end of a job wakes it earlier.
const WAIT: Duration = Duration::from_millis(100);

/// The options that jobs and policies read.
#[derive(Clone, Debug)]
pub struct JobOptions {
    pub table: TableOptions,
    pub tree: TreeOptions,
    pub segments: SegmentOptions,
    pub memory: MemoryLimits,
    pub form: FormOptions,
    pub values: ValueOptions,
    /// Bytes of the device that flushes of log tables leave free for the largest merge.
    pub merge_reserve_bytes: u64,
    /// Merges that merge threads may carry out at the same time. Each caller of `compact` carries out one more.
    pub merges: usize,
    /// Bytes that all merges together may write in a second; `None` for no limit.
    pub merge_bytes_per_second: Option<u64>,
    /// How much stays on the fast tier, and what a move of a cell to another tier takes.
    pub share: Share,
    pub move_times: MoveTimes,
    /// The slow tiers that the caller of the open named.
    pub named_tiers: BTreeSet<TierId>,
    /// Whether merges start that no caller asked for and no writer waits for.
    pub background_merges: bool,
}

/// The scheduler and executor of one database.
#[derive(Debug)]
pub struct Jobs {
    pub parts: Parts,
    catalog: Mutex<Catalog>,
    compactor: ForegroundMutex<MemoryCompactor>,
    /// Signalled when a job ends.
    ended: Condvar,
    pacer: Option<Pacer>,
    /// Merges that are reading and writing.
    merging: AtomicU64,
    tries: Arc<Tries>,
    /// Value files that a thread punches, or gives a second name (rule 22).
    held_value_files: Mutex<BTreeSet<FileId>>,
    /// Whether files of slow tiers were deleted since the devices were asked for their free bytes.
    slow_files_gone: AtomicBool,
    deletions: Mutex<Deletions>,
    entries_returned: EntriesReturned,
    /// Whether a log was closed because it was full, or a flush ended, since a log collection last began.
    log_full: AtomicBool,
    /// Logs are full, and small families keep them: the next log collection writes these families back.
    writes_back_small: AtomicBool,
    /// Whether a job that calls `schedule` was submitted and has not begun.
    is_asked: AtomicBool,
    /// Whether a job that gives files back was submitted for readers and has not begun.
    is_collecting: AtomicBool,
}

/// The parts of the engine that jobs work on.
#[derive(Debug)]
pub struct Parts {
    pub dir: PathBuf,
    pub env: Env,
    pub options: JobOptions,
    pub shared: Shared,
    pub queue: Arc<CommitQueue>,
    pub tables: Arc<TableStore>,
}

impl Jobs {
    pub fn new(
        parts: Parts,
        manifest: Manifest,
        state: State,
        logs: Vec<(FileId, u64)>,
        new_log: FileId,
    ) -> Jobs {
        let mut parts = parts;
        let descriptors = parts.tables.descriptors().clone();
        // A merge holds a table, a value file, and at least one value file that waits for its sync. The fourth descriptor is for a log or
        // a manifest.
        parts.options.merges = parts.options.merges.min((descriptors.most() / 4).clamp(1, 64) as usize);
        let tries = Tries::new(descriptors, parts.options.merges + 1);
        let pacer = parts
            .options
            .merge_bytes_per_second
            .map(|rate| Pacer::new(rate, parts.env.clock.clone(), parts.env.runtime.clone()));
        let jobs = Jobs {
            parts,
            catalog: Mutex::new(Catalog::new(manifest, state, logs, new_log)),
            compactor: ForegroundMutex::default(),
            ended: Condvar::new(),
            pacer,
            merging: AtomicU64::new(0),
            tries: Arc::new(tries),
            held_value_files: Mutex::default(),
            slow_files_gone: AtomicBool::new(false),
            deletions: Mutex::default(),
            entries_returned: EntriesReturned::default(),
            log_full: AtomicBool::new(false),
            writes_back_small: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            is_collecting: AtomicBool::new(false),
        };
        let mut catalog = jobs.catalog.lock();
        jobs.count_l0(&catalog);
        jobs.choose_collected(&mut catalog);
        jobs.count_tiers(&mut catalog);
        let is_slow = |table: &&Arc<TableFile>| table.tier != TierId::FAST;
        let slow: Vec<_> = catalog.state().tables().filter(is_slow).cloned().collect();
        drop(catalog);
        // An error is ignored here: a reader that needs the table meets it again.
        slow.iter().for_each(|table| _ = table.reader());
        jobs
    }

    /// Starts all work that is wanted and allowed now. Called by jobs, and by callers that wait for jobs.
    pub fn schedule(self: &Arc<Self>) {
        self.compact_memory();
        self.ask_samples();
        let mut catalog = self.catalog.lock();
        if catalog.is_stopped() || self.parts.shared.health.check_writable().is_err() {
            return;
        }
        loop {
            let tasks = self.parts.shared.flushes.take();
            if tasks.is_empty() {
                break;
            }
            catalog.flush_began();
            let running = Running { jobs: self.clone(), work: Some(Work::Flush(tasks)) };
            self.parts.env.runtime.submit(Lane::Flush, Box::new(move || running.flush()));
        }
        self.start_log_collection(&mut catalog);
        // The step of a caller of `compact` takes no merge thread.
        while catalog.merges_on_threads() < self.parts.options.merges {
            let Some((plan, version)) = self.propose(&mut catalog) else {
                catalog.all_answered(self.parts.shared.flushes.has_tasks());
                break;
            };
            self.start_merge(&mut catalog, plan, version);
        }
    }

    /// The first plan that a family's policy wants, where the family with the fullest L0 is asked first. Plans that touch damage wait
    /// (`jobs/damage.rs`). If the first plan moves a cell off the fast tier, it is compared with the plans of the other families.
    fn propose(&self, catalog: &mut Catalog) -> Option<(Plan, Arc<Version>)> {
        self.ask_free_bytes(catalog);
        let avoided = catalog.damages().avoided();
        if avoided.is_empty() {
            return self.propose_beside(catalog.claims(), catalog);
        }
        loop {
            let plan = self.propose_beside(&catalog.claims().avoiding(avoided.clone()), catalog);
            let is_idle = catalog.merges_running() == 0 && !catalog.is_manual();
            if plan.is_some() || !is_idle {
                return plan;
            }
            if !self.end_round_at_damage(catalog) {
                break;
            }
        }
        let but_one = |others| self.propose_beside(&catalog.claims().avoiding(others), catalog);
        let plan = catalog.damages().avoided_but_one().find_map(but_one);
        plan.or_else(|| self.propose_beside(catalog.claims(), catalog))
    }

    fn propose_beside(&self, claims: &Claims, catalog: &Catalog) -> Option<(Plan, Arc<Version>)> {
        let mut families: Vec<_> = catalog.state().families().iter().collect();
        families.sort_by_key(|(id, family)| (std::cmp::Reverse(family.version.level(0).runs()), **id));
        let to_rewrite = self.tables_to_rewrite(catalog);
        let tiers = self.tiers(catalog);
        let (options, nothing) = (&self.parts.options.tree, Hints::default());
        let now = |id: &FamilyId| {
            let hints = catalog.hints(*id).unwrap_or(&nothing);
            hints.now(&self.parts.shared.snapshots, &to_rewrite, !catalog.is_buying(), tiers.as_ref())
        };
        let in_turn = |&(id, family): &(&FamilyId, &Family)| {
            let (version, now) = (&family.version, now(id));
            let plan = Picker { family: *id, version, claims, now: &now, options }.leave_in_turn()?;
            Some((plan, version.clone()))
        };
        let is_given_up = tiers.as_ref().is_some_and(|tiers| tiers.given_up.is_some());
        if !catalog.is_manual()
            && is_given_up
            && let Some(plan) = families.iter().find_map(in_turn)
        {
            return Some(plan);
        }
        let mut plans = families.into_iter().filter_map(|(id, family)| {
            let (version, now) = (&family.version, now(id));
            let picker = Picker { family: *id, version, claims, now: &now, options };
            let plan = if !catalog.is_manual() && (self.plans_unasked(catalog) || is_given_up) {
                picker.propose()?
            } else if version.level(0).runs() >= options.l0_slowdown_tables && self.relieves_l0() {
                // A caller of `compact` plans all other merges, or the user wants none. L0 is merged even then, so that no writer waits at
                // its limit.
                picker.relieve_l0()?
            } else {
                return None;
            };
            Some((plan, version.clone()))
        });
        let first = plans.next()?;
        if !tier_room::is_leaving(&first.0) {
            return Some(first);
        }
        // Of all families the coldest cell leaves the fast tier.
        Some(plans.fold(
            first,
            |coldest, other| {
                if tier_room::leaves_before(&other.0, &coldest.0) { other } else { coldest }
            },
        ))
    }

    /// Whether L0 is merged so that writers do not wait at its limit. If the user wants no background merges, this begins only after a
    /// writer of this open was slowed down: a program that only reads merges nothing.
    fn relieves_l0(&self) -> bool {
        let counters = &self.parts.shared.counters;
        self.parts.options.background_merges || counters.slowdowns.get() + counters.stalls.get() > 0
    }

    /// Whether merges start that no writer waits for.
    fn plans_unasked(&self, catalog: &Catalog) -> bool {
        self.parts.options.background_merges || catalog.is_settling()
    }

    fn start_merge(self: &Arc<Self>, catalog: &mut Catalog, plan: Plan, version: Arc<Version>) {
        let running = self.claim(catalog, &plan, None);
        let job = move || {
            // `end_job` reports the outcome to threads that wait for the merge.
            let _ = running.merge(plan, version);
        };
        self.parts.env.runtime.submit(Lane::Merge, Box::new(job));
    }

    /// Claims what a plan touches, and counts it as a running job. `step` is for a step of `compact`.
    fn claim(self: &Arc<Self>, catalog: &mut Catalog, plan: &Plan, step: Option<StepOn>) -> Running {
        let bought = match plan {
            Plan::Merge(merge) => Some(merge).filter(|merge| merge.reason == Reason::Bought),
            _ => None,
        };
        if let Some(merge) = bought {
            self.parts.shared.counters.bought_merges.add(1);
            self.parts.shared.counters.rent_spent_ns.add(merge.paid_ns());
        }
        let kind = MergeKind { is_bought: bought.is_some(), is_move: tier_room::is_move(plan), step };
        let ticket = catalog.merge_began(plan, kind);
        Running { jobs: self.clone(), work: Some(Work::Merge(ticket, kind)) }
    }

    /// Tells all waiting threads that a job ended, and starts what it made possible. A failed job starts nothing: the same job would start
    /// at once and fail again. A thread that waits for the job, or writes at a limit, schedules again later.
    fn end_job(self: &Arc<Self>, lane: Lane, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                self.parts.shared.pressure.progressed(lane);
                self.schedule();
            }
            Err(error) => {
                self.parts.shared.counters.job_failures.add(1);
                self.parts.shared.pressure.failed(lane, error);
            }
        }
        self.ended.notify_all();
        self.collect_garbage();
    }

    /// The error that a failed job reports: `LockLost` if another process took the directory, else `error`.
    fn blame(&self, error: Error) -> Error {
        match self.parts.shared.dir_lock.check() {
            Err(lost @ Error::LockLost { .. }) => self.parts.shared.health.poison(lost),
            _ => error,
        }
    }

    /// Commits an edit to the manifest. The caller holds the catalog, and installs the outcome before it lets go of the
    /// catalog.
    fn commit(&self, catalog: &mut Catalog, mut edit: Edit) -> Result<()> {
        self.parts.shared.health.check_unpoisoned()?;
        edit.push(Change::LastSeq(self.parts.shared.snapshots.visible()));
        match catalog.commit(edit) {
            Ok(()) => {}
            Err(CommitError::Refused(error)) => return Err(error),
            Err(CommitError::Poison(error)) => return Err(self.parts.shared.health.poison(error)),
        }
        self.choose_collected(catalog);
        self.count_l0(catalog);
        self.count_tiers(catalog);
        Ok(())
    }

    /// As [`Jobs::commit`], for an edit that names `outputs`. The tables are deleted only if the edit is certainly not on disk.
    fn commit_tables(
        &self,
        catalog: &mut Catalog,
        edit: Edit,
        outputs: impl IntoIterator<Item = Outputs>,
    ) -> Result<()> {
        let committed = self.commit(catalog, edit);
        if committed.is_ok() || self.parts.shared.health.check_unpoisoned().is_err() {
            outputs.into_iter().for_each(Outputs::keep);
        }
        committed
    }

    /// Syncs the names of new tables. A failure in the database's directory is final and poisons the database. The directory also holds
    /// the names of logs, and what a failed sync was to make stable may be lost for good. A failure in a slow directory ends the job.
    fn sync_names(&self, outputs: &Outputs) -> Result<()> {
        outputs.sync_slow_names()?;
        outputs.sync_names().map_err(|error| self.parts.shared.health.poison(error))
    }

    /// Tells the back-pressure the largest number of L0 tables of any family.
    fn count_l0(&self, catalog: &Catalog) {
        let families = catalog.state().families().values();
        let fullest = families.map(|family| family.version.level(0).runs()).max().unwrap_or(0);
        self.parts.shared.pressure.set_l0_tables(fullest as u64);
    }

    /// Where and with which options tables for `level` of `family` are written, and which values of value files are written anew.
    fn target(
        &self,
        family: FamilyId,
        level: usize,
        reason: Reason,
        rewrites: Option<Arc<Rewrites>>,
        tier_map: Arc<TierMap>,
    ) -> Target {
        Target {
            fs: self.parts.env.fs.clone(),
            dirs: self.parts.tables.dirs().clone(),
            files: self.parts.shared.files.clone(),
            counters: self.parts.shared.counters.clone(),
            values: self.parts.options.values,
            reason,
            rewrites,
            tier_map,
            trie: TrieOf { tries: self.tries.clone(), family },
            options: TableOptions {
                has_sample: self.parts.options.tree.wants_sample(level),
                ..self.parts.options.table
            },
        }
    }

    /// The family called `name`.
    pub fn family(&self, name: &str) -> Result<FamilyId> {
        let catalog = self.catalog.lock();
        let missing = || {
            let known = catalog.state().families().values().map(|family| family.name.clone()).collect();
            Error::MissingFamily { name: name.to_owned(), known }
        };
        catalog.state().family_named(name).ok_or_else(missing)
    }

    /// The family called `name`, created if there is none.
    pub fn create_family(&self, name: &str) -> Result<FamilyId> {
        let mut catalog = self.catalog.lock();
        if let Some(id) = catalog.state().family_named(name) {
            return Ok(id);
        }
        let families = catalog.state().families();
        self.parts.shared.health.check_writable()?;
        let id = catalog.state().next_family();
        // A new family has no record, so any log may be its first. The log that is chosen here is known to exist.
        let replay_from =
            families.values().map(|family| family.replay_from).max().expect("there is a default family");
        let mut edit = Edit::default();
        edit.push(Change::FamilyCreated {
            id,
            name: name.to_owned(),
            comparator: COMPARATOR.to_owned(),
            replay_from,
        });
        self.commit(&mut catalog, edit)?;
        let added = self.parts.queue.room().add_family(Arc::new(Version::default()));
        assert_eq!(added, id, "families are numbered in the order of their creation");
        Ok(id)
    }

    /// The names of all families, by id.
    pub fn family_names(&self) -> Vec<String> {
        self.catalog.lock().state().families().values().map(|family| family.name.clone()).collect()
    }

    /// Waits until `done` holds, and runs jobs of a stepped runtime meanwhile. An error of a job of one of `lanes` ends the
    /// wait.
    fn wait_until(
        self: &Arc<Self>,
        lanes: &[Lane],
        mut done: impl FnMut(&mut Catalog) -> bool,
    ) -> Result<()> {
        let before = self.parts.shared.pressure.failures();
        loop {
            self.schedule();
            let helped = self.parts.env.runtime.help();
            let mut catalog = self.catalog.lock();
            if done(&mut catalog) {
                return Ok(());
            }
            self.parts.shared.health.check_writable()?;
            if let Some(error) =
                lanes.iter().find_map(|&lane| self.parts.shared.pressure.failure_since(before, lane))
            {
                return Err(error);
            }
            if !helped {
                self.ended.wait_for(&mut catalog, WAIT);
            }
        }
    }

    /// Keeps new jobs from starting, waits for the running ones, and deletes the files that no reader holds.
    pub fn stop(self: &Arc<Self>) {
        let mut catalog = self.catalog.lock();
        catalog.stop();
        while catalog.has_jobs() || !self.stop_memory_compaction() {
            drop(catalog);
            let helped = self.parts.env.runtime.help();
            catalog = self.catalog.lock();
            if !helped && (catalog.has_jobs() || !self.stop_memory_compaction()) {
                self.ended.wait_for(&mut catalog, WAIT);
            }
        }
        drop(catalog);
        // Deletes what readers left to a job that never began. This comes before the seal of the log, which may need the space.
        self.collect_garbage_at_close();
        let mut catalog = self.catalog.lock();
        while self.is_deleting() {
            self.ended.wait_for(&mut catalog, WAIT);
        }
    }

    /// Records that `log` was closed with exactly `bytes`, when the database closes.
    pub fn record_seal(&self, log: FileId, bytes: u64) -> Result<()> {
        let mut edit = Edit::default();
        edit.push(Change::LogSealed { log, bytes });
        self.commit(&mut self.catalog.lock(), edit)
    }

    /// Shows `look` the state, the manifest's id, and the logs on disk as far as edits told of them. No edit is made and no
    /// manifest is deleted meanwhile. Tables of the state stay as long as the caller holds a copy of the state.
    pub fn with_files<T>(&self, look: impl FnOnce(&State, FileId, &BTreeSet<FileId>) -> T) -> T {
        let catalog = self.catalog.lock();
        look(catalog.state(), catalog.manifest_id(), catalog.logs())
    }

    /// Bytes of the logs on disk.
    pub fn log_bytes(&self) -> u64 {
        self.catalog.lock().older_log_bytes().values().sum::<u64>() + self.parts.shared.log_sync.appended()
    }
}
