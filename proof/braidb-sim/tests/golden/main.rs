//! Databases that earlier versions wrote stay readable. Files of unknown formats are refused, by name.
//!
//! The tests find, change and checksum fields by the text of docs/formats.md alone, without the engine's code.

mod slow_tier;
mod value_files;

use braidb::{Db, Error, storage::real::RealFs};
use braidb_sim::golden::{self, Contents};
use braidb_storage::sim::{Crash, SimFs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Files = BTreeMap<String, Vec<u8>>;

/// The checked-in database of format version 1.
fn checked_in() -> Files {
    stored("format-1")
}

fn stored(name: &str) -> Files {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/braidb/tests/golden").join(name);
    let files = golden::files(&RealFs, &dir).expect("the golden database is there");
    for kind in ["CURRENT", ".manifest", ".log", ".table"] {
        assert!(files.keys().any(|name| name.ends_with(kind)), "the golden database has no {kind}");
    }
    files
}

fn expected() -> Contents {
    golden::write().expect("the golden database can be written").1
}

/// Opens the database and reads everything.
fn open_and_read(fs: &Arc<SimFs>) -> Result<(Db, Contents), Error> {
    let db = golden::open(fs)?;
    let contents = golden::read(&db)?;
    Ok((db, contents))
}

#[test]
fn what_was_written_is_read() {
    let fs = golden::place(&checked_in()).unwrap();
    let expected = expected();
    assert!(expected[0].len() > 280 && expected[1].len() == 1);
    let (db, contents) = open_and_read(&fs).unwrap();
    assert_eq!(contents, expected);
    assert_eq!(db.column_families(), golden::FAMILIES);
    let report = db.recovery();
    assert!(
        report.cut.is_none() && report.manifest_cut.is_none() && report.set_aside.is_empty(),
        "{report:?}"
    );
    assert!(report.entries > 0, "the log of the golden database is replayed");
    let levels = &db.stats().families[0].levels;
    assert!(levels[0].tables > 0 && levels[1].tables > 0, "the golden database has tables in two levels");
    assert!(levels[0].tombstones > 0 && levels[0].runs > 0);
    let verified = db.verify().unwrap();
    assert!(verified.damages.is_empty(), "{verified:?}");

    // The present code rewrites everything, and the contents stay the same.
    db.compact().unwrap();
    db.close().unwrap();
    assert_eq!(open_and_read(&fs).unwrap().1, expected);
}

#[test]
fn records_that_were_written_back_are_read() {
    let files = stored("format-1-written-back");
    // Byte 10 of a log holds the required features. Bit 0 says that the log may hold written-back records (docs/formats.md).
    let logs: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".log")).collect();
    assert!(logs.iter().any(|(_, bytes)| bytes[10] == 1), "a log may hold written-back records");
    assert!(logs.iter().all(|(_, bytes)| bytes[10] == 0 || find(bytes, b"cold/3")), "it holds one");
    let expected = golden::write_with_copies().unwrap().1;
    assert!(expected[0].len() == 6 && expected[1].len() == 1);
    let fs = golden::place(&files).unwrap();
    let (db, contents) = open_and_read(&fs).unwrap();
    assert_eq!(contents, expected);
    assert!(db.verify().unwrap().damages.is_empty());
    db.compact().unwrap();
    db.close().unwrap();
    assert_eq!(open_and_read(&fs).unwrap().1, expected);
}

#[test]
fn values_that_stayed_in_logs_are_read() {
    let files = stored("format-1-log-tables");
    let held_by = |ending: &str, wanted: &[u8]| {
        files.iter().filter(|(name, bytes)| name.ends_with(ending) && find(bytes, wanted)).count()
    };
    assert_eq!((held_by(".table", b"of round"), held_by(".log", b"of round")), (0, 2));
    assert_eq!((held_by(".table", b"stays in the table"), held_by(".table", b"key 0")), (2, 2));
    let expected = golden::write_with_log_tables().unwrap().1;
    assert!(expected[0].len() == 8 && expected[1].len() == 8);
    let fs = golden::place(&files).unwrap();
    let (db, contents) = open_and_read(&fs).unwrap();
    assert_eq!(contents, expected);
    assert!(db.verify().unwrap().damages.is_empty());
    let stats = db.stats();
    assert!(stats.log_tables == 4 && stats.pinned_logs == 2, "{stats:?}");
    // A compacted table points into no log, and the logs go.
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!((stats.log_tables, stats.pinned_logs, stats.pinned_log_bytes), (0, 0, 0));
    db.close().unwrap();
    let left = golden::files(&*fs, Path::new(golden::DIR)).unwrap();
    assert!(
        files
            .keys()
            .filter(|name| name.ends_with(".log"))
            .all(|name| !left.contains_key(name) || !find(&left[name], b"of round"))
    );
    assert_eq!(open_and_read(&fs).unwrap().1, expected);
}

