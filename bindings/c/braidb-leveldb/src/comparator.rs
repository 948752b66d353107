//! Comparators. BraidDB orders keys by their bytes, so an open refuses a comparator unless the environment declares that it does so too.
//!
//! The library cannot find out how a comparator orders keys: two orders may agree on all keys that are tried, and differ on the next ones.

use crate::callers::{Destructor, State};
use crate::failure::{Failure, Result};
use braidb_ffi::memory::{Text, give};
use braidb_ffi::panics::quiet;
use std::env;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// The environment variable that names the comparators that order bytes, with commas between them.
const BYTEWISE: &str = "BRAIDB_BYTEWISE_COMPARATORS";

/// How a comparator of LevelDB orders two keys. Never called.
type Compare = Option<extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>;
/// What a comparator is called.
type Name = Option<extern "C-unwind" fn(*mut c_void) -> Text>;

/// `leveldb_comparator_t`.
#[derive(Debug)]
pub struct Comparator {
    state: State,
    name: Name,
}

impl Comparator {
    /// The name, as the callback returns it.
    pub fn name(&self) -> String {
        let name = self.name.map(|name| name(self.state.pointer));
        name.and_then(|name| name.str("name").ok().map(str::to_owned))
            .unwrap_or_else(|| "without a name".to_owned())
    }
}

/// Refuses a comparator of this name, unless the environment declares that it orders bytes.
pub fn check(name: &str) -> Result<()> {
    let declared = env::var_os(BYTEWISE).unwrap_or_default();
    if !name.is_empty() && declared.to_string_lossy().split(',').any(|declared| declared.trim() == name) {
        return Ok(());
    }
    Err(Failure::not_implemented(format_args!(
        "comparator {name}: BraidDB sorts keys in the order of bytes, as memcmp does, and cannot find out whether the comparator does so; \
         if it does, put its name into the environment variable {BYTEWISE}; if not, encode keys so that their bytes sort as you want"
    )))
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Destructor,
    _compare: Compare,
    name: Name,
) -> *mut Comparator {
    quiet("leveldb_comparator_create", ptr::null_mut(), || {
        give(Comparator { state: State::new(state, destructor), name })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_destroy(comparator: Option<Box<Comparator>>) {
    quiet("leveldb_comparator_destroy", (), || drop(comparator));
}
