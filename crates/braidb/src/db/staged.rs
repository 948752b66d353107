//! Writes that wait for their commit, in key order, as an overlay holds them.
//!
//! An iterator over an overlay shows the moment when it was made, whatever is staged later. So each write has a *moment*, a number that rises
//! with each write. A staged key keeps an older version of itself only while an iterator shows it.

use super::batch::check_entry;
use crate::base::error::Result;
use crate::base::ids::FamilyId;
use crate::base::value::Value;
use crate::log::EncodedBatch;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A number that rises with each write that is staged.
pub type Moment = u64;

/// Bytes that a write may take in a batch beside its key and value: 18 of its head and checksum, rounded up.
const WRITE_BYTES: usize = 20;

/// What a key was set to at a moment: a value, or nothing if it was deleted.
#[derive(Clone, Debug)]
struct Version {
    moment: Moment,
    value: Option<Value>,
}

/// The versions of a staged key, the oldest first.
type Versions = SmallVec<[Version; 1]>;

/// The staged writes of all families.
#[derive(Debug, Default)]
pub struct Staged {
    families: BTreeMap<FamilyId, BTreeMap<Box<[u8]>, Versions>>,
    /// The moment of the last write.
    last: Moment,
    /// The moments that open iterators show, and how many iterators show each.
    shown: BTreeMap<Moment, usize>,
    /// Keys that are staged.
    len: usize,
    /// Bytes that the newest versions take in a batch, at most.
    bytes: usize,
}

impl Staged {
    /// Stages a put, or a delete where `value` is `None`. Replaces what was staged for the key before.
    ///
    /// # Errors
    ///
    /// `TooLarge` if the key, the value or the batch would be over its limit. Then nothing was staged.
    pub fn stage(&mut self, family: FamilyId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_entry(self.bytes, key, value.unwrap_or_default())?;
        self.last += 1;
        let version = Version { moment: self.last, value: value.map(Value::copied) };
        self.bytes += value.map_or(0, <[u8]>::len);
        let keys = self.families.entry(family).or_default();
        let Some(versions) = keys.get_mut(key) else {
            self.bytes += key.len() + WRITE_BYTES;
            self.len += 1;
            keys.insert(key.into(), smallvec![version]);
            return Ok(());
        };
        let newest = versions.last().expect("a staged key has a version");
        self.bytes -= newest.value.as_ref().map_or(0, |value| value.len());
        versions.push(version);
        let mut index = 0;
        while index + 1 < versions.len() {
            // An iterator shows a version from its moment on, until the moment of the next version.
            let moments = versions[index].moment..versions[index + 1].moment;
            match self.shown.range(moments).next() {
                Some(_) => index += 1,
                None => drop(versions.remove(index)),
            }
        }
        Ok(())
    }

    /// Keys that are staged.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the writes take in a batch, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The present moment, for an iterator. All that it shows stays until [`Staged::hide`].
    pub fn show(&mut self) -> Moment {
        *self.shown.entry(self.last).or_default() += 1;
        self.last
    }

    /// An iterator that showed the moment has ended.
    pub fn hide(&mut self, moment: Moment) {
        let count = self.shown.get_mut(&moment).expect("an iterator shows the moment");
        *count -= 1;
        if *count == 0 {
            self.shown.remove(&moment);
        }
    }

    /// What is staged for the key now: `Some(None)` is a delete.
    pub fn get(&self, family: FamilyId, key: &[u8]) -> Option<Option<Value>> {
        let versions = self.families.get(&family)?.get(key)?;
        versions.last().map(|newest| newest.value.clone())
    }

    /// The first key within the bounds that was staged at the moment, with its value.
    pub fn first(
        &self,
        family: FamilyId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        at: Moment,
    ) -> Option<(&[u8], Option<&Value>)> {
        self.within(family, bounds)?.find_map(|(key, versions)| Some((&**key, version_at(versions, at)?)))
    }

    /// The last key within the bounds that was staged at the moment, with its value.
    pub fn last(
        &self,
        family: FamilyId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        at: Moment,
    ) -> Option<(&[u8], Option<&Value>)> {
        let mut within = self.within(family, bounds)?.rev();
        within.find_map(|(key, versions)| Some((&**key, version_at(versions, at)?)))
    }

    /// The keys of a family within the bounds.
    fn within(
        &self,
        family: FamilyId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Option<impl DoubleEndedIterator<Item = (&Box<[u8]>, &Versions)>> {
        let keys = self.families.get(&family)?;
        // A range whose ends cross has no keys; the map would panic.
        let has_keys = match bounds {
            (Bound::Included(low), Bound::Included(high)) => low <= high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                low < high
            }
            _ => true,
        };
        has_keys.then(|| keys.range::<[u8], _>(bounds))
    }