/// Opens the killed database `name`, opens it after a power failure and after a close, and expects `expected` each time.
fn is_read_after_a_kill(name: &str, expected: &Contents) -> Db {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/braidb/tests/golden").join(name);
    let files = golden::files(&RealFs, &dir).expect("the golden database is there");
    // Byte 14 of a log holds the optional features (docs/formats.md). Bit 0 is set in every log of versions that know it.
    let is_new = !name.ends_with("-uncovered");
    let logs = files.iter().filter(|(name, _)| name.ends_with(".log"));
    assert!(logs.map(|(_, bytes)| bytes[14] & 1).all(|bit| bit == u8::from(is_new)));
    let fs = golden::place(&files).unwrap();
    let (db, contents) = open_and_read(&fs).unwrap();
    assert_eq!(&contents, expected, "{name}");
    assert!(db.recovery().rewritten_bytes > 0, "{name}");
    assert!(db.verify().unwrap().damages.is_empty());
    let killed = Arc::new(fs.crash_image(Crash::PowerAllLost, 1));
    let (again, contents) = open_and_read(&killed).unwrap();
    assert_eq!(&contents, expected, "{name}");
    again.close().unwrap();
    assert_eq!(&open_and_read(&killed).unwrap().1, expected, "{name}");
    db
}

/// Cuts of commit ae2ffe8 prove nothing stable. What it recovered, and what was written since, goes to tables.
#[test]
fn a_recovered_database_is_read_whatever_its_cut_proves() {
    let expected = golden::write_recovered().unwrap().1;
    assert!(expected[0].len() == 12 && expected[1].len() == 12);
    for (name, tables) in [("format-1-recovered", 0), ("format-1-recovered-uncovered", 1)] {
        let db = is_read_after_a_kill(name, &expected);
        assert_eq!(db.stats().families[0].levels[0].tables, tables, "{name}");
    }
}

/// The copies of hot keys lie behind a cut that proves nothing, and an edit relied on them.
#[test]
fn hot_keys_are_read_that_were_kept_after_a_recovery() {
    let expected = golden::write_hot_after_recovery().unwrap().1;
    assert!(expected[0].len() > 300 && expected[1].len() == 1);
    for name in ["format-1-hot-after-recovery", "format-1-hot-after-recovery-uncovered"] {
        is_read_after_a_kill(name, &expected);
    }
}

