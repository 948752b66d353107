//! A pinned value: bytes that a reference-counted owner (a memory segment, a block) keeps alive, given to readers without a copy. One
//! of the few modules with `unsafe`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a value, shared with the engine and kept alive by this handle.
///
/// It derefs to `[u8]`. A value pins its owner: a block of some KiB, or a whole memory segment. Copy values that you keep for long with
/// [`Value::to_vec`](slice::to_vec).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-value-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = braidb::Db::open(&dir)?;
/// db.put("k", "value")?;
/// let value = db.get("k")?.expect("it was put");
/// assert_eq!(&value[..], b"value");
/// assert_eq!(value.to_vec(), b"value".to_vec());
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone)]
pub struct Value {
    bytes: *const [u8],
    // Keeps `bytes` alive and in place.
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: a `Value` is a shared reference to immutable bytes, with a share of their owner, which is `Send + Sync`. Nothing is written
// through the reference.
unsafe impl Send for Value {}
// SAFETY: as for `Send`: the bytes are immutable, and the owner is `Send + Sync`.
unsafe impl Sync for Value {}

impl Value {
    /// Pins the bytes that `select` finds in `owner`.
    pub(crate) fn pin<T: Send + Sync + 'static>(
        owner: Arc<T>,
        select: impl for<'a> FnOnce(&'a T) -> &'a [u8],
    ) -> Value {
        // The slice borrows from `*owner`, which stays in place on the heap. While this share of the owner lives, `Arc` lends only
        // `&T`, so the owner is never mutably borrowed.
        let bytes: *const [u8] = select(&owner);
        Value { bytes, _owner: owner }
    }

    /// A value with a copy of `bytes`.
    pub(crate) fn copied(bytes: &[u8]) -> Value {
        Value::pin(Arc::new(bytes.to_vec()), |owner| owner)
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `pin` took the pointer from a borrow of the owner, which `_owner` keeps alive, unmoved and unchanged.
        unsafe { &*self.bytes }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value(\"{}\")", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        value.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outlives_the_handle_that_it_came_from() {
        let owner = Arc::new(b"hello world".to_vec());
        let value = Value::pin(owner.clone(), |bytes| &bytes[6..]);
        drop(owner);
        let clone = value.clone();
        drop(value);
        assert_eq!(clone, b"world");
        assert_eq!(format!("{clone:?}"), "Value(\"world\")");
    }
}
