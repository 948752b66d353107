//! A safe interface to the part of LevelDB's C interface (`leveldb/c.h`) that the benchmark needs. All unsafe calls of LevelDB are in this
//! file.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

/// The functions and types of the header, under their names.
#[allow(non_camel_case_types, reason = "the names of the header")]
mod c {
    use super::{c_char, c_int, c_void};

    macro_rules! opaque {
        ($($name:ident)*) => { $(#[repr(C)] pub struct $name { _bytes: [u8; 0] })* };
    }
    opaque! {
        leveldb_t leveldb_cache_t leveldb_filterpolicy_t leveldb_iterator_t leveldb_options_t leveldb_readoptions_t
        leveldb_writeoptions_t
    }

    // The functions are C++ inside and throw when memory ends. With this ABI the exception may pass through Rust, where nothing catches it.
    #[link(name = "leveldb")]
    unsafe extern "C-unwind" {
        pub fn leveldb_open(
            options: *const leveldb_options_t,
            name: *const c_char,
            errptr: *mut *mut c_char,
        ) -> *mut leveldb_t;
        pub fn leveldb_close(db: *mut leveldb_t);
        pub fn leveldb_put(
            db: *mut leveldb_t,
            options: *const leveldb_writeoptions_t,
            key: *const c_char,
            keylen: usize,
            val: *const c_char,
            vallen: usize,
            errptr: *mut *mut c_char,
        );
        pub fn leveldb_delete(
            db: *mut leveldb_t,
            options: *const leveldb_writeoptions_t,
            key: *const c_char,
            keylen: usize,
            errptr: *mut *mut c_char,
        );
        pub fn leveldb_get(
            db: *mut leveldb_t,
            options: *const leveldb_readoptions_t,
            key: *const c_char,
            keylen: usize,
            vallen: *mut usize,
            errptr: *mut *mut c_char,
        ) -> *mut c_char;
        pub fn leveldb_property_value(db: *mut leveldb_t, propname: *const c_char) -> *mut c_char;

        pub fn leveldb_create_iterator(
            db: *mut leveldb_t,
            options: *const leveldb_readoptions_t,
        ) -> *mut leveldb_iterator_t;
        pub fn leveldb_iter_destroy(iter: *mut leveldb_iterator_t);
        pub fn leveldb_iter_valid(iter: *const leveldb_iterator_t) -> u8;
        pub fn leveldb_iter_seek(iter: *mut leveldb_iterator_t, key: *const c_char, keylen: usize);
        pub fn leveldb_iter_next(iter: *mut leveldb_iterator_t);
        pub fn leveldb_iter_key(iter: *const leveldb_iterator_t, keylen: *mut usize) -> *const c_char;
        pub fn leveldb_iter_value(iter: *const leveldb_iterator_t, vallen: *mut usize) -> *const c_char;
        pub fn leveldb_iter_get_error(iter: *const leveldb_iterator_t, errptr: *mut *mut c_char);

        pub fn leveldb_options_create() -> *mut leveldb_options_t;
        pub fn leveldb_options_destroy(options: *mut leveldb_options_t);
        pub fn leveldb_options_set_create_if_missing(options: *mut leveldb_options_t, yes: u8);
        pub fn leveldb_options_set_write_buffer_size(options: *mut leveldb_options_t, bytes: usize);
        pub fn leveldb_options_set_max_open_files(options: *mut leveldb_options_t, files: c_int);
        pub fn leveldb_options_set_compression(options: *mut leveldb_options_t, kind: c_int);
        pub fn leveldb_options_set_cache(options: *mut leveldb_options_t, cache: *mut leveldb_cache_t);
        pub fn leveldb_options_set_filter_policy(
            options: *mut leveldb_options_t,
            filter: *mut leveldb_filterpolicy_t,
        );
        pub fn leveldb_cache_create_lru(bytes: usize) -> *mut leveldb_cache_t;
        pub fn leveldb_cache_destroy(cache: *mut leveldb_cache_t);
        pub fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut leveldb_filterpolicy_t;
        pub fn leveldb_filterpolicy_destroy(filter: *mut leveldb_filterpolicy_t);
        pub fn leveldb_readoptions_create() -> *mut leveldb_readoptions_t;
        pub fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t);
        pub fn leveldb_writeoptions_create() -> *mut leveldb_writeoptions_t;
        pub fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t);
        pub fn leveldb_free(ptr: *mut c_void);
    }

