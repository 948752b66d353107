//! A table as the tree holds it. All slices and versions that refer to the table share one [`TableFile`]. The job that writes a table
//! opens it if readers will come, otherwise its first user does. When the last reference is gone, the table is *buried*: it waits for its
//! file to be unlinked.
//!
//! Rule 1 asks for two proofs before the file may be unlinked. A synced edit no longer refers to the table
//! ([`TableFile::mark_obsolete`]), and no view does (the last `Arc` is dropped). Then the id joins the dead ids of the [`TableStore`],
//! and the executor unlinks the file.
//!
//! A table holds the bodies that its handles lead into, so every holder of a table also keeps its bodies
//! (`value/mod.rs`).

use super::usage::heat::HeatClock;
use super::usage::rent::Bell;
use crate::base::counters::Counters;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, TierId};
use crate::base::key::KeyRange;
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::part::Part;
use crate::base::sample::Sample;
use crate::base::tier_dirs::TierDirs;
use crate::cache::{BlockCache, Charge, OpenFiles, Slots};
use crate::table::{Reason, Table};
use crate::value::{Bodies, Body, BodyKind, BodyUse};
use braidb_storage::locks::Mutex;
use braidb_storage::{Descriptors, FileSystem};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

pub mod puncher;

use puncher::Holes;

/// Memory of a table that is not open: about 1.5 KiB for its file, its slice with keys and counters, and its place in versions and in the
/// state of the manifest. Thousands of families with small tables feel it.
const TABLE_BYTES: usize = 1536;

/// A newly written table, and its parts, which join the tree as slices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTable {
    pub id: FileId,
    pub bytes: u64,
    pub checksum: u32,
    pub tier: TierId,
    /// The parts in key order.
    pub parts: Vec<Part>,
    /// The bodies that the table's handles lead into.
    pub bodies: Vec<BodyUse>,
}

/// A table without any reference.
#[derive(Debug)]
struct DeadTable {
    tier: TierId,
    id: FileId,
    /// The blocks that the cache kept of it.
    _blocks: Option<Arc<Slots>>,
}

/// [`Table::open`] or [`Table::open_index`].
type Open = fn(
    Arc<OpenFiles>,
    &Path,
    FileId,
    u64,
    Vec<Arc<Body>>,
    Arc<BlockCache>,
    Arc<Counters>,
) -> Result<Arc<Table>>;

/// What all tables of an open database share: open files, bodies, cache and counters, and the lists of dead and frayed tables.
#[derive(Debug)]
pub struct TableStore {
    files: Arc<OpenFiles>,
    bodies: Arc<Bodies>,
    dirs: TierDirs,
    cache: Arc<BlockCache>,
    counters: Arc<Counters>,
    /// Tables without any reference, waiting for the executor to unlink their files.
    dead: Mutex<Vec<DeadTable>>,
    /// Tables that lost a slice but still have others, waiting for holes to be punched.
    frayed: Mutex<Vec<Weak<TableFile>>>,
    /// Whether a table joined either list since the lists were taken. Set after the table joined, and cleared before the lists are taken.
    has_garbage: AtomicBool,
    bell: Bell,
    heat: HeatClock,
    /// Tables that a job opened before an edit names them.
    early: Mutex<BTreeMap<FileId, Arc<Table>>>,
}

