//! The catalog: the manifest, the state that it describes, and what is under way.
//!
//! One lock holds it. Edits are committed under the lock, and their outcome is installed before the lock is let go (`jobs/mod.rs`).

use super::damage::Damages;
use super::hints::Hints;
use super::running::{MergeKind, StepOn};
use super::tier_room::TierState;
use crate::base::ids::{FamilyId, FileId, TierId};
use crate::base::mutant::mutant;
use crate::plan::form::{self, FormOptions, Pinned};
use crate::plan::{Claim, Claims, Plan, Ticket};
use crate::version::{CommitError, Edit, Manifest, State, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The manifest, and what is under way.
#[derive(Debug)]
pub(super) struct Catalog {
    manifest: Manifest,
    /// The state that the manifest describes.
    state: State,
    claims: Claims,
    /// Jobs that were submitted and have not ended.
    jobs: usize,
    /// Flushes and merges that have not given back their flushing set or claims.
    flushes_running: usize,
    merges_running: usize,
    /// Merges of `merges_running` that are steps of `compact`, of all callers.
    steps_running: usize,
    /// Steps of `steps_running` that callers of `compact` carry out on their own threads.
    callers_steps: usize,
    /// Whether a merge runs that was started because its rent had reached its price.
    is_buying: bool,
    tiers: TierState,
    /// Whether a log collection runs.
    collecting_logs: bool,
    /// Running calls of `compact`. They plan the merges; the scheduler plans only what keeps writers from waiting.
    manual: usize,
    /// Running calls of `settle`, which ask for all merges that are wanted.
    settling: usize,
    is_stopped: bool,
    /// Threads that read samples of tables, and hold versions meanwhile.
    sampling_threads: usize,
    /// Logs on disk.
    logs: BTreeSet<FileId>,
    /// Value files on disk that an edit has named, and their tiers.
    value_files: BTreeMap<FileId, TierId>,
    /// The value files of the current round of collection.
    collected: BTreeSet<FileId>,
    /// Value files, mostly garbage, whose values every merge that reads them writes anew if the device has room.
    carried: BTreeSet<FileId>,
    /// The value files of each excise that punches holes. Collection leaves them alone.
    emptied: Vec<BTreeSet<FileId>>,
    damages: Damages,
    /// Bytes of the logs that earlier opens wrote.
    older_log_bytes: BTreeMap<FileId, u64>,
    /// Bytes of whole logs that flushes could not keep as bodies because the bound of pinned bytes was reached, summed since logs were last
    /// let go.
    refused_bytes: u64,
    /// The newest log that was let go.
    let_go: Option<FileId>,
    hints: BTreeMap<FamilyId, Hints>,
}

impl Catalog {
    /// The catalog of a database that was opened just now. `logs` are the logs of earlier opens, with their bytes.
    pub(super) fn new(
        manifest: Manifest,
        state: State,
        logs: Vec<(FileId, u64)>,
        new_log: FileId,
    ) -> Catalog {
        Catalog {
            manifest,
            claims: Claims::default(),
            jobs: 0,
            flushes_running: 0,
            merges_running: 0,
            steps_running: 0,
            callers_steps: 0,
            is_buying: false,
            tiers: TierState::default(),
            collecting_logs: false,
            manual: 0,
            settling: 0,
            is_stopped: false,
            sampling_threads: 0,
            value_files: state.value_files().iter().map(|(&id, file)| (id, file.tier)).collect(),
            collected: BTreeSet::new(),
            carried: BTreeSet::new(),
            emptied: Vec::new(),
            damages: Damages::default(),
            state,
            logs: logs.iter().map(|(id, _)| *id).chain([new_log]).collect(),
            older_log_bytes: logs.into_iter().collect(),
            refused_bytes: 0,
            let_go: None,
            hints: BTreeMap::new(),
        }
    }

    /// Commits an edit to the manifest. After an error the state is as before.
    pub(super) fn commit(&mut self, edit: Edit) -> Result<(), CommitError> {
        let named = edit.value_files();
        self.state = self.manifest.commit(&self.state, edit)?;
        self.value_files.extend(named);
        Ok(())
    }

    /// The state that the manifest describes.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// The newest version of a family that exists.
    pub(super) fn version(&self, family: FamilyId) -> &Arc<Version> {
        &self.state.families()[&family].version
    }

    pub(super) fn manifest_id(&self) -> FileId {
        self.manifest.id()
    }

    /// Keeps new jobs from starting.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether a job was submitted that has not ended.
    pub(super) fn has_jobs(&self) -> bool {
        self.jobs > 0
    }

    /// Counts a job that was submitted.
    pub(super) fn job_began(&mut self) {
        self.jobs += 1;
    }

    /// A job ended. It had given back what it held.
    pub(super) fn job_ended(&mut self) {
        self.jobs -= 1;
    }

    pub(super) fn flush_began(&mut self) {
        self.job_began();
        self.flushes_running += 1;
    }

    /// The flush gave back its flushing set. Its job goes on.
    pub(super) fn flush_gave_back(&mut self) {
        self.flushes_running -= 1;
    }

    /// Claims what a plan touches.
    pub(super) fn merge_began(&mut self, plan: &Plan, kind: MergeKind) -> Ticket {
        self.job_began();
        self.merges_running += 1;
        self.steps_running += usize::from(kind.step.is_some());
        self.callers_steps += usize::from(kind.step == Some(StepOn::Caller));
        self.is_buying |= kind.is_bought;
        self.tiers.merge_began(kind.is_move);
        self.claims.take(plan)
    }

    /// The merge gives back its claims. Its job goes on.
    pub(super) fn merge_gave_back(&mut self, ticket: Ticket, kind: MergeKind) {
        self.merges_running -= 1;
        self.steps_running -= usize::from(kind.step.is_some());
        self.callers_steps -= usize::from(kind.step == Some(StepOn::Caller));
        self.is_buying &= !kind.is_bought;
        self.tiers.merge_ended(kind.is_move);
        self.claims.release(ticket);
        self.damages.merge_ended();
    }

    /// Counts an excise, and claims its ranges behind the jobs that hold them now.
    pub(super) fn excise_began(&mut self, claims: Vec<Claim>) -> Ticket {
        self.job_began();
        self.claims.wait_for(claims)
    }

    /// Replaces the first claims of an excise by those of its edit.
    pub(super) fn excise_widens(&mut self, ticket: &Ticket, claims: Vec<Claim>) {
        self.claims.widen(ticket, claims);
    }

    /// The excise gives back its claims and ends.
    pub(super) fn excise_ended(&mut self, ticket: Ticket) {
        self.claims.release(ticket);
        self.job_ended();
    }

    /// What running merges claim.
    pub(super) fn claims(&self) -> &Claims {
        &self.claims
    }

    pub(super) fn log_collection_began(&mut self) {
        self.job_began();
        self.collecting_logs = true;
    }

    /// The log collection copies nothing more. Its job goes on.
    pub(super) fn log_collection_gave_back(&mut self) {
        self.collecting_logs = false;
    }

    pub(super) fn is_collecting_logs(&self) -> bool {
        self.collecting_logs
    }

    pub(super) fn is_flushing(&self) -> bool {
        self.flushes_running > 0
    }

    pub(super) fn merges_running(&self) -> usize {
        self.merges_running
    }

    /// The running merges that merge threads carry out.
    pub(super) fn merges_on_threads(&self) -> usize {
        self.merges_running - self.callers_steps
    }

    /// The running steps of all callers of `compact`.
    pub(super) fn steps_running(&self) -> usize {
        self.steps_running
    }

    /// Whether a merge runs that was started because its rent had reached its price.
    pub(super) fn is_buying(&self) -> bool {
        self.is_buying
    }

    /// The number of running calls of `compact`, each counted by a `Counted`.
    pub(super) fn compacting(&mut self) -> &mut usize {
        &mut self.manual
    }

    /// The number of running calls of `settle`, each counted by a `Counted`.
    pub(super) fn settling(&mut self) -> &mut usize {
        &mut self.settling
    }

    /// Whether a caller of `compact` plans the merges.
    pub(super) fn is_manual(&self) -> bool {
        self.manual > 0
    }

    pub(super) fn is_settling(&self) -> bool {
        self.settling > 0
    }

    /// Whether no flush and no merge runs, and no caller of `compact` is about to start one.
    pub(super) fn is_idle(&self) -> bool {
        self.manual + self.merges_running + self.flushes_running == 0
    }

    pub(super) fn sampling_began(&mut self) {
        self.sampling_threads += 1;
    }

    pub(super) fn sampling_ended(&mut self) {
        self.sampling_threads -= 1;
    }

    /// Threads that read samples of tables.
    pub(super) fn sampling_threads(&self) -> usize {
        self.sampling_threads
    }

    /// What is known of tiers.
    pub(super) fn tiers(&self) -> &TierState {
        &self.tiers
    }

    pub(super) fn tiers_mut(&mut self) -> &mut TierState {
        &mut self.tiers
    }

    /// Counts the bytes on all tiers. Returns the number of slices.
    pub(super) fn count_tiers(&mut self) -> u64 {
        self.tiers.count(self.state.families().values().map(|family| &*family.version))
    }

    /// What scans noticed in a family.
    pub(super) fn hints(&self, family: FamilyId) -> Option<&Hints> {
        self.hints.get(&family)
    }

    pub(super) fn hints_mut(&mut self, family: FamilyId) -> &mut Hints {
        self.hints.entry(family).or_default()
    }

    /// The policies saw all hints, and want nothing more for now.
    pub(super) fn all_answered(&mut self, has_flushes: bool) {
        let is_idle = self.is_idle() && !has_flushes;
        for (id, hints) in &mut self.hints {
            if let Some(family) = self.state.families().get(id) {
                hints.answered(&family.version, is_idle);
            }
        }
    }

    /// The logs on disk, as far as the catalog was told of them.
    pub(super) fn logs(&self) -> &BTreeSet<FileId> {
        &self.logs
    }

    /// The logs that earlier opens wrote, with their bytes.
    pub(super) fn older_log_bytes(&self) -> &BTreeMap<FileId, u64> {
        &self.older_log_bytes
    }

    /// Takes off the list the logs before `replay_from` that tables of the state do not point into, unless they are held. `of_this_open`
    /// are logs that the catalog may not know yet.
    pub(super) fn take_logs(
        &mut self,
        of_this_open: impl Iterator<Item = FileId>,
        replay_from: FileId,
        is_held: impl Fn(FileId) -> bool,
    ) -> BTreeSet<FileId> {
        self.logs.extend(of_this_open);
        let named = self.state.log_bodies();
        let is_forgotten = mutant!("log_deleted_under_a_handle")
            || mutant!("handle_into_a_collected_log") && self.collecting_logs;
        let is_body = |id: FileId| !is_forgotten && (named.contains_key(&id) || is_held(id));
        self.older_log_bytes = self.older_log_bytes.split_off(&replay_from);
        self.logs.extract_if(.., |&id| id < replay_from && !is_body(id)).collect()
    }

    /// Takes off the list a log that recovery superseded.
    pub(super) fn take_superseded(&mut self, log: FileId) {
        assert!(self.state.is_set_aside(log), "recovery cut log {log} off");
        self.logs.remove(&log);
        self.older_log_bytes.remove(&log);
    }

    /// What merges could not read.
    pub(super) fn damages(&self) -> &Damages {
        &self.damages
    }

    /// Lets plans touch all damages again.
    pub(super) fn end_waits(&mut self) {
        self.damages.end_waits();
    }

    /// The value files of the current round of collection.
    pub(super) fn collected(&self) -> &BTreeSet<FileId> {
        &self.collected
    }

    /// Value files, mostly garbage, whose values every merge that reads them writes anew if the device has room.
    pub(super) fn carried(&self) -> &BTreeSet<FileId> {
        &self.carried
    }

    /// From here on merges write the values anew that they read from `carried` files, if the device has room. With `round` a round of
    /// collection begins.
    pub(super) fn collect(&mut self, carried: BTreeSet<FileId>, round: Option<BTreeSet<FileId>>) {
        self.carried = carried;
        self.collected = round.unwrap_or_else(|| std::mem::take(&mut self.collected));
    }

    /// Takes the files that damage pins out of the round of collection. Returns all files that damage pins.
    pub(super) fn leave_pinned(&mut self) -> BTreeSet<FileId> {
        self.damages.forget_gone(&self.state);
        let pinned = self.damages.pinned();
        self.collected.retain(|id| !pinned.contains(id));
        pinned
    }

    /// From here on collection leaves these files alone: an excise punches holes into them.
    pub(super) fn empty(&mut self, files: &BTreeSet<FileId>) {
        if !files.is_empty() {
            self.collected.retain(|id| !files.contains(id));
            self.emptied.push(files.clone());
        }
    }

    /// Gives back to collection what one call of [`Catalog::empty`] took.
    pub(super) fn end_emptying(&mut self, files: &BTreeSet<FileId>) {
        let at = self.emptied.iter().position(|other| other == files);
        self.emptied.swap_remove(at.expect("the files were taken before"));
    }

    /// The value files that excises punch now.
    pub(super) fn emptied(&self) -> impl Iterator<Item = FileId> {
        self.emptied.iter().flatten().copied()
    }

    /// Notes how many bytes of a value file lie in holes. Returns how many of them were not known.
    pub(super) fn note_holes(&mut self, id: FileId, hole_bytes: u64) -> u64 {
        self.state.note_holes(id, hole_bytes)
    }

    /// Ends a round of collection that only damage keeps from going on: its files are pinned. Returns whether there was a round.
    pub(super) fn end_round_at_damage(&mut self) -> bool {
        let left = std::mem::take(&mut self.collected);
        let was_round = !left.is_empty();
        if was_round {
            self.damages.pin(left);
        }
        was_round
    }

    /// Records that a merge which touched `claims` could not read a table or log. Returns whether plans avoid one more damage now.
    pub(super) fn met_unreadable_slices(&mut self, file: FileId, claims: &[Claim]) -> bool {
        self.damages.met_slices(file, claims, &self.state, &self.collected)
    }

    /// Records that a merge could not read a value file. Returns whether plans avoid one more damage now; `None` if the state does not name
    /// the file.
    pub(super) fn met_unreadable_values(&mut self, file: FileId) -> Option<bool> {
        self.state.value_files().contains_key(&file).then(|| self.damages.met_value_file(file))
    }

    /// Takes off the list the value files that the state names no more, unless they are held.
    pub(super) fn take_value_files(&mut self, is_held: impl Fn(FileId) -> bool) -> Vec<(FileId, TierId)> {
        let named = self.state.value_files();
        self.value_files.extract_if(.., |id, _| !named.contains_key(id) && !is_held(*id)).collect()
    }

    /// The newest log that was let go: merges rewrite the tables that point into it or into older logs.
    pub(super) fn let_go(&self) -> Option<FileId> {
        self.let_go
    }

    /// Counts the `bytes` of whole logs that a flush could not keep as bodies, because the bound of pinned bytes was reached. Once the sum
    /// reaches this bound, lets the oldest of the `pinned` logs go, a quarter of the bound.
    pub(super) fn count_refused(
        &mut self,
        bytes: u64,
        pinned: &BTreeMap<FileId, Pinned>,
        options: &FormOptions,
    ) {
        self.refused_bytes += bytes;
        let oldest = form::oldest(pinned, self.refused_bytes, options);
        if oldest.is_some() {
            self.let_go = self.let_go.max(oldest);
            self.refused_bytes = 0;
        }
    }
}
