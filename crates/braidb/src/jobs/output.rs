//! Writing tables and value files: the one loop that flushes, merges and recovery share. Entries arrive in order, and the retention
//! filter decides their fate. Tables are cut at a size, never between two versions of one key.
//!
//! A value of at least the threshold goes to a value file (`value_output.rs`), and the table gets its handle. A value that already lies in a
//! value file stays there, unless the file is collected. The values that a table leads to are synced before the table.
//!
//! No edit names the files at first. If [`Outputs`] is dropped before an edit names them, it deletes them, so that a failed job leaves
//! nothing behind. The next open deletes what a crash leaves.
//!
//! The names of all files are synced before the edit, in the directory of each tier that has some (rule 12). A failed sync of a slow
//! directory ends the job alone (`base/tier_dirs.rs`).

use super::log_table::Places;
use super::value_output::{TrieOf, ValueOutputs};
use crate::base::body::{BodyFile, BodyKind, Handle};
use crate::base::counters::{Counter, Counters};
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, FileId, FileIds, SeqNo, TierId};
use crate::base::key::{KeyRange, Span};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::base::tier_dirs::TierDirs;
use crate::plan::Edge;
use crate::plan::tree::placement::TierMap;
use crate::plan::values::{Rewrites, ValueLayout, ValueOptions};
use crate::table::{Reason, TableBuilder, TableOptions, UnsyncedTable};
use crate::version::NewTable;
use crate::visible::rule::{Fate, RetentionFilter};
use crate::visible::{Cursor, EntryKind};
use braidb_storage::FileSystem;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where tables and value files are written, and how.
#[derive(Clone, Debug)]
pub struct Target {
    pub fs: Arc<dyn FileSystem>,
    pub dirs: TierDirs,
    /// The tiers on which the job creates its files.
    pub tier_map: Arc<TierMap>,
    pub files: Arc<FileIds>,
    pub counters: Arc<Counters>,
    pub options: TableOptions,
    pub values: ValueOptions,
    /// Why tables are written.
    pub reason: Reason,
    /// Which values of value files are written anew; `None` where no source has any.
    pub rewrites: Option<Arc<Rewrites>>,
    /// Where trie tables wait for this job.
    pub trie: TrieOf,
}

impl Target {
    /// Creates a file on `tier` with a number of its own. `path` and `create` get the number.
    pub fn create<T>(
        &self,
        tier: TierId,
        path: impl Fn(&Path, FileId) -> PathBuf,
        create: impl Fn(&Path, FileId) -> Result<T>,
    ) -> Result<(FileId, T)> {
        loop {
            let id = self.files.take();
            match create(&path(self.dirs.of(tier), id), id) {
                // A process that lost the lock made this file (`version/directory/dir_lock.rs`). The next number may be free.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok((id, created?)),
            }
        }
    }

    /// Counts bytes of a table or value file by the family and the reason of the job.
    pub fn wrote(&self, bytes: u64) {
        self.counters.written_bytes.add(self.trie.family, self.reason.code(), bytes);
    }

    /// The place of the value of an entry, if it lies in a value file and stays there.
    fn stays(&self, source: &dyn Cursor) -> Option<(BodyFile, Handle)> {
        let rewrites = self.rewrites.as_ref()?;
        let (file, handle) = source.handle()?;
        // A handle that leads beyond its file is damage, which the read of the value reports.
        let is_whole = handle.offset.checked_add(handle.bytes.into()).is_some_and(|end| end <= file.bytes);
        let stays = is_whole && rewrites.leave(file.id, handle.bytes as usize, &self.values);
        stays.then_some((file, handle))
    }
}

/// A table of handles ends when it has the size of a table together with its values, and at least a quarter of this size without them. With
/// 4, a rewrite of one table for the values of a few files stays small. Without a least size, tables of small databases would be smaller
/// than a block of the file system.
const HANDLES_FACTOR: u64 = 4;

/// What a job has written when it comes to a new key.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes of the open table and of the values that it leads to, but at most [`HANDLES_FACTOR`] times its own; 0 without an open table.
    pub table_bytes: u64,
    /// Bytes that were written for the open table: without the values that stay where they are.
    pub written_bytes: u64,
}

/// Tables that no edit names yet, and their value files.
#[derive(Debug)]
pub struct Outputs {
    target: Target,
    /// Values that are left in logs.
    places: Places,
    /// Only keys of this span are written.
    span: Span,
    values: ValueOutputs,
    /// The tables that were created, each with its tier.
    created: Vec<(TierId, FileId)>,
    /// How many syncs of directories of slow tiers had failed before the first file was created.
    failed_syncs: u64,
    pub tables: Vec<NewTable>,
    /// Tables that the caller syncs; `None` if each is synced at its end.
    unsynced: Option<Vec<UnsyncedTable>>,
    /// Versions that newer ones hid.
    pub shadowed: u64,
    /// Tombstones that were dropped because no older version is left for them to hide.
    pub spent: u64,
}