impl TableStore {
    /// Holds at most `open_files` files of tables and bodies open.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dirs: impl Into<TierDirs>,
        cache: Arc<BlockCache>,
        counters: Arc<Counters>,
        open_files: usize,
    ) -> Arc<TableStore> {
        let (files, dirs) = (Arc::new(OpenFiles::new(fs, open_files)), dirs.into());
        Arc::new(TableStore {
            bodies: Bodies::new(files.clone(), dirs.clone(), cache.clone(), counters.clone()),
            files,
            dirs,
            cache,
            counters,
            dead: Mutex::default(),
            frayed: Mutex::default(),
            has_garbage: AtomicBool::new(false),
            bell: Bell::default(),
            heat: HeatClock::default(),
            early: Mutex::default(),
        })
    }

    /// The bell that rings when the planner is to be asked: the rent of a slice has reached its price, or many reads came to slow tiers.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The clock by which the heat of all slices ages.
    pub fn heat(&self) -> &HeatClock {
        &self.heat
    }

    /// A store that serves only to read a manifest: no block cache, one open file.
    pub fn detached(fs: Arc<dyn FileSystem>, dirs: impl Into<TierDirs>) -> Arc<TableStore> {
        TableStore::new(fs, dirs, Arc::new(BlockCache::new(0)), Arc::default(), 1)
    }

    /// Where the files of each tier are.
    pub fn dirs(&self) -> &TierDirs {
        &self.dirs
    }

    /// Holds a descriptor for the first read.
    pub fn reserve(&self) {
        self.files.reserve(&self.dirs.fast().join(names::LOCK));
    }

    /// The descriptors of the process.
    pub fn descriptors(&self) -> &Arc<Descriptors> {
        self.files.descriptors()
    }

    /// Whether tables died or lost slices since the lists of them were taken. Readers ask often, so this writes nothing.
    pub fn has_garbage(&self) -> bool {
        self.has_garbage.load(Ordering::Acquire)
    }

    /// To be called before the caller takes both lists. Garbage that comes later sets `has_garbage` again.
    pub fn takes_garbage(&self) {
        self.has_garbage.store(false, Ordering::SeqCst);
    }

    fn fray(&self, table: &Arc<TableFile>) {
        self.frayed.lock().push(Arc::downgrade(table));
        self.has_garbage.store(true, Ordering::Release);
    }

    /// Takes at most `most` of the tables that died and were not taken, each with its tier. If some are left, there is garbage again.
    pub fn take_dead(&self, most: usize) -> Vec<(TierId, FileId)> {
        let mut dead = self.dead.lock();
        let count = most.min(dead.len());
        let taken: Vec<DeadTable> = dead.drain(..count).collect();
        if !dead.is_empty() {
            self.has_garbage.store(true, Ordering::Release);
        }
        drop(dead);
        // The kept blocks are freed here: a table of 64 MiB may have 16,000, which would hold up the reader that was the last to use it.
        taken.into_iter().map(|table| (table.tier, table.id)).collect()
    }

    /// Takes the tables that lost slices since the last call and still have slices.
    pub fn take_frayed(&self) -> Vec<Arc<TableFile>> {
        let frayed = std::mem::take(&mut *self.frayed.lock());
        let mut alive: Vec<_> = frayed.iter().filter_map(Weak::upgrade).collect();
        alive.sort_by_key(|table| table.id);
        alive.dedup_by_key(|table| table.id);
        alive
    }

    /// Opens new tables before an edit names them, so that no reader waits for their index and filter. These stay in memory as long as
    /// the returned value lives, and as long as the state has the tables. The files are closed: an open file would keep the space of a
    /// table that is deleted because its job fails later.
    ///
    /// A table that is damaged or cannot be read is an error here, while its records are still elsewhere too. If the operating system
    /// refuses to open a table on the fast tier, this is no error: the first reader of the table tries again.
    pub fn open_early<'a>(
        self: &Arc<Self>,
        tables: impl Iterator<Item = &'a NewTable>,
    ) -> Result<EarlyTables> {
        let mut early = EarlyTables { store: self.clone(), ids: Vec::new() };
        for table in tables {
            let opened = self.open(&TableFile::of_new(table, self));
            self.close(table.id);
            // The table may have taken the descriptor that is held for the next read. Where descriptors are short, this would wait for one.
            if !opened.as_ref().is_err_and(Error::is_short_of_descriptors) {
                self.reserve();
            }
            match opened {
                Ok(opened) => _ = self.early.lock().insert(table.id, opened),
                // The tables behind this one would wait for a descriptor too, each for a second.
                Err(error) if table.tier == TierId::FAST && error.is_short_of_descriptors() => break,
                Err(Error::Io { operation: "open", .. }) if table.tier == TierId::FAST => continue,
                Err(error) => return Err(error),
            }
            early.ids.push(table.id);
        }
        Ok(early)
    }

    /// Closes the file of table `id` until the next read.
    pub fn close(&self, id: FileId) {
        self.files.close(id);
    }

    fn bury(&self, table: &TableFile, blocks: Option<Arc<Slots>>) {
        self.files.close(table.id);
        self.dead.lock().push(DeadTable { tier: table.tier, id: table.id, _blocks: blocks });
        self.has_garbage.store(true, Ordering::Release);
    }

    /// The bodies of all tables.
    pub fn bodies(&self) -> &Arc<Bodies> {
        &self.bodies
    }

    fn path(&self, table: &TableFile) -> PathBuf {
        self.dirs.table(table.tier, table.id)
    }

    /// Opens a table for readers.
    fn open(&self, table: &TableFile) -> Result<Arc<Table>> {
        self.open_by(Table::open, table)
    }

    fn open_by(&self, open: Open, table: &TableFile) -> Result<Arc<Table>> {
        let path = self.path(table);
        let bodies = table.bodies.iter().map(|held| held.body.clone()).collect();
        let (files, cache, counters) = (self.files.clone(), self.cache.clone(), self.counters.clone());
        let mut opened = open(files, &path, table.id, table.bytes, bodies, cache, counters)?;
        if table.tier != TierId::FAST {
            Arc::get_mut(&mut opened).expect("no other thread has it").count_slow_reads();
        }
        Ok(opened)
    }
}

