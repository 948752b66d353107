//! What the planner is told of tiers: how many bytes each has, which one takes cells now, and which one the user gives up.
//!
//! # Which file holds a record at each instant
//!
//! *A cell moves to another tier.* The move is a merge (`jobs/mod.rs`): the record stands in an input until the sync of the edit, and in an
//! output after it. Outputs are synced before, each with its name in the directory of its own tier (rule 12). A crash in between leaves
//! orphans on either device, which the next open deletes. Inputs are unlinked when no view holds them.
//!
//! # A tier that fails
//!
//! A slow device may fail or be full while the database is open. Reads of its files then fail, with the file in the error; other reads go
//! on. Merges treat files that cannot be read as damage (`jobs/damage.rs`). A merge that could not *write* there closes the tier: nothing
//! is written to it until [`FIRST_WAIT`] merges have ended or [`FIRST_WAIT_US`] have passed, and twice as many after each further failure.
//! What belongs to its cells stays on the fast tier meanwhile, so writes go on until the fast tier is full. If a merge fails there while a
//! writer waits at the limit of L0, the writer gets the error once. No record is lost: the inputs stay until an edit that names the
//! outputs. The end of the wait alone starts nothing: the next flush, job or call of `settle` plans again.
//!
//! # A tier that the user gives up
//!
//! [`Jobs::evacuate`] has the planner move all cells of the tier to another one. The tier takes nothing more, and merges that began before
//! are waited for. The old files are unlinked, and the directory is synced. Then one edit takes the tier out of the database. The file
//! `TIER` is deleted after the sync of the edit. A crash in between leaves a directory with a `TIER` alone, which may become a tier again.
//! A file that a view holds is deleted with the view. If the process dies before that, the file stays, and the directory is refused until
//! the user deletes the file.
//!
//! At least every second merge moves a cell off the tier. So the evacuation ends even if writers keep merges busy for ever.
//!
//! One tier is given up at a time. After a failure the tier takes cells again, and another call goes on.

use super::cleanup::Deleting;
use super::{Catalog, Jobs};
use crate::base::error::{Error, Result};
use crate::base::ids::{Epoch, TierId};
use crate::base::names;
use crate::base::report::TierStats;
use crate::plan::tree::placement::TierMap;
use crate::plan::tree::{Placement, Tiers};
use crate::plan::{Merge, Plan};
use crate::version::{Change, Edit, Slice, TierFile, Version, next_epoch};
use braidb_storage::Lane;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Merges that end before a closed tier is written to again: 16. A failed merge for each 16 costs less than a tier that stays unused.
const FIRST_WAIT: u64 = 16;
/// Microseconds after which a closed tier is written to again, however few merges end: 10 s. In a database at rest no merge ends. After the
/// device works again, the tier stays unused at most as long as it had failed, or 10 s.
const FIRST_WAIT_US: u64 = 10_000_000;
/// Failures after which the waits no longer double: 16, waits of a million merges and of a week.
const MOST_DOUBLINGS: u32 = 16;
/// Tables that a slow device keeps free: 2. A merge into a slow cell writes the cell again before the old file goes.
const FREE_TABLES: u64 = 2;
/// Bytes that a slow device keeps free at least: 16 KiB. Each open writes `TIER` there twice, a block each.
const LEAST_FREE_BYTES: u64 = 16 << 10;

/// Plans that rely on one answer of the slow devices about their free bytes: 32. A device on a network may answer late, and the catalog is
/// locked meanwhile. A merge that wrote there, a file that went, and each call of `settle` have the devices asked anew.
const PLANS_OF_AN_ANSWER: u32 = 32;

/// How much of the data stays on the fast tier.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Percent of all bytes in tables and value files.
    pub percent: u32,
    /// Bytes in place of the share, if the user named them.
    pub bytes: Option<u64>,
}

/// A tier that could not be written.
#[derive(Clone, Copy, Debug)]
struct Closed {
    failures: u32,
    /// The number of the merge at whose end the tier is tried again, and the time when it is tried again even if fewer have ended.
    until: u64,
    until_us: u64,
}

impl Closed {
    fn is_waiting(&self, ended: u64, now_us: u64) -> bool {
        self.until > ended && self.until_us > now_us
    }
}

