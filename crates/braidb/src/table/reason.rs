//! Why a table was written: the job, and for a merge the proposal of the planner that it carried out. Tables keep it as a property, so
//! that `braidb stats --guards` tells it after a restart. Nothing depends on it.

use std::fmt;

/// Why a table was written.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("braidb-doc-reason-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// use braidb::stats::Reason;
/// let db = braidb::Db::open(&dir)?;
/// db.put("k", "v")?;
/// db.flush()?;
/// assert_eq!(db.table_reasons()?.into_values().collect::<Vec<_>>(), [Reason::Flush]);
/// # drop(db); std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), braidb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Memory was full, or old logs were to be deleted.
    Flush,
    /// Opening the database moved the records of logs to tables.
    Recovery,
    /// L0 had as many tables as are merged into L1 together.
    L0,
    /// A cell had reached the number of runs at which a merge is due.
    Depth,
    /// A level had more bytes than its target.
    Size,
    /// Versions and tombstones that no reader needed took too much space.
    Garbage,
    /// Tables pointed into logs or value files that were to be deleted.
    Bodies,
    /// Old tombstones, or the rest of a table of which little was left.
    Cold,
    /// Scans lost more time to garbage, or to values in many places, than a rewrite takes.
    Scans,
    /// Readers had lost as much time as the merge costs, because of the runs that it merged.
    Bought,
    /// A call of `compact`.
    Compact,
    /// The cell moved to another tier.
    Tier,
}

/// All reasons with their names. In files, a reason is its position in this list, counted from 1.
const ALL: [(Reason, &str); 12] = [
    (Reason::Flush, "flush"),
    (Reason::Recovery, "recovery"),
    (Reason::L0, "l0"),
    (Reason::Depth, "depth"),
    (Reason::Size, "size"),
    (Reason::Garbage, "garbage"),
    (Reason::Bodies, "bodies"),
    (Reason::Cold, "cold"),
    (Reason::Scans, "scans"),
    (Reason::Bought, "bought"),
    (Reason::Compact, "compact"),
    (Reason::Tier, "tier"),
];

impl Reason {
    /// The number that stands for the reason in files.
    pub(crate) fn code(self) -> u64 {
        let place = ALL.iter().position(|&(reason, _)| reason == self);
        place.expect("every reason is listed") as u64 + 1
    }

    /// The reason with this number. A later build may know more of them.
    pub(crate) fn of_code(code: u64) -> Option<Reason> {
        let place = usize::try_from(code.checked_sub(1)?).ok()?;
        ALL.get(place).map(|&(reason, _)| reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(ALL[self.code() as usize - 1].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_come_back() {
        for (place, &(reason, name)) in (1..).zip(&ALL) {
            assert_eq!((reason.code(), Reason::of_code(place)), (place, Some(reason)));
            assert_eq!(reason.to_string(), name);
        }
        assert_eq!(
            (Reason::of_code(0), Reason::of_code(ALL.len() as u64 + 1), Reason::of_code(u64::MAX)),
            (None, None, None)
        );
        assert_eq!((Reason::Flush.code(), Reason::Compact.code()), (1, 11), "numbers in files stay");
        assert_eq!(format!("{:<8}|", Reason::L0), "l0      |");
    }
}