/// Tables that a job opened before its edit.
#[derive(Debug)]
pub struct EarlyTables {
    store: Arc<TableStore>,
    ids: Vec<FileId>,
}

impl Drop for EarlyTables {
    fn drop(&mut self) {
        let mut early = self.store.early.lock();
        let opened: Vec<_> = self.ids.iter().filter_map(|id| early.remove(id)).collect();
        drop(early);
        drop(opened);
    }
}

/// A body that a table points into.
#[derive(Debug)]
pub struct HeldBody {
    pub body: Arc<Body>,
    /// Bytes of the values that the table's handles lead to.
    pub live_bytes: u64,
}

/// A table file to which at least one version refers.
#[derive(Debug)]
pub struct TableFile {
    pub id: FileId,
    /// The exact length of the file.
    pub bytes: u64,
    /// The checksum of the whole file.
    pub checksum: u32,
    pub tier: TierId,
    bodies: Vec<HeldBody>,
    leads_to_slow_values: bool,
    reader: OnceLock<Arc<Table>>,
    /// Loaded on first request, then kept as long as the table; `None` if the table has no readable sample.
    sample: OnceLock<Option<(Sample, Charge)>>,
    obsolete: AtomicBool,
    /// The range of every living slice, in the state or in a view; some ranges appear twice during an edit. An edit
    /// makes slices only within ranges of living slices, so bytes outside all of these ranges are dead for good.
    held: Mutex<Vec<KeyRange>>,
    /// The punched holes; one thread at a time takes them while it punches.
    holes: Mutex<Holes>,
    store: Arc<TableStore>,
    /// For the table itself, open or not.
    _charge: Charge,
}

impl TableFile {
    pub fn new(id: FileId, bytes: u64, checksum: u32, tier: TierId, store: Arc<TableStore>) -> TableFile {
        let early = store.early.lock().get(&id).cloned();
        let charge = Charge::new(store.cache.clone(), TABLE_BYTES);
        TableFile {
            id,
            bytes,
            checksum,
            tier,
            bodies: Vec::new(),
            leads_to_slow_values: false,
            reader: early.map_or_else(OnceLock::new, OnceLock::from),
            sample: OnceLock::new(),
            obsolete: AtomicBool::new(false),
            held: Mutex::default(),
            holes: Mutex::default(),
            store,
            _charge: charge,
        }
    }

    /// A table that no edit names yet.
    pub fn of_new(table: &NewTable, store: &Arc<TableStore>) -> TableFile {
        let file = TableFile::new(table.id, table.bytes, table.checksum, table.tier, store.clone());
        file.with_bodies(&table.bodies)
    }

