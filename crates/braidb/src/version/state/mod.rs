//! The state that the manifest records: column families with their trees, tables, tiers, and the first log to replay.
//!
//! [`State::apply`] checks an edit against the state and returns a new state, or the reason for refusing the edit; no
//! edit is half applied. Commits and the replay of the manifest at open run this same code.

use super::shape::{RunId, Slice, Version};
use super::table_file::{NewTable, TableFile, TableStore};
use super::usage::rent::Paid;
use crate::base::ids::{Epoch, FamilyId, FileId, SeqNo, TierId};
use crate::base::key::{COMPARATOR, KeyRange};
use crate::base::mutant::mutant;
use crate::base::part::Part;
use crate::value::file::HEADER_BYTES;
use crate::value::{Body, BodyFile, BodyKind, BodyUse};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub mod edit;
mod files;
mod known_tiers;

use edit::{Change, Edit, Reject};
pub use files::FoundFile;
use known_tiers::KnownTiers;

/// The name of the column family that always exists.
pub const DEFAULT_FAMILY: &str = "default";

/// The epoch of the fast tier until there is a slow one.
pub const FIRST_EPOCH: Epoch = 1;

/// One column family.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: String,
    /// Logs before this one need not be replayed for the family. Never falls.
    pub replay_from: FileId,
    pub version: Arc<Version>,
}

/// Where recovery cut a log: the log ends at `offset`, and the logs after it and before `resume` are never replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub offset: u64,
    pub resume: FileId,
    /// All logs up to the cut are stable. Versions without this flag wrote cuts that say only where their recovery
    /// ended.
    pub is_covered: bool,
}

/// A table and the number of slices that refer to it. The table leaves the state with its last slice.
#[derive(Clone, Debug)]
struct Listed {
    file: Arc<TableFile>,
    slices: u32,
}

/// A value file, and the number of tables that point into it. The file leaves the state with the last of these tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFile {
    /// The largest length that a table named. What lies behind it is no part of the file.
    pub bytes: u64,
    /// Bytes behind this length that were found when the database was opened.
    pub tail_bytes: u64,
    /// Bytes that were punched out, as far as is known: by this open, or found when the database was opened.
    pub hole_bytes: u64,
    pub tier: TierId,
    pub tables: u32,
    /// Bytes of the records that slices lead to.
    pub live_bytes: u64,
}

/// The state that the manifest records.
#[derive(Clone, Debug)]
pub struct State {
    families: BTreeMap<FamilyId, Family>,
    next_file: FileId,
    last_seq: SeqNo,
    cuts: BTreeMap<FileId, Cut>,
    sealed: BTreeMap<FileId, u64>,
    tables: BTreeMap<FileId, Listed>,
    value_files: BTreeMap<FileId, ValueFile>,
    tiers: KnownTiers,
    store: Arc<TableStore>,
}

impl ValueFile {
    /// Bytes of the file on the device, as far as is known since the database was opened.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.hole_bytes) + self.tail_bytes
    }

    /// Bytes on the device that no slice leads to.
    pub fn garbage_bytes(&self) -> u64 {
        let dead_bytes = self.bytes.saturating_sub(HEADER_BYTES as u64 + self.live_bytes);
        dead_bytes.saturating_sub(self.hole_bytes) + self.tail_bytes
    }
}

/// The slices that an edit removes, by table.
type Removed = BTreeMap<FileId, Vec<Arc<Slice>>>;

impl State {
    /// An empty state, to which a manifest's snapshot is applied.
    pub(super) fn empty(store: Arc<TableStore>) -> State {
        State {
            families: BTreeMap::new(),
            next_file: FileId(1),
            last_seq: 0,
            cuts: BTreeMap::new(),
            sealed: BTreeMap::new(),
            tables: BTreeMap::new(),
            value_files: BTreeMap::new(),
            tiers: KnownTiers::default(),
            store,
        }
    }

    /// The state of a new database: the default column family, which replays every log. New file numbers start at
    /// `first_file`.
    pub(crate) fn initial(store: Arc<TableStore>, first_file: FileId) -> State {
        let mut edit = Edit::default();
        edit.push(Change::NextFile(first_file));
        edit.push(Change::Tier { id: TierId::FAST, epoch: FIRST_EPOCH });
        edit.push(Change::FamilyCreated {
            id: FamilyId::DEFAULT,
            name: DEFAULT_FAMILY.to_owned(),
            comparator: COMPARATOR.to_owned(),
            replay_from: FileId(0),
        });
        State::empty(store).apply(&edit).expect("an empty state takes the first edit")
    }

