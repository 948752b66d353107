//! A sorted list of cells or slices, searched without a look at them.
//!
//! A cell or slice lies behind a pointer, and its key behind another one. A binary search over them waits for memory twice at each step. So
//! the first search of a list notes eight bytes of each key, behind the leading bytes that all keys share, in one array. Later searches read
//! this array, and compare whole keys only where the eight bytes are equal.

use super::{Cell, Slice};
use crate::base::key::{common_prefix, prefix_u64};
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// What a list is sorted by. It never changes.
pub trait Sort {
    fn sort_key(&self) -> &[u8];
}

impl Sort for Cell {
    fn sort_key(&self) -> &[u8] {
        &self.low
    }
}

impl Sort for Slice {
    fn sort_key(&self) -> &[u8] {
        &self.range.high
    }
}

/// Lists of at most this many items are searched one by one.
const FEW: usize = 2;

#[derive(Debug)]
pub struct Sorted<T> {
    items: Vec<Arc<T>>,
    /// Empty until the first search, and after a change.
    notes: OnceLock<Notes>,
}

#[derive(Debug)]
struct Notes {
    /// Items whose key is empty: 1 for cells, whose first one is the sentinel.
    empty: usize,
    /// The leading bytes that all other keys share.
    shared: Vec<u8>,
    /// The eight bytes behind them.
    prefixes: Vec<u64>,
}

impl Notes {
    fn of<T: Sort>(items: &[Arc<T>]) -> Notes {
        let empty = items.iter().take_while(|item| item.sort_key().is_empty()).count();
        let keyed = &items[empty..];
        let shared = match (keyed.first(), keyed.last()) {
            (Some(first), Some(last)) => {
                let (first, last) = (first.sort_key(), last.sort_key());
                first[..common_prefix(first, last)].to_vec()
            }
            _ => Vec::new(),
        };
        let prefixes = keyed.iter().map(|item| prefix_u64(&item.sort_key()[shared.len()..])).collect();
        Notes { empty, shared, prefixes }
    }
}

impl<T: Sort> Sorted<T> {
    /// How many items have a key before `key`.
    pub fn before(&self, key: &[u8]) -> usize {
        self.count(key, |other| other < key)
    }

    /// How many items have a key at or before `key`.
    pub fn up_to(&self, key: &[u8]) -> usize {
        self.count(key, |other| other <= key)
    }

    /// How many items are counted: all with a key before `key`, none with a key behind it.
    #[inline]
    fn count(&self, key: &[u8], is_counted: impl Fn(&[u8]) -> bool) -> usize {
        let is_counted_item = |item: &Arc<T>| is_counted(item.sort_key());
        if self.items.len() <= FEW {
            return self.items.iter().take_while(|item| is_counted_item(item)).count();
        }
        let Notes { empty, shared, prefixes } = self.notes.get_or_init(|| Notes::of(&self.items));
        if !is_counted(&[]) {
            return 0;
        }
        let Some(rest) = key.strip_prefix(shared.as_slice()) else {
            return if key < shared.as_slice() { *empty } else { self.items.len() };
        };
        let prefix = prefix_u64(rest);
        let low = prefixes.partition_point(|&other| other < prefix);
        if prefixes.get(low) != Some(&prefix) {
            return empty + low;
        }
        let equal = prefixes[low..].partition_point(|&other| other == prefix);
        let equal = &self.items[empty + low..empty + low + equal];
        empty + low + equal.partition_point(is_counted_item)
    }
}

impl<T> Sorted<T> {
    pub fn insert(&mut self, at: usize, item: Arc<T>) {
        self.notes = OnceLock::new();
        self.items.insert(at, item);
    }

    pub fn remove(&mut self, at: usize) -> Arc<T> {
        self.notes = OnceLock::new();
        self.items.remove(at)
    }

    /// Adds items whose keys lie behind all others.
    pub fn extend(&mut self, items: &[Arc<T>]) {
        self.notes = OnceLock::new();
        self.items.extend_from_slice(items);
    }

    /// An item, to be changed without its key.
    pub fn get_mut(&mut self, at: usize) -> &mut Arc<T> {
        &mut self.items[at]
    }
}

impl<T> Default for Sorted<T> {
    fn default() -> Sorted<T> {
        Vec::new().into()
    }
}

impl<T> From<Vec<Arc<T>>> for Sorted<T> {
    fn from(items: Vec<Arc<T>>) -> Sorted<T> {
        Sorted { items, notes: OnceLock::new() }
    }
}

impl<T> Clone for Sorted<T> {
    /// A list is cloned to be changed, so the clone has no notes.
    fn clone(&self) -> Sorted<T> {
        self.items.clone().into()
    }
}

impl<T> Deref for Sorted<T> {
    type Target = [Arc<T>];

    #[inline]
    fn deref(&self) -> &[Arc<T>] {
        &self.items
    }
}

impl<'a, T> IntoIterator for &'a Sorted<T> {
    type Item = &'a Arc<T>;
    type IntoIter = std::slice::Iter<'a, Arc<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Key(Vec<u8>);

    impl Sort for Key {
        fn sort_key(&self) -> &[u8] {
            &self.0
        }
    }

    #[test]
    fn searches_agree_with_the_plain_order() {
        let sets: [&[&str]; 7] = [
            &[],
            &[""],
            &["", "b"],
            &["", "user/1", "user/10", "user/2"],
            &["a", "b", "c", "ca"],
            &["", "x", "x\0", "x\0\0\0\0\0\0\0\0", "x\0\0\0\0\0\0\0\0\0", "y"],
            &["path/aaaaaaaab", "path/aaaaaaaabb", "path/aaaaaaaabc", "path/aaaaaaaac", "q"],
        ];
        let probes =
            ["", "\0", "a", "b", "c", "cb", "user", "user/", "user/1", "user/11", "user0", "x\0\0", "z"];
        for set in sets {
            let mut list = Sorted::from(
                set.iter().map(|key| Arc::new(Key(key.as_bytes().to_vec()))).collect::<Vec<_>>(),
            );
            for change in 0..3 {
                let keys: Vec<Vec<u8>> = list.iter().map(|item| item.0.clone()).collect();
                for probe in probes.iter().chain(set).chain(&["path/aaaaaaaabba", "path/aaaaaaaa"]) {
                    let probe = probe.as_bytes();
                    assert_eq!(list.before(probe), keys.iter().filter(|key| key.as_slice() < probe).count());
                    assert_eq!(list.up_to(probe), keys.iter().filter(|key| key.as_slice() <= probe).count());
                }
                // A change makes the notes anew.
                match change {
                    0 => list.extend(&[Arc::new(Key(b"z".to_vec()))]),
                    _ if list.is_empty() => {}
                    _ => drop(list.remove(list.len() / 2)),
                }
            }
        }
    }
}