    /// Adds the bodies that the handles of this table lead into.
    pub fn with_bodies(mut self, bodies: &[BodyUse]) -> TableFile {
        let held =
            |used: &BodyUse| HeldBody { body: self.store.bodies.get(used.file), live_bytes: used.live_bytes };
        self.bodies = bodies.iter().map(held).collect();
        self.leads_to_slow_values = bodies.iter().any(|used| used.file.tier != TierId::FAST);
        self
    }

    /// The bodies that the table's handles lead into.
    pub fn bodies(&self) -> &[HeldBody] {
        &self.bodies
    }

    /// The bodies that the table's handles lead into, as an edit names them.
    pub fn body_uses(&self) -> Vec<BodyUse> {
        let named = |held: &HeldBody| BodyUse { file: held.body.file, live_bytes: held.live_bytes };
        self.bodies.iter().map(named).collect()
    }

    /// The value file or log with this number, if the table's handles lead there.
    pub fn body(&self, id: FileId) -> Option<&Arc<Body>> {
        self.bodies.iter().find(|held| held.body.file.id == id).map(|held| &held.body)
    }

    /// Whether handles of the table lead to values on slow tiers.
    pub fn leads_to_slow_values(&self) -> bool {
        self.leads_to_slow_values
    }

    /// Whether a reader has looked into the table since the database was opened.
    pub fn has_been_read(&self) -> bool {
        self.reader.get().is_some_and(|table| table.has_been_read())
    }

    /// Reads of the table's blocks from a slow tier that readers waited for.
    pub fn slow_reads(&self) -> u64 {
        self.reader.get().map_or(0, |table| table.slow_reads())
    }

    /// The clock by which the heat of all slices ages.
    pub fn heat_clock(&self) -> &HeatClock {
        &self.store.heat
    }

    /// Rings the bell, so that a reader asks the planner for work.
    pub(super) fn ring(&self) {
        self.store.bell.ring();
    }

    /// The logs among the bodies.
    pub fn logs(&self) -> impl Iterator<Item = &HeldBody> {
        self.bodies.iter().filter(|held| held.body.file.kind == BodyKind::Log)
    }

    /// Whether handles of this table lead into logs, which stay until the table is rewritten.
    pub fn pins_logs(&self) -> bool {
        self.logs().next().is_some()
    }

    /// Bytes of the values that lie in bodies.
    pub fn body_bytes(&self) -> u64 {
        self.bodies.iter().fold(0, |sum, held| sum.saturating_add(held.live_bytes))
    }