    /// The value of `leveldb_no_compression`.
    pub const NO_COMPRESSION: c_int = 0;
}

/// An error message of LevelDB.
#[derive(Debug)]
pub struct Error(String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The sizes that a database is opened with.
pub struct Sizes {
    pub write_buffer_bytes: usize,
    pub cache_bytes: usize,
    pub open_files: u16,
    pub filter_bits_per_key: u8,
}

/// An open database, with the parts that it was opened with. `Drop::drop` closes the database; then fields are dropped from the first to
/// the last. LevelDB demands that cache and filter outlive the database.
pub struct Database {
    /// The open database; never null.
    db: *mut c::leveldb_t,
    parts: Parts,
}

/// The parts that a database refers to while it is open. None of the pointers is null. LevelDB allocates with `new`, which throws when
/// memory ends and does not return null.
struct Parts {
    options: *mut c::leveldb_options_t,
    cache: *mut c::leveldb_cache_t,
    filter: *mut c::leveldb_filterpolicy_t,
    read: *mut c::leveldb_readoptions_t,
    write: *mut c::leveldb_writeoptions_t,
}

// SAFETY: the header says that several threads may use a `leveldb_t` at once without further synchronization. The options for reads and
// writes do not change after their creation, and these calls only read them. LevelDB copied the options of the database when it was opened,
// and locks its cache by itself. No part is bound to the thread that made it.
unsafe impl Send for Database {}
// SAFETY: as for `Send`.
unsafe impl Sync for Database {}

impl Parts {
    fn new(sizes: &Sizes) -> Parts {
        // SAFETY: these functions have one condition: each pointer comes from its `create`. The pointers do, and no other code has them
        // yet. Setters store the pointers to cache and filter, which live until `Parts` is dropped.
        unsafe {
            let parts = Parts {
                options: c::leveldb_options_create(),
                cache: c::leveldb_cache_create_lru(sizes.cache_bytes),
                filter: c::leveldb_filterpolicy_create_bloom(sizes.filter_bits_per_key.into()),
                read: c::leveldb_readoptions_create(),
                write: c::leveldb_writeoptions_create(),
            };
            c::leveldb_options_set_create_if_missing(parts.options, 1);
            c::leveldb_options_set_write_buffer_size(parts.options, sizes.write_buffer_bytes);
            c::leveldb_options_set_max_open_files(parts.options, sizes.open_files.into());
            c::leveldb_options_set_compression(parts.options, c::NO_COMPRESSION);
            c::leveldb_options_set_cache(parts.options, parts.cache);
            c::leveldb_options_set_filter_policy(parts.options, parts.filter);
            parts
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: each pointer comes from its `create` and is destroyed here only. No database refers to the parts any more: either none
        // was opened, or `Database::drop` has closed it before.
        unsafe {
            c::leveldb_writeoptions_destroy(self.write);
            c::leveldb_readoptions_destroy(self.read);
            c::leveldb_options_destroy(self.options);
            c::leveldb_filterpolicy_destroy(self.filter);
            c::leveldb_cache_destroy(self.cache);
        }
    }
}

impl Database {
    /// Opens the database in a directory, or creates it there. Puts do not sync, as the options for writes are by default.
    pub fn open(dir: &Path, sizes: &Sizes) -> Result<Database, Error> {
        let name = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| Error("the path has a zero byte; choose another".to_owned()))?;
        let parts = Parts::new(sizes);
        // SAFETY: the options are alive, and the name ends with a zero byte; LevelDB copies both.
        let db = checked(|error| unsafe { c::leveldb_open(parts.options, name.as_ptr(), error) })?;
        assert!(!db.is_null(), "LevelDB returns either an error or a database");
        Ok(Database { db, parts })
    }

    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        // SAFETY: the database is open, and both slices are as long as they are said to be; LevelDB copies them.
        checked(|error| unsafe {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            c::leveldb_put(self.db, self.parts.write, key_at, key.len(), value_at, value.len(), error);
        })
    }

    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        // SAFETY: the database is open, and the slice is as long as it is said to be; LevelDB copies it.
        checked(|error| unsafe {
            c::leveldb_delete(self.db, self.parts.write, key.as_ptr().cast(), key.len(), error);
        })
    }

    /// Shows the value of `key` to `see`; returns whether there is one.
    pub fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let mut bytes = 0;
        // SAFETY: the database is open, the slice is as long as it is said to be, and the length has a place to go to.
        let value = checked(|error| unsafe {
            let key_at = key.as_ptr().cast();
            c::leveldb_get(self.db, self.parts.read, key_at, key.len(), &mut bytes, error)
        })?;
        if value.is_null() {
            return Ok(false);
        }
        let value = Allocated(value);
        // SAFETY: LevelDB has written `bytes` bytes to the memory that it returned, which lives until `value` is dropped.
        see(unsafe { slice::from_raw_parts(value.0.cast(), bytes) });
        Ok(true)
    }

    /// Shows entries to `see`, from the first key that is not below `from` on, until `see` returns `false`.
    pub fn scan(&self, from: &[u8], see: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), Error> {
        // SAFETY: the database is open. The iterator borrows the database, so it is destroyed before the database is closed.
        let cursor = Cursor(unsafe { c::leveldb_create_iterator(self.db, self.parts.read) }, PhantomData);
        // SAFETY: the iterator is alive and no other thread has it; the slice is as long as it is said to be.
        unsafe { c::leveldb_iter_seek(cursor.0, from.as_ptr().cast(), from.len()) };
        while let Some((key, value)) = cursor.entry() {
            if !see(key, value) {
                break;
            }
            // SAFETY: the iterator is alive and at an entry; `key` and `value`, which the step invalidates, are not used again.
            unsafe { c::leveldb_iter_next(cursor.0) };
        }
        // SAFETY: the iterator is alive.
        checked(|error| unsafe { c::leveldb_iter_get_error(cursor.0, error) })
    }

    /// A property by its name; `None` if LevelDB does not know it.
    pub fn property(&self, name: &CStr) -> Option<String> {
        // SAFETY: the database is open, and the name ends with a zero byte.
        let text = unsafe { c::leveldb_property_value(self.db, name.as_ptr()) };
        // SAFETY: the pointer is null or a text that LevelDB allocated for the caller.
        (!text.is_null()).then(|| unsafe { taken(text) })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: the database is open and is closed here only. Iterators borrow the database, so none is left.
        unsafe { c::leveldb_close(self.db) }
    }
}