/// A log that tables point into is as necessary as a table.
#[test]
fn a_missing_or_short_log_behind_a_table_refuses_to_open() {
    let files = stored("format-1-log-tables");
    let body = files.iter().find(|(name, bytes)| name.ends_with(".log") && find(bytes, b"of round 0"));
    let (name, bytes) = body.expect("a log holds the values of the first round");
    for left in [None, Some(0), Some(bytes.len() - 1)] {
        let mut files = files.clone();
        match left {
            None => files.remove(name),
            Some(len) => files.insert(name.clone(), bytes[..len].to_vec()),
        };
        let fs = golden::place(&files).unwrap();
        // `verify` reports the log, and also the other damages that it finds.
        let damages = golden::verify(&fs).unwrap().damages;
        let tells_of_it = |path: &Path, what: &str| {
            path == Path::new(golden::DIR).join(name) && what.contains("tables point to values in it")
        };
        assert!(damages.iter().any(|damage| tells_of_it(&damage.path, &damage.what)), "{damages:?}");
        match open_and_read(&fs) {
            Err(Error::Corruption { path, what, .. }) => assert!(tells_of_it(&path, &what), "{what}"),
            other => panic!("{:?}", other.map(|_| "opened and read")),
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn the_present_code_writes_one_too() {
    let (fs, contents) = golden::write().unwrap();
    assert_eq!(open_and_read(&fs).unwrap().1, contents);
    let (again, _) = golden::write().unwrap();
    let files = |fs: &Arc<SimFs>| golden::files(&**fs, Path::new(golden::DIR)).unwrap();
    assert_eq!(files(&golden::write().unwrap().0), files(&again), "the same code writes the same bytes");
}

/// The positions of the fields that tell what a reader must support.
struct Fields {
    extension: &'static str,
    /// Bytes from the start of the header or footer: the version, and the lowest byte of each set of features.
    version: usize,
    required: usize,
    optional: usize,
    /// The checksum, and the end of the header or footer.
    checksum: usize,
    end: usize,
    is_footer: bool,
}

const FIELDS: [Fields; 3] = [
    Fields {
        extension: "log",
        version: 8,
        required: 10,
        optional: 14,
        checksum: 42,
        end: 46,
        is_footer: false,
    },
    Fields {
        extension: "table",
        version: 40,
        required: 44,
        optional: 48,
        checksum: 52,
        end: 64,
        is_footer: true,
    },
    Fields {
        extension: "manifest",
        version: 8,
        required: 12,
        optional: 20,
        checksum: 36,
        end: 40,
        is_footer: false,
    },
];

impl Fields {
    /// Changes one byte of the header or footer of the file `name`, and corrects its checksum.
    fn change(&self, name: &str, bytes: &mut [u8], field: usize, value: u8) {
        let start = if self.is_footer { bytes.len() - self.end } else { 0 };
        let part = &mut bytes[start..start + self.end];
        let checksum = |part: &[u8]| {
            let id: u64 = name.split('.').next().unwrap().parse().unwrap();
            let mut crc = crc32c::crc32c(&id.to_le_bytes());
            crc = crc32c::crc32c_append(crc, &(start as u64).to_le_bytes());
            crc = crc32c::crc32c_append(crc, &part[..self.checksum]);
            crc32c::crc32c_append(crc, &part[self.checksum + 4..]).to_le_bytes()
        };
        assert_eq!(part[self.checksum..][..4], checksum(part), "{name} has the checksum of docs/formats.md");
        assert_ne!(part[field], value);
        part[field] = value;
        let crc = checksum(part);
        part[self.checksum..][..4].copy_from_slice(&crc);
    }

    /// The golden database with one byte changed in its newest file of this kind, and the path of the file.
    fn changed(&self, field: usize, value: u8) -> (Arc<SimFs>, PathBuf) {
        let mut files = checked_in();
        let name = files.keys().rfind(|name| name.ends_with(self.extension)).expect("there is one").clone();
        self.change(&name, files.get_mut(&name).unwrap(), field, value);
        (golden::place(&files).unwrap(), Path::new(golden::DIR).join(name))
    }
}

#[test]
fn a_newer_format_is_refused_by_name() {
    for fields in &FIELDS {
        for (field, value, told) in [(fields.version, 2, "2"), (fields.required, 1 << 5, "5")] {
            let (fs, file) = fields.changed(field, value);
            let before = fs.read_file(&file).unwrap();
            match open_and_read(&fs) {
                Err(Error::Unsupported { path, what }) => {
                    assert_eq!(path, file);
                    assert!(what.contains(told), "{}: {what}", file.display());
                }
                other => panic!("{}: {:?}", file.display(), other.map(|_| "opened and read")),
            }
            assert_eq!(fs.read_file(&file).unwrap(), before, "what is not understood is not touched");
        }
    }
}

#[test]
fn optional_features_are_ignored() {
    for fields in &FIELDS {
        let (fs, file) = fields.changed(fields.optional, 1 << 5);
        match open_and_read(&fs) {
            // A table with a changed footer is read too: only `verify` compares a table with the checksum of the whole table in the
            // manifest.
            Ok((_, contents)) => assert_eq!(contents, expected(), "{}", file.display()),
            Err(error) => panic!("{error}"),
        }
    }
}
