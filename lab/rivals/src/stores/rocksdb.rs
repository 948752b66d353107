//! RocksDB, tuned as is usual for fills. A family is a column family. RocksDB hands its log to the operating system at each put, which is
//! its default.

use super::{FILTER_BITS_PER_KEY, OPEN_FILES, Settings, family_name, quiet};
use crate::Outcome;
use braidb_bench::Store;
use rocksdb::properties::{
    BACKGROUND_ERRORS, COMPACTION_PENDING, MEM_TABLE_FLUSH_PENDING, NUM_IMMUTABLE_MEM_TABLE,
    NUM_RUNNING_COMPACTIONS, NUM_RUNNING_FLUSHES, PropName,
};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, Options,
};
use std::path::Path;

/// Memtables that may exist at once: one that is written to, and three that wait to be flushed.
const MEMTABLES: i32 = 4;
/// Bytes after which the kernel is asked to begin writing a table back, so that the sync at the end of a table is short.
const BYTES_PER_SYNC: u64 = 1 << 20;

struct Rocksdb {
    db: DB,
    /// The names of the column families. RocksDB uses the first for calls without a family.
    families: Vec<String>,
}

/// Opens a database. Values of at least `separation_threshold` bytes go to blob files, if there is a threshold.
pub fn open(
    dir: &Path,
    families: usize,
    settings: &Settings,
    separation_threshold: Option<u32>,
) -> Outcome<Box<dyn Store>> {
    let mut tables = BlockBasedOptions::default();
    tables.set_bloom_filter(FILTER_BITS_PER_KEY.into(), false);
    tables.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_open_files(OPEN_FILES.into());
    options.set_write_buffer_size(settings.memtable_bytes);
    options.set_max_write_buffer_number(MEMTABLES);
    options.set_enable_pipelined_write(true);
    options.set_bytes_per_sync(BYTES_PER_SYNC);
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&tables);
    if let Some(bytes) = separation_threshold {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(bytes.into());
        options.set_enable_blob_gc(true);
    }
    let names =
        (0..families).map(|family| if family == 0 { "default".to_owned() } else { family_name(family) });
    let families: Vec<_> = names.collect();
    let described = families.iter().map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
    let db = DB::open_cf_descriptors(&options, dir, described)?;
    Ok(Box::new(Rocksdb { db, families }))
}

impl Rocksdb {
    /// The column family; `None` for the first one, which needs no lookup at each call.
    fn family(&self, family: usize) -> Option<&ColumnFamily> {
        let name = &self.families[family];
        (family > 0).then(|| self.db.cf_handle(name).expect("each family was opened"))
    }

    /// The sum of a property over all column families. An error if RocksDB does not know the property.
    fn total(&self, property: &PropName) -> Outcome<u64> {
        let unknown = || format!("RocksDB does not tell {property}");
        let of = |name: &String| -> Outcome<u64> {
            let family = self.db.cf_handle(name).ok_or_else(unknown)?;
            Ok(self.db.property_int_value_cf(family, property)?.ok_or_else(unknown)?)
        };
        self.families.iter().map(of).sum()
    }
}

impl Store for Rocksdb {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        let done = match self.family(family) {
            None => self.db.put(key, value),
            Some(family) => self.db.put_cf(family, key, value),
        };
        Ok(done?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        let done = match self.family(family) {
            None => self.db.delete(key),
            Some(family) => self.db.delete_cf(family, key),
        };
        Ok(done?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = match self.family(family) {
            None => self.db.get_pinned(key)?,
            Some(family) => self.db.get_pinned_cf(family, key)?,
        };
        Ok(value.inspect(|value| see(value)).is_some())
    }

    fn scan(
        &self,
        family: usize,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let mut cursor = match self.family(family) {
            None => self.db.raw_iterator(),
            Some(family) => self.db.raw_iterator_cf(family),
        };
        let mut seen = 0;
        if limit > 0 {
            cursor.seek(from);
        }
        while seen < limit {
            let Some((key, value)) = cursor.item() else { break };
            see(key, value);
            seen += 1;
            if seen < limit {
                cursor.next();
            }
        }
        cursor.status()?;
        Ok(seen)
    }

    /// Properties of RocksDB tell the jobs that wait and that run.
    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        quiet::wait(mark, || {
            if self.total(BACKGROUND_ERRORS)? > 0 {
                return Err("a flush or a compaction of RocksDB failed; its LOG tells why".into());
            }
            let work = [
                NUM_RUNNING_COMPACTIONS,
                NUM_RUNNING_FLUSHES,
                COMPACTION_PENDING,
                MEM_TABLE_FLUSH_PENDING,
                NUM_IMMUTABLE_MEM_TABLE,
            ];
            for property in work {
                if self.total(property)? > 0 {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }
}
