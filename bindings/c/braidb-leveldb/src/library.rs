//! Small objects that stand for parts of LevelDB, memory that the library gave away, and the version of LevelDB whose interface this is.

use braidb::storage::FileSystem;
use braidb::storage::real::RealFs;
use braidb_ffi::memory::{self, give, give_text};
use braidb_ffi::panics::quiet;
use std::env;
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;

/// The version of LevelDB whose header declares these functions.
const MAJOR: c_int = 1;
const MINOR: c_int = 23;

/// `leveldb_cache_t`: the size of the cache that each database gets which is opened with it. Databases share no memory.
#[derive(Debug)]
pub struct Cache {
    pub capacity: usize,
}

/// `leveldb_env_t`: files and threads of the operating system. LevelDB's interface makes no other environment.
#[derive(Debug)]
pub struct Environment;

/// `leveldb_logger_t`. LevelDB's interface has no function that makes one, so there is none but NULL.
#[derive(Debug)]
pub enum Logger {}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> *mut Cache {
    quiet("leveldb_cache_create_lru", ptr::null_mut(), || give(Cache { capacity }))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_destroy(cache: Option<Box<Cache>>) {
    quiet("leveldb_cache_destroy", (), || drop(cache));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> *mut Environment {
    quiet("leveldb_create_default_env", ptr::null_mut(), || give(Environment))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_destroy(environment: Option<Box<Environment>>) {
    quiet("leveldb_env_destroy", (), || drop(environment));
}

/// The directory that LevelDB's function names, which it makes too: that of `TEST_TMPDIR`, or one for each user.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_get_test_directory(_environment: Option<&Environment>) -> *mut c_char {
    quiet("leveldb_env_get_test_directory", ptr::null_mut(), || {
        let dir = env::var_os("TEST_TMPDIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let user = rustix::process::geteuid().as_raw();
        let dir = dir.unwrap_or_else(|| PathBuf::from(format!("/tmp/leveldbtest-{user}")));
        // A directory that could not be made is noticed by its first use.
        let _ = RealFs.create_dir_all(&dir);
        give_text(&dir.to_string_lossy())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_free(memory: *mut c_void) {
    quiet("leveldb_free", (), || memory::free(memory.cast()));
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    quiet("leveldb_major_version", MAJOR, || MAJOR)
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    quiet("leveldb_minor_version", MINOR, || MINOR)
}
