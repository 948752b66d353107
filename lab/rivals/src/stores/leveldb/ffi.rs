//! A safe interface to the part of LevelDB's C interface (`leveldb/c.h`) that the benchmark needs. HyperLevelDB and PebblesDB have it too,
//! under LevelDB's names.

use crate::Outcome;
use crate::stores::shared::{Common, Error, Handle, NO_COMPRESSION, bytes, functions, path_text};
use crate::stores::{FILTER_BITS_PER_KEY, OPEN_FILES, Settings};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;

const PREFIX: &str = "leveldb_";

functions! {
    /// What LevelDB's interface has beside the functions of [`Common`].
    Own {
        open(Handle, *const c_char, *mut *mut c_char) -> Handle;
        put(Handle, Handle, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
        delete(Handle, Handle, *const c_char, usize, *mut *mut c_char);
        get(Handle, Handle, *const c_char, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
        create_iterator(Handle, Handle) -> Handle;
        property_value(Handle, *const c_char) -> *mut c_char;
        options_set_cache(Handle, Handle);
        options_set_filter_policy(Handle, Handle);
        filterpolicy_create_bloom(c_int) -> Handle;
        filterpolicy_destroy(Handle);
    }
}

functions! {
    /// What tells the release.
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
}

/// The parts that a database refers to while it is open. None of the pointers is null. LevelDB allocates with `new`, which throws when
/// memory ends and does not return null.
struct Parts {
    common: Common,
    own: Own,
    options: Handle,
    cache: Handle,
    filter: Handle,
    read: Handle,
    write: Handle,
}

// SAFETY: the header says that several threads may use a database at once without further synchronization. The options for reads and
// writes do not change after their creation, and these calls only read them. LevelDB copied the options of the database when it was opened,
// and locks its cache by itself. No part is bound to the thread that made it.
unsafe impl Send for Database {}
// SAFETY: as for `Send`.
unsafe impl Sync for Database {}

impl Parts {
    fn new(library: &'static Library, settings: &Settings) -> Outcome<Parts> {
        // SAFETY: the tables have the types of the header. The functions have one condition: each pointer comes from its `create`. The
        // pointers do, and no other code has them yet. Setters store the pointers to cache and filter, which live until `Parts` is dropped.
        unsafe {
            let (common, own) = (Common::of(library, PREFIX)?, Own::of(library, PREFIX)?);
            let parts = Parts {
                common,
                own,
                options: (common.options_create)(),
                cache: (common.cache_create_lru)(settings.cache_bytes),
                filter: (own.filterpolicy_create_bloom)(FILTER_BITS_PER_KEY.into()),
                read: (common.readoptions_create)(),
                write: (common.writeoptions_create)(),
            };
            (common.options_set_create_if_missing)(parts.options, 1);
            (common.options_set_write_buffer_size)(parts.options, settings.memtable_bytes);
            (common.options_set_max_open_files)(parts.options, OPEN_FILES.into());
            (common.options_set_compression)(parts.options, NO_COMPRESSION);
            (own.options_set_cache)(parts.options, parts.cache);
            (own.options_set_filter_policy)(parts.options, parts.filter);
            (common.writeoptions_set_sync)(parts.write, settings.sync.into());
            Ok(parts)
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: each pointer comes from its `create` and is destroyed here only. No database refers to the parts any more: either none
        // was opened, or `Database::drop` has closed it before.
        unsafe {
            (self.common.writeoptions_destroy)(self.write);
            (self.common.readoptions_destroy)(self.read);
            (self.common.options_destroy)(self.options);
            (self.own.filterpolicy_destroy)(self.filter);
            (self.common.cache_destroy)(self.cache);
        }
    }
}

impl Database {
    /// Opens the database in a directory, or creates it there.
    pub fn open(library: &'static Library, dir: &Path, settings: &Settings) -> Outcome<Database> {
        let name = path_text(dir)?;
        let parts = Parts::new(library, settings)?;
        let (common, own) = (parts.common, parts.own);
        // SAFETY: the options are alive, and the name ends with a zero byte; LevelDB copies both.
        let db = common.checked(|error| unsafe { (own.open)(parts.options, name.as_ptr(), error) })?;
        assert!(!db.is_null(), "LevelDB returns either an error or a database");
        Ok(Database { db, parts })
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        // SAFETY: the database is open, and both slices are as long as they are said to be; LevelDB copies them.
        self.parts.common.checked(|error| unsafe {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            let put = self.parts.own.put;
            put(self.db, self.parts.write, key_at, key.len(), value_at, value.len(), error);
        })
    }

    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        // SAFETY: the database is open, and the slice is as long as it is said to be; LevelDB copies it.
        self.parts.common.checked(|error| unsafe {
            (self.parts.own.delete)(self.db, self.parts.write, key.as_ptr().cast(), key.len(), error);
        })
    }

    /// Shows the value of `key` to `see`; returns whether there is one.
    pub fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let mut length = 0;
        // SAFETY: the database is open, the slice is as long as it is said to be, and the length has a place to go to.
        let value = self.parts.common.checked(|error| unsafe {
            let key_at = key.as_ptr().cast();
            (self.parts.own.get)(self.db, self.parts.read, key_at, key.len(), &mut length, error)
        })?;
        if value.is_null() {
            return Ok(false);
        }
        let value = Allocated { common: &self.parts.common, at: value };
        // SAFETY: LevelDB has written `length` bytes to the memory that it returned, which lives until `value` is dropped.
        see(unsafe { bytes(value.at, length) });
        Ok(true)
    }

    /// Shows entries to `see`, from the first key that is not below `from` on, until `see` returns `false`.
    pub fn scan(&self, from: &[u8], see: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Error> {
        // SAFETY: the database is open, and stays open for this call. No other code gets the iterator.
        unsafe {
            let iterator = (self.parts.own.create_iterator)(self.db, self.parts.read);
            self.parts.common.scan(iterator, from, see)
        }
    }

    /// A property by its name; `None` if LevelDB does not know it.
    pub fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: the database is open, and the name ends with a zero byte.
        let text = unsafe { (self.parts.own.property_value)(self.db, name.as_ptr()) };
        // SAFETY: the pointer is null or a text that LevelDB allocated for the caller.
        (!text.is_null()).then(|| unsafe { self.parts.common.taken(text) })
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
