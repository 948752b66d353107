//! How the module for Kafka Streams keeps many stores in one database: slots, markers, commits, wipes and sweeps.
//!
//! [`App`] says in Rust what `SlotTable`, `Marker`, `Ledger` and `Writer` of `bindings/java/kafka-streams` do, step for step: each write goes into
//! the batches, and each sync comes at the moment, that the Java code has. A change of that protocol belongs here too.
//!
//! ```text
//! slot 0      the next number, and the owner of each slot
//! slot N      meta: the offset of the last commit, and a status while entries may be there that belong to no commit; data: the entries
//! /app/S.slot the marker of store S: the number of its slot
//! ```

use braidb::{Db, Durability, Error, Overlay, WriteBatch};
use braidb_storage::FileSystem;
use braidb_storage::sim::SimFs;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The directory of the markers.
const APP: &str = "/app";
const META: u8 = 0;
const DATA: u8 = 1;

/// How a store writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Transactional: entries wait in an overlay for the commit.
    Staged,
    /// Exactly-once without transactions: entries reach the database at once, behind a status that says so.
    ExactlyOnce,
    /// At-least-once: as [`Kind::ExactlyOnce`], but the changelog writes the entries of no commit again.
    AtLeastOnce,
}

/// A wrong protocol, which the judge must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The offset goes into a batch of its own, in front of the entries.
    OffsetsApart,
    /// A transactional store writes its entries at once.
    StagedWrittenStraight,
    /// A wipe forgets offset and status, and keeps slot and entries.
    SlotUsedAgain,
}

/// Key and value of a record of a changelog. A missing value deletes the key.
pub type Record = (Vec<u8>, Option<Vec<u8>>);

/// The entries of a store.
pub type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The database of an application, and its markers.
#[derive(Debug)]
pub struct App {
    pub db: Db,
    fs: SimFs,
    planted: Option<Planted>,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    number: usize,
    pub kind: Kind,
    pub slot: u32,
    /// Whether the slot was made for this opening.
    pub is_new: bool,
    pub offset: Option<u64>,
    /// Entries may be in the slot that belong to no commit.
    pub is_dirty: bool,
    overlay: Option<Overlay>,
}

fn key(slot: u32, kind: u8, rest: &[u8]) -> Vec<u8> {
    [&slot.to_be_bytes()[..], &[kind], rest].concat()
}

fn owner_key(slot: u32) -> Vec<u8> {
    key(0, META, &[b"slot", &slot.to_be_bytes()[..]].concat())
}

fn next_key() -> Vec<u8> {
    key(0, META, b"next")
}

fn offset_key(slot: u32) -> Vec<u8> {
    key(slot, META, b"o")
}

fn status_key(slot: u32) -> Vec<u8> {
    key(slot, META, b"s")
}

/// A number of 4 bytes. The judge wrote it.
fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("4 bytes"))
}

fn marker(store: usize) -> PathBuf {
    Path::new(APP).join(format!("{store}.slot"))
}

impl App {
    pub fn new(db: Db, fs: &SimFs, planted: Option<Planted>) -> App {
        fs.create_dir_all(Path::new(APP)).expect("a device without faults");
        App { db, fs: fs.clone(), planted }
    }

    /// Opens a store in the slot to which its marker leads, or in a new one.
    pub fn open(&self, store: usize, kind: Kind) -> Result<Store, Error> {
        let found = self.read_marker(store);
        let is_owner = |slot: u32| {
            Ok::<_, Error>(self.db.get(owner_key(slot))?.is_some_and(|owner| *owner == store.to_be_bytes()))
        };
        let (slot, is_new) = match found {
            Some(slot) if is_owner(slot)? => (slot, false),
            _ => (self.create(store)?, true),
        };
        let offset = self.db.get(offset_key(slot))?;
        Ok(Store {
            number: store,
            kind,
            slot,
            is_new,
            offset: offset.map(|bytes| u64::from_be_bytes(bytes[..].try_into().expect("8 bytes"))),
            is_dirty: self.db.get(status_key(slot))?.is_some(),
            overlay: (kind == Kind::Staged).then(|| self.db.overlay()),
        })
    }

    /// Makes a slot. It is synced before its marker, so that no marker leads to the slot of another store.
    fn create(&self, store: usize) -> Result<u32, Error> {
        let slot = self.db.get(next_key())?.map_or(1, |next| number(&next));
        let mut batch = WriteBatch::new();
        batch.put(next_key(), (slot + 1).to_be_bytes()).put(owner_key(slot), store.to_be_bytes());
        self.db.write_with(batch, Durability::Sync)?;
        self.write_marker(store, slot);
        Ok(slot)
    }

    fn read_marker(&self, store: usize) -> Option<u32> {
        let text = self.fs.read_file(&marker(store)).ok()?;
        std::str::from_utf8(&text).ok()?.strip_prefix("slot ")?.strip_suffix('\n')?.parse().ok()
    }

    fn write_marker(&self, store: usize, slot: u32) {
        let (path, written) = (marker(store), marker(store).with_extension("tmp"));
        // A crash may have left the file.
        let _ = self.fs.unlink(&written);
        let file = self.fs.create(&written).expect("a device without faults");
        file.append(format!("slot {slot}\n").as_bytes()).expect("a device without faults");
        file.sync_data().expect("a device without faults");
        self.fs.rename(&written, &path).expect("a device without faults");
        self.fs.sync_dir(Path::new(APP)).expect("a device without faults");
    }