/// An iterator that is destroyed at its end, also if the code that looks at its entries panics.
struct Cursor<'a>(*mut c::leveldb_iterator_t, PhantomData<&'a Database>);

impl Cursor<'_> {
    /// The current entry: both slices are valid until the iterator moves.
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (mut key_bytes, mut value_bytes) = (0, 0);
        // SAFETY: the iterator is alive and no other thread has it. Key and value are read only while the iterator is valid, as LevelDB
        // demands, and both are as long as LevelDB says.
        unsafe {
            if c::leveldb_iter_valid(self.0) == 0 {
                return None;
            }
            let key = c::leveldb_iter_key(self.0, &mut key_bytes);
            let value = c::leveldb_iter_value(self.0, &mut value_bytes);
            Some((
                slice::from_raw_parts(key.cast(), key_bytes),
                slice::from_raw_parts(value.cast(), value_bytes),
            ))
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the iterator comes from LevelDB and is destroyed here only, while its database is open.
        unsafe { c::leveldb_iter_destroy(self.0) }
    }
}

/// Memory that LevelDB allocated for its caller.
struct Allocated(*mut c_char);

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: LevelDB allocated the memory and handed it over. The memory is freed here only.
        unsafe { c::leveldb_free(self.0.cast()) }
    }
}

/// Calls a function with a place for its error. If there is an error, the function's result is not looked at: LevelDB returns null then.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, Error> {
    let mut error = ptr::null_mut();
    let returned = call(&mut error);
    match error.is_null() {
        true => Ok(returned),
        // SAFETY: LevelDB has left a text in `error` that it allocated for the caller.
        false => Err(Error(unsafe { taken(error) })),
    }
}

/// Copies a text and frees it.
///
/// # Safety
///
/// LevelDB allocated the text for the caller, the text ends with a zero byte, and it is not used after this call.
unsafe fn taken(text: *mut c_char) -> String {
    let text = Allocated(text);
    // SAFETY: the condition of this function holds, and the text lives until `text` is dropped.
    unsafe { CStr::from_ptr(text.0) }.to_string_lossy().into_owned()
}
