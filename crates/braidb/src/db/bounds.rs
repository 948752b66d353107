//! The types that are accepted as a range of keys: every range of the standard library, and prefixes, over any type of bytes.

use crate::base::key::prefix_bounds;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A pair of bounds that own their keys.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, a pair of [`Bound`]s, or a [`Prefix`]. Keys are any [`AsRef<[u8]>`](AsRef).
///
/// ```
/// use std::ops::Bound;
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-bounds-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.range(..).count(), 3);
/// let (low, high) = (String::from("a"), String::from("c"));
/// assert_eq!(db.range(&low..&high).count(), 2);
/// assert_eq!(db.range((Bound::Excluded("a"), Bound::Unbounded)).count(), 2, "the page after \"a\"");
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub trait IntoBounds {
    /// The bounds, with owned keys.
    fn into_bounds(self) -> Bounds;
}

fn own<K: AsRef<[u8]>>(key: K) -> Vec<u8> {
    key.as_ref().to_vec()
}

impl IntoBounds for RangeFull {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> IntoBounds for Range<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Included(own(self.start)), Bound::Excluded(own(self.end)))
    }
}

impl<K: AsRef<[u8]>> IntoBounds for RangeInclusive<K> {
    fn into_bounds(self) -> Bounds {
        let (start, end) = self.into_inner();
        (Bound::Included(own(start)), Bound::Included(own(end)))
    }
}

impl<K: AsRef<[u8]>> IntoBounds for RangeFrom<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Included(own(self.start)), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> IntoBounds for RangeTo<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Excluded(own(self.end)))
    }
}

impl<K: AsRef<[u8]>> IntoBounds for RangeToInclusive<K> {
    fn into_bounds(self) -> Bounds {
        (Bound::Unbounded, Bound::Included(own(self.end)))
    }
}

impl<K: AsRef<[u8]>> IntoBounds for (Bound<K>, Bound<K>) {
    fn into_bounds(self) -> Bounds {
        (self.0.map(own), self.1.map(own))
    }
}

/// All keys that start with some bytes, where a call takes ranges.
///
/// ```
/// use braidb::Prefix;
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-prefixes-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for key in ["user:1", "user:2", "visit:1"] {
///     db.put(key, "")?;
/// }
/// db.excise([Prefix("user:")])?;
/// assert_eq!(db.iter().count(), 1);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prefix<K>(pub K);

impl<K: AsRef<[u8]>> IntoBounds for Prefix<K> {
    fn into_bounds(self) -> Bounds {
        prefix_bounds(self.0.as_ref())
    }
}
