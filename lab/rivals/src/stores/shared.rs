//! Stores that are loaded as shared objects when the program runs: RocksDB, LevelDB, and the stores that came from LevelDB. An environment
//! variable names the file of each. This file also has what their C interfaces share.

use super::{Kind, OPEN_FILES, Settings};
use crate::Outcome;
use libloading::Library;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

impl Kind {
    /// The environment variable that names the shared object of a store, and the shared object that is looked for in the directories of the
    /// system if the variable is not set. `None` for a store that is part of this program.
    fn source(self) -> Option<(&'static str, Option<&'static str>)> {
        Some(match self {
            Kind::Leveldb | Kind::LeveldbChecked => ("RIVALS_LEVELDB", Some("libleveldb.so")),
            Kind::Hyperleveldb | Kind::HyperleveldbChecked => ("RIVALS_HYPERLEVELDB", None),
            Kind::Pebblesdb | Kind::PebblesdbChecked => ("RIVALS_PEBBLESDB", None),
            Kind::Rocksdb => ("RIVALS_ROCKSDB", None),
            _ => return None,
        })
    }

    /// The shared object of a store that is loaded, and its path; `None` for a store that is part of this program. The object stays loaded
    /// until the process ends, because the threads of LevelDB and RocksDB run its code until then.
    ///
    /// # Errors
    ///
    /// No path is given, or the file is no shared object. The error names the variable.
    pub(super) fn library(self) -> Outcome<Option<(&'static Library, OsString)>> {
        let Some((variable, installed)) = self.source() else { return Ok(None) };
        let Some(path) = std::env::var_os(variable).or(installed.map(OsString::from)) else {
            return Err(format!("set {variable} to the path of its shared object (see README.md)").into());
        };
        // SAFETY: loading runs the initializers of the shared object. Its path comes from the user of the benchmark, who trusts the store.
        let library = unsafe { Library::new(&path) };
        let library = library
            .map_err(|error| format!("{variable}: could not load {}: {error}", path.to_string_lossy()))?;
        Ok(Some((Box::leak(Box::new(library)), path)))
    }

    /// Where the store comes from, if it is loaded: its release and its shared object.
    ///
    /// # Errors
    ///
    /// The store cannot be loaded.
    pub fn origin(self) -> Outcome<Option<String>> {
        let Some((library, path)) = self.library()? else { return Ok(None) };
        let release = match self {
            Kind::Rocksdb => super::rocksdb::release(library),
            _ => super::leveldb::release(library),
        };
        let release = release.unwrap_or_else(|| "of an unknown release".to_owned());
        Ok(Some(format!("{} {release}, loaded from {}", self.name(), path.to_string_lossy())))
    }
}

/// An error message of a store.
#[derive(Debug)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A pointer to an object of a store: an open database, options, an iterator. The code around a call says which.
pub type Handle = *mut c_void;

/// Declares a table of functions of a shared object. The first line names the table. Each function has its name in the header without the
/// prefix (`leveldb_`, `rocksdb_`), and its types.
///
/// The functions are C++ inside and throw when memory ends. With this ABI the exception may pass through Rust, where nothing catches it.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident { $($name:ident($($type:ty),*) $(-> $returned:ty)?;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub struct $table {
            $(pub $name: unsafe extern "C-unwind" fn($($type),*) $(-> $returned)?,)*
        }

        impl $table {
            /// Finds the functions.
            ///
            /// # Safety
            ///
            /// The functions of the shared object have the types of this table.
            pub unsafe fn of(library: &'static libloading::Library, prefix: &str) -> $crate::Outcome<$table> {
                Ok($table {
                    // SAFETY: the caller vouches for the types, and the object stays loaded.
                    $($name: *unsafe { library.get($crate::stores::shared::symbol(prefix, stringify!($name)).as_bytes())? },)*
                })
            }
        }
    };
}
pub(super) use functions;

/// The name of a function in a shared object, with the zero byte at its end that the loader wants.
pub fn symbol(prefix: &str, name: &str) -> String {
    format!("{prefix}{name}\0")
}

functions! {
    /// The functions that the C interfaces of LevelDB and RocksDB both have, with equal types.
    Common {
        options_create() -> Handle;
        options_destroy(Handle);
        options_set_create_if_missing(Handle, u8);
        options_set_write_buffer_size(Handle, usize);
        options_set_max_open_files(Handle, c_int);
        options_set_compression(Handle, c_int);
        cache_create_lru(usize) -> Handle;
        cache_destroy(Handle);
        readoptions_create() -> Handle;
        readoptions_destroy(Handle);
        writeoptions_create() -> Handle;
        writeoptions_destroy(Handle);
        writeoptions_set_sync(Handle, u8);
        close(Handle);
        iter_destroy(Handle);
        iter_valid(Handle) -> u8;
        iter_seek(Handle, *const c_char, usize);
        iter_next(Handle);
        iter_key(Handle, *mut usize) -> *const c_char;
        iter_value(Handle, *mut usize) -> *const c_char;
        iter_get_error(Handle, *mut *mut c_char);
        free(*mut c_void);
    }
}

/// The objects that a database refers to while it is open, and the functions for them. None of the handles is null: the stores allocate
/// with `new`, which throws when memory ends and does not return null.
pub struct Parts {
    pub common: Common,
    pub options: Handle,
    pub cache: Handle,
    pub read: Handle,
    pub write: Handle,
}

