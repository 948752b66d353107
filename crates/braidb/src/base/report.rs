//! What recovery, verification and the jobs report to the user: types of [`crate::stats`] that are made below `db`.

use super::error::Error;
use std::fmt;
use std::path::PathBuf;

/// What opening the database found in its logs.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-rr-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let report: &braidb::stats::RecoveryReport = db.recovery();
/// assert_eq!(report.logs, 0, "it is new");
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Logs that were replayed.
    pub logs: u64,
    /// Commit frames (batches) in the replayed logs.
    pub frames: u64,
    /// Writes that were put back into memory or tables.
    pub entries: u64,
    /// Bytes of the replayed commits that were not proved to be on stable storage. Recovery wrote and synced them again before the
    /// database accepted a write.
    pub rewritten_bytes: u64,
    /// The end of the newest log that was not whole, and was left out.
    pub cut: Option<Cut>,
    /// The last change in the manifest, if it was not whole and was left out. Nothing had relied on it.
    pub manifest_cut: Option<Cut>,
    /// Logs behind a cut, which are not replayed.
    pub set_aside: Vec<PathBuf>,
}

/// A file's end that is not whole: what was being written when the power failed or the process died.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-cut-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// if let Some(cut) = &db.recovery().cut {
///     println!("{} bytes of {} were not whole", cut.bytes, cut.path.display());
/// }
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// The file.
    pub path: PathBuf,
    /// The offset at which the good part ends.
    pub offset: u64,
    /// Bytes behind `offset`.
    pub bytes: u64,
    /// Whole frames among these bytes. A torn end has none, unless the system wrote pages out of order.
    pub whole_frames_behind: u64,
}

/// What [`Db::verify`](crate::Db::verify) read and found.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-vr-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// let report: braidb::stats::VerifyReport = db.verify()?;
/// println!("{} files with {} bytes", report.files, report.bytes);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Every damaged range.
    pub damages: Vec<Damage>,
    /// Bytes that no reader uses and that are no damage, of a database that is not open: the end of a log or manifest that the next open
    /// leaves out, a log behind such an end, and bytes behind the end of a log or value file.
    pub notes: Vec<Note>,
}

/// A range of a file that the next open leaves out, as after a crash. It is no damage.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-note-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # drop(braidb::Db::open(&dir)?);
/// for note in braidb::verify(&dir)?.notes {
///     println!("{} at byte {}: {}", note.path.display(), note.offset, note.what);
/// }
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The file.
    pub path: PathBuf,
    /// The offset at which the range starts.
    pub offset: u64,
    /// The length of the range.
    pub bytes: u64,
    /// What the range is.
    pub what: String,
}

/// A range of a file that does not hold what was written.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-damage-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for damage in db.verify()?.damages {
///     println!("{} at byte {}: {}", damage.path.display(), damage.offset, damage.what);
/// }
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The offset at which the range starts.
    pub offset: u64,
    /// The length of the range; 0 for a file that is missing or too short.
    pub bytes: u64,
    /// What is wrong.
    pub what: String,
}

/// What [`Db::checkpoint`](crate::Db::checkpoint) made.
///
/// ```
/// # let root = std::env::temp_dir().join(format!("braidb-doc-cr-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&root);
/// # let db = braidb::Db::open(root.join("db"))?;
/// let report: braidb::stats::CheckpointReport = db.checkpoint(root.join("monday"))?;
/// println!("{} files, {} bytes copied", report.files, report.copied_bytes);
/// # drop(db); std::fs::remove_dir_all(&root).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Tables, value files and logs in the checkpoint.
    pub files: u64,
    /// Bytes of files that are linked. They take no further space.
    pub linked_bytes: u64,
    /// Bytes of files that were copied.
    pub copied_bytes: u64,
}

/// A range of keys about which a damaged database tells nothing ([`Db::salvage`](crate::Db::salvage)).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-dr-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// # let db = braidb::Db::open(&dir)?;
/// for item in db.salvage(..) {
///     if let braidb::Salvaged::Hole(hole) = item? {
///         println!("{}: {} at byte {}", hole.path.display(), hole.what, hole.offset);
///     }
/// }
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedRange {
    /// The smallest key that may be lost.
    pub low: Vec<u8>,
    /// The largest key that may be lost; `None`: all keys from `low` on.
    pub high: Option<Vec<u8>>,
    /// The file.
    pub path: PathBuf,
    /// The offset of the damage in the file; 0 if the file is missing or cannot be read at all.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl DamagedRange {
    /// The keys from `low` to `high`, which `error` keeps from being read.
    pub(crate) fn new(low: Vec<u8>, high: Option<Vec<u8>>, error: &Error) -> DamagedRange {
        let (path, offset, what) = match error {
            Error::Corruption { path, offset, what } => (path.clone(), *offset, what.clone()),
            Error::Io { path, source, .. } => (path.clone(), 0, source.to_string()),
            other => (PathBuf::new(), 0, other.to_string()),
        };
        DamagedRange { low, high, path, offset, what }
    }
}

impl fmt::Display for DamagedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.high {
            Some(high) if *high == self.low => write!(f, "key {}", self.low.escape_ascii())?,
            Some(high) => write!(f, "keys {} to {}", self.low.escape_ascii(), high.escape_ascii())?,
            None => write!(f, "keys from {} on", self.low.escape_ascii())?,
        }
        write!(f, ": {} at byte {}: {}", self.path.display(), self.offset, self.what)
    }
}

/// One tier of a database with slow tiers ([`Options::slow_path`](crate::Options::slow_path)).
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-tierstats-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let (fast, slow) = (dir.join("fast"), dir.join("slow"));
/// let db = braidb::Options::new().slow_path(&slow).open(&fast)?;
/// let tiers = db.stats().tiers;
/// assert_eq!((tiers[0].id, tiers[1].path.as_path()), (0, slow.as_path()));
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// The number of the tier; 0 is the database's own directory.
    pub id: u8,
    /// The directory of the tier.
    pub path: PathBuf,
    /// Bytes of slices and of values in value files on the tier.
    pub bytes: u64,
    /// Cells with a part on the tier.
    pub cells: u64,
    /// Bytes that the device has free; 0 if it does not answer.
    pub free_bytes: u64,
    /// Reads for which readers waited, of files that are still on the tier. 0 for the fast tier, where reads are not counted.
    pub reads: u64,
    /// Whether nothing is written to the tier now: it is being emptied, or a merge could not write there lately.
    pub is_closed: bool,
}
