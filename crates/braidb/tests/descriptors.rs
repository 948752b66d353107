//! Processes with few file descriptors, many column families and many files: everything works, and only takes longer.
//!
//! At full size, with 700 families and 3 GB of large values, after `cargo test --release -p braidb --test descriptors --no-run`:
//!
//! ```sh
//! export BRAIDB_DESCRIPTORS_DIR=/tmp/descriptors BRAIDB_DESCRIPTORS_FAMILIES=700 BRAIDB_DESCRIPTORS_VALUE_BYTES=2200000
//! sh -c 'ulimit -n 64; exec target/release/deps/descriptors-* --ignored --exact works_on_many_files --nocapture'
//! ```

use braidb::{ColumnFamily, Db, Options, WriteBatch};
use std::process::Command;

/// Environment variables: the directory of the database, its number of column families, and the bytes of a large value.
const DIR: &str = "BRAIDB_DESCRIPTORS_DIR";
const FAMILIES: &str = "BRAIDB_DESCRIPTORS_FAMILIES";
const VALUE_BYTES: &str = "BRAIDB_DESCRIPTORS_VALUE_BYTES";

/// Rounds of writes, each of which flushes every column family.
const ROUNDS: u64 = 2;
const KEYS: u64 = 4;

/// Runs the test below in a process with at most `limit` descriptors.
fn works_within(limit: u64, families: u64) {
    let dir = std::env::temp_dir().join(format!("braidb-descriptors-{limit}-{}", std::process::id()));
    let _dir = RemovedAtEnd(dir.clone());
    let script = format!("ulimit -n {limit}; exec \"$0\" --ignored --exact works_on_many_files --nocapture");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(std::env::current_exe().unwrap());
    command.env(DIR, &dir).env(FAMILIES, families.to_string());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "with {limit} descriptors: {told}");
}

struct RemovedAtEnd(std::path::PathBuf);

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn thirty_two_descriptors_are_enough_for_ten_families() {
    works_within(32, 10);
}

#[test]
fn sixty_four_descriptors_are_enough_for_a_hundred_families() {
    works_within(64, 100);
}

/// Half of the values are large and go to value files.
fn value(family: u64, key: u64, round: u64, large_bytes: usize) -> Vec<u8> {
    let bytes = if key.is_multiple_of(2) { large_bytes } else { 30 };
    vec![(family * 7 + key * 31 + round) as u8; bytes]
}

/// Each of 8 threads reads an eighth of the families, so that they need different tables at any moment.
fn check(families: &[ColumnFamily], round: u64, large_bytes: usize) {
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for (number, family) in (0..).zip(families).skip(thread).step_by(8) {
                    for key in 0..KEYS {
                        let found = family.get(key.to_be_bytes()).unwrap();
                        assert!(found.is_some_and(|found| found == value(number, key, round, large_bytes)));
                    }
                }
            });
        }
    });
}

#[test]
#[ignore = "needs a process with few descriptors: the tests above run it, by cargo test -p braidb --test descriptors"]
fn works_on_many_files() {
    let dir = std::env::var_os(DIR).expect("started by another test");
    let count: u64 = std::env::var(FAMILIES).unwrap().parse().unwrap();
    let large_bytes = std::env::var(VALUE_BYTES).map_or(3000, |bytes| bytes.parse().unwrap());
    let options = || Options::new().memtable_bytes((count as usize) << 17).block_cache_bytes(0);
    let db = options().open(&dir).unwrap();
    let families = |db: &Db| -> Vec<ColumnFamily> {
        (0..count).map(|number| db.create_column_family(&format!("family {number}")).unwrap()).collect()
    };
    for round in 0..ROUNDS {
        let families = families(&db);
        for (number, family) in (0..).zip(&families) {
            let mut batch = WriteBatch::new();
            for key in 0..KEYS {
                batch.put_in(family, key.to_be_bytes(), value(number, key, round, large_bytes));
            }
            db.write(batch).unwrap();
        }
        db.flush().unwrap();
        check(&families, round, large_bytes);
    }
    db.close().unwrap();
    let db = options().open(&dir).unwrap();
    check(&families(&db), ROUNDS - 1, large_bytes);
    db.settle().unwrap();
    check(&families(&db), ROUNDS - 1, large_bytes);
    assert!(db.verify().unwrap().damages.is_empty());
}
