//! Verification of tables of which only parts are in the tree. Other kinds of damage are covered by the tests of `table` and by the judges.

use super::*;
use crate::base::ids::{FamilyId, TierId};
use crate::base::names;
use crate::base::part::Part;
use crate::table::{TableBuilder, TableOptions};
use crate::version::{Change, Edit, RunId};
use crate::visible::EntryKind;
use braidb_storage::FileSystem;
use braidb_storage::real::RealFs;
use std::path::PathBuf;

const ID: FileId = FileId(5);
const PARTS: usize = 6;

/// A directory with one table of several parts.
fn table(dir: &Path) -> (u64, u32, Vec<Part>) {
    let _ = std::fs::remove_dir_all(dir);
    RealFs.create_dir_all(dir).unwrap();
    let options = TableOptions { block_bytes: 4096, filter_bits_per_key: 10, has_sample: false };
    let mut builder = TableBuilder::create(&RealFs, &names::table(dir, ID), ID, options).unwrap();
    for number in 0..PARTS * 300 {
        if number % 300 == 0 {
            builder.end_part();
        }
        builder.add(format!("{number:05}").as_bytes(), 1, EntryKind::Put, &[b'v'; 100]).unwrap();
    }
    let summary = builder.finish().unwrap();
    (summary.bytes, summary.checksum, summary.parts)
}

/// Verifies the table when only `slices` are left of it.
fn verified(dir: &Path, bytes: u64, checksum: u32, slices: &[(usize, Part)]) -> Vec<Damage> {
    let env = braidb_storage::real::env(1).unwrap();
    let store = TableStore::detached(env.fs.clone(), dir);
    let mut edit = Edit::default();
    edit.push(Change::TableAdded { id: ID, bytes, checksum, tier: TierId::FAST });
    for (level, part) in slices {
        let run = RunId { level: *level, cell: Vec::new(), epoch: 1 };
        edit.add_slice(FamilyId::DEFAULT, run, ID, part);
    }
    let state = State::initial(store, FileId(1)).apply(&edit).unwrap();
    let mut check = Check::new(&env, dir.into());
    check.tables(&state).unwrap();
    assert_eq!((check.report.files, check.report.bytes), (1, bytes));
    check.report.damages
}

#[test]
fn only_what_slices_need_must_be_there() {
    let dir: PathBuf = std::env::temp_dir().join(format!("braidb-holes-{}", std::process::id()));
    let (bytes, checksum, parts) = table(&dir);
    let all: Vec<(usize, Part)> = parts.iter().map(|part| (1, part.clone())).collect();
    assert_eq!(verified(&dir, bytes, checksum, &all), []);
    assert_eq!(verified(&dir, bytes, checksum ^ 1, &all).len(), 1, "a whole file must match its checksum");

    // The third part goes, and with it the blocks in its middle. The other parts are on several levels, the lowest keys deepest.
    let left = |gone: usize| -> Vec<(usize, Part)> {
        let level = |part: usize| 1 + (PARTS - part) / 2;
        (0..PARTS).filter(|&part| part != gone).map(|part| (level(part), parts[part].clone())).collect()
    };
    let start: u64 = parts[..2].iter().map(|part| part.bytes).sum();
    RealFs.punch_hole(&names::table(&dir, ID), start.next_multiple_of(4096) + 4096, 4 * 4096).unwrap();
    assert_eq!(verified(&dir, bytes, checksum, &left(2)), []);
    assert!(verified(&dir, bytes, checksum, &left(3)).len() >= 4, "the hole lies in a slice that lives");
    assert!(verified(&dir, bytes, checksum, &all).len() >= 4);
    std::fs::remove_dir_all(&dir).unwrap();
}