/// What the catalog knows of tiers.
#[derive(Debug, Default)]
pub(super) struct TierState {
    closed: BTreeMap<TierId, Closed>,
    /// Merges that ended, with success or not.
    ended: u64,
    /// A tier that the user gives up.
    given_up: Option<TierId>,
    /// Tiers that left the database in this open. Their directories stay open, and take nothing.
    left: BTreeSet<TierId>,
    /// Free bytes of the slow devices, and how many plans may still rely on them.
    free_bytes: BTreeMap<TierId, u64>,
    plans_left: u32,
    /// Where running merges write.
    writing: Vec<Weak<TierMap>>,
    /// Whether a cell is on its way to another tier.
    is_moving: bool,
    /// Whether the merge that ended last moved a cell to another tier.
    has_moved: bool,
    /// Bytes in tables and value files of all families, and of these the bytes on slow tiers.
    total_bytes: u64,
    slow_bytes: u64,
}

impl TierState {
    pub fn merge_began(&mut self, is_move: bool) {
        self.is_moving |= is_move;
    }

    /// A merge ended.
    pub fn merge_ended(&mut self, is_move: bool) {
        self.is_moving &= !is_move;
        self.ended += 1;
        self.has_moved = is_move;
        if is_move {
            self.forget_free_bytes();
        }
    }

    /// A merge could not write to a tier. Returns whether the tier took merges until now.
    fn failed(&mut self, tier: TierId, now_us: u64) -> bool {
        self.forget_free_bytes();
        let closed = self.closed.entry(tier).or_insert(Closed { failures: 0, until: 0, until_us: 0 });
        let is_new = !closed.is_waiting(self.ended, now_us);
        if is_new {
            let doublings = closed.failures.min(MOST_DOUBLINGS);
            closed.until = self.ended + (FIRST_WAIT << doublings);
            closed.until_us = now_us.saturating_add(FIRST_WAIT_US << doublings);
            closed.failures += 1;
        }
        is_new
    }

    /// A merge wrote to a tier: its failures are forgotten.
    pub fn written(&mut self, tier: TierId) {
        self.closed.remove(&tier);
        if tier != TierId::FAST {
            self.forget_free_bytes();
        }
    }

    /// The next plan asks the slow devices for their free bytes.
    pub fn forget_free_bytes(&mut self) {
        self.plans_left = 0;
    }

    /// The tiers that take nothing now.
    fn closed(&self, now_us: u64) -> BTreeSet<TierId> {
        let is_waiting = |closed: &Closed| closed.is_waiting(self.ended, now_us);
        let failed = self.closed.iter().filter(|(_, closed)| is_waiting(closed)).map(|(&tier, _)| tier);
        failed.chain(self.given_up).chain(self.left.iter().copied()).collect()
    }

    /// Bytes that the fast tier may take within its share, beside what running merges bring there.
    fn fast_room_bytes(&self, share: &Share) -> u64 {
        let fast_bytes = self.total_bytes.saturating_sub(self.slow_bytes);
        let coming = self.writing.iter().filter_map(Weak::upgrade).map(|map| map.staged_bytes());
        let taken_bytes = coming.fold(fast_bytes, u64::saturating_add);
        share.bound_bytes(self.total_bytes).saturating_sub(taken_bytes)
    }

    /// Whether a running merge may write to a tier.
    fn is_written(&self, tier: TierId) -> bool {
        self.writing.iter().filter_map(Weak::upgrade).any(|map| map.may_take(tier))
    }

    /// Counts the bytes of all tiers. Returns the number of slices.
    pub fn count<'a>(&mut self, versions: impl Iterator<Item = &'a Version>) -> u64 {
        (self.total_bytes, self.slow_bytes) = (0, 0);
        let mut slices = 0;
        for slice in versions.flat_map(Version::slices) {
            self.total_bytes = self.total_bytes.saturating_add(slice.bytes);
            self.slow_bytes = self.slow_bytes.saturating_add(slice.slow_bytes());
            slices += 1;
        }
        slices
    }
}

impl Share {
    fn bound_bytes(&self, total_bytes: u64) -> u64 {
        self.bytes.unwrap_or((u128::from(total_bytes) * u128::from(self.percent) / 100) as u64)
    }
}

impl Jobs {
    /// Counts what lies on which tier. Called after each edit.
    pub(super) fn count_tiers(&self, catalog: &mut Catalog) {
        if self.parts.tables.dirs().has_slow() {
            self.parts.tables.heat().set_slices(catalog.count_tiers());
        }
    }

    /// A file of a tier was deleted, or lost blocks.
    pub(super) fn has_given_back(&self, tier: TierId) {
        if tier != TierId::FAST {
            self.slow_files_gone.store(true, Ordering::Relaxed);
        }
    }

