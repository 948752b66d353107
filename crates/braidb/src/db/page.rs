//! Pages: many entries in one buffer, for bindings that pay for each call across a border.
//!
//! ```text
//! page  = entry*
//! entry = key length u32 │ value length u32 │ key │ value        lengths are little-endian; FF FF FF FF as value length is a delete
//! ```
//!
//! A page is a form of memory and of calls. No file has one.

use super::batch::WriteBatch;
use super::cursor::Cursor;
use super::family::ColumnFamily;
use crate::base::error::{Error, Result};

/// The length of a value that stands for a delete. No value is as long: the limit is 1 GiB.
const DELETE: u32 = u32::MAX;
/// Bytes of an entry in front of its key.
const HEAD_BYTES: usize = 8;

/// An end for pages: a page is full once it has as many entries or bytes. Each page has at least one entry, if there is one.
///
/// ```
/// let most = braidb::PageLimit { entries: 100, bytes: 64 << 10 };
/// assert!(most.entries < braidb::PageLimit::default().entries);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// Entries.
    pub entries: usize,
    /// Bytes of the whole page. The entry that reaches this bound is still in the page, however large it is.
    pub bytes: usize,
}

/// 1,024 entries, or 256 KiB: about as many as a processor's second cache holds.
impl Default for PageLimit {
    fn default() -> PageLimit {
        PageLimit { entries: 1 << 10, bytes: 256 << 10 }
    }
}

