//! A safe interface to the part of LevelDB's C interface (`leveldb/c.h`) that the benchmark needs. HyperLevelDB and PebblesDB have it too,
//! under LevelDB's names.

use crate::Outcome;
use crate::stores::shared::{Common, Error, Handle, Parts, bytes, functions, path_text};
use crate::stores::{FILTER_BITS_PER_KEY, Settings};
use libloading::Library;
use std::ffi::{c_char, c_int};
use std::path::Path;

const PREFIX: &str = "leveldb_";

functions! {
    /// The functions of LevelDB's interface that are not in [`Common`].
    Own {
        open(Handle, *const c_char, *mut *mut c_char) -> Handle;
        put(Handle, Handle, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
        delete(Handle, Handle, *const c_char, usize, *mut *mut c_char);
        get(Handle, Handle, *const c_char, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
        create_iterator(Handle, Handle) -> Handle;
        options_set_cache(Handle, Handle);
        options_set_filter_policy(Handle, Handle);
        readoptions_set_verify_checksums(Handle, u8);
        filterpolicy_create_bloom(c_int) -> Handle;
        filterpolicy_destroy(Handle);
    }
}

functions! {
    /// The functions that return the number of the release.
    Release {
        major_version() -> c_int;
        minor_version() -> c_int;
    }
}

/// The release, such as 1.23.
pub fn release(library: &'static Library) -> Option<String> {
    // SAFETY: these are the types of the header. The calls have no conditions.
    unsafe {
        let functions = Release::of(library, PREFIX).ok()?;
        Some(format!("{}.{}", (functions.major_version)(), (functions.minor_version)()))
    }
}

/// An open database, with the parts that it was opened with. `Drop::drop` closes the database; then fields are dropped from the first to
/// the last. LevelDB demands that cache and filter outlive the database.
pub struct Database {
    /// The open database; never null.
    db: Handle,
    parts: Parts,
    own: Own,
    _filter: Filter,
}

/// A filter policy, which is destroyed when this value is dropped.
struct Filter {
    own: Own,
    filter: Handle,
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: the filter comes from its `create` and is destroyed here only, after the database that refers to it was closed.
        unsafe { (self.own.filterpolicy_destroy)(self.filter) }
    }
}

// SAFETY: the header says that several threads may use a database at once without further synchronization. The options for reads and
// writes do not change after their creation, and these calls only read them. LevelDB copied the options of the database when it was opened,
// and locks its cache by itself. No part is bound to the thread that made it.
unsafe impl Send for Database {}
// SAFETY: as for `Send`.
unsafe impl Sync for Database {}

impl Database {
    /// Opens the database in a directory, or creates it there. With `is_checked` reads verify the checksum of each block from a file.
    pub fn open(
        library: &'static Library,
        dir: &Path,
        settings: &Settings,
        is_checked: bool,
    ) -> Outcome<Database> {
        let name = path_text(dir)?;
        // SAFETY: these are the interface and the types of the header.
        let (parts, own) = unsafe { (Parts::new(library, PREFIX, settings)?, Own::of(library, PREFIX)?) };
        // SAFETY: the call has no condition, and no other code has the filter.
        let filter = unsafe { (own.filterpolicy_create_bloom)(FILTER_BITS_PER_KEY.into()) };
        let filter = Filter { own, filter };
        // SAFETY: options, cache and filter are alive. The options keep the handles of cache and filter, and `Database` frees both after
        // the database.
        unsafe {
            (own.readoptions_set_verify_checksums)(parts.read, is_checked.into());
            (own.options_set_cache)(parts.options, parts.cache);
            (own.options_set_filter_policy)(parts.options, filter.filter);
        }
        let open = |error| {
            // SAFETY: the options are alive, and the name ends with a zero byte; LevelDB copies both.
            unsafe { (own.open)(parts.options, name.as_ptr(), error) }
        };
        let db = parts.common.checked(open)?;
        assert!(!db.is_null(), "LevelDB returns either an error or a database");
        Ok(Database { db, parts, own, _filter: filter })
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        // SAFETY: the database is open, and both slices are as long as they are said to be; LevelDB copies them.
        self.parts.common.checked(|error| unsafe {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            let put = self.own.put;
            put(self.db, self.parts.write, key_at, key.len(), value_at, value.len(), error);
        })
    }

    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        // SAFETY: the database is open, and the slice is as long as it is said to be; LevelDB copies it.
        self.parts.common.checked(|error| unsafe {
            (self.own.delete)(self.db, self.parts.write, key.as_ptr().cast(), key.len(), error);
        })
    }

    /// Shows the value of `key` to `see`; returns whether there is one.
    pub fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let mut length = 0;
        // SAFETY: the database is open, the slice is as long as it is said to be, and the length has a place to go to.
        let value = self.parts.common.checked(|error| unsafe {
            let key_at = key.as_ptr().cast();
            (self.own.get)(self.db, self.parts.read, key_at, key.len(), &mut length, error)
        })?;
        if value.is_null() {
            return Ok(false);
        }
        let value = Allocated { common: &self.parts.common, at: value };
        // SAFETY: LevelDB has written `length` bytes to the memory that it returned, which lives until `value` is dropped.
        see(unsafe { bytes(value.at, length) });
        Ok(true)
    }

    /// Shows entries to `see` as [`Common::scan`] does.
    pub fn scan(
        &self,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize, Error> {
        // SAFETY: the database is open, and stays open for this call. No other code gets the iterator.
        unsafe {
            let iterator = (self.own.create_iterator)(self.db, self.parts.read);
            self.parts.common.scan(iterator, from, limit, see)
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: the database is open and is closed here only. Iterators end within their calls, so none is left.
        unsafe { (self.parts.common.close)(self.db) }
    }
}

/// Memory that LevelDB allocated for its caller.
struct Allocated<'a> {
    common: &'a Common,
    at: *mut c_char,
}

impl Drop for Allocated<'_> {
    fn drop(&mut self) {
        // SAFETY: LevelDB allocated the memory and handed it over. The memory is freed here only.
        unsafe { (self.common.free)(self.at.cast()) }
    }
}