    /// Asks the slow devices for their free bytes, unless their last answer still counts. Called before each plan.
    pub(super) fn ask_free_bytes(&self, catalog: &mut Catalog) {
        let dirs = self.parts.tables.dirs();
        let has_room_more = self.slow_files_gone.swap(false, Ordering::Relaxed);
        let tiers = catalog.tiers_mut();
        if (tiers.plans_left == 0 || has_room_more) && dirs.has_slow() {
            let ask = |tier| (tier, self.parts.env.fs.free_space(dirs.of(tier)).unwrap_or(0));
            tiers.free_bytes = dirs.slow().filter(|tier| !tiers.left.contains(tier)).map(ask).collect();
            tiers.plans_left = PLANS_OF_AN_ANSWER;
        }
        tiers.plans_left = tiers.plans_left.saturating_sub(1);
    }

    /// What the planner is told of tiers; `None` without slow ones.
    pub(super) fn tiers(&self, catalog: &Catalog) -> Option<Tiers> {
        let dirs = self.parts.tables.dirs();
        if !dirs.has_slow() {
            return None;
        }
        let state = catalog.tiers();
        let closed = state.closed(self.parts.env.clock.now_us());
        let reserve_bytes = (FREE_TABLES * self.parts.options.tree.table_bytes).max(LEAST_FREE_BYTES);
        let takes_cells = |tier: &TierId| !closed.contains(tier);
        let room = |tier: TierId| {
            let free_bytes = state.free_bytes.get(&tier).copied().unwrap_or(0);
            (tier, free_bytes.saturating_sub(reserve_bytes))
        };
        let mut targets: Vec<(TierId, u64)> = dirs.slow().filter(takes_cells).map(room).collect();
        // Among tiers with equal room, the one with the smaller number comes first.
        let named = &self.parts.options.named_tiers;
        targets.sort_by_key(|&(tier, room)| (!named.contains(&tier), Reverse(room), tier));
        let fast_bytes = state.total_bytes.saturating_sub(state.slow_bytes);
        Some(Tiers {
            fast_bytes,
            fast_bound_bytes: self.parts.options.share.bound_bytes(state.total_bytes),
            targets,
            given_up: state.given_up,
            is_their_turn: !state.has_moved,
            is_settling: self.parts.tables.heat().is_settling(),
            is_moving: state.is_moving,
            times: self.parts.options.move_times,
            unreadable: catalog.damages().unreadable(),
        })
    }

    /// What is on each tier; nothing without slow ones.
    pub fn tier_stats(&self) -> Vec<TierStats> {
        let dirs = self.parts.tables.dirs();
        let catalog = self.catalog.lock();
        let closed = catalog.tiers().closed(self.parts.env.clock.now_us());
        let known = catalog.state().tiers().map(|tier| tier.id).filter(|_| dirs.has_slow());
        let stats = known.map(|id| {
            let mut stats = TierStats {
                id: id.0,
                path: dirs.of(id).to_owned(),
                bytes: bytes_on(&catalog, id),
                cells: 0,
                free_bytes: self.parts.env.fs.device_free_space(dirs.of(id)).unwrap_or(0),
                reads: 0,
                is_closed: closed.contains(&id),
            };
            let versions = catalog.state().families().values().map(|family| &family.version);
            for cell in versions.flat_map(|version| version.levels()).flat_map(|level| &level.cells) {
                let mut slices =
                    cell.slices().map(|(_, slice)| slice).filter(|slice| slice.bytes_on(id) > 0).peekable();
                stats.cells += u64::from(slices.peek().is_some());
                let reads = slices.map(|slice| slice.slow_reads()).fold(0, u64::saturating_add);
                stats.reads += if id == TierId::FAST { 0 } else { reads };
            }
            stats
        });
        let stats: Vec<TierStats> = stats.collect();
        if stats.len() > 1 { stats } else { Vec::new() }
    }

    /// Where a merge that reads `version` writes.
    pub(super) fn tier_map(&self, merge: &Merge, version: &Version) -> Arc<TierMap> {
        let mut catalog = self.catalog.lock();
        let closed = catalog.tiers().closed(self.parts.env.clock.now_us());
        let has_slow = self.parts.tables.dirs().has_slow();
        let of_share = if has_slow { catalog.tiers().fast_room_bytes(&self.parts.options.share) } else { 0 };
        // Logs, garbage and files of other programs may fill a device whose share is not used up.
        let room_bytes = if of_share > 0 { of_share.min(self.room_bytes()) } else { 0 };
        let map = Arc::new(TierMap::of(merge, version, closed, room_bytes));
        if has_slow {
            let writing = &mut catalog.tiers_mut().writing;
            writing.retain(|map| map.strong_count() > 0);
            writing.push(Arc::downgrade(&map));
        }
        map
    }

