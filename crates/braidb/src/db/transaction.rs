//! Transactions: reads of one moment and staged writes, which commit together if no other write has changed what was read.
//!
//! # How a commit finds conflicts
//!
//! A transaction registers a snapshot, and all its reads are of the snapshot's number. It notes each key that it reads, absent keys included,
//! and of each range the part that its iterators returned. The writes wait in an overlay.
//!
//! The commit hands batch and reads to the commit queue. Under the commit lock the queue asks its ring of recent writes whether a write above
//! the snapshot's number concerns the reads (`write/queue/checks.rs`). Nearly all commits end here.
//!
//! If the ring has lost writes since, the transaction compares its reads without the lock: it takes a view with a newer number, and looks
//! whether readers at both numbers see the same versions (`read/unchanged.rs`). If they do, the reads are true at the newer number, and the
//! transaction asks the queue again from there. The registered snapshot keeps the older versions for this comparison.
//!
//! Reads of keys that were excised since fail with `Conflict`, and so does a commit of such reads (`jobs/excise.rs`).
//!
//! A plain put pays one test for all this, and transactions see it like any other write. The batch is one frame of the log, so a crash leaves
//! all of a transaction or nothing.

use super::bounds::{Bounds, IntoBounds};
use super::database::Db;
use super::engine::Engine;
use super::family::ColumnFamily;
use super::overlay::Overlay;
use super::overlay_iter::OverlayIter;
use super::snapshot::Snapshot;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::ids::{FamilyId, SeqNo};
use crate::base::key::prefix_bounds;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use crate::memory::view::View;
use crate::read::{is_key_unchanged, is_range_unchanged};
use crate::write::{Check, ReadSet};
use braidb_storage::locks::Mutex;
use std::fmt;
use std::iter::FusedIterator;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A commit gives up after it has compared its reads 8 times, each time because other writers overran the ring of recent writes.
const MOST_OVERRUNS: u32 = 8;

/// Reads and writes that take effect together, at one moment, or not at all.
///
/// Transactions are serializable: their outcome is as if they had run one after the other. All reads are of the moment when the transaction
/// began, with its own writes over them. [`commit`](Transaction::commit) writes all in one batch, unless another write, of a transaction or
/// a plain one, has changed something that this transaction read. Then it fails with [`Error::Conflict`], and nothing is written. Absent keys and
/// the ranges that iterators covered count as read, so no entry can appear in a range unseen. [`Db::transact`] begins again after a conflict.
///
/// No transaction waits for another, but for the turn of [`Db::transact`], and none blocks plain writes. Dropping a transaction drops its
/// writes. A transaction that only reads never conflicts. While it lives, it keeps old versions as a [`Snapshot`] does, so do not keep it for
/// long.
///
/// Any thread may use a transaction. Writes wait in memory, with about 190 bytes besides key and value; each key that is read takes 40 bytes
/// besides the key until the end.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-transaction-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("seats", "1")?;
/// let booking = db.transaction()?;
/// assert_eq!(booking.get("seats")?.unwrap(), b"1");
/// booking.put("seats", "0")?;
/// booking.put("guest", "ada")?;
///
/// db.put("seats", "0")?; // another writer takes the seat
/// assert!(matches!(booking.commit(), Err(braidb::Error::Conflict)));
/// assert!(!db.contains_key("guest")?);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct Transaction {
    snapshot: Snapshot,
    overlay: Overlay,
    reads: Mutex<ReadSet>,
    /// A read met keys that were excised after the transaction began. So its commit would fail.
    met_excised: AtomicBool,
}

impl Db {
    /// Begins a transaction. See [`Db::transact`] for one that begins again after a conflict.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-transactionm-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// let transaction = db.transaction()?;
    /// transaction.put("plum", "blue")?;
    /// assert!(transaction.contains_key("plum")? && !db.contains_key("plum")?);
    /// transaction.commit()?;
    /// assert!(db.contains_key("plum")?);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Error::Closed), [`Forked`](crate::Error::Forked).
    pub fn transaction(&self) -> Result<Transaction> {
        self.engine()?.check_open()?;
        Ok(Transaction {
            snapshot: self.snapshot(),
            overlay: self.overlay(),
            reads: Mutex::default(),
            met_excised: AtomicBool::new(false),
        })
    }
}