    pub fn families(&self) -> &BTreeMap<FamilyId, Family> {
        &self.families
    }

    /// The id of the family called `name`.
    pub fn family_named(&self, name: &str) -> Option<FamilyId> {
        self.families().iter().find(|(_, family)| family.name == name).map(|(&id, _)| id)
    }

    /// The id for a column family that is created now.
    pub fn next_family(&self) -> FamilyId {
        FamilyId(self.families.last_key_value().map_or(0, |(id, _)| id.0 + 1))
    }

    /// The first file number that was never used, as far as the manifest knows.
    pub fn next_file(&self) -> FileId {
        self.next_file
    }

    /// The largest sequence number of all tables; logs may hold larger ones.
    pub fn last_seq(&self) -> SeqNo {
        self.last_seq
    }

    /// Every table to which at least one slice refers, by id.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.tables.values().map(|listed| &listed.file)
    }

    pub fn table(&self, id: FileId) -> Option<&Arc<TableFile>> {
        self.tables.get(&id).map(|listed| &listed.file)
    }

    /// The first log that any family replays.
    pub fn min_replay_from(&self) -> FileId {
        self.families.values().map(|family| family.replay_from).min().unwrap_or(self.next_file)
    }

    /// Where an earlier recovery cut this log.
    pub fn cut_of(&self, log: FileId) -> Option<Cut> {
        self.cuts.get(&log).copied()
    }

    /// The cuts that recovery may still meet, by log.
    pub fn cuts(&self) -> impl Iterator<Item = (FileId, Cut)> {
        self.cuts.iter().map(|(&log, &cut)| (log, cut))
    }

    /// Whether this log lies behind the cut of an earlier recovery, so that it is never replayed (rule 4).
    pub fn is_set_aside(&self, log: FileId) -> bool {
        self.cuts.range(..log).any(|(_, cut)| log < cut.resume)
    }

    /// The logs that tables point into.
    pub fn log_bodies(&self) -> BTreeMap<FileId, &Arc<Body>> {
        let held = self.tables().flat_map(|table| table.logs());
        held.map(|held| (held.body.file.id, &held.body)).collect()
    }

    /// Notes how many bytes of value file `id` lie in holes, if tables still point into it. Returns how many of them were not known.
    pub fn note_holes(&mut self, id: FileId, hole_bytes: u64) -> u64 {
        let Some(file) = self.value_files.get_mut(&id) else { return hole_bytes };
        let new_bytes = hole_bytes.saturating_sub(file.hole_bytes);
        file.hole_bytes += new_bytes;
        new_bytes
    }

    /// The value files that tables point into.
    pub fn value_files(&self) -> &BTreeMap<FileId, ValueFile> {
        &self.value_files
    }

    /// The exact length of a log that was closed properly.
    pub fn sealed_bytes(&self, log: FileId) -> Option<u64> {
        self.sealed.get(&log).copied().or_else(|| self.log_bodies().get(&log).map(|body| body.file.bytes))
    }

    /// The logs whose exact length is known. These logs, and all logs before them, were stable before the manifest
    /// recorded the length.
    pub fn logs_sealed(&self) -> impl Iterator<Item = FileId> {
        self.sealed.keys().copied().chain(self.log_bodies().into_keys())
    }

    /// The logs that cuts, seals and tables name. Each log was stable before the manifest named it.
    pub fn logs_named(&self) -> impl Iterator<Item = FileId> {
        let cuts = self.cuts.iter().flat_map(|(&log, cut)| [log, cut.resume]);
        cuts.chain(self.logs_sealed())
    }

    /// The state after `edit`, or the reason why the edit does not fit.
    pub fn apply(&self, edit: &Edit) -> Result<State, Reject> {
        let mut state = self.clone();
        state.apply_in_place(edit)?;
        Ok(state)
    }

    /// Like [`State::apply`], but changes `self`; after an error the state is undefined.
    pub(super) fn apply_in_place(&mut self, edit: &Edit) -> Result<(), Reject> {
        let mut bodies: BTreeMap<FileId, &[BodyUse]> = BTreeMap::new();
        for change in &edit.changes {
            if let Change::TableBodies { table, bodies: named } = change
                && bodies.insert(*table, named).is_some()
            {
                return Err(format!("the bodies of table {table} are named twice").into());
            }
        }
        for change in &edit.changes {
            self.apply_frame(change, &mut bodies)?;
        }
        if let Some((table, _)) = bodies.first_key_value() {
            return Err(format!("bodies are named of table {table}, which the edit does not add").into());
        }
        let mut removed = Removed::default();
        for change in &edit.changes {
            match change {
                Change::CutCovered { log } => self.cover_cut(*log)?,
                Change::SliceRemoved { family, run, table, low } => {
                    let slice = self.remove_slice(*family, run, *table, low)?;
                    removed.entry(*table).or_default().push(slice);
                }
                _ => {}
            }
        }
        // Guards change after removals and before additions: this edit replaces each slice that reaches over a new
        // guard (rule 9).
        for change in &edit.changes {
            if let Change::Guard { family, key, top } = change {
                Arc::make_mut(&mut self.family_mut(*family)?.version).set_guard(key, *top)?;
            }
        }
        let heat = carried_heat(edit, &removed);
        for (place, change) in edit.changes.iter().enumerate() {
            self.add_slice(change, &removed, heat.get(&place).copied().unwrap_or(0))?;
        }
        for change in &edit.changes {
            match change {
                Change::SliceRemoved { table, .. }
                    if self.tables.get(table).is_some_and(|listed| listed.slices == 0) =>
                {
                    self.drop_table(*table);
                }
                Change::TableAdded { id, .. }
                    if self.tables.get(id).is_none_or(|listed| listed.slices == 0) =>
                {
                    return Err(format!("table {id} is added without a slice").into());
                }
                _ => {}
            }
        }
        self.apply_tiers(edit)?;
        if self.tiers().count() > 1 {
            self.check_slow_cells(edit)?;
        }
        self.forget_old_logs();
        Ok(())
    }

    /// Applies a change that concerns neither slices nor guards. `bodies` holds the bodies of tables that the edit
    /// adds.
    fn apply_frame(
        &mut self,
        change: &Change,
        bodies: &mut BTreeMap<FileId, &[BodyUse]>,
    ) -> Result<(), Reject> {
        match change {
            Change::NextFile(id) => {
                if *id < self.next_file {
                    return Err(format!("the next file number falls from {} to {id}", self.next_file).into());
                }
                self.next_file = *id;
            }
            Change::LastSeq(seq) => {
                if *seq < self.last_seq {
                    return Err(format!("the sequence number falls from {} to {seq}", self.last_seq).into());
                }
                self.last_seq = *seq;
            }
            Change::FamilyCreated { id, name, comparator, replay_from } => {
                self.create_family(*id, name, comparator, *replay_from)?;
            }
            Change::ReplayFrom { family, log } => {
                self.next_file = self.next_file.max(*log);
                let family = self.family_mut(*family)?;
                if *log < family.replay_from {
                    return Err(format!("replay_from falls from {} to {log}", family.replay_from).into());
                }
                family.replay_from = *log;
            }
            Change::TableAdded { id, bytes, checksum, tier } => {
                if !self.tiers.contains(*tier) {
                    return Err(format!("table {id} is on tier {}, which there is not", tier.0).into());
                }
                self.saw_file(*id);
                let bodies = bodies.remove(id).unwrap_or_default();
                self.check_new_bodies(*id, bodies)?;
                self.point_into(bodies);
                let file = TableFile::new(*id, *bytes, *checksum, *tier, self.store.clone());
                let file = Arc::new(file.with_bodies(bodies));
                if self.tables.insert(*id, Listed { file, slices: 0 }).is_some() {
                    return Err(format!("table {id} is added twice").into());
                }
            }
            Change::LogCut { log, offset, resume } => self.cut_log(*log, *offset, *resume)?,
            Change::LogSealed { log, bytes } => {
                self.saw_file(*log);
                let known = self.sealed_bytes(*log);
                self.sealed.insert(*log, *bytes);
                if self.cuts.contains_key(log) || known.is_some_and(|known| known != *bytes) {
                    return Err(format!("log {log} is sealed at {bytes} bytes, but ended elsewhere").into());
                }
            }
            Change::Tier { id, epoch } => self.tiers.raise(*id, *epoch)?,
            Change::SliceAdded { .. }
            | Change::SliceRemoved { .. }
            | Change::Guard { .. }
            | Change::CutCovered { .. }
            | Change::TableBodies { .. }
            | Change::DatabaseId(_)
            | Change::TierPlace { .. }
            | Change::TierRemoved { .. } => {}
        }
        Ok(())
    }

    /// Checks that the bodies of a new table contradict neither each other nor the known lengths of files.
    fn check_new_bodies(&mut self, table: FileId, bodies: &[BodyUse]) -> Result<(), Reject> {
        let mut ids = BTreeSet::new();
        for body in bodies {
            let BodyUse { file: BodyFile { kind, tier, id, bytes }, live_bytes } = *body;
            let is_twice = !ids.insert(id);
            if is_twice || live_bytes > bytes {
                return Err(format!("table {table} has impossible bodies").into());
            }
            let known = match kind {
                BodyKind::Log => [self.sealed_bytes(id), self.cut_of(id).map(|cut| cut.offset)],
                BodyKind::Values => [self.value_files.get(&id).map(|file| file.bytes), None],
                BodyKind::Trie => [None, None],
            };
            if known.into_iter().flatten().any(|known| known != bytes) {
                return Err(format!("file {id} is a body of {bytes} bytes, but ended elsewhere").into());
            }
            let is_elsewhere = self.value_files.get(&id).is_some_and(|file| file.tier != tier);
            if !self.tiers.contains(tier) || kind.is_value_file() && is_elsewhere {
                return Err(format!("body {id} is on tier {}, where it cannot be", tier.0).into());
            }
            self.saw_file(id);
        }
        Ok(())
    }

    /// Counts a new table that points into these bodies.
    fn point_into(&mut self, bodies: &[BodyUse]) {
        for BodyFile { kind, tier, id, bytes } in bodies.iter().map(|body| body.file) {
            if kind.is_value_file() {
                let file = self.value_files.entry(id).or_insert(ValueFile {
                    bytes,
                    tail_bytes: 0,
                    hole_bytes: 0,
                    tier,
                    tables: 0,
                    live_bytes: 0,
                });
                file.tables += 1;
                if !mutant!("trie_table_keeps_its_first_length") {
                    file.bytes = file.bytes.max(bytes);
                }
            }
        }
    }

    /// Removes a table that has no slice any more, and the value files into which only this table pointed.
    fn drop_table(&mut self, id: FileId) {
        let Some(Listed { file, .. }) = self.tables.remove(&id) else { return };
        let files = file.bodies().iter().map(|held| held.body.file);
        for BodyFile { id, .. } in files.filter(|file| file.kind.is_value_file()) {
            let named = self.value_files.get_mut(&id).expect("the table pointed into it");
            named.tables -= 1;
            if named.tables == 0 {
                self.value_files.remove(&id);
            }
        }
    }

    fn create_family(
        &mut self,
        id: FamilyId,
        name: &str,
        comparator: &str,
        replay_from: FileId,
    ) -> Result<(), Reject> {
        if comparator != COMPARATOR {
            return Err(Reject::Unsupported(format!(
                "column family {name:?} has the comparator {comparator:?}"
            )));
        }
        if id != self.next_family() || id.0 == u32::MAX {
            return Err(format!("the id {} of column family {name:?} is not a new one", id.0).into());
        }
        if name.is_empty() || self.families.values().any(|family| family.name == name) {
            return Err(format!("the name {name:?} of column family {} is not a new one", id.0).into());
        }
        // A log numbered below `replay_from` would never be replayed, so no new log may get such a number.
        self.next_file = self.next_file.max(replay_from);
        let name = name.to_owned();
        self.families.insert(id, Family { name, replay_from, version: Arc::default() });
        Ok(())
    }

    fn cut_log(&mut self, log: FileId, offset: u64, resume: FileId) -> Result<(), Reject> {
        if resume <= log {
            return Err(format!("log {log} is cut, but replay resumes at {resume}").into());
        }
        if self.sealed_bytes(log).is_some_and(|bytes| bytes != offset) && !mutant!("seal_not_checked") {
            return Err(format!("the sealed log {log} is cut elsewhere").into());
        }
        // If a recovery was interrupted, the next recovery finds the same end and starts a later log.
        let earlier = self.cuts.insert(log, Cut { offset, resume, is_covered: false });
        if earlier.is_some_and(|earlier| earlier.offset != offset || earlier.resume > resume) {
            return Err(format!("log {log} is cut at byte {offset}, but was cut elsewhere before").into());
        }
        self.saw_file(log);
        // `resume` may not exist yet, but its number is taken.
        self.saw_file(resume);
        Ok(())
    }

    fn cover_cut(&mut self, log: FileId) -> Result<(), Reject> {
        let cut = self.cuts.get_mut(&log).ok_or_else(|| format!("log {log} is covered, but was not cut"))?;
        cut.is_covered = true;
        Ok(())
    }

    /// Adds a slice, which inherits the heat `reads`. From each slice of the same table that the edit `removed` and that it overlaps,
    /// it inherits a part of the rent.
    fn add_slice(&mut self, change: &Change, removed: &Removed, reads: u64) -> Result<(), Reject> {
        let Change::SliceAdded { family, run, table, part } = change else {
            return Ok(());
        };
        let listed = self.tables.get_mut(table).ok_or_else(|| format!("there is no table {table}"))?;
        let Part { seqs, entries, tombstones, keys, bytes, .. } = *part;
        count_values(&mut self.value_files, &listed.file, &part.values, true)?;
        if entries == 0 || tombstones > entries || keys > entries || keys == 0 || seqs.0 > seqs.1 {
            return Err(format!("a slice of table {table} has impossible counts").into());
        }
        if bytes > listed.file.full_bytes() {
            return Err(format!("a slice of table {table} is larger than the table").into());
        }
        listed.slices = listed.slices.checked_add(1).ok_or_else(|| "too many slices".to_owned())?;
        let mut paid = Paid::default();
        let takes_all = mutant!("rent_not_cleared");
        let before =
            removed.iter().filter(|&(of, _)| of == table || takes_all).flat_map(|(_, slices)| slices);
        for before in before.filter(|before| before.range.overlaps(&part.range)) {
            paid.add_share(before.paid(), bytes, before.bytes);
        }
        let is_flushed = removed.is_empty() && run.level == 0;
        let reads = if is_flushed { listed.file.heat_clock().of_flush(entries) } else { reads };
        let slice = Slice::new(listed.file.clone(), part.clone(), paid, reads);
        self.last_seq = self.last_seq.max(seqs.1);
        let version = Arc::make_mut(&mut self.family_mut(*family)?.version);
        version.insert(run, Arc::new(slice))?;
        Ok(())
    }

    fn remove_slice(
        &mut self,
        family: FamilyId,
        run: &RunId,
        table: FileId,
        low: &[u8],
    ) -> Result<Arc<Slice>, Reject> {
        let version = Arc::make_mut(&mut self.family_mut(family)?.version);
        let slice = version.level_mut(run.level).remove(run, table, low)?;
        count_values(&mut self.value_files, &slice.table, &slice.values, false)?;
        let listed = self.tables.get_mut(&table).ok_or_else(|| format!("there is no table {table}"))?;
        listed.slices -= 1;
        Ok(slice)
    }

    fn family_mut(&mut self, id: FamilyId) -> Result<&mut Family, Reject> {
        self.families.get_mut(&id).ok_or_else(|| Reject::Wrong(format!("there is no column family {}", id.0)))
    }

    /// Notes that file number `id` is used: new numbers start above it.
    fn saw_file(&mut self, id: FileId) {
        self.next_file = self.next_file.max(FileId(id.0 + 1));
    }

    /// Drops the cuts and lengths of logs that no family replays any more.
    fn forget_old_logs(&mut self) {
        let from = self.min_replay_from();
        self.cuts.retain(|_, cut| cut.resume > from);
        self.sealed.retain(|log, _| *log >= from);
    }

    /// Checks what a single edit cannot show: slices of one table belong to one family and are disjoint.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut of_table: BTreeMap<FileId, Vec<(FamilyId, &KeyRange)>> = BTreeMap::new();
        for (id, family) in &self.families {
            for slice in family.version.slices() {
                of_table.entry(slice.table.id).or_default().push((*id, &slice.range));
            }
        }
        for (table, mut slices) in of_table {
            slices.sort_by(|a, b| a.1.low.cmp(&b.1.low));
            for pair in slices.windows(2) {
                if pair[0].0 != pair[1].0 || pair[0].1.overlaps(pair[1].1) {
                    return Err(format!("two slices hold the same part of table {table}"));
                }
            }
        }
        Ok(())
    }

    /// The whole state as one edit of an empty state.
    pub fn snapshot_edit(&self) -> Edit {
        let mut edit = Edit::default();
        edit.push(Change::NextFile(self.next_file));
        edit.push(Change::LastSeq(self.last_seq));
        self.tiers.add_to(&mut edit);
        for table in self.tables() {
            let TableFile { id, bytes, checksum, tier, .. } = **table;
            edit.add_table(&NewTable {
                id,
                bytes,
                checksum,
                tier,
                parts: Vec::new(),
                bodies: table.body_uses(),
            });
        }
        for (&id, family) in &self.families {
            edit.push(Change::FamilyCreated {
                id,
                name: family.name.clone(),
                comparator: COMPARATOR.to_owned(),
                replay_from: family.replay_from,
            });
            for (key, &top) in family.version.guards() {
                edit.push(Change::Guard { family: id, key: key.clone(), top });
            }
            for (number, level) in family.version.levels().enumerate() {
                for (cell, epoch, slice) in level.slices() {
                    let run = RunId { level: number, cell: cell.low.clone(), epoch };
                    edit.add_slice(id, run, slice.table.id, slice.part());
                }
            }
        }
        for (&log, &bytes) in &self.sealed {
            edit.push(Change::LogSealed { log, bytes });
        }
        for (&log, &Cut { offset, resume, is_covered }) in &self.cuts {
            edit.push(Change::LogCut { log, offset, resume });
            if is_covered {
                edit.push(Change::CutCovered { log });
            }
        }
        edit
    }
}

