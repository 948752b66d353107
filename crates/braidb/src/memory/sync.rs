//! The atomics of the skiplist: those of the standard library, or loom's in the concurrency model.

pub use std::sync::atomic::Ordering;

#[cfg(loom)]
pub use loom::sync::atomic::AtomicPtr;
#[cfg(not(loom))]
pub use std::sync::atomic::AtomicPtr;

/// Stands for the plain (not atomic) bytes of a node or version. Loom cannot watch those, so it watches this in their
/// place: created when they are written, read whenever they are read. Outside the model it is nothing.
pub struct PlainBytes(#[cfg(loom)] loom::cell::UnsafeCell<()>);

impl PlainBytes {
    #[inline]
    pub fn written() -> PlainBytes {
        PlainBytes(
            #[cfg(loom)]
            loom::cell::UnsafeCell::new(()),
        )
    }

    #[inline]
    pub fn read(&self) {
        #[cfg(loom)]
        self.0.with(|_| ());
    }
}