impl Transaction {
    /// The value of `key` in the default family: the one that this transaction wrote, or that of the moment when it began. Errors as
    /// [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_at(FamilyId::DEFAULT, key.as_ref())
    }

    /// As [`Transaction::get`], in `family`. Errors also as [`Transaction::put_in`].
    pub fn get_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_at(family.check_of(self.overlay.db())?, key.as_ref())
    }

    /// Whether `key` has a value in the default family. Errors as [`Db::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_at(FamilyId::DEFAULT, key.as_ref())
    }

    /// As [`Transaction::contains_key`], in `family`.
    pub fn contains_key_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<bool> {
        self.contains_at(family.check_of(self.overlay.db())?, key.as_ref())
    }

    /// All entries of the default family.
    pub fn iter(&self) -> TransactionIter<'_> {
        self.range(..)
    }

    /// The entries of a range of the default family, with what this transaction has written so far. Only what the iterator returns, and the
    /// space between, counts as read: `range(..).next()` reads up to the first key.
    pub fn range(&self, range: impl IntoBounds) -> TransactionIter<'_> {
        TransactionIter::new(self, FamilyId::DEFAULT, range.into_bounds())
    }

    /// The entries of the default family whose keys start with `prefix`, as [`Transaction::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionIter<'_> {
        TransactionIter::new(self, FamilyId::DEFAULT, prefix_bounds(prefix.as_ref()))
    }

    /// As [`Transaction::range`], in `family`.
    pub fn range_in(&self, family: &ColumnFamily, range: impl IntoBounds) -> TransactionIter<'_> {
        match family.check_of(self.overlay.db()) {
            Ok(id) => TransactionIter::new(self, id, range.into_bounds()),
            Err(error) => TransactionIter::failed(error),
        }
    }

    /// As [`Transaction::prefix`], in `family`.
    pub fn prefix_in(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> TransactionIter<'_> {
        self.range_in(family, prefix_bounds(prefix.as_ref()))
    }

    /// Sets `key` to `value` in the default family when the transaction commits. Errors as [`Overlay::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.overlay.put(key, value)
    }

    /// Removes `key` from the default family when the transaction commits. Errors as [`Overlay::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.overlay.delete(key)
    }

    /// As [`Transaction::put`], in `family`. Errors as [`Overlay::put_in`].
    pub fn put_in(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.overlay.put_in(family, key, value)
    }

    #[cfg(test)]
    pub(super) fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Whether this transaction has written nothing.
    pub(super) fn is_read_only(&self) -> bool {
        self.overlay.is_empty()
    }

    /// As [`Transaction::delete`], in `family`.
    pub fn delete_in(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.overlay.delete_in(family, key)
    }

    /// The database at the moment when the transaction began, without its writes. Reads of the snapshot are not checked at the commit.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Writes all with the durability of the options, if all reads are still true. Without writes there is nothing to check, and nothing is
    /// written or synced.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::Error::Conflict): a write changed what was read, or other writers wrote too much meanwhile to tell. Nothing was written.
    /// Other errors are those of [`Db::write`].
    pub fn commit(self) -> Result<()> {
        let durability = self.overlay.db().durability();
        self.commit_with(durability)
    }

    /// As [`Transaction::commit`], with the given durability.
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        let engine = self.overlay.db().engine()?;
        let batch = Arc::new(self.overlay.encoded()?);
        if batch.count() == 0 {
            return engine.check_open();
        }
        let reads = mem::take(&mut *self.reads.lock());
        if reads.is_empty() {
            return engine.commit_batch(&batch, None, durability);
        }
        let check = Arc::new(Check::new(reads, self.snapshot.as_of()));
        for _ in 0..MOST_OVERRUNS {
            let outcome = engine.commit_batch(&batch, Some(&check), durability);
            if !matches!(outcome, Err(Error::Conflict)) || !check.is_overrun() {
                return outcome;
            }
            self.compare(&check)?;
        }
        Err(Error::Conflict)
    }

    /// Compares the reads with what the database holds now. If they are still true, the check goes on from there.
    fn compare(&self, check: &Check) -> Result<()> {
        let engine = self.overlay.db().engine()?;
        let (view, now) = engine.view_with_number()?;
        let before = self.snapshot.as_of();
        // The excised ranges are checked under the commit lock (`write/queue/pending_excises.rs`): here old and new versions are both gone.
        let is_unchanged = is_unchanged(engine, &view, check.reads(), [before.seq, now]);
        drop(view);
        engine.reader_ended();
        if !is_unchanged? && !mutant!("change_of_tables_unseen") {
            return Err(Error::Conflict);
        }
        check.is_true_at(now);
        Ok(())
    }

    /// As `get_in` and `get`.
    pub(super) fn get_of(&self, family: Option<&ColumnFamily>, key: &[u8]) -> Result<Option<Value>> {
        match family {
            Some(family) => self.get_in(family, key),
            None => self.get(key),
        }
    }

    /// As `put_in` and `put`, or as `delete_in` and `delete`.
    pub(super) fn set(&self, family: Option<&ColumnFamily>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let family = family.map_or(Ok(FamilyId::DEFAULT), |family| family.check_of(self.overlay.db()))?;
        self.overlay.stage(family, key, value)
    }

    fn get_at(&self, family: FamilyId, key: &[u8]) -> Result<Option<Value>> {
        if let Some(written) = self.written(family, key)? {
            return Ok(written);
        }
        self.note_read(family, key)?;
        self.noted(self.overlay.db().get_as_of(family, key, self.snapshot.as_of()))
    }

    fn contains_at(&self, family: FamilyId, key: &[u8]) -> Result<bool> {
        if let Some(written) = self.written(family, key)? {
            return Ok(written.is_some());
        }
        self.note_read(family, key)?;
        self.noted(self.overlay.db().engine()?.contains(family, key, Some(self.snapshot.as_of())))
    }

    /// Whether a read met keys that were excised after the transaction began.
    pub(super) fn has_met_excised(&self) -> bool {
        self.met_excised.load(Ordering::Relaxed)
    }

    /// Turns the error of a read of excised keys into `Conflict`, and notes it.
    fn noted<T>(&self, read: Result<T>) -> Result<T> {
        read.map_err(|error| match error {
            Error::Excised => {
                self.met_excised.store(true, Ordering::Relaxed);
                Error::Conflict
            }
            error => error,
        })
    }

    /// What this transaction has written to the key. Such a read does not depend on other writes.
    fn written(&self, family: FamilyId, key: &[u8]) -> Result<Option<Option<Value>>> {
        self.overlay.db().engine()?.check_open()?;
        let written = self.overlay.staged(family, key)?;
        Ok(written.filter(|_| !mutant!("own_write_unread")))
    }

    /// Notes the key for the commit. Fails in a forked child, whose copy of the lock another thread may have held.
    fn note_read(&self, family: FamilyId, key: &[u8]) -> Result<()> {
        self.overlay.db().engine()?;
        self.reads.lock().add_point(family, key);
        Ok(())
    }
}