/// The heat that each added slice inherits, by the index of its change in the edit. The heat of a removed slice is divided among the
/// added slices in its range, in proportion to bytes. An edit that removes slices changes one family.
fn carried_heat(edit: &Edit, removed: &Removed) -> BTreeMap<usize, u64> {
    let mut carried = BTreeMap::new();
    let removed = removed.values().flatten().map(|slice| (slice, slice.heat()));
    let warm: Vec<(&Arc<Slice>, u64)> = removed.filter(|&(_, reads)| reads > 0).collect();
    if warm.is_empty() {
        return carried;
    }
    let added = |(place, change): (usize, &'_ Change)| match change {
        Change::SliceAdded { part, .. } => Some((place, part.range.clone(), part.bytes)),
        _ => None,
    };
    let added: Vec<(usize, KeyRange, u64)> = edit.changes.iter().enumerate().filter_map(added).collect();
    for (slice, reads) in warm {
        let met = || added.iter().filter(|(_, range, _)| range.overlaps(&slice.range));
        let all_bytes = met().fold(0u128, |sum, &(_, _, bytes)| sum + u128::from(bytes)).max(1);
        for &(place, _, bytes) in met() {
            let share = (u128::from(reads) * u128::from(bytes) / all_bytes) as u64;
            *carried.entry(place).or_default() += share;
        }
    }
    carried
}

/// Counts the values of a slice of `table` that joins the state (`is_added`), or leaves it.
fn count_values(
    files: &mut BTreeMap<FileId, ValueFile>,
    table: &TableFile,
    values: &[(FileId, u64)],
    is_added: bool,
) -> Result<(), Reject> {
    for &(id, bytes) in values {
        let is_named = table.bodies().iter().any(|held| held.body.file.id == id);
        let file = files.get_mut(&id).filter(|_| is_named);
        let counted = file.and_then(|file| {
            let after = match is_added {
                true => file.live_bytes.checked_add(bytes).filter(|&after| after <= file.bytes),
                false => file.live_bytes.checked_sub(bytes),
            };
            file.live_bytes = after?;
            Some(())
        });
        if counted.is_none() {
            return Err(format!(
                "a slice of table {} cannot have {bytes} bytes of values in file {id}",
                table.id
            )
            .into());
        }
    }
    Ok(())
}
