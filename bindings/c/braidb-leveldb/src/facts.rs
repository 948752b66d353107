//! Properties of a database, the sizes of its ranges, and compaction of a range.

use crate::arguments::bytes;
use crate::database::Database;
use crate::failure::{Result, need};
use braidb::Db;
use braidb::stats::{Counts, FamilyStats, FamilyTree};
use braidb_ffi::memory::{Text, elements, give_text, places};
use braidb_ffi::panics::{attempt, quiet};
use std::ffi::{c_char, c_int};
use std::fmt::{self, Write};
use std::ops::Bound;
use std::ptr;

/// The family that LevelDB's interface reads and writes.
const FAMILY: &str = "default";
/// Bytes of a megabyte in `leveldb.stats`: 1 MiB, as with LevelDB.
const MEGABYTE: u64 = 1 << 20;

/// The text of a property; `None` for one that there is not.
fn property(db: &Db, name: &str) -> Option<String> {
    let name = name.strip_prefix("leveldb.")?;
    let stats = db.stats();
    let family = stats.families.iter().find(|family| family.name == FAMILY)?;
    if let Some(level) = name.strip_prefix("num-files-at-level") {
        let level: usize = level.parse().ok()?;
        return Some(family.levels.get(level)?.tables.to_string());
    }
    match name {
        "stats" => levels(family, &stats.counts).ok(),
        "sstables" => tables(db.tree().iter().find(|family| family.name == FAMILY)?).ok(),
        "approximate-memory-usage" => {
            let memtables = stats.memory_bytes + stats.memory_held_bytes;
            Some((memtables + stats.cache_bytes + stats.table_memory_bytes).to_string())
        }
        _ => None,
    }
}

/// A line for each level that has tables or got bytes. BraidDB does not measure time and bytes read by level.
fn levels(family: &FamilyStats, counts: &Counts) -> std::result::Result<String, fmt::Error> {
    let mut text = String::from("                               Compactions\n");
    writeln!(text, "Level  Files Size(MB) Time(sec) Read(MB) Write(MB)")?;
    writeln!(text, "--------------------------------------------------")?;
    for level in &family.levels {
        let flushed = if level.level == 0 { counts.flush_bytes } else { 0 };
        let written = flushed + counts.merge_bytes.get(level.level).copied().unwrap_or(0);
        if level.tables > 0 || written > 0 {
            let (number, files) = (level.level, level.tables);
            let (size, written) = (level.bytes / MEGABYTE, written / MEGABYTE);
            writeln!(text, "{number:5} {files:6} {size:8}         -        - {written:9}")?;
        }
    }
    Ok(text)
}

/// The slices of each level: number of the table, bytes, and the lowest and highest key.
fn tables(family: &FamilyTree) -> std::result::Result<String, fmt::Error> {
    let mut text = String::new();
    for level in &family.levels {
        writeln!(text, "--- level {} ---", level.level)?;
        let slices = level.cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.slices);
        for slice in slices {
            let (low, high) = (slice.low.escape_ascii(), slice.high.escape_ascii());
            writeln!(text, " {}:{}['{low}' .. '{high}']", slice.table, slice.bytes)?;
        }
    }
    Ok(text)
}

/// Fills in the bytes of each range. What cannot be estimated has 0.
fn sizes(
    db: &Db,
    starts: (&[*const c_char], &[usize]),
    limits: (&[*const c_char], &[usize]),
    sizes: &mut [u64],
) -> Result<()> {
    let starts = starts.0.iter().zip(starts.1);
    let limits = limits.0.iter().zip(limits.1);
    for (((start, start_len), (limit, limit_len)), size) in starts.zip(limits).zip(sizes) {
        let (start, limit) = (bytes(*start, *start_len, "a start")?, bytes(*limit, *limit_len, "a limit")?);
        if start < limit {
            *size = db.estimate((Bound::Included(start), Bound::Excluded(limit)))?.bytes;
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_property_value(db: Option<&Database>, propname: Text) -> *mut c_char {
    quiet("leveldb_property_value", ptr::null_mut(), || {
        let text = db.and_then(|db| property(&db.db, propname.str("propname").ok()?));
        text.map_or(ptr::null_mut(), |text| give_text(&text))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn leveldb_approximate_sizes(
    db: Option<&Database>,
    num_ranges: c_int,
    range_start_key: *const *const c_char,
    range_start_key_len: *const usize,
    range_limit_key: *const *const c_char,
    range_limit_key_len: *const usize,
    sizes: *mut u64,
) {
    // Sizes are estimates to their callers, so a range of which nothing is known has 0, also after a panic.
    let count = usize::try_from(num_ranges).unwrap_or(0);
    let Ok(sizes) = places(sizes, count, "sizes", 0) else { return };
    let outcome = attempt("leveldb_approximate_sizes", || {
        let starts = elements(range_start_key, count, "range_start_key")?;
        let start_lens = elements(range_start_key_len, count, "range_start_key_len")?;
        let limits = elements(range_limit_key, count, "range_limit_key")?;
        let limit_lens = elements(range_limit_key_len, count, "range_limit_key_len")?;
        self::sizes(&need(db, "db")?.db, (starts, start_lens), (limits, limit_lens), sizes)
    });
    // The function returns no error, as with LevelDB.
    let _ = outcome;
}

/// A key of NULL is no bound. Both keys belong to the range. The function returns no error; a compaction that failed is tried again.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_compact_range(
    db: Option<&Database>,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    let bound = |key: *const c_char, len, what| -> Result<Bound<&[u8]>> {
        if key.is_null() { Ok(Bound::Unbounded) } else { bytes(key, len, what).map(Bound::Included) }
    };
    quiet("leveldb_compact_range", (), || {
        let Some(db) = db else { return };
        let range = bound(start_key, start_key_len, "start_key")
            .and_then(|start| Ok((start, bound(limit_key, limit_key_len, "limit_key")?)));
        if let Ok(range) = range {
            let _ = db.db.compact_range(range);
        }
    });
}