    /// The newest versions as a batch.
    pub fn encoded(&self) -> EncodedBatch {
        let mut batch = EncodedBatch::default();
        for (family, keys) in &self.families {
            for (key, versions) in keys {
                match versions.last().and_then(|newest| newest.value.as_ref()) {
                    Some(value) => batch.push_put(*family, key, value),
                    None => batch.push_delete(*family, key),
                }
            }
        }
        batch
    }
}

/// What the key was set to at the moment. `None` if it was staged later.
fn version_at(versions: &Versions, at: Moment) -> Option<Option<&Value>> {
    let version = versions.iter().rev().find(|version| version.moment <= at)?;
    Some(version.value.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::MAX_BATCH_BYTES;
    use crate::base::error::Error;

    const FAMILY: FamilyId = FamilyId(1);
    type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);
    const ALL: Range<'_> = (Bound::Unbounded, Bound::Unbounded);

    fn stage(staged: &mut Staged, key: &str, value: Option<&str>) {
        staged.stage(FAMILY, key.as_bytes(), value.map(str::as_bytes)).unwrap();
    }

    #[test]
    fn a_moment_stays_as_it_was_shown() {
        let mut staged = Staged::default();
        stage(&mut staged, "b", Some("1"));
        let shown = staged.show();
        stage(&mut staged, "b", Some("2"));
        stage(&mut staged, "b", Some("3"));
        stage(&mut staged, "a", Some("x"));
        stage(&mut staged, "c", None);
        let (key, value) = staged.first(FAMILY, ALL, shown).unwrap();
        assert_eq!((key, value.unwrap()), (&b"b"[..], &Value::copied(b"1")));
        assert_eq!(staged.last(FAMILY, ALL, shown).unwrap().0, b"b");
        let now = staged.show();
        assert_eq!(staged.first(FAMILY, ALL, now).unwrap().0, b"a");
        assert_eq!(
            staged.last(FAMILY, ALL, now).map(|(key, value)| (key, value.is_some())),
            Some((&b"c"[..], false))
        );
        assert_eq!(staged.get(FAMILY, b"b").unwrap().unwrap(), b"3");
        let versions = |staged: &Staged| staged.families[&FAMILY][&b"b"[..]].len();
        assert_eq!(versions(&staged), 2, "no iterator could show 2");
        assert_eq!(staged.len(), 3);
        staged.hide(shown);
        stage(&mut staged, "b", Some("4"));
        assert_eq!(versions(&staged), 2, "one iterator shows 3");
        staged.hide(now);
        stage(&mut staged, "b", Some("5"));
        assert_eq!(versions(&staged), 1);
    }

    #[test]
    fn the_bytes_of_the_newest_versions_are_counted() {
        let mut staged = Staged::default();
        for number in 0..1000 {
            stage(&mut staged, &format!("{}", number % 10), Some(&"v".repeat(number % 7)));
            staged.show();
        }
        let (bytes, encoded) = (staged.bytes(), staged.encoded());
        assert_eq!(encoded.count(), 10);
        assert!(encoded.bytes() <= bytes && bytes <= encoded.bytes() + 10 * WRITE_BYTES, "{bytes}");
    }

    #[test]
    fn what_is_too_large_is_not_staged() {
        let mut staged = Staged::default();
        stage(&mut staged, "a", Some("1"));
        staged.bytes = MAX_BATCH_BYTES - 100;
        let refused = staged.stage(FAMILY, b"b", Some(&[0; 100]));
        assert!(matches!(refused, Err(Error::TooLarge { what: "the batch", .. })));
        assert!(staged.get(FAMILY, b"b").is_none());
        assert_eq!((staged.len(), staged.bytes()), (1, MAX_BATCH_BYTES - 100));
        assert!(staged.stage(FAMILY, b"a", Some(b"2")).is_ok());
    }

    #[test]
    fn ranges_whose_ends_cross_are_empty() {
        let mut staged = Staged::default();
        stage(&mut staged, "b", Some("1"));
        let now = staged.show();
        let bounds: [Range<'_>; 3] = [
            (Bound::Excluded(b"b"), Bound::Excluded(b"b")),
            (Bound::Included(b"b"), Bound::Excluded(b"b")),
            (Bound::Included(b"c"), Bound::Included(b"a")),
        ];
        assert!(bounds.into_iter().all(|bounds| staged.first(FAMILY, bounds, now).is_none()));
        assert!(staged.first(FAMILY, (Bound::Included(b"b"), Bound::Included(b"b")), now).is_some());
    }
}