    /// Bytes of the file plus bytes of values in bodies; the bytes of slices are shares of this sum.
    pub fn full_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.body_bytes())
    }

    /// The table, if it is open.
    #[inline]
    pub fn opened(&self) -> Option<&Table> {
        self.reader.get().map(Arc::as_ref)
    }

    /// The open table. Opens the file on the first call; after an error the next call tries again.
    #[inline]
    pub fn reader(&self) -> Result<&Arc<Table>> {
        match self.reader.get() {
            Some(table) if table.has_filter_loaded() => Ok(table),
            _ => self.open_for_readers(),
        }
    }

    #[cold]
    fn open_for_readers(&self) -> Result<&Arc<Table>> {
        let table = self.opened_by(Table::open)?;
        // A job may have opened the table without the filter.
        table.load_filter(self.bytes)?;
        Ok(table)
    }

    /// The open table for a job that looks for places in its index. Reads no filter.
    pub fn index_reader(&self) -> Result<&Arc<Table>> {
        self.opened_by(Table::open_index)
    }

    fn opened_by(&self, open: Open) -> Result<&Arc<Table>> {
        if let Some(table) = self.reader.get() {
            return Ok(table);
        }
        let table = self.store.open_by(open, self)?;
        // If another thread opened the table first, its table is used.
        Ok(self.reader.get_or_init(|| table))
    }

    /// Where the table is.
    pub fn path(&self) -> PathBuf {
        self.store.path(self)
    }

    /// The sample of the table's keys, if it was loaded.
    pub fn sample(&self) -> Option<&Sample> {
        self.sample.get()?.as_ref().map(|(sample, _)| sample)
    }

    /// Loads the sample from the file, once. Returns `false` after a read error; the next call tries again. A damaged
    /// sample counts as none: the damage is reported when the table itself is opened.
    pub fn load_sample(&self) -> bool {
        if self.sample.get().is_some() {
            return true;
        }
        let read = Table::read_sample(&self.store.files, &self.store.path(self), self.id, self.bytes);
        let sample = match read {
            Ok(sample) => sample,
            Err(Error::Corruption { .. }) => None,
            Err(_) => return false,
        };
        self.keep_sample(sample);
        true
    }

    /// Why the table was written, read from its file. Tables of older builds do not say so.
    pub fn reason(&self) -> Result<Option<Reason>> {
        Table::read_reason(&self.store.files, &self.store.path(self), self.id, self.bytes)
    }

    /// Sets the sample for a simulator, which has no files.
    #[cfg(test)]
    pub fn know_sample(&self, sample: Option<Sample>) {
        self.keep_sample(sample);
    }

    fn keep_sample(&self, sample: Option<Sample>) {
        self.sample.get_or_init(|| {
            let sample = sample?;
            let charge = Charge::new(self.store.cache.clone(), sample.memory_bytes());
            Some((sample, charge))
        });
    }

    /// Counts what a reader paid in vain. With `rings`, rings the bell: the rent of a slice has reached its price.
    pub(super) fn charged(&self, paid_ns: u64, rings: bool) {
        self.store.counters.rent_paid_ns.add(paid_ns);
        if rings {
            self.store.bell.ring();
        }
    }

    /// Records a living slice with this range.
    pub(super) fn hold(&self, range: &KeyRange) {
        self.held.lock().push(range.clone());
    }

    /// Removes the record of a slice with this range. If other slices remain, the table joins the tables that wait for
    /// holes.
    pub(super) fn let_go(table: &Arc<TableFile>, range: &KeyRange) {
        let mut held = table.held.lock();
        let at = held.iter().position(|other| other == range).expect("the range of a slice is recorded");
        held.swap_remove(at);
        let lives_on = !held.is_empty();
        drop(held);
        if lives_on && !table.obsolete.load(Ordering::Acquire) {
            table.store.fray(table);
        }
    }

    /// The ranges of all living slices, in key order.
    pub fn held(&self) -> Vec<KeyRange> {
        let mut held = self.held.lock().clone();
        held.sort_by(|a, b| a.low.cmp(&b.low));
        held
    }

    /// Puts the table back into the list of tables that wait for holes.
    pub(super) fn punch_later(table: &Arc<TableFile>) {
        table.store.fray(table);
    }

    /// Memory that the table holds, in bytes: itself and its sample, plus index, filter and slots while the table is open.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> u64 {
        let sample = self.sample().map_or(0, Sample::memory_bytes);
        (TABLE_BYTES + self.reader.get().map_or(0, |table| table.memory_bytes()) + sample) as u64
    }

    /// Notes that a *synced* edit dropped the last reference to this table. Only the manifest calls this.
    pub(super) fn mark_obsolete(&self) {
        if mutant!("table_deleted_under_view") || mutant!("table_deleted_with_its_first_slice") {
            return self.store.bury(self, None);
        }
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            let reader = self.reader.take().and_then(Arc::into_inner);
            self.store.bury(self, reader.and_then(Table::into_blocks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidb_storage::real::RealFs;
    use std::path::Path;

    #[test]
    fn a_table_is_buried_after_the_edit_and_the_last_view() {
        let store = TableStore::detached(Arc::new(RealFs), Path::new("nowhere"));
        let table = |id| Arc::new(TableFile::new(FileId(id), 1, 0, TierId::FAST, store.clone()));
        let (kept, dropped) = (table(1), table(2));
        let view = dropped.clone();
        dropped.mark_obsolete();
        drop((kept, dropped));
        assert_eq!(store.take_dead(usize::MAX), []);
        drop(view);
        assert_eq!(store.take_dead(usize::MAX), [(TierId::FAST, FileId(2))]);
        assert_eq!(store.take_dead(usize::MAX), []);
    }
}
