//! What a caller hands over to an object with callbacks: a pointer to state, and the function that frees it.
//!
//! Callbacks have the ABI `C-unwind`, and each is called within `braidb_ffi::panics::attempt`. So an exception of C++ that leaves a callback
//! comes to a place where Rust ends the process.

use std::ffi::c_void;

/// What frees the state of the caller.
pub type Destructor = Option<extern "C-unwind" fn(*mut c_void)>;

/// State of the caller, which is freed with the object.
#[derive(Debug)]
pub struct State {
    pub pointer: *mut c_void,
    destructor: Destructor,
}

impl State {
    pub fn new(pointer: *mut c_void, destructor: Destructor) -> State {
        State { pointer, destructor }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            destructor(self.pointer);
        }
    }
}