impl Outputs {
    pub fn new(target: Target) -> Outputs {
        let (places, span) = (Places::default(), Span::ALL);
        Outputs {
            failed_syncs: target.dirs.failed_syncs(),
            target,
            places,
            span,
            values: ValueOutputs::default(),
            created: Vec::new(),
            tables: Vec::new(),
            unsynced: None,
            shadowed: 0,
            spent: 0,
        }
    }

    /// The next tables belong to `family`. Recovery writes tables of several families.
    pub fn belong_to(&mut self, family: FamilyId) {
        self.target.trie.family = family;
    }

    /// The tables store handles for the values that have these places.
    pub fn leaving(mut self, places: Places) -> Outputs {
        self.places = places;
        self
    }

    /// The caller syncs the tables that [`Outputs::take_unsynced`] returns.
    pub fn synced_by_caller(mut self) -> Outputs {
        self.unsynced = Some(Vec::new());
        self
    }

    /// The tables that ended since the last call and are not synced.
    pub fn take_unsynced(&mut self) -> Vec<UnsyncedTable> {
        self.unsynced.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Only keys of `span` are written.
    pub fn within(mut self, span: Span) -> Outputs {
        self.span = span;
        self
    }

    /// Adds the tables of `upper`, whose keys are larger than all keys of `self`.
    pub fn append(&mut self, mut upper: Outputs) {
        let ends = |tables: &[NewTable]| {
            let range = |table: &NewTable| KeyRange::hull(table.parts.iter().map(|part| &part.range));
            (tables.first().and_then(range), tables.last().and_then(range))
        };
        if let ((_, Some(below)), (Some(above), _)) = (ends(&self.tables), ends(&upper.tables)) {
            assert!(below.high < above.low, "tables come in key order");
        }
        self.created.append(&mut upper.created);
        self.failed_syncs = self.failed_syncs.min(upper.failed_syncs);
        self.values.append_all(std::mem::take(&mut upper.values));
        self.tables.append(&mut upper.tables);
        self.shadowed += upper.shadowed;
        self.spent += upper.spent;
    }

    /// Writes the large values of a flush before its keys, if the layout is a trie. [`Outputs::write`] gets the same source and filter.
    pub fn write_early(&mut self, source: &mut dyn Cursor, retention: RetentionFilter) -> Result<()> {
        match self.target.values.layout {
            ValueLayout::Trie { .. } => self.values.write_early(&self.target, source, retention),
            ValueLayout::Ordered => Ok(()),
        }
    }

    /// How many tables point into logs, and their bytes.
    pub fn log_tables(&self) -> (u64, u64) {
        let leads_into_a_log =
            |table: &&NewTable| table.bodies.iter().any(|body| body.file.kind == BodyKind::Log);
        let tables = self.tables.iter().filter(leads_into_a_log);
        tables.fold((0, 0), |(count, bytes), table| (count + 1, bytes + table.bytes))
    }

    /// Writes what the retention filter keeps of `source` into synced tables. The names of the tables are not synced yet.
    ///
    /// `nothing_below` answers the retention filter whether no older version lies below. `edge` gets a new key and the bytes of
    /// the open table, and says what ends in front of the key. An error of `go_on` ends the work early.
    pub fn write(
        &mut self,
        source: &mut dyn Cursor,
        mut retention: RetentionFilter,
        nothing_below: impl Fn(&[u8]) -> bool,
        mut edge: impl FnMut(&[u8], Progress) -> Edge,
        go_on: impl Fn() -> Result<()>,
        written: &Counter,
    ) -> Result<()> {
        let mut builder: Option<TableBuilder> = None;
        let mut last_key: Vec<u8> = Vec::new();
        let relocated_later = if mutant!("relocated_as_a_newer_write") { 8 } else { 0 };
        source.seek(&self.span.low)?;
        while source.valid() && self.span.end.as_ref().is_none_or(|end| source.key() < end.as_slice()) {
            let (key, seq, kind) = (source.key(), source.seq(), source.kind());
            match retention.fate(key, seq, kind, &nothing_below) {
                Fate::Shadowed => self.shadowed += 1,
                Fate::Spent => self.spent += 1,
                Fate::Keep => {
                    let is_new_key = builder.is_none() || last_key != key;
                    if is_new_key {
                        match edge(key, self.progress(builder.as_ref())) {
                            Edge::None => {}
                            Edge::Part => builder.as_mut().expect("only an open table has parts").end_part(),
                            Edge::Table => {
                                let table = builder.take().expect("only an open table ends");
                                self.finish(table, written)?;
                                go_on()?;
                            }
                        }
                    }
                    if builder.is_none() {
                        builder = Some(self.start(source.key())?);
                    }
                    if is_new_key {
                        last_key.clear();
                        last_key.extend_from_slice(key);
                    }
                    let builder = builder.as_mut().expect("made above");
                    if is_new_key {
                        self.values.end_full(&self.target)?;
                    }
                    self.add(builder, source, relocated_later)?;
                }
            }
            source.next()?;
        }
        if let Some(table) = builder {
            self.finish(table, written)?;
        }
        Ok(())
    }

    fn progress(&self, builder: Option<&TableBuilder>) -> Progress {
        let Some(builder) = builder else { return Progress { table_bytes: 0, written_bytes: 0 } };
        let bytes = builder.bytes();
        let table_bytes = (bytes + builder.bodies_bytes()).min(bytes.saturating_mul(HANDLES_FACTOR));
        Progress { table_bytes, written_bytes: bytes + self.values.table_bytes() }
    }

    /// Adds the entry of `source` to the open table. Its value goes to the table or to a value file, or stays where it is.
    /// `relocated_later` is added to the sequence number of a value that moves. It is 0 except for a mutant.
    #[inline]
    fn add(
        &mut self,
        builder: &mut TableBuilder,
        source: &mut dyn Cursor,
        relocated_later: SeqNo,
    ) -> Result<()> {
        let mut seq = source.seq();
        if let Some((file, handle)) = self.target.stays(source) {
            return builder.add_handle(source.key(), seq, file, handle);
        }
        let body = source.handle().map(|(file, _)| file);
        if body.is_some() {
            seq += relocated_later;
        }
        let now = body.filter(|file| file.kind.is_value_file());
        let tier = self.target.tier_map.value(now.map(|file| file.tier));
        source.fetch()?;
        let (key, kind, value) = (source.key(), source.kind(), source.value());
        if kind != EntryKind::Put || !self.target.values.separates(value.len()) {
            return match self.places.find(seq, value.len()) {
                Some((log, handle)) => {
                    let (kind, tier) = (BodyKind::Log, TierId::FAST);
                    let file = BodyFile { kind, tier, id: log.id, bytes: log.bytes };
                    builder.add_handle(key, seq, file, handle)
                }
                None => builder.add(key, seq, kind, value),
            };
        }
        let (file, handle) = self.values.append(&self.target, tier, key, value, seq)?;
        builder.add_handle(key, seq, file, handle)
    }

    /// Syncs the names of the tables and value files on slow tiers. After an error the job ends, and its files are deleted.
    pub fn sync_slow_names(&self) -> Result<()> {
        let Target { fs, dirs, .. } = &self.target;
        let mut slow = self.tiers().into_iter().filter(|&tier| tier != TierId::FAST);
        slow.try_for_each(|tier| dirs.sync_slow(fs.as_ref(), tier, self.failed_syncs))
    }

    /// Syncs the names of the tables and value files on the fast tier.
    pub fn sync_names(&self) -> Result<()> {
        if !self.tiers().contains(&TierId::FAST) || mutant!("skip_table_dir_sync") {
            return Ok(());
        }
        let dir = self.target.dirs.fast();
        self.target.fs.sync_dir(dir).map_err(|error| Error::io("sync the directory", dir, error))
    }

    /// The tiers that the job created files on.
    pub fn tiers(&self) -> BTreeSet<TierId> {
        self.created.iter().chain(self.values.created()).map(|&(tier, _)| tier).collect()
    }

    /// Begins the table whose first key is `key`.
    fn start(&mut self, key: &[u8]) -> Result<TableBuilder> {
        let Target { fs, options, reason, tier_map, .. } = &self.target;
        let tier = tier_map.table(key);
        let create = |path: &Path, id| TableBuilder::create(fs.as_ref(), path, id, *options);
        let (id, table) = match self.target.create(tier, names::table, create) {
            Err(error) if error.is_short_of_descriptors() => {
                self.values.close_open(&self.target)?;
                self.target.create(tier, names::table, create)?
            }
            created => created?,
        };
        let table = table.because(*reason);
        // From now on drop removes the file, unless the outputs are kept.
        self.created.push((tier, id));
        Ok(table)
    }

    /// Ends a table, after the value files that values were written to for it.
    fn finish(&mut self, mut table: TableBuilder, written: &Counter) -> Result<()> {
        self.values.end_table(&self.target, &mut table)?;
        let (summary, mut file) = table.finish_unsynced()?;
        match &mut self.unsynced {
            Some(unsynced) => {
                file.begin_to_write();
                unsynced.push(file);
            }
            None => file.sync()?,
        }
        written.add(summary.bytes);
        self.target.wrote(summary.bytes);
        let &(tier, _) = self.created.last().expect("the table was created");
        self.tables.push(NewTable {
            id: summary.id,
            bytes: summary.bytes,
            checksum: summary.checksum,
            tier,
            parts: summary.parts,
            bodies: summary.bodies,
        });
        Ok(())
    }

    /// Keeps the files: an edit names them now, or may do so.
    pub fn keep(mut self) {
        self.created.clear();
        self.values.keep(&self.target);
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        // A panic may have come after the sync of the edit that names the files. The next open deletes them if no edit does.
        if std::thread::panicking() {
            return;
        }
        for path in self.created.iter().map(|&(tier, id)| self.target.dirs.table(tier, id)) {
            // Nothing refers to the file. The next open deletes it if this unlink fails.
            let _ = self.target.fs.unlink(&path);
        }
        self.values.discard(&self.target);
    }
}
