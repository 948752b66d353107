//! Filter policies. BraidDB has Bloom filters of its own, so a policy is accepted and never asked. A filter changes no answer.

use crate::callers::{Destructor, State};
use braidb_ffi::memory::give;
use braidb_ffi::panics::quiet;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// How a policy makes a filter of keys. Never called.
type CreateFilter = Option<
    extern "C-unwind" fn(*mut c_void, *const *const c_char, *const usize, c_int, *mut usize) -> *mut c_char,
>;
/// How a policy asks a filter for a key. Never called.
type KeyMayMatch =
    Option<extern "C-unwind" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8>;
/// What a policy is called. Never called.
type Name = Option<extern "C-unwind" fn(*mut c_void) -> *const c_char>;

/// `leveldb_filterpolicy_t`. The state is there to be freed with it.
#[derive(Debug)]
pub struct FilterPolicy {
    _state: State,
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Destructor,
    _create_filter: CreateFilter,
    _key_may_match: KeyMayMatch,
    _name: Name,
) -> *mut FilterPolicy {
    quiet("leveldb_filterpolicy_create", ptr::null_mut(), || {
        give(FilterPolicy { _state: State::new(state, destructor) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(_bits_per_key: c_int) -> *mut FilterPolicy {
    quiet("leveldb_filterpolicy_create_bloom", ptr::null_mut(), || {
        give(FilterPolicy { _state: State::new(ptr::null_mut(), None) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_destroy(policy: Option<Box<FilterPolicy>>) {
    quiet("leveldb_filterpolicy_destroy", (), || drop(policy));
}