    /// Has the next opening of a store begin with a new slot. Nothing is synced.
    pub fn condemn(&self, store: &Store) -> Result<(), Error> {
        if self.planted == Some(Planted::SlotUsedAgain) {
            let mut batch = WriteBatch::new();
            batch.delete(offset_key(store.slot)).delete(status_key(store.slot));
            return self.db.write(batch);
        }
        // A marker may be gone already.
        let _ = self.fs.unlink(&marker(store.number));
        Ok(())
    }

    /// Takes away the slots to which no marker leads, but for `open` ones. Returns how many.
    pub fn sweep(&self, open: &BTreeSet<u32>) -> Result<usize, Error> {
        let mut dead = Vec::new();
        for owner in self.db.prefix(key(0, META, b"slot")) {
            let (key, store) = owner?;
            let slot = number(&key[key.len() - 4..]);
            let store = usize::from_be_bytes(store[..].try_into().expect("the bytes of a number"));
            if !open.contains(&slot) && self.read_marker(store) != Some(slot) {
                dead.push(slot);
            }
        }
        if !dead.is_empty() {
            self.db.excise(
                dead.iter().map(|slot| slot.to_be_bytes().to_vec()..(slot + 1).to_be_bytes().to_vec()),
            )?;
            let mut batch = WriteBatch::new();
            dead.iter().for_each(|slot| _ = batch.delete(owner_key(*slot)));
            self.db.write(batch)?;
        }
        Ok(dead.len())
    }

    /// Whether any entry of a slot is there, of whatever kind.
    pub fn has_any(&self, slot: u32) -> Result<bool, Error> {
        self.db.prefix(slot.to_be_bytes()).next().transpose().map(|entry| entry.is_some())
    }

    /// The slots that have entries, but for slot 0.
    pub fn slots(&self) -> Result<BTreeSet<u32>, Error> {
        let slots = self.db.iter().map(|entry| Ok(number(&entry?.0[..4])));
        slots.filter(|slot| !matches!(slot, Ok(0))).collect()
    }
}

impl Store {
    /// What the store's own reads see.
    pub fn entries(&self, app: &App) -> Result<Entries, Error> {
        let head = key(self.slot, DATA, b"");
        let own = |key: &[u8], value: &[u8]| (key[head.len()..].to_vec(), value.to_vec());
        match &self.overlay {
            Some(overlay) => {
                overlay.prefix(&head).map(|entry| entry.map(|(key, value)| own(&key, &value))).collect()
            }
            None => app.db.prefix(&head).map(|entry| entry.map(|(key, value)| own(&key, &value))).collect(),
        }
    }

    /// Writes what a record says.
    pub fn write(&mut self, app: &App, record: &Record) -> Result<(), Error> {
        let whole = key(self.slot, DATA, &record.0);
        match (&self.overlay, &record.1) {
            (Some(_), _) if app.planted == Some(Planted::StagedWrittenStraight) => {
                self.restore(app, std::slice::from_ref(record), None)
            }
            (Some(overlay), Some(value)) => overlay.put(whole, value),
            (Some(overlay), None) => overlay.delete(whole),
            (None, _) if !self.is_dirty => {
                let mut batch = WriteBatch::new();
                batch.put(status_key(self.slot), [1]);
                add(&mut batch, whole, &record.1);
                app.db.write(batch)?;
                self.is_dirty = true;
                Ok(())
            }
            (None, Some(value)) => app.db.put(whole, value),
            (None, None) => app.db.delete(whole),
        }
    }

    /// Makes all that was written a commit, up to `offset` of the changelog.
    pub fn commit(&mut self, app: &App, offset: u64) -> Result<(), Error> {
        if app.planted == Some(Planted::OffsetsApart) {
            app.db.put(offset_key(self.slot), offset.to_be_bytes())?;
        }
        match &self.overlay {
            Some(overlay) => {
                overlay.put(offset_key(self.slot), offset.to_be_bytes())?;
                overlay.commit()?;
            }
            None => {
                let mut batch = WriteBatch::new();
                batch.put(offset_key(self.slot), offset.to_be_bytes());
                if self.is_dirty {
                    batch.delete(status_key(self.slot));
                }
                app.db.write(batch)?;
            }
        }
        (self.offset, self.is_dirty) = (Some(offset), false);
        Ok(())
    }

    /// Writes records of the changelog in one batch, with the offset behind them.
    pub fn restore(&mut self, app: &App, records: &[Record], offset: Option<u64>) -> Result<(), Error> {
        let mut batch = WriteBatch::new();
        for (rest, value) in records {
            add(&mut batch, key(self.slot, DATA, rest), value);
        }
        if let Some(offset) = offset {
            batch.put(offset_key(self.slot), offset.to_be_bytes());
            self.offset = Some(offset);
        }
        app.db.write(batch)
    }

    /// Bytes that no commit has.
    pub fn uncommitted_bytes(&self) -> usize {
        self.overlay.as_ref().map_or(0, Overlay::bytes)
    }
}

fn add(batch: &mut WriteBatch, key: Vec<u8>, value: &Option<Vec<u8>>) {
    match value {
        Some(value) => batch.put(key, value),
        None => batch.delete(key),
    };
}
