//! A safe interface to the part of RocksDB's C interface (`rocksdb/c.h`) that the benchmark needs.

use crate::Outcome;
use crate::stores::shared::{Handle, Parts, bytes, functions, path_text};
use crate::stores::{FILTER_BITS_PER_KEY, Settings, family_name};
use braidb_bench::{See, Store};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr;

const PREFIX: &str = "rocksdb_";

/// Memtables that may exist at once: one that is written to, and three that wait to be flushed.
const MEMTABLES: c_int = 4;
/// Bytes after which the kernel is asked to begin writing a table back, so that the sync at the end of a table is short.
const BYTES_PER_SYNC: u64 = 1 << 20;

functions! {
    /// The functions of RocksDB's interface that are not in `Common`.
    Own {
        open_column_families(
            Handle, *const c_char, c_int, *const *const c_char, *const Handle, *mut Handle, *mut *mut c_char
        ) -> Handle;
        column_family_handle_destroy(Handle);
        put_cf(Handle, Handle, Handle, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
        delete_cf(Handle, Handle, Handle, *const c_char, usize, *mut *mut c_char);
        get_pinned_cf(Handle, Handle, Handle, *const c_char, usize, *mut *mut c_char) -> Handle;
        pinnableslice_value(Handle, *mut usize) -> *const c_char;
        pinnableslice_destroy(Handle);
        create_iterator_cf(Handle, Handle, Handle) -> Handle;
        property_int_cf(Handle, Handle, *const c_char, *mut u64) -> c_int;
        options_set_create_missing_column_families(Handle, u8);
        options_set_max_write_buffer_number(Handle, c_int);
        options_set_enable_pipelined_write(Handle, u8);
        options_set_bytes_per_sync(Handle, u64);
        options_set_block_based_table_factory(Handle, Handle);
        block_based_options_create() -> Handle;
        block_based_options_destroy(Handle);
        block_based_options_set_block_cache(Handle, Handle);
        block_based_options_set_filter_policy(Handle, Handle);
        filterpolicy_create_bloom_full(f64) -> Handle;
    }
}

functions! {
    /// The function that returns the number of the release. Only the shared object of the Java package has it.
    Release { version(Handle, Handle) -> c_int; }
}

/// The release, such as 10.10.1. RocksDB's C interface does not tell it.
pub fn release(library: &'static Library) -> Option<String> {
    // SAFETY: the function is that of the Java class `RocksDB`. It computes its number from constants and looks at neither argument.
    let version = unsafe {
        (Release::of(library, "Java_org_rocksdb_RocksDB_").ok()?.version)(ptr::null_mut(), ptr::null_mut())
    };
    Some(format!("{}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff))
}

/// An open database. `Drop::drop` closes it; then the fields are dropped from the first to the last.
pub struct Database {
    /// The open database; never null.
    db: Handle,
    /// The column families, by their numbers.
    families: Vec<Handle>,
    parts: Parts,
    own: Own,
}

// SAFETY: several threads may use a database at once without further synchronization. The options do not change after their creation, and
// the calls only read them. RocksDB copied the options of the database, and shares the cache by reference counts of its own.
unsafe impl Send for Database {}
// SAFETY: as for `Send`.
unsafe impl Sync for Database {}

/// Sets the options that RocksDB alone has.
///
/// # Safety
///
/// The options of `parts` are alive, and no database refers to them yet.
unsafe fn tune(parts: &Parts, own: &Own) {
    // SAFETY: the options are alive, by the condition of this function. The options of tables come from their `create` and are destroyed
    // here, after the options of the database have copied them. They take the filter over, and share the cache.
    unsafe {
        let tables = (own.block_based_options_create)();
        let filter = (own.filterpolicy_create_bloom_full)(FILTER_BITS_PER_KEY.into());
        (own.block_based_options_set_filter_policy)(tables, filter);
        (own.block_based_options_set_block_cache)(tables, parts.cache);
        (own.options_set_block_based_table_factory)(parts.options, tables);
        (own.block_based_options_destroy)(tables);
        (own.options_set_create_missing_column_families)(parts.options, 1);
        (own.options_set_max_write_buffer_number)(parts.options, MEMTABLES);
        (own.options_set_enable_pipelined_write)(parts.options, 1);
        (own.options_set_bytes_per_sync)(parts.options, BYTES_PER_SYNC);
    }
}

impl Database {
    /// Opens the database in a directory with this number of column families, or creates what is missing.
    pub fn open(
        library: &'static Library,
        dir: &Path,
        families: usize,
        settings: &Settings,
    ) -> Outcome<Box<dyn Store>> {
        let path = path_text(dir)?;
        // SAFETY: these are the interface and the types of the header.
        let (parts, own) = unsafe { (Parts::new(library, PREFIX, settings)?, Own::of(library, PREFIX)?) };
        // SAFETY: the options are alive, and no database refers to them yet.
        unsafe { tune(&parts, &own) };
        let name = |family| if family == 0 { "default".to_owned() } else { family_name(family) };
        let names = (0..families).map(|family| CString::new(name(family))).collect::<Result<Vec<_>, _>>()?;
        let names_at: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let options = vec![parts.options; families];
        let mut opened = vec![ptr::null_mut(); families];
        let count = c_int::try_from(families)?;
        // SAFETY: the options are alive, the texts end with zero bytes, and the three lists have `count` entries. RocksDB copies names and
        // options, and fills the last list.
        let db = parts.common.checked(|error| unsafe {
            let (path, names, options) = (path.as_ptr(), names_at.as_ptr(), options.as_ptr());
            let opened = opened.as_mut_ptr();
            (own.open_column_families)(parts.options, path, count, names, options, opened, error)
        })?;
        assert!(!db.is_null(), "RocksDB returns either an error or a database");
        Ok(Box::new(Database { db, families: opened, parts, own }))
    }

    /// The sum of a property over all column families; `None` if RocksDB does not know it.
    pub fn total(&self, property: &CStr) -> Option<u64> {
        let of = |&family: &Handle| {
            let mut number = 0;
            // SAFETY: database and family are open, the name ends with a zero byte, and the number has a place to go to.
            let status =
                unsafe { (self.own.property_int_cf)(self.db, family, property.as_ptr(), &mut number) };
            (status == 0).then_some(number)
        };
        self.families.iter().map(of).sum()
    }
}

impl Store for Database {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        let (put, family) = (self.own.put_cf, self.families[family]);
        // SAFETY: database and family are open, and both slices are as long as they are said to be; RocksDB copies them.
        Ok(self.parts.common.checked(|error| unsafe {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            put(self.db, self.parts.write, family, key_at, key.len(), value_at, value.len(), error);
        })?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        let (delete, family) = (self.own.delete_cf, self.families[family]);
        // SAFETY: database and family are open, and the slice is as long as it is said to be; RocksDB copies it.
        Ok(self.parts.common.checked(|error| unsafe {
            delete(self.db, self.parts.write, family, key.as_ptr().cast(), key.len(), error);
        })?)
    }

    /// Shows the value of `key` to `see`, where it lies in RocksDB's cache; returns whether there is one.
    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let (get, family) = (self.own.get_pinned_cf, self.families[family]);
        // SAFETY: database and family are open, and the slice is as long as it is said to be.
        let pinned = self.parts.common.checked(|error| unsafe {
            get(self.db, self.parts.read, family, key.as_ptr().cast(), key.len(), error)
        })?;
        if pinned.is_null() {
            return Ok(false);
        }
        let pinned = Pinned { own: &self.own, slice: pinned };
        let mut length = 0;
        // SAFETY: the slice is alive, and its bytes live until `pinned` is dropped.
        see(unsafe { bytes((self.own.pinnableslice_value)(pinned.slice, &mut length), length) });
        Ok(true)
    }

    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let mut see = |key: &[u8], value: &[u8]| {
            see(key, value);
            true
        };
        // SAFETY: database and family are open, and stay open for this call. No other code gets the iterator.
        unsafe {
            let iterator = (self.own.create_iterator_cf)(self.db, self.parts.read, self.families[family]);
            Ok(self.parts.common.scan(iterator, from, limit, &mut see)?)
        }
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        super::settle(self, mark)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: families and database are open, and are closed here only, the database last. Iterators end within their calls.
        unsafe {
            for &family in &self.families {
                (self.own.column_family_handle_destroy)(family);
            }
            (self.parts.common.close)(self.db);
        }
    }
}

/// A value that stays where it lies until this is dropped.
struct Pinned<'a> {
    own: &'a Own,
    slice: Handle,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // SAFETY: the slice comes from RocksDB and is destroyed here only, while its database is open.
        unsafe { (self.own.pinnableslice_destroy)(self.slice) }
    }
}
