//! Objects of Rust that objects of Java own. Java has the address as a number.
//!
//! # Why the unsafe code is sound
//!
//! Only the class `io.github.braidb.Native` calls this crate, and only classes of its package call `Native`. Each of them passes a handle to
//! the methods for its own type alone. Java frees a handle once: when no call with the handle is under way, and none can follow
//! (`bindings/java/braidb/src/main/java/io/github/braidb/Handle.java`). All types behind handles may be used by several threads at once.

use jni::sys::jlong;

/// A handle for Java, which frees it.
pub fn give<T: Send + Sync>(object: T) -> jlong {
    Box::into_raw(Box::new(object)) as jlong
}

/// The object of a handle, for the time of a call.
///
/// # Panics
///
/// If the handle is 0.
#[inline]
pub fn lent<'call, T: Send + Sync>(handle: jlong) -> &'call T {
    assert_ne!(handle, 0, "no object has this handle");
    // SAFETY: Java passes a handle that `give` made of a `T`, and does not free it while a call with it is under way. The reference lives no
    // longer than the call.
    unsafe { &*(handle as *const T) }
}

/// Frees a handle.
pub fn free<T: Send + Sync>(handle: jlong) {
    assert_ne!(handle, 0, "no object has this handle");
    // SAFETY: Java passes a handle that `give` made of a `T`, once, and uses it no more.
    drop(unsafe { Box::from_raw(handle as *mut T) });
}
