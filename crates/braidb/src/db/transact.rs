//! Calls that run a transaction until it commits: `attempts`, on top of it `transact`, and on top of that single-key updates.

use super::database::Db;
use super::family::ColumnFamily;
use super::transaction::Transaction;
use crate::base::durability::Durability;
use crate::base::error::{Error, Result};
use crate::base::value::Value;
use std::fmt;

/// After this many conflicts `transact` takes the turn: other calls of `transact` let it commit first.
const CONFLICTS_BEFORE_TURN: u32 = 8;
/// After this many conflicts an attempt is the last one. Work that changes by a plain write what it reads conflicts each time.
const MOST_CONFLICTS: u32 = 100;
/// How long `transact` pauses after a conflict beside an excise: 10 ms.
const PAUSE_US: u64 = 10_000;
/// `transact` pauses for excises at most this many times, a minute in all. Then it counts conflicts.
const MOST_PAUSES: u32 = 6_000;

/// Gives the turn back when it is dropped.
struct Turn<'a>(&'a Db);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // In a forked child a thread that is missing may hold the lock.
        if let Ok(engine) = self.0.engine() {
            engine.turns.give_back();
        }
    }
}

/// The attempts of one transaction, from [`Db::attempts`]. The drop lets other calls of [`Db::transact`] pass.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-attemptst-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let mut attempts = db.attempts(Some(braidb::Durability::Sync));
/// let transaction = attempts.begin()?;
/// transaction.put("order", "paid")?;
/// attempts.commit(transaction)?;
/// # drop(attempts); drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
pub struct Attempts<'a> {
    db: &'a Db,
    durability: Durability,
    conflicts: u32,
    /// How often an attempt paused for an excise.
    pauses: u32,
    turn: Option<Turn<'a>>,
}

impl Attempts<'_> {
    /// Begins a transaction. Errors as [`Db::transaction`].
    pub fn begin(&self) -> Result<Transaction> {
        // A transaction that begins before the one with the turn has committed would conflict with it.
        self.let_pass()?;
        self.db.transaction()
    }

    /// Commits a transaction. Errors as [`Transaction::commit`].
    pub fn commit(&self, transaction: Transaction) -> Result<()> {
        if !transaction.is_read_only() {
            self.let_pass()?;
        }
        transaction.commit_with(self.durability)
    }

    /// Notes a conflict. Returns whether another attempt may come through: up to 100 conflicts. Conflicts beside an excise do not count for
    /// a minute, and the call pauses 10 ms for each. Fails with [`Forked`](crate::Error::Forked) in a forked child.
    pub fn go_on(&mut self) -> Result<bool> {
        let engine = self.db.engine()?;
        // The excise may concern what the transaction read. It takes as long as a flush.
        if self.pauses < MOST_PAUSES && engine.queue.has_pending_excise() {
            self.pauses += 1;
            engine.jobs.parts.env.runtime.pause_us(PAUSE_US);
            return Ok(true);
        }
        self.conflicts += 1;
        let wants_turn = self.conflicts >= CONFLICTS_BEFORE_TURN && self.turn.is_none();
        if wants_turn && engine.turns.take(&*engine.clock) {
            self.turn = Some(Turn(self.db));
        }
        Ok(self.conflicts < MOST_CONFLICTS)
    }

    /// Waits for the call of `transact` that has the turn, unless this one has it.
    fn let_pass(&self) -> Result<()> {
        let engine = self.db.engine()?;
        if self.turn.is_none() {
            engine.turns.let_pass(&*engine.clock);
        }
        Ok(())
    }
}

impl fmt::Debug for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("conflicts", &self.conflicts).finish_non_exhaustive()
    }
}

