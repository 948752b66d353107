//! The promise of an acknowledged write.

/// What an acknowledged write promises.
///
/// ```
/// use braidb::{Durability, Options};
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-durability-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = Options::new().durability(Durability::None).open(&dir)?;
/// db.put("k", "v")?; // quick, and lost if the process dies now
/// db.persist(Durability::Sync)?; // not any more
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// The write is in the log's buffer inside this process. A killed process may lose the latest writes: a suffix of all writes.
    None,
    /// The write was written to the operating system. A killed process loses nothing; a power failure may lose the latest writes.
    Buffer,
    /// The write is on stable storage. Nothing is lost.
    Sync,
}