    /// Moves everything off a slow tier, and takes the tier out of the database. `progress` gets the bytes that are left whenever they
    /// change. The caller of `progress` holds no lock. Writing and reading go on meanwhile.
    pub fn evacuate(self: &Arc<Self>, dir: &Path, mut progress: impl FnMut(u64)) -> Result<()> {
        self.parts.shared.health.check_writable()?;
        let dirs = self.parts.tables.dirs();
        let tier = {
            let mut catalog = self.catalog.lock();
            let is_it = |tier: &TierId| dirs.of(*tier) == dir && !catalog.tiers().left.contains(tier);
            let why = "it is no slow tier of the database; `stats` lists the tiers";
            let tier = dirs.slow().find(is_it).ok_or_else(|| Error::tier(dir, why))?;
            if catalog.tiers().given_up.is_some() {
                return Err(Error::tier(dir, "a tier is emptied already; wait until it is empty"));
            }
            catalog.tiers_mut().given_up = Some(tier);
            // What an earlier call could not read is read again.
            catalog.end_waits();
            self.choose_collected(&mut catalog);
            tier
        };
        let given_up = GivenUp { jobs: self, tier };
        let emptied = self.empty(tier, dir, &mut progress);
        drop(given_up);
        if emptied.is_err() {
            self.schedule();
        }
        let _deleting = emptied?;
        self.parts.shared.dir_lock.left(dir);
        // A crash before the unlink leaves a file that no database needs. The tier takes nothing more in this open, even if the file stays.
        let (fs, file) = (&self.parts.env.fs, dir.join(names::TIER));
        fs.unlink(&file).map_err(|error| Error::io("delete", &file, error))?;
        fs.sync_dir(dir).map_err(|error| Error::io("sync the directory", dir, error))
    }

