//! Options of an open. A size that BraidDB does not take becomes the nearest one that it takes. What the caller does not set has BraidDB's
//! default.

use crate::comparator::{self, Comparator};
use crate::failure::Result;
use crate::filter_policy::FilterPolicy;
use crate::library::{Cache, Environment, Logger};
use braidb::Options;
use braidb_ffi::memory::give;
use braidb_ffi::panics::quiet;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::ptr;

/// Bytes of a memtable that BraidDB takes: `Options::memtable_bytes`.
const MEMTABLE_BYTES: RangeInclusive<usize> = 4 << 10..=2 << 30;
/// Open files that BraidDB takes: `Options::open_files`.
const OPEN_FILES: RangeInclusive<usize> = 16..=1_000_000;
/// Bytes of a cache, up to 64 GiB. BraidDB takes more, but what it needs for its own order is allocated at the open: 2 MiB a GiB.
const CACHE_BYTES: RangeInclusive<usize> = 0..=64 << 30;
/// Bytes of a block that BraidDB takes: `Tuning::block_bytes`.
const BLOCK_BYTES: RangeInclusive<usize> = 64..=1 << 20;
/// Bytes of a table that BraidDB takes: `Tuning::table_bytes`.
const TABLE_BYTES: RangeInclusive<usize> = 4 << 10..=2 << 30;

/// `leveldb_options_t`. What is `None` was not set.
#[derive(Debug, Default)]
pub struct OptionsHandle {
    creates: bool,
    must_be_new: bool,
    /// The name of the comparator.
    comparator: Option<String>,
    memtable_bytes: Option<usize>,
    open_files: Option<usize>,
    cache_bytes: Option<usize>,
    block_bytes: Option<usize>,
    table_bytes: Option<usize>,
}

fn clamp(value: usize, range: RangeInclusive<usize>) -> usize {
    value.clamp(*range.start(), *range.end())
}

impl OptionsHandle {
    /// BraidDB's options for these ones.
    ///
    /// # Errors
    ///
    /// A comparator is set that may order keys otherwise than by bytes.
    pub fn translated(&self) -> Result<Options> {
        if let Some(name) = &self.comparator {
            comparator::check(name)?;
        }
        // LevelDB creates a database only where the caller wants it, also if the database must be new.
        let mut options =
            Options::new().create_if_missing(self.creates).create_new(self.creates && self.must_be_new);
        if let Some(bytes) = self.memtable_bytes {
            options = options.memtable_bytes(clamp(bytes, MEMTABLE_BYTES));
        }
        if let Some(files) = self.open_files {
            options = options.open_files(clamp(files, OPEN_FILES));
        }
        if let Some(bytes) = self.cache_bytes {
            options = options.block_cache_bytes(clamp(bytes, CACHE_BYTES));
        }
        if let Some(bytes) = self.block_bytes {
            options = options.tuning(|tuning| tuning.block_bytes(clamp(bytes, BLOCK_BYTES)));
        }
        if let Some(bytes) = self.table_bytes {
            options = options.tuning(|tuning| tuning.table_bytes(clamp(bytes, TABLE_BYTES) as u64));
        }
        Ok(options)
    }

    /// Whether an open must find no database, and may not create one either: it always fails.
    pub fn is_impossible(&self) -> bool {
        self.must_be_new && !self.creates
    }
}

/// Changes options. NULL has none to change.
fn set(function: &'static str, options: Option<&mut OptionsHandle>, change: impl FnOnce(&mut OptionsHandle)) {
    quiet(function, (), || {
        if let Some(options) = options {
            change(options);
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> *mut OptionsHandle {
    quiet("leveldb_options_create", ptr::null_mut(), || give(OptionsHandle::default()))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_destroy(options: Option<Box<OptionsHandle>>) {
    quiet("leveldb_options_destroy", (), || drop(options));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_comparator(
    options: Option<&mut OptionsHandle>,
    comparator: Option<&Comparator>,
) {
    set("leveldb_options_set_comparator", options, |options| {
        options.comparator = comparator.map(Comparator::name);
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_create_if_missing(options: Option<&mut OptionsHandle>, yes: u8) {
    set("leveldb_options_set_create_if_missing", options, |options| options.creates = yes != 0);
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_error_if_exists(options: Option<&mut OptionsHandle>, yes: u8) {
    set("leveldb_options_set_error_if_exists", options, |options| options.must_be_new = yes != 0);
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_write_buffer_size(options: Option<&mut OptionsHandle>, bytes: usize) {
    set("leveldb_options_set_write_buffer_size", options, |options| options.memtable_bytes = Some(bytes));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_open_files(options: Option<&mut OptionsHandle>, files: c_int) {
    set("leveldb_options_set_max_open_files", options, |options| {
        options.open_files = Some(usize::try_from(files).unwrap_or(0));
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_cache(options: Option<&mut OptionsHandle>, cache: Option<&Cache>) {
    set("leveldb_options_set_cache", options, |options| {
        options.cache_bytes = cache.map(|cache| cache.capacity);
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_size(options: Option<&mut OptionsHandle>, bytes: usize) {
    set("leveldb_options_set_block_size", options, |options| options.block_bytes = Some(bytes));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_file_size(options: Option<&mut OptionsHandle>, bytes: usize) {
    set("leveldb_options_set_max_file_size", options, |options| options.table_bytes = Some(bytes));
}

// The options below have no effect. docs/c.md tells what BraidDB does instead.

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_paranoid_checks(_options: Option<&mut OptionsHandle>, _yes: u8) {
    quiet("leveldb_options_set_paranoid_checks", (), || ());
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_filter_policy(
    _options: Option<&mut OptionsHandle>,
    _policy: Option<&FilterPolicy>,
) {
    quiet("leveldb_options_set_filter_policy", (), || ());
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_env(
    _options: Option<&mut OptionsHandle>,
    _environment: Option<&Environment>,
) {
    quiet("leveldb_options_set_env", (), || ());
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_info_log(_options: Option<&mut OptionsHandle>, _logger: *const Logger) {
    quiet("leveldb_options_set_info_log", (), || ());
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_restart_interval(
    _options: Option<&mut OptionsHandle>,
    _entries: c_int,
) {
    quiet("leveldb_options_set_block_restart_interval", (), || ());
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_compression(_options: Option<&mut OptionsHandle>, _kind: c_int) {
    quiet("leveldb_options_set_compression", (), || ());
}