impl Parts {
    /// Makes the options that LevelDB and RocksDB both have.
    ///
    /// # Safety
    ///
    /// The library is LevelDB, RocksDB or a store with one of their interfaces, and `prefix` is the prefix of this interface's functions.
    pub unsafe fn new(library: &'static Library, prefix: &str, settings: &Settings) -> Outcome<Parts> {
        // SAFETY: the table has the types of the header. The functions have one condition: each pointer comes from its `create`. The
        // pointers do, and no other code has them yet.
        unsafe {
            let common = Common::of(library, prefix)?;
            let parts = Parts {
                common,
                options: (common.options_create)(),
                cache: (common.cache_create_lru)(settings.cache_bytes),
                read: (common.readoptions_create)(),
                write: (common.writeoptions_create)(),
            };
            (common.options_set_create_if_missing)(parts.options, 1);
            (common.options_set_write_buffer_size)(parts.options, settings.memtable_bytes);
            (common.options_set_max_open_files)(parts.options, OPEN_FILES.into());
            (common.options_set_compression)(parts.options, NO_COMPRESSION);
            (common.writeoptions_set_sync)(parts.write, settings.sync.into());
            Ok(parts)
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // SAFETY: each pointer comes from its `create` and is destroyed here only. No database refers to the parts any more: its owner
        // drops them after it has closed the database.
        unsafe {
            (self.common.writeoptions_destroy)(self.write);
            (self.common.readoptions_destroy)(self.read);
            (self.common.options_destroy)(self.options);
            (self.common.cache_destroy)(self.cache);
        }
    }
}

/// The value of `leveldb_no_compression` and `rocksdb_no_compression`.
const NO_COMPRESSION: c_int = 0;

impl Common {
    /// Calls a function with a place for its error. If there is an error, the function's result is not looked at: it is null then.
    pub fn checked<T>(&self, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, Error> {
        let mut error = ptr::null_mut();
        let returned = call(&mut error);
        match error.is_null() {
            true => Ok(returned),
            // SAFETY: the store has left a text in `error` that it allocated for the caller.
            false => Err(Error(unsafe { self.taken(error) })),
        }
    }

    /// Copies a text and frees it.
    ///
    /// # Safety
    ///
    /// The store allocated the text for the caller, the text ends with a zero byte, and it is not used after this call.
    pub unsafe fn taken(&self, text: *mut c_char) -> String {
        // SAFETY: the condition of this function holds. Nothing between the two calls panics.
        unsafe {
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.free)(text.cast());
            copy
        }
    }

    /// Shows up to `limit` entries of an iterator to `see`, from the first key that is not below `from` on. Ends before an entry for which
    /// `see` returns `false`. Returns the number of entries before the end. The iterator is destroyed, also if `see` panics.
    ///
    /// # Safety
    ///
    /// The iterator comes from the store, no other code has it, and its database is open.
    pub unsafe fn scan(
        &self,
        iterator: Handle,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<usize, Error> {
        let (cursor, mut seen) = (Cursor { common: self, iterator }, 0);
        if limit == 0 {
            return Ok(0);
        }
        // SAFETY: the iterator is alive and no other code has it; the slice is as long as it is said to be.
        unsafe { (self.iter_seek)(iterator, from.as_ptr().cast(), from.len()) };
        while let Some((key, value)) = cursor.entry()
            && see(key, value)
        {
            seen += 1;
            if seen == limit {
                break;
            }
            // SAFETY: the iterator is alive and at an entry; `key` and `value`, which the step invalidates, are not used again.
            unsafe { (self.iter_next)(iterator) };
        }
        // SAFETY: the iterator is alive.
        self.checked(|error| unsafe { (self.iter_get_error)(iterator, error) }).map(|()| seen)
    }
}

/// An iterator, which is destroyed when this value is dropped.
struct Cursor<'a> {
    common: &'a Common,
    iterator: Handle,
}

impl Cursor<'_> {
    /// The current entry: both slices are valid until the iterator moves.
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (mut key_bytes, mut value_bytes) = (0, 0);
        // SAFETY: the iterator is alive and no other code has it. Key and value are read only while the iterator is valid, as the header
        // demands, and both are as long as the store says.
        unsafe {
            if (self.common.iter_valid)(self.iterator) == 0 {
                return None;
            }
            let key = (self.common.iter_key)(self.iterator, &mut key_bytes);
            let value = (self.common.iter_value)(self.iterator, &mut value_bytes);
            Some((bytes(key, key_bytes), bytes(value, value_bytes)))
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: the iterator comes from the store and is destroyed here only, while its database is open.
        unsafe { (self.common.iter_destroy)(self.iterator) }
    }
}

/// The bytes that a store shows. A store may show none by a null pointer.
///
/// # Safety
///
/// Unless `length` is 0, `length` bytes lie at `at` and stay there, unchanged, for the time `'a`.
pub unsafe fn bytes<'a>(at: *const c_char, length: usize) -> &'a [u8] {
    match length {
        0 => &[],
        // SAFETY: the condition of this function holds.
        _ => unsafe { slice::from_raw_parts(at.cast(), length) },
    }
}

/// A path as text that ends with a zero byte.
pub fn path_text(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error("the path has a zero byte; choose another".to_owned()))
}