    /// Waits until the tier is empty, and commits the edit that takes it out. While the returned value lives, a close waits.
    fn empty(
        self: &Arc<Self>,
        tier: TierId,
        dir: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Deleting<'_>> {
        let (mut told, mut is_swept) = (None, false);
        // The merge that began last when the tier was found empty. This merge and earlier ones may hold files that their edits have
        // replaced.
        let mut last_holder = None;
        loop {
            let mut left_bytes = 0;
            let mut found = None;
            self.wait_until(&[Lane::Merge], |catalog| {
                left_bytes = bytes_on(catalog, tier);
                found = self.emptied(catalog, tier, dir).and_then(|is_empty| {
                    let last = *last_holder.get_or_insert(catalog.claims().last());
                    match is_empty {
                        Ok(()) if !catalog.claims().are_released(last) => None,
                        Ok(()) if is_swept => Some(self.take_out(catalog, tier).map(Some)),
                        other => Some(other.map(|()| None)),
                    }
                });
                found.is_some() || told != Some(left_bytes)
            })?;
            // No lock is held: `progress` may use the database.
            if told != Some(left_bytes) {
                progress(left_bytes);
                told = Some(left_bytes);
            }
            match found {
                None => {}
                Some(Ok(None)) => {
                    // Tables that stay in the directory would keep it from becoming a tier again. After this call only views hold some.
                    // What another thread took to delete is gone before the sync.
                    self.collect_all_garbage();
                    let gone = self.take_value_files_gone(&mut self.catalog.lock());
                    self.unlink_gone(gone);
                    self.wait_for_deletions()?;
                    let synced = self.parts.env.fs.sync_dir(dir);
                    synced.map_err(|error| Error::io("sync the directory", dir, error))?;
                    is_swept = true;
                }
                Some(Ok(Some(deleting))) => return Ok(deleting),
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Commits the edit that takes a tier out. The caller deletes `TIER`, and is counted from before the release of the catalog: a close
    /// would not wait for it otherwise.
    fn take_out(&self, catalog: &mut Catalog, tier: TierId) -> Result<Deleting<'_>> {
        let deleting = Deleting::new(self);
        let mut edit = Edit::default();
        edit.push(Change::TierRemoved { id: tier });
        self.commit(catalog, edit)?;
        Ok(deleting)
    }

    /// Gives all tiers a new epoch, in the steps of an open (`version/directory/tier_file.rs`). This is the last edit before a close. So a
    /// manifest that was copied while the database was open is too old for the tiers. If a slow device fails, the tiers accept the epoch
    /// that they have.
    pub fn raise_epoch(&self) -> Result<()> {
        let mut catalog = self.catalog.lock();
        let tiers: Vec<TierId> = catalog.state().tiers().map(|tier| tier.id).collect();
        let Some(earlier) = catalog.state().tiers().next().map(|fast| fast.epoch).filter(|_| tiers.len() > 1)
        else {
            return Ok(());
        };
        let Some(epoch) = next_epoch(earlier, self.parts.env.random.as_ref()) else { return Ok(()) };
        let (fs, dirs) = (self.parts.env.fs.as_ref(), self.parts.tables.dirs());
        // If `TIER` has another epoch than `from`, another process has taken the tier over.
        let write = |from: Epoch, earlier: Epoch| {
            tiers.iter().filter(|&&tier| tier != TierId::FAST).all(|&tier| {
                let now = TierFile::read(fs, dirs.of(tier)).ok().flatten().filter(|now| now.epoch == from);
                now.is_some_and(|now| TierFile { epoch, earlier, ..now }.write(fs, dirs.of(tier)).is_ok())
            })
        };
        if !write(earlier, earlier) {
            return Ok(());
        }
        let mut edit = Edit::default();
        tiers.iter().for_each(|&id| edit.push(Change::Tier { id, epoch }));
        self.commit(&mut catalog, edit)?;
        // A failure is harmless: a tier that is not confirmed accepts the epoch of the edit, too.
        write(epoch, epoch);
        Ok(())
    }

    /// Whether a tier is empty, and stays so. `None` while merges move cells off it, or may write there.
    fn emptied(&self, catalog: &mut Catalog, tier: TierId, dir: &Path) -> Option<Result<()>> {
        if catalog.is_stopped() {
            return Some(Err(Error::Closed));
        }
        if !has_files_on(catalog, tier) && !catalog.tiers().is_written(tier) {
            return Some(Ok(()));
        }
        // No merge runs, and neither the scheduler nor a caller of `compact` plans one: what is left cannot be moved.
        if catalog.is_idle() && self.propose(catalog).is_none() {
            let left_bytes = bytes_on(catalog, tier);
            let why = format!(
                "{left_bytes} bytes on it cannot be moved: run `braidb verify` to see which files are damaged"
            );
            return Some(Err(Error::tier(dir, why)));
        }
        None
    }

    /// A merge failed. If it could not write to a slow tier, the tier is closed for a time. Returns whether other plans go on.
    pub(super) fn met_failed_tier(&self, error: &Error) -> bool {
        let Some(tier) = self.unwritable(error) else { return false };
        self.catalog.lock().tiers_mut().failed(tier, self.parts.env.clock.now_us())
    }

    /// The slow tier that an error tells could not be written.
    pub(super) fn unwritable(&self, error: &Error) -> Option<TierId> {
        let path = match error {
            Error::Io { operation: "read" | "open", .. } => return None,
            Error::Io { path, .. } | Error::Full { path, .. } => path,
            _ => return None,
        };
        let dirs = self.parts.tables.dirs();
        dirs.slow().find(|&tier| path == dirs.of(tier) || path.parent() == Some(dirs.of(tier)))
    }

    /// The tiers that take nothing now.
    pub(super) fn closed_tiers(&self, catalog: &Catalog) -> BTreeSet<TierId> {
        catalog.tiers().closed(self.parts.env.clock.now_us())
    }
}

/// A tier that is given up. Dropped, also by a panic of the user's `progress`: the tier takes cells again unless it has left.
struct GivenUp<'a> {
    jobs: &'a Jobs,
    tier: TierId,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let mut catalog = self.jobs.catalog.lock();
        catalog.tiers_mut().given_up = None;
        if !catalog.state().tiers().any(|tier| tier.id == self.tier) {
            catalog.tiers_mut().left.insert(self.tier);
        }
    }
}

/// Bytes of slices and their values on a tier.
fn bytes_on(catalog: &Catalog, tier: TierId) -> u64 {
    let versions = catalog.state().families().values().map(|family| &family.version);
    let slices = versions.flat_map(|version| version.slices());
    slices.fold(0, |sum: u64, slice| sum.saturating_add(slice.bytes_on(tier)))
}

