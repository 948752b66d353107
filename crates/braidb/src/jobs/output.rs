//! Writing tables: the one loop that flushes, merges and recovery share. Entries arrive in order, and the retention filter
//! decides their fate. Tables are cut at a size, never between two versions of one key.
//!
//! No edit names the tables at first. [`Outputs`] deletes them when it is dropped before an edit does, so that a failed job
//! leaves nothing behind. The next open deletes what a crash leaves.

use super::log_table::Places;
use crate::base::counters::Counter;
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, FileIds, TierId};
use crate::base::key::{KeyRange, Span};
use crate::base::mutant::mutant;
use crate::base::names;
use crate::plan::Edge;
use crate::table::{TableBuilder, TableOptions};
use crate::version::{NewTable, State};
use crate::visible::Cursor;
use crate::visible::rule::{Fate, RetentionFilter};
use braidb_storage::FileSystem;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Where tables are written, and how.
#[derive(Clone, Debug)]
pub struct Target {
    pub fs: Arc<dyn FileSystem>,
    pub dir: PathBuf,
    pub files: Arc<FileIds>,
    pub options: TableOptions,
}

/// Tables that no edit names yet.
#[derive(Debug)]
pub struct Outputs {
    target: Target,
    /// Values that are left in logs.
    places: Places,
    /// Only keys of this span are written.
    span: Span,
    ids: Vec<FileId>,
    pub tables: Vec<NewTable>,
    /// Versions that newer ones hid.
    pub shadowed: u64,
    /// Tombstones that were dropped because no older version is left for them to hide.
    pub spent: u64,
}

impl Outputs {
    pub fn new(target: Target) -> Outputs {
        let (places, span) = (Places::default(), Span::ALL);
        Outputs { target, places, span, ids: Vec::new(), tables: Vec::new(), shadowed: 0, spent: 0 }
    }

    /// The tables store handles for the values that have these places.
    pub fn leaving(mut self, places: Places) -> Outputs {
        self.places = places;
        self
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
        self.ids.append(&mut upper.ids);
        self.tables.append(&mut upper.tables);
        self.shadowed += upper.shadowed;
        self.spent += upper.spent;
    }

    /// How many tables point into logs, and their bytes.
    pub fn log_tables(&self) -> (u64, u64) {
        let tables = self.tables.iter().filter(|table| !table.bodies.is_empty());
        tables.fold((0, 0), |(count, bytes), table| (count + 1, bytes + table.bytes))
    }

    /// Writes what the retention filter keeps of `source` into synced tables. The names of the tables are not synced yet.
    ///
    /// `nothing_below` answers the retention filter whether no older version lies below. `edge` gets a new key and the bytes of
    /// the open table (0: none), and says what ends in front of the key. An error of `go_on` ends the work early.
    pub fn write(
        &mut self,
        source: &mut dyn Cursor,
        mut retention: RetentionFilter,
        nothing_below: impl Fn(&[u8]) -> bool,
        mut edge: impl FnMut(&[u8], u64) -> Edge,
        go_on: impl Fn() -> Result<()>,
        written: &Counter,
    ) -> Result<()> {
        let mut builder: Option<TableBuilder> = None;
        let mut last_key: Vec<u8> = Vec::new();
        source.seek(&self.span.low)?;
        while source.valid() && self.span.end.as_ref().is_none_or(|end| source.key() < end.as_slice()) {
            let (key, seq, kind) = (source.key(), source.seq(), source.kind());
            match retention.fate(key, seq, kind, &nothing_below) {
                Fate::Shadowed => self.shadowed += 1,
                Fate::Spent => self.spent += 1,
                Fate::Keep => {
                    let is_new_key = builder.is_none() || last_key != key;
                    let bytes = builder.as_ref().map_or(0, TableBuilder::bytes);
                    if is_new_key {
                        match edge(key, bytes) {
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
                        builder = Some(self.start()?);
                    }
                    if is_new_key {
                        last_key.clear();
                        last_key.extend_from_slice(key);
                    }
                    source.fetch()?;
                    let (builder, key) = (builder.as_mut().expect("made above"), source.key());
                    match self.places.find(seq, source.value().len()) {
                        Some((log, handle)) => builder.add_handle(key, seq, log.id, log.bytes, handle)?,
                        None => builder.add(key, seq, kind, source.value())?,
                    }
                }
            }
            source.next()?;
        }
        if let Some(table) = builder {
            self.finish(table, written)?;
        }
        Ok(())
    }

    /// Syncs the names of the tables.
    pub fn sync_names(&self) -> Result<()> {
        if self.ids.is_empty() || mutant!("skip_table_dir_sync") {
            return Ok(());
        }
        let dir = &self.target.dir;
        self.target.fs.sync_dir(dir).map_err(|error| Error::io("sync the directory", dir, error))
    }

    fn start(&mut self) -> Result<TableBuilder> {
        loop {
            let id = self.target.files.take();
            let path = names::table(&self.target.dir, id);
            match TableBuilder::create(self.target.fs.as_ref(), &path, id, self.target.options) {
                // A process that lost the lock made this table (`version/dir_lock.rs`). The next number may be free.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    let table = created?;
                    // From now on drop removes the file, unless the tables are kept.
                    self.ids.push(id);
                    return Ok(table);
                }
            }
        }
    }

    fn finish(&mut self, table: TableBuilder, written: &Counter) -> Result<()> {
        let summary = table.finish()?;
        written.add(summary.bytes);
        self.tables.push(NewTable {
            id: summary.id,
            bytes: summary.bytes,
            checksum: summary.checksum,
            tier: TierId::FAST,
            parts: summary.parts,
            sketch: summary.sketch.map(Arc::new),
            bodies: summary.bodies,
        });
        Ok(())
    }

    /// Gives the tables of `state` their sketches.
    pub fn pass_on_sketches(&self, state: &State) {
        for NewTable { id, sketch, .. } in &self.tables {
            if let (Some(table), Some(sketch)) = (state.table(*id), sketch) {
                table.know_sketch(sketch);
            }
        }
    }

    /// Keeps the tables: an edit names them now, or may do so.
    pub fn keep(mut self) {
        self.ids.clear();
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        for &id in &self.ids {
            // Nothing refers to the file. The next open deletes it if this unlink fails.
            let _ = self.target.fs.unlink(&names::table(&self.target.dir, id));
        }
    }
}
