//! The stores, one file each, opened with equal settings. The log is handed to the operating system at every put, and synced for it only if
//! [`Settings::sync`] says so. There is no compression. Memory for writes and for blocks is equal. `README.md` tells what a store has no
//! setting for.

#[path = "../../adapter/adapter.rs"]
mod braid;
pub mod fjall;
mod leveldb;
mod lmdb;
mod quiet;
mod redb;
mod rocksdb;
mod shared;
#[cfg(test)]
pub mod tests;

use crate::Outcome;
use braid::Braid;
use braidb::{Durability, Options};
use braidb_bench::Store;
use clap::ValueEnum;
use std::error::Error;
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
    /// LevelDB, which checks each block of a table against its checksum when it reads it.
    LeveldbChecked,
    /// A store that came from LevelDB. It is loaded if `RIVALS_HYPERLEVELDB` names its shared object.
    Hyperleveldb,
    /// HyperLevelDB, which checks checksums as [`Kind::LeveldbChecked`] does.
    HyperleveldbChecked,
    /// A store that came from HyperLevelDB. It is loaded if `RIVALS_PEBBLESDB` names its shared object.
    Pebblesdb,
    /// PebblesDB, which checks checksums as [`Kind::LeveldbChecked`] does.
    PebblesdbChecked,
    Lmdb,
    Redb,
    Fjall,
    /// RocksDB. It is loaded if `RIVALS_ROCKSDB` names its shared object.
    Rocksdb,
}

/// The memory of a store, and what an acknowledged put means.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of writes that gather in memory before they are flushed.
    pub memtable_bytes: usize,
    /// Bytes of memory for blocks of tables.
    pub cache_bytes: usize,
    /// Whether a put returns only when it is on stable storage. Otherwise the operating system has it.
    pub sync: bool,
}

impl Settings {
    /// The settings of all stores but [`Kind::Braidb`].
    pub const ALIKE: Settings = Settings { memtable_bytes: 64 << 20, cache_bytes: 1 << 30, sync: false };
}

/// The number of files that a store may hold open, if it has such a setting.
const OPEN_FILES: u16 = 1000;
/// Bits of Bloom filter for each key, where a store has filters.
const FILTER_BITS_PER_KEY: u8 = 10;
impl Kind {
    /// The stores without the variants that check. A table measures those of them that can be loaded.
    pub const MEASURED: [Kind; 9] = [
        Kind::Braidb,
        Kind::BraidbCached,
        Kind::Leveldb,
        Kind::Hyperleveldb,
        Kind::Pebblesdb,
        Kind::Lmdb,
        Kind::Redb,
        Kind::Fjall,
        Kind::Rocksdb,
    ];

    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no store is hidden").get_name().to_owned()
    }

    /// Opens the store in `dir` with the settings of the comparison. `dir` is created if its parent exists. An existing store must be
    /// opened with the number of families that it was created with.
    pub fn open(self, dir: &Path, families: usize, sync: bool) -> Outcome<Box<dyn Store>> {
        match self {
            Kind::Braidb => self.opened(dir, || braid(Options::new(), dir, families, sync)),
            _ => self.open_with(dir, families, &Settings { sync, ..Settings::ALIKE }),
        }
    }

    /// Opens the store as [`Kind::open`] does, with other sizes of memory. LMDB does not use the sizes.
    pub fn open_with(self, dir: &Path, families: usize, settings: &Settings) -> Outcome<Box<dyn Store>> {
        let library = || Ok::<_, Box<dyn Error + Send + Sync>>(self.library()?.expect("it is loaded").0);
        self.opened(dir, || match self {
            Kind::Braidb | Kind::BraidbCached => {
                let options = Options::new()
                    .memtable_bytes(settings.memtable_bytes)
                    .block_cache_bytes(settings.cache_bytes);
                braid(options, dir, families, settings.sync)
            }
            Kind::Leveldb | Kind::Hyperleveldb | Kind::Pebblesdb => {
                leveldb::open(library()?, dir, families, settings, false)
            }
            Kind::LeveldbChecked | Kind::HyperleveldbChecked | Kind::PebblesdbChecked => {
                leveldb::open(library()?, dir, families, settings, true)
            }
            Kind::Lmdb => lmdb::open(dir, families, settings),
            Kind::Redb => redb::open(dir, families, settings),
            Kind::Fjall => fjall::open(dir, families, settings),
            Kind::Rocksdb => rocksdb::Database::open(library()?, dir, families, settings),
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

fn braid(options: Options, dir: &Path, families: usize, sync: bool) -> Outcome<Box<dyn Store>> {
    let options = options.durability(if sync { Durability::Sync } else { Durability::Buffer });
    Ok(Box::new(Braid::new(options.open(dir)?, families as u64)?))
}

/// The name of a family in stores whose families have names.
fn family_name(family: usize) -> String {
    format!("family{family}")
}
