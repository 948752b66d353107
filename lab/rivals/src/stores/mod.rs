//! The stores, one file each, opened with equal settings. The log is handed to the operating system at every put and never synced for it.
//! There is no compression. Memory for writes and for blocks is equal. `README.md` tells what a store has no setting for.

#[path = "../../adapter/adapter.rs"]
mod braid;
mod fjall;
mod leveldb;
mod lmdb;
mod quiet;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(test)]
mod tests;

use crate::Outcome;
use braid::Braid;
use braidb::Options;
use braidb_bench::Store;
use clap::ValueEnum;
use std::fs;
use std::path::Path;

/// The name of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// BraidDB with its defaults.
    Braidb,
    /// BraidDB with the block cache of the other stores.
    BraidbCached,
    Leveldb,
    Lmdb,
    Redb,
    Fjall,
    /// [`Kind::Fjall`] with blob files.
    FjallSeparated,
    /// RocksDB, which needs the cargo feature `rocksdb`.
    Rocksdb,
    /// [`Kind::Rocksdb`] with blob files.
    RocksdbSeparated,
}

/// The memory of a store.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of writes that gather in memory before they are flushed.
    pub memtable_bytes: usize,
    /// Bytes of memory for blocks of tables.
    pub cache_bytes: usize,
}

impl Settings {
    /// The settings of all stores but [`Kind::Braidb`].
    pub const ALIKE: Settings = Settings { memtable_bytes: 64 << 20, cache_bytes: 1 << 30 };
}

/// The number of files that a store may hold open, if it has such a setting.
const OPEN_FILES: u16 = 1000;
/// Bits of Bloom filter for each key, where a store has filters.
const FILTER_BITS_PER_KEY: u8 = 10;
/// Bytes from which on a value lies apart from its key, in the stores that separate values. BraidDB's default.
const SEPARATION_THRESHOLD: u32 = 1024;

impl Kind {
    /// The stores of this build, each in the form in which it is opened by default. A table measures them.
    pub const MEASURED: &[Kind] = &[
        Kind::Braidb,
        Kind::BraidbCached,
        Kind::Leveldb,
        Kind::Lmdb,
        Kind::Redb,
        Kind::Fjall,
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Braidb => "braidb",
            Kind::BraidbCached => "braidb-cached",
            Kind::Leveldb => "leveldb",
            Kind::Lmdb => "lmdb",
            Kind::Redb => "redb",
            Kind::Fjall => "fjall",
            Kind::FjallSeparated => "fjall-separated",
            Kind::Rocksdb => "rocksdb",
            Kind::RocksdbSeparated => "rocksdb-separated",
        }
    }

    /// The least bytes of a value that the store keeps apart from its key. `None` if the store keeps each value beside its key.
    fn separation_threshold(self) -> Option<u32> {
        let separates =
            matches!(self, Kind::Braidb | Kind::BraidbCached | Kind::FjallSeparated | Kind::RocksdbSeparated);
        separates.then_some(SEPARATION_THRESHOLD)
    }

    /// Opens the store in `dir` with the settings of the comparison. `dir` is created if its parent exists. An existing store must be
    /// opened with the number of families that it was created with.
    pub fn open(self, dir: &Path, families: usize) -> Outcome<Box<dyn Store>> {
        match self {
            Kind::Braidb => self.opened(dir, || braid(Options::new(), dir, families)),
            _ => self.open_with(dir, families, &Settings::ALIKE),
        }
    }

    /// Opens the store as [`Kind::open`] does, with other sizes of memory. LMDB does not use the sizes.
    pub fn open_with(self, dir: &Path, families: usize, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let threshold = self.separation_threshold();
        self.opened(dir, || match self {
            Kind::Braidb | Kind::BraidbCached => {
                let options = Options::new()
                    .memtable_bytes(settings.memtable_bytes)
                    .block_cache_bytes(settings.cache_bytes);
                braid(options, dir, families)
            }
            Kind::Leveldb => leveldb::open(dir, families, settings),
            Kind::Lmdb => lmdb::open(dir, families),
            Kind::Redb => redb::open(dir, families, settings),
            Kind::Fjall | Kind::FjallSeparated => fjall::open(dir, families, settings, threshold),
            #[cfg(feature = "rocksdb")]
            Kind::Rocksdb | Kind::RocksdbSeparated => rocksdb::open(dir, families, settings, threshold),
            #[cfg(not(feature = "rocksdb"))]
            Kind::Rocksdb | Kind::RocksdbSeparated => {
                Err("this build has no RocksDB; build it with `--features rocksdb`".into())
            }
        })
    }

    /// Creates the directory if it is missing, and calls `open`. An error names the store and the directory.
    fn opened(self, dir: &Path, open: impl FnOnce() -> Outcome<Box<dyn Store>>) -> Outcome<Box<dyn Store>> {
        if dir.exists() && !dir.is_dir() {
            return Err(format!("{} is not a directory; choose another path", dir.display()).into());
        }
        let is_new = !dir.exists();
        if is_new {
            fs::create_dir(dir).map_err(|error| {
                format!("could not create {}: {error}; its parent has to be a directory", dir.display())
            })?;
        }
        open().map_err(|error| {
            if is_new {
                // The call removes the directory only if it is empty.
                let _ = fs::remove_dir(dir);
            }
            format!("could not open {} in {}: {error}", self.name(), dir.display()).into()
        })
    }
}

fn braid(options: Options, dir: &Path, families: usize) -> Outcome<Box<dyn Store>> {
    Ok(Box::new(Braid::open(dir, options, families as u64)?))
}

/// The name of a family in stores whose families have names.
fn family_name(family: usize) -> String {
    format!("family{family}")
}
