//! The database with a slow tier: `format-1-tiers`, and the directory of the tier beside it.

use super::{Files, open_and_read, stored};
use braidb::{Error, storage::real::RealFs};
use braidb_sim::golden::{self, SLOW_DIR, write_with_tiers};
use braidb_storage::FileSystem;
use braidb_storage::sim::SimFs;
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "format-1-tiers";

/// The files of the slow tier.
fn slow_files() -> Files {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/braidb/tests/golden")
        .join(format!("{NAME}-slow"));
    golden::files(&RealFs, &dir).expect("the directory of the tier is there")
}

/// The database with its tier at the path that the manifest remembers.
fn placed() -> Arc<SimFs> {
    let fs = golden::place(&stored(NAME)).unwrap();
    fs.create_dir_all(Path::new(SLOW_DIR)).unwrap();
    for (name, bytes) in slow_files() {
        fs.write_file(&Path::new(SLOW_DIR).join(name), &bytes).unwrap();
    }
    fs
}

#[test]
fn cells_on_a_slow_tier_are_read() {
    for ending in ["TIER", ".table", ".values"] {
        assert!(slow_files().keys().any(|name| name.ends_with(ending)), "the tier has no {ending}");
    }
    let expected = write_with_tiers().unwrap().1;
    assert!(expected[0].len() == 119 && expected[1].len() == 120);
    let fs = placed();
    let (db, contents) = open_and_read(&fs).unwrap();
    assert_eq!(contents, expected);
    assert!(db.verify().unwrap().damages.is_empty());
    let tiers = db.stats().tiers;
    assert!(tiers.len() == 2 && tiers[1].id == 1 && tiers[1].path == Path::new(SLOW_DIR), "{tiers:?}");
    assert!(tiers.iter().all(|tier| tier.bytes > 5_000), "{tiers:?}");
    db.compact().unwrap();
    db.close().unwrap();
    let (db, contents) = open_and_read(&fs).unwrap();
    assert_eq!(contents, expected);
    db.evacuate(SLOW_DIR, drop).unwrap();
    drop(db);
    assert_eq!(open_and_read(&fs).unwrap().1, expected);
}

#[test]
fn without_its_tier_it_is_refused() {
    let fs = golden::place(&stored(NAME)).unwrap();
    assert!(matches!(open_and_read(&fs), Err(Error::Tier { path, .. }) if path == Path::new(SLOW_DIR)));
}

#[test]
fn the_present_code_reads_what_it_writes() {
    let (fs, expected) = write_with_tiers().unwrap();
    assert_eq!(open_and_read(&fs).unwrap().1, expected);
}