impl Db {
    /// Runs `work` in a [`Transaction`] and commits it with the durability of the options. After a conflict it runs `work` again, in a new
    /// transaction. So `work` must do nothing besides that it cannot do twice.
    ///
    /// Returns what `work` returned. An error of `work` drops the transaction and is returned. After 8 conflicts other calls of `transact` wait
    /// up to 50 ms before they begin and before they commit, so that this one comes through.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-transact-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.put("from", "90")?;
    /// db.put("to", "10")?;
    /// let left: u64 = db.transact(|transaction| {
    ///     let balance = |key| -> Result<u64, Box<dyn std::error::Error>> {
    ///         Ok(std::str::from_utf8(&transaction.get(key)?.ok_or("no account")?)?.parse()?)
    ///     };
    ///     let (from, to) = (balance("from")?, balance("to")?);
    ///     let left = from.checked_sub(40).ok_or("too little money")?;
    ///     transaction.put("from", left.to_string())?;
    ///     transaction.put("to", (to + 40).to_string())?;
    ///     Ok::<_, Box<dyn std::error::Error>>(left)
    /// })?;
    /// assert_eq!((left, db.get("to")?.unwrap().to_vec()), (50, b"50".to_vec()));
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `work`; those of [`Db::write`]; [`Conflict`](crate::Error::Conflict) after 100 conflicts. Nothing was written then.
    pub fn transact<T, E: From<Error>>(
        &self,
        work: impl FnMut(&Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.transact_with(self.durability(), work)
    }

    /// As [`Db::transact`], with the given durability.
    ///
    /// ```
    /// use braidb::{Durability, Error};
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-transactw-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// db.transact_with(Durability::Sync, |transaction| transaction.put("order", "paid"))?;
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::transact`].
    pub fn transact_with<T, E: From<Error>>(
        &self,
        durability: Durability,
        mut work: impl FnMut(&Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let mut attempts = self.attempts(Some(durability));
        loop {
            let transaction = attempts.begin()?;
            let outcome = match work(&transaction) {
                // The transaction read what was excised since.
                Err(_) if transaction.has_met_excised() => Err(Error::Conflict),
                Err(error) => return Err(error),
                Ok(done) => attempts.commit(transaction).map(|()| done),
            };
            match outcome {
                Err(Error::Conflict) if attempts.go_on()? => {}
                outcome => return outcome.map_err(E::from),
            }
        }
    }

    /// The attempts of [`Db::transact`] one by one, for a program that cannot have its work in a closure. `None` is the durability of the
    /// options.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-attempts-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// let mut attempts = db.attempts(None);
    /// loop {
    ///     let transaction = attempts.begin()?;
    ///     transaction.put("order", "paid")?;
    ///     match attempts.commit(transaction) {
    ///         Err(braidb::Error::Conflict) if attempts.go_on()? => {}
    ///         outcome => break outcome?,
    ///     }
    /// }
    /// # drop(attempts); drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    pub fn attempts(&self, durability: Option<Durability>) -> Attempts<'_> {
        let durability = durability.unwrap_or_else(|| self.durability());
        Attempts { db: self, durability, conflicts: 0, pauses: 0, turn: None }
    }

    /// Sets `key` to `value` in the default family unless it has a value. Returns the value that it has, if any.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-absent-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// assert!(db.put_if_absent("leader", "node 1")?.is_none());
    /// assert_eq!(db.put_if_absent("leader", "node 2")?.unwrap(), b"node 1");
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::transact`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Value>> {
        put_if_absent(self, None, key.as_ref(), value.as_ref())
    }

    /// Sets `key` in the default family to `new` if its value is `old`. `None` stands for no value, so a `new` of `None` deletes. Returns
    /// whether the value was `old`.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-cas-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// assert!(db.compare_and_swap("state", None, Some(b"new"))?);
    /// assert!(db.compare_and_swap("state", Some(b"new"), Some(b"done"))?);
    /// assert!(!db.compare_and_swap("state", Some(b"new"), None)?);
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::transact`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        compare_and_swap(self, None, key.as_ref(), old, new)
    }

    /// Replaces the value of `key` in the default family by what `change` makes of it. `None` stands for no value: `change` returns it to
    /// delete. Returns the value from before. `change` may run several times.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("braidb-doc-update-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # let db = braidb::Db::open(&dir)?;
    /// let add_one = |old: Option<&[u8]>| {
    ///     let count = old.map_or(0, |old| u64::from_be_bytes(old.try_into().unwrap()));
    ///     Some((count + 1).to_be_bytes())
    /// };
    /// db.update("visits", add_one)?;
    /// db.update("visits", add_one)?;
    /// assert_eq!(db.get("visits")?.unwrap(), 2u64.to_be_bytes());
    /// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Db::transact`].
    pub fn update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Value>> {
        update(self, None, key.as_ref(), change)
    }
}

impl ColumnFamily {
    /// As [`Db::put_if_absent`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Value>> {
        put_if_absent(self.db(), Some(self), key.as_ref(), value.as_ref())
    }

    /// As [`Db::compare_and_swap`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        compare_and_swap(self.db(), Some(self), key.as_ref(), old, new)
    }

    /// As [`Db::update`].
    pub fn update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<V>,
    ) -> Result<Option<Value>> {
        update(self.db(), Some(self), key.as_ref(), change)
    }
}

fn put_if_absent(db: &Db, family: Option<&ColumnFamily>, key: &[u8], value: &[u8]) -> Result<Option<Value>> {
    db.transact(|transaction| {
        let present = transaction.get_of(family, key)?;
        if present.is_none() {
            transaction.set(family, key, Some(value))?;
        }
        Ok(present)
    })
}

fn compare_and_swap(
    db: &Db,
    family: Option<&ColumnFamily>,
    key: &[u8],
    old: Option<&[u8]>,
    new: Option<&[u8]>,
) -> Result<bool> {
    db.transact(|transaction| {
        let is_old = transaction.get_of(family, key)?.as_deref() == old;
        if is_old {
            transaction.set(family, key, new)?;
        }
        Ok(is_old)
    })
}

fn update<V: AsRef<[u8]>>(
    db: &Db,
    family: Option<&ColumnFamily>,
    key: &[u8],
    mut change: impl FnMut(Option<&[u8]>) -> Option<V>,
) -> Result<Option<Value>> {
    db.transact(|transaction| {
        let old = transaction.get_of(family, key)?;
        let new = change(old.as_deref());
        transaction.set(family, key, new.as_ref().map(V::as_ref))?;
        Ok(old)
    })
}