/// Whether the state names a file on a tier.
fn has_files_on(catalog: &Catalog, tier: TierId) -> bool {
    let state = catalog.state();
    state.tables().any(|table| table.tier == tier)
        || state.value_files().values().any(|file| file.tier == tier)
}

/// Whether a plan moves a cell to another tier.
pub(super) fn is_move(plan: &Plan) -> bool {
    matches!(plan, Plan::Merge(merge) if merge.changes_tier())
}

/// Whether a plan moves a cell off the fast tier.
pub(super) fn is_leaving(plan: &Plan) -> bool {
    heat_and_bytes(plan).is_some()
}

/// Whether the plan `other` of another family goes before `leaving`. It does if its cell has fewer reads for each byte that leaves, or if
/// it is a move as metadata. Such a move writes nothing, and may bring a colder cell to the level from which cells leave.
pub(super) fn leaves_before(other: &Plan, leaving: &Plan) -> bool {
    match (heat_and_bytes(other), heat_and_bytes(leaving)) {
        (Some((heat, bytes)), Some((than_heat, than_bytes))) => heat * than_bytes < than_heat * bytes,
        (None, Some(_)) => matches!(other, Plan::Move(_)),
        (_, None) => false,
    }
}

/// Reads of a cell that leaves the fast tier, and the bytes that leave; `None` for other plans.
fn heat_and_bytes(plan: &Plan) -> Option<(u128, u128)> {
    let Plan::Merge(merge) = plan else { return None };
    let bytes_of = match merge.placement {
        Placement::Tables(_) => |slice: &Slice| slice.bytes,
        Placement::Values(_) => |slice: &Slice| slice.value_bytes(),
        Placement::OfCells | Placement::Fast => return None,
    };
    let add = |(heat, bytes): (u128, u128), slice: &Slice| {
        let leaving_bytes = bytes_of(slice).saturating_sub(slice.slow_bytes());
        (heat + u128::from(slice.heat()), bytes + u128::from(leaving_bytes))
    };
    Some(merge.inputs.iter().map(|input| &*input.slice).fold((0, 0), add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_that_fails_is_left_alone_for_twice_as_long_each_time() {
        let mut state = TierState::default();
        let tier = TierId(1);
        assert!(state.failed(tier, 0));
        assert!(!state.failed(tier, 0), "a merge that ran beside");
        for wait in [16, 32, 64] {
            (0..wait - 1).for_each(|_| state.merge_ended(false));
            assert_eq!(state.closed(0), [tier].into());
            state.merge_ended(false);
            assert!(state.closed(0).is_empty());
            assert!(state.failed(tier, 0));
        }
        let mut now_us = 0;
        for wait_us in [80_000_000, 160_000_000, 320_000_000] {
            now_us += wait_us;
            assert_eq!(state.closed(now_us - 1), [tier].into());
            assert!(state.closed(now_us).is_empty(), "no merge has ended meanwhile");
            assert!(state.failed(tier, now_us));
        }
        state.written(tier);
        assert!(state.failed(tier, now_us) && state.closed(now_us + 10_000_000).is_empty());
    }

    #[test]
    fn what_running_merges_bring_to_the_fast_tier_takes_its_room() {
        let share = Share { percent: 70, bytes: None };
        let mut state = TierState { total_bytes: 1_000, slow_bytes: 500, ..TierState::default() };
        assert_eq!(state.fast_room_bytes(&share), 200);
        let (one, other) = (Arc::new(TierMap::staging(150)), Arc::new(TierMap::staging(40)));
        state.writing = [&one, &other].map(Arc::downgrade).to_vec();
        assert_eq!(state.fast_room_bytes(&share), 10);
        drop(one);
        assert_eq!(state.fast_room_bytes(&share), 160);
        drop(other);
        state.writing = vec![Arc::downgrade(&Arc::new(TierMap::fast()))];
        assert_eq!(state.fast_room_bytes(&share), 200);
        assert_eq!(state.fast_room_bytes(&Share { percent: 0, bytes: None }), 0);
    }

    #[test]
    fn bytes_that_the_user_names_take_the_place_of_the_share() {
        assert_eq!(Share { percent: 50, bytes: None }.bound_bytes(1_000), 500);
        assert_eq!(Share { percent: 100, bytes: None }.bound_bytes(u64::MAX), u64::MAX);
        assert_eq!(Share { percent: 50, bytes: Some(7) }.bound_bytes(1_000), 7);
    }
}