/// Whether readers at both numbers see the same versions of all that was read.
fn is_unchanged(engine: &Engine, view: &View, reads: &ReadSet, numbers: [SeqNo; 2]) -> Result<bool> {
    for point in reads.points() {
        if !is_key_unchanged(&view.families[point.family.0 as usize], &point.key, numbers)? {
            return Ok(false);
        }
    }
    for range in reads.ranges().iter().filter(|_| !mutant!("phantom_unseen")) {
        let family = &view.families[range.family.0 as usize];
        let bounds = (range.low.as_ref().map(Vec::as_slice), range.high.as_ref().map(Vec::as_slice));
        if !is_range_unchanged(family, bounds, numbers, || engine.begin_scan(range.family))? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Drop for Transaction {
    /// Leaves the reads as they are in a forked child: a thread that the child lacks may have been changing them.
    fn drop(&mut self) {
        if self.overlay.db().is_forked() {
            mem::forget(mem::take(self.reads.get_mut()));
        }
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("writes", &self.overlay).finish_non_exhaustive()
    }
}

/// Entries of a range as a [`Transaction`] sees them, in key order, from both ends.
///
/// Each item is a key and a value, or the error that ended the iteration. The iterator shows the moment when it was made: writes that the
/// transaction makes while it is open are not in it.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-transactioniter-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// db.put("task/1", "read")?;
/// db.put("task/2", "write")?;
/// db.transact(|transaction| {
///     for task in transaction.prefix("task/") {
///         let (key, value) = task?;
///         transaction.delete(&key)?;
///         transaction.put([b"done/".as_slice(), &key].concat(), &value)?;
///     }
///     Ok::<(), braidb::Error>(())
/// })?;
/// assert_eq!(db.prefix("done/").count(), 2);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct TransactionIter<'a> {
    entries: OverlayIter,
    /// The transaction, and the place of the range among its reads. The whole range counts as read until the iterator is dropped.
    noted: Option<(&'a Transaction, usize)>,
    /// The last keys that were returned from each end.
    front: Option<Vec<u8>>,
    back: Option<Vec<u8>>,
    /// The iterator came to the end of its range, or to an error.
    has_ended: bool,
}

impl<'a> TransactionIter<'a> {
    fn new(transaction: &'a Transaction, family: FamilyId, bounds: Bounds) -> TransactionIter<'a> {
        if let Err(error) = transaction.overlay.db().engine() {
            return TransactionIter::failed(error);
        }
        let (low, high) = bounds.clone();
        let place = transaction.reads.lock().add_range(family, low, high);
        let entries = transaction.overlay.range_at(family, bounds, Some(transaction.snapshot.as_of()));
        let noted = Some((transaction, place));
        TransactionIter { entries, noted, front: None, back: None, has_ended: false }
    }

    /// As the transaction notes the outcome of a read.
    fn noted<T>(&self, item: Result<T>) -> Result<T> {
        match self.noted {
            Some((transaction, _)) => transaction.noted(item),
            None => item,
        }
    }

    fn failed(error: Error) -> TransactionIter<'a> {
        let entries = OverlayIter::failed(error);
        TransactionIter { entries, noted: None, front: None, back: None, has_ended: true }
    }
}

/// Keeps the key of an entry that was returned.
fn keep_key(kept: &mut Option<Vec<u8>>, key: &[u8]) {
    let kept = kept.get_or_insert_default();
    kept.clear();
    kept.extend_from_slice(key);
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.entries.next().map(|item| self.noted(item));
        match &item {
            Some(Ok((key, _))) => keep_key(&mut self.front, key),
            _ => self.has_ended = true,
        }
        item
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let item = self.entries.next_back().map(|item| self.noted(item));
        match &item {
            Some(Ok((key, _))) => keep_key(&mut self.back, key),
            _ => self.has_ended = true,
        }
        item
    }
}

impl FusedIterator for TransactionIter<'_> {}

impl Drop for TransactionIter<'_> {
    /// Narrows the range among the reads to what was returned.
    fn drop(&mut self) {
        if let Some((transaction, place)) = self.noted
            && !self.has_ended
            && !transaction.overlay.db().is_forked()
        {
            transaction.reads.lock().narrow(place, self.front.take(), self.back.take());
        }
    }
}

impl fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionIter").field("ended", &self.has_ended).finish_non_exhaustive()
    }
}