impl Cursor {
    /// Moves on by as many entries as the limit allows, and adds each to `page`: its key's and its value's length, as little-endian `u32`
    /// each, then key and value. Returns the number of entries; 0 means that the range has ended.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-page-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("k", "value")?;
    /// let mut page = Vec::new();
    /// assert_eq!(db.iter().cursor().next_page(&mut page, braidb::PageLimit::default())?, 1);
    /// assert_eq!(page, b"\x01\0\0\0\x05\0\0\0kvalue");
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Cursor::next`]. Entries before the error are in the page. A further call goes on behind the entry that could not be read.
    pub fn next_page(&mut self, page: &mut Vec<u8>, limit: PageLimit) -> Result<usize> {
        self.fill(page, limit, Cursor::next)
    }

    /// As [`Cursor::next_page`], with entries in falling order, as [`Cursor::prev`] comes to them.
    pub fn prev_page(&mut self, page: &mut Vec<u8>, limit: PageLimit) -> Result<usize> {
        self.fill(page, limit, Cursor::prev)
    }

    fn fill(
        &mut self,
        page: &mut Vec<u8>,
        limit: PageLimit,
        step: impl Fn(&mut Cursor) -> Result<bool>,
    ) -> Result<usize> {
        let start = page.len();
        let mut entries = 0;
        let has_room = |entries, bytes| entries == 0 || entries < limit.entries && bytes < limit.bytes;
        while has_room(entries, page.len() - start) && step(self)? {
            let (key, value) = self.entry()?.expect("the cursor stands on an entry");
            push(page, key, Some(value));
            entries += 1;
        }
        Ok(entries)
    }
}

impl WriteBatch {
    /// Adds the writes of a page, as [`Cursor::next_page`] makes it, to the default family. A value's length of `u32::MAX` deletes the key, and
    /// no value follows. Returns their number.
    ///
    /// ```
    /// let mut batch = braidb::WriteBatch::new();
    /// let page = b"\x01\0\0\0\x05\0\0\0kvalue\x01\0\0\0\xff\xff\xff\xffx";
    /// assert_eq!(batch.put_page(page)?, 2);
    /// assert_eq!(batch.len(), 2);
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidPage`](crate::Error::InvalidPage) says where the page ends within an entry. Then no write of it is in the batch.
    pub fn put_page(&mut self, page: &[u8]) -> Result<usize> {
        self.put_page_of(None, page)
    }

    /// As [`WriteBatch::put_page`], in `family`.
    pub fn put_page_in(&mut self, family: &ColumnFamily, page: &[u8]) -> Result<usize> {
        self.put_page_of(Some(family), page)
    }

    fn put_page_of(&mut self, family: Option<&ColumnFamily>, page: &[u8]) -> Result<usize> {
        // Twice, so that a malformed page adds nothing.
        let count = Entries(page, 0).try_fold(0, |count, entry| entry.map(|_| count + 1))?;
        for entry in Entries(page, 0) {
            match (entry?, family) {
                ((key, Some(value)), None) => self.put(key, value),
                ((key, None), None) => self.delete(key),
                ((key, Some(value)), Some(family)) => self.put_in(family, key, value),
                ((key, None), Some(family)) => self.delete_in(family, key),
            };
        }
        Ok(count)
    }
}

/// Adds an entry to a page.
fn push(page: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    page.reserve(HEAD_BYTES + key.len() + value.map_or(0, <[u8]>::len));
    page.extend_from_slice(&(key.len() as u32).to_le_bytes());
    page.extend_from_slice(&value.map_or(DELETE, |value| value.len() as u32).to_le_bytes());
    page.extend_from_slice(key);
    page.extend_from_slice(value.unwrap_or_default());
}

/// The entries of a page from a place on.
struct Entries<'a>(&'a [u8], usize);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0.get(self.1..).filter(|rest| !rest.is_empty())?;
        let decoded = (|| {
            let (head, body) = rest.split_first_chunk::<HEAD_BYTES>()?;
            let [key_len, value_len] =
                [0, 4].map(|at| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes")));
            let (key, body) = body.split_at_checked(key_len as usize)?;
            let value = if value_len == DELETE { None } else { Some(body.get(..value_len as usize)?) };
            Some((key, value))
        })();
        let Some((key, value)) = decoded else {
            let offset = std::mem::replace(&mut self.1, self.0.len());
            return Some(Err(Error::InvalidPage { offset }));
        };
        self.1 += HEAD_BYTES + key.len() + value.map_or(0, <[u8]>::len);
        Some(Ok((key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{Db, Options};
    use braidb_storage::Env;
    use braidb_storage::inline::{Inline, SeededRandom, StepClock};
    use braidb_storage::sim::SimFs;
    use std::sync::Arc;

    fn db() -> Db {
        let clock = Arc::new(StepClock::new());
        let runtime = Arc::new(Inline::new(clock.clone()));
        let env = Env { fs: Arc::new(SimFs::new()), clock, random: Arc::new(SeededRandom::new(1)), runtime };
        Options::new().env(env).open("/db").unwrap()
    }

    #[test]
    fn pages_hold_all_entries_in_both_orders() {
        let (source, copy) = (db(), db());
        for number in 0..1_000u32 {
            source.put(number.to_be_bytes(), vec![number as u8; number as usize % 50]).unwrap();
        }
        let (mut cursor, mut pages) = (source.range(10u32.to_be_bytes()..).cursor(), 0);
        loop {
            let mut page = Vec::new();
            let count = cursor.next_page(&mut page, PageLimit { entries: 64, bytes: 1_000 }).unwrap();
            if count == 0 {
                break;
            }
            assert!(count <= 64 && page.len() < 1_100, "{count} entries, {} bytes", page.len());
            let mut batch = WriteBatch::new();
            assert_eq!(batch.put_page(&page).unwrap(), count);
            copy.write(batch).unwrap();
            pages += 1;
        }
        assert!(pages > 990 / 64);
        assert!(copy.iter().map(Result::unwrap).eq(source.range(10u32.to_be_bytes()..).map(Result::unwrap)));
        let mut page = Vec::new();
        assert_eq!(
            source.iter().cursor().prev_page(&mut page, PageLimit { entries: 2, bytes: usize::MAX }).unwrap(),
            2
        );
        let keys: Vec<&[u8]> = Entries(&page, 0).map(|entry| entry.unwrap().0).collect();
        assert_eq!(keys, [999u32.to_be_bytes(), 998u32.to_be_bytes()]);
    }

    #[test]
    fn an_entry_larger_than_a_page_comes_alone() {
        let db = db();
        db.put("a", vec![7; 5_000]).unwrap();
        db.put("b", "small").unwrap();
        let mut cursor = db.iter().cursor();
        let mut count = || cursor.next_page(&mut Vec::new(), PageLimit { entries: 9, bytes: 100 }).unwrap();
        assert_eq!([count(), count(), count()], [1, 1, 0]);
    }

    #[test]
    fn a_malformed_page_adds_nothing() {
        let mut page = Vec::new();
        push(&mut page, b"key", Some(b"value"));
        push(&mut page, b"gone", None);
        for end in 0..page.len() {
            let mut batch = WriteBatch::new();
            let outcome = batch.put_page(&page[..end]);
            match end {
                0 => assert_eq!(outcome.unwrap(), 0),
                16 => assert_eq!((outcome.unwrap(), batch.len()), (1, 1)),
                _ => {
                    let told = outcome.unwrap_err();
                    let offset = if end < 16 { 0 } else { 16 };
                    assert!(matches!(told, Error::InvalidPage { offset: at } if at == offset), "{told}");
                    assert!(batch.is_empty());
                }
            }
        }
    }
}
