//! The golden databases: every later version must read them, byte for byte as an earlier version wrote them.
//!
//! The databases are written on the simulated file system from fixed seeds, so that the same code writes the same bytes. Each
//! is checked in under `crates/braidb/tests/golden`, in a directory whose name has the version of the formats.
//!
//! * `format-1` has a file of each kind, with each thing that the first format can express. It has two families, old versions,
//!   tombstones, an empty key, an empty value and bytes beyond ASCII. It also has a batch over both families, a large value,
//!   tables in two levels and a sealed log.
//! * `format-1-written-back` holds records that were written back to a log.
//! * `format-1-log-tables` has tables that point to values in logs, a later addition to the format.
//! * `format-1-value-files` has values in value files, live and dead ones, and a table that points into a log as well.
//! * `format-1-recovered` was killed and recovered.
//! * `format-1-hot-after-recovery`: a flush kept hot keys after a recovery.
//! * `format-1-recovered-uncovered` and `format-1-hot-after-recovery-uncovered` were written by commit ae2ffe8. Where its recovery cut a
//!   log, the cut does not prove that the bytes before it are stable.
//! * `format-1-tiers` has tables and values on a slow tier, whose directory is `format-1-tiers-slow`.
//!
//! `braidb-sim golden DIR` writes all but the two of commit ae2ffe8 into directories below DIR. A new version of a format, or a new
//! feature bit, adds a directory and keeps the old ones.

use crate::env_over;
use braidb::stats::VerifyReport;
use braidb::storage::FileSystem;
use braidb::tuning::MemoryPolicy;
use braidb::{Db, Durability, Error, Options, WriteBatch};
use braidb_storage::sim::SimFs;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the database on the simulated file system.
pub const DIR: &str = "/golden";
/// The directory of its slow tier, if it has one.
pub const SLOW_DIR: &str = "/golden-slow";
/// The families of the database.
pub const FAMILIES: [&str; 2] = ["default", "visits"];

const SEED: u64 = 7;

/// The contents of the database, by family.
pub type Contents = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// Writes the first golden database. Returns the files and the contents that they must be read as.
///
/// # Errors
///
/// None, unless the engine is broken.
pub fn write() -> Result<(Arc<SimFs>, Contents), Error> {
    let fs = Arc::new(SimFs::new());
    let db = open(&fs)?;
    let visits = db.create_column_family(FAMILIES[1])?;
    let mut contents = Contents::default();

    // A table in the last level.
    for number in 0..300u32 {
        let (key, value) =
            (format!("city/{:04}", number * 7 % 300), format!("inhabitants {}", number * number));
        db.put(&key, &value)?;
        contents[0].insert(key.into_bytes(), value.into_bytes());
    }
    db.compact()?;

    // A table in L0, with tombstones and with versions that a snapshot holds.
    let held = db.snapshot();
    for round in 0..3u32 {
        db.put("hot", format!("version {round}"))?;
    }
    contents[0].insert(b"hot".to_vec(), b"version 2".to_vec());
    let middle = db.snapshot();
    for number in (0..300u32).step_by(50) {
        let key = format!("city/{number:04}");
        db.delete(&key)?;
        contents[0].remove(key.as_bytes());
    }
    db.put("hot", "version 3")?;
    contents[0].insert(b"hot".to_vec(), b"version 3".to_vec());
    visits.put("Київ", [0, 9, 10, 13, 92, 127, 128, 255])?;
    contents[1].insert("Київ".as_bytes().to_vec(), vec![0, 9, 10, 13, 92, 127, 128, 255]);
    db.flush()?;
    drop((held, middle));

    // The log holds single writes, and a batch over both families.
    db.put("", "the empty key")?;
    db.put("empty value", "")?;
    let mut batch = WriteBatch::new();
    batch.put("hot", "version 4").delete("city/0001").delete("never there");
    batch.put_in(&visits, "large", vec![b'x'; 3000]).delete_in(&visits, "Київ");
    db.write_with(batch, Durability::Sync)?;
    contents[0].insert(Vec::new(), b"the empty key".to_vec());
    contents[0].insert(b"empty value".to_vec(), Vec::new());
    contents[0].insert(b"hot".to_vec(), b"version 4".to_vec());
    contents[0].remove(b"city/0001".as_slice());
    contents[1] = BTreeMap::from([(b"large".to_vec(), vec![b'x'; 3000])]);
    db.close()?;
    Ok((fs, contents))
}

/// Writes a database in which a log holds records that were written back. Returns the files and the contents that they must be
/// read as.
///
/// # Errors
///
/// None, unless the engine is broken.
pub fn write_with_copies() -> Result<(Arc<SimFs>, Contents), Error> {
    let fs = Arc::new(SimFs::new());
    let (env, _) = env_over(fs.clone(), SEED);
    let options = Options::new()
        .tuning(|tuning| tuning.memory_policy(MemoryPolicy::Eager).log_bytes(16 << 10))
        .env(env);
    let db = options.open(DIR)?;
    let visits = db.create_column_family(FAMILIES[1])?;
    let mut contents = Contents::default();
    db.put("deleted", "long ago")?;
    db.flush()?;
    db.delete("deleted")?;
    for number in 0..5u32 {
        let (key, value) = (format!("cold/{number}"), format!("value {number}"));
        db.put(&key, &value)?;
        contents[0].insert(key.into_bytes(), value.into_bytes());
    }
    visits.put("Київ", "")?;
    contents[1].insert("Київ".as_bytes().to_vec(), Vec::new());
    for round in 0.. {
        let value = vec![b'0' + (round % 10) as u8; 500];
        db.put("hot", &value)?;
        contents[0].insert(b"hot".to_vec(), value);
        db.settle()?;
        if db.stats().counts.written_back > 0 {
            break;
        }
    }
    db.put("hot", "last")?;
    contents[0].insert(b"hot".to_vec(), b"last".to_vec());
    db.close()?;
    Ok((fs, contents))
}

/// Writes a database with tables of both families that point to values in one log. Returns the files and the contents that they
/// must be read as.
///
/// # Errors
///
/// None, unless the engine is broken.
pub fn write_with_log_tables() -> Result<(Arc<SimFs>, Contents), Error> {
    let fs = Arc::new(SimFs::new());
    let (env, _) = env_over(fs.clone(), SEED);
    // Where memory has 32 MiB or more, no flush leaves values in logs.
    let options = Options::new().memtable_bytes(16 << 20);
    let db = options.tuning(|tuning| tuning.log_table_percent(10)).env(env).open(DIR)?;
    let visits = db.create_column_family(FAMILIES[1])?;
    let mut contents = Contents::default();
    for round in 0..2u32 {
        for number in 0..8u32 {
            let key = format!("key {number}");
            let value = format!("value {number} of round {round}, {}", "long ".repeat(20 + number as usize));
            db.put(&key, &value)?;
            contents[0].insert(key.into_bytes(), value.into_bytes());
            let value = vec![number as u8; 150];
            visits.put([0xff, number as u8], &value)?;
            contents[1].insert(vec![0xff, number as u8], value);
        }
        db.put("small", "stays in the table")?;
        contents[0].insert(b"small".to_vec(), b"stays in the table".to_vec());
        db.delete("key 5")?;
        contents[0].remove(b"key 5".as_slice());
        db.flush()?;
    }
    db.put("key 1", "from the log that is replayed")?;
    contents[0].insert(b"key 1".to_vec(), b"from the log that is replayed".to_vec());
    db.close()?;
    Ok((fs, contents))
}

/// Writes a database with values in tables, in logs and in value files, of which one holds dead values. Returns the files and the
/// contents that they must be read as.
///
/// # Errors
///
/// None, unless the engine is broken.
pub fn write_with_value_files() -> Result<(Arc<SimFs>, Contents), Error> {
    let fs = Arc::new(SimFs::new());
    let mut contents = Contents::default();
    let [rows, visited] = &mut contents;
    // The second open writes a manifest that begins with the value files of the first life.
    for life in 0..2usize {
        let options = Options::new().env(env_over(fs.clone(), SEED).0).tuning(|tuning| {
            tuning.separation_threshold(Some(400)).log_table_percent(10).hot_keys_percent(0)
        });
        let db = options.open(DIR)?;
        let visits = db.create_column_family(FAMILIES[1])?;
        let mut put = |name: &str, number: usize, words: usize| {
            let key = format!("{name} {number:02}");
            let value = format!("{name} value {number} of life {life}, {}", "long ".repeat(words));
            rows.insert(key.clone().into_bytes(), value.clone().into_bytes());
            db.put(key, value)
        };
        for number in life * 10..life * 10 + 10 {
            put("large", number, 80 + number)?;
            put("medium", number, 30)?;
            put("small", number, 1)?;
        }
        visits.put("Київ", vec![life as u8; 500])?;
        visited.insert("Київ".as_bytes().to_vec(), vec![life as u8; 500]);
        if life > 0 {
            put("large", 2, 90)?;
            db.delete("large 05")?;
            db.flush()?;
            // This merge reads the old and the new version of each overwritten key.
            db.compact()?;
            // The last table points into a value file and a log. No merge reads the values that it overwrites.
            put("large", 7, 100)?;
            put("medium", 7, 40)?;
            db.flush()?;
            put("large", 8, 110)?;
            rows.remove(b"large 05".as_slice());
        } else {
            db.compact()?;
        }
        db.close()?;
    }
    Ok((fs, contents))
}

/// Writes a database whose process was killed twice, so that a recovery has cut its first log. Returns the files and the
/// contents that they must be read as.
///
/// # Errors
///
/// None, unless the engine is broken.
pub fn write_recovered() -> Result<(Arc<SimFs>, Contents), Error> {
    let mut fs = Arc::new(SimFs::new());
    let mut contents = Contents::default();
    for life in 0..2u32 {
        let (env, _) = env_over(fs.clone(), SEED);
        let db = Options::new().env(env).open(DIR)?;
        let visits = db.create_column_family(FAMILIES[1])?;
        for number in 0..12u32 {
            let (key, value) = (format!("key {number}"), format!("value {number} of life {life}"));
            let durability = if number == 4 { Durability::Sync } else { Durability::Buffer };
            let mut batch = WriteBatch::new();
            batch.put(&key, &value).put_in(&visits, &key, "seen");
            db.write_with(batch, durability)?;
            contents[0].insert(key.clone().into_bytes(), value.into_bytes());
            contents[1].insert(key.into_bytes(), b"seen".to_vec());
        }
        let killed = fs.without_process();
        drop((visits, db));
        fs = Arc::new(killed);
    }
    cut_space(&fs);
    Ok((fs, contents))
}

/// Writes a database in which a flush kept hot keys behind the cut of a recovery. Another family's only record is still in the first log.
/// Returns the files and the contents that they must be read as.
///
/// # Errors
///
/// None, unless the engine is broken.
pub fn write_hot_after_recovery() -> Result<(Arc<SimFs>, Contents), Error> {
    // The last flush comes between writes `HOT_UNTIL` and `WRITES`.
    const HOT_UNTIL: u32 = 500;
    const WRITES: u32 = 620;
    let mut fs = Arc::new(SimFs::new());
    let mut contents = Contents::default();
    let options = |fs: &Arc<SimFs>| {
        let options =
            Options::new().tuning(|tuning| tuning.memory_policy(MemoryPolicy::None).hot_keys_percent(10));
        options
            .memtable_bytes(8 << 10)
            .tuning(|tuning| tuning.log_table_percent(0))
            .env(env_over(fs.clone(), SEED).0)
    };
    {
        let db = options(&fs).open(DIR)?;
        db.create_column_family(FAMILIES[1])?.put("idle", "since the first life")?;
        contents[1].insert(b"idle".to_vec(), b"since the first life".to_vec());
        let killed = fs.without_process();
        drop(db);
        fs = Arc::new(killed);
    }
    let db = options(&fs).open(DIR)?;
    for number in 0..WRITES {
        // Every other write before `HOT_UNTIL` goes to one of six keys. Later writes go to other keys, so after the kill the hot keys are
        // only in the copies that the flush wrote to the log.
        let key = if number % 2 == 0 || number >= HOT_UNTIL { 100 + number } else { number % 12 / 2 };
        let (key, value) = (format!("key {key}"), format!("{number:040}"));
        db.put(&key, &value)?;
        contents[0].insert(key.into_bytes(), value.into_bytes());
        if number % 50 == 49 {
            db.settle()?;
        }
    }
    let counts = db.stats().counts;
    assert!(counts.flushes > 0 && counts.hot_kept > 0, "{counts:?}");
    let killed = fs.without_process();
    drop(db);
    let fs = Arc::new(killed);
    cut_space(&fs);
    Ok((fs, contents))
}

/// Writes a database with cells on a slow tier: a family whose values lie in tables, and one with value files. The upper levels hold newer
/// versions. Returns the files and the contents that they must be read as.
///
/// # Errors
///
/// None, unless the engine is broken.
pub fn write_with_tiers() -> Result<(Arc<SimFs>, Contents), Error> {
    let fs = Arc::new(SimFs::new());
    let options = Options::new().env(env_over(fs.clone(), SEED).0).memtable_bytes(8 << 10).tuning(|tuning| {
        tuning.table_bytes(4 << 10).separation_threshold(Some(200)).log_table_percent(0).hot_keys_percent(0)
    });
    let db = options.slow_path(SLOW_DIR).fast_share(40).open(DIR)?;
    let visits = db.create_column_family(FAMILIES[1])?;
    let mut contents = Contents::default();
    for round in 0..2u32 {
        for number in
            (0..120u32).map(|number| number * 77 % 120).filter(|number| round == 0 || number % 9 == 0)
        {
            let key = format!("key {number:03}");
            let values = [90, 240].map(|len| format!("{number} of round {round} {}", "-".repeat(len)));
            db.put(&key, &values[0])?;
            visits.put(&key, &values[1])?;
            for (held, value) in contents.iter_mut().zip(values) {
                held.insert(key.clone().into_bytes(), value.into_bytes());
            }
        }
        if round == 0 {
            db.compact()?;
            db.settle()?;
        }
    }
    db.delete("key 005")?;
    contents[0].remove(b"key 005".as_slice());
    db.flush()?;
    db.close()?;
    Ok((fs, contents))
}

/// Cuts off the zeros behind the end of logs. They need not be checked in.
fn cut_space(fs: &SimFs) {
    for path in fs.files().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "log")) {
        let bytes = fs.read_file(&path).expect("it is there");
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        // Keeps 8 bytes more, because a footer ends with a length of 8 bytes, most of which are zero.
        fs.write_file(&path, &bytes[..bytes.len().min(end + 8)]).expect("it is there");
    }
}

/// Opens the database on the files of `fs`.
///
/// # Errors
///
/// As [`Options::open`].
pub fn open(fs: &Arc<SimFs>) -> Result<Db, Error> {
    let (env, _) = env_over(fs.clone(), SEED);
    // Small blocks give a small table several blocks.
    Options::new().tuning(|tuning| tuning.block_bytes(1 << 10)).memtable_bytes(1 << 20).env(env).open(DIR)
}

/// Verifies the database in [`DIR`], which is not open.
///
/// # Errors
///
/// As [`Options::verify`].
pub fn verify(fs: &Arc<SimFs>) -> Result<VerifyReport, Error> {
    let (env, _) = env_over(fs.clone(), SEED);
    Options::new().env(env).verify(DIR)
}

/// Reads the whole database forward, backward and by key, and checks that all agree.
///
/// # Errors
///
/// Errors of the reads.
pub fn read(db: &Db) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    for (name, held) in FAMILIES.iter().zip(&mut contents) {
        let family = db.column_family(name)?;
        for entry in family.iter() {
            let (key, value) = entry?;
            held.insert(key, value.to_vec());
        }
        for entry in family.iter().rev() {
            let (key, value) = entry?;
            assert_eq!(held.get(&key).map(Vec::as_slice), Some(&*value), "both directions see the same");
            let got = family.get(&key)?.expect("a scan showed the key");
            assert_eq!(got, value, "a get sees what a scan sees");
        }
    }
    Ok(contents)
}

/// The database's files, by name, without the lock.
///
/// # Errors
///
/// Errors of the file system.
pub fn files(fs: &dyn FileSystem, dir: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs.list(dir)?.into_iter().filter(|entry| !entry.is_dir && entry.name != "LOCK") {
        let file = fs.open(&dir.join(&entry.name))?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(0, &mut bytes)?;
        files.insert(entry.name, bytes);
    }
    Ok(files)
}

/// Copies files to where [`open`] finds them.
///
/// # Errors
///
/// Errors of the file system.
pub fn place(files: &BTreeMap<String, Vec<u8>>) -> io::Result<Arc<SimFs>> {
    let fs = Arc::new(SimFs::new());
    fs.create_dir_all(Path::new(DIR))?;
    for (name, bytes) in files {
        fs.write_file(&Path::new(DIR).join(name), bytes)?;
    }
    Ok(fs)
}

/// A function that writes a golden database.
pub type Write = fn() -> Result<(Arc<SimFs>, Contents), Error>;

/// The golden databases, by the names of their directories.
pub const ALL: [(&str, Write); 7] = [
    ("format-1", write),
    ("format-1-written-back", write_with_copies),
    ("format-1-log-tables", write_with_log_tables),
    ("format-1-value-files", write_with_value_files),
    ("format-1-recovered", write_recovered),
    ("format-1-hot-after-recovery", write_hot_after_recovery),
    ("format-1-tiers", write_with_tiers),
];

/// Writes the golden databases into a directory of the real file system that holds none of their files yet. Returns the paths.
///
/// # Errors
///
/// Errors of the file system.
pub fn save(to: &dyn FileSystem, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for (name, write) in ALL {
        let (fs, _) = write().map_err(io::Error::other)?;
        paths.extend(save_dir(to, &dir.join(name), &fs, Path::new(DIR))?);
        if fs.files().iter().any(|file| file.starts_with(SLOW_DIR)) {
            paths.extend(save_dir(to, &dir.join(format!("{name}-slow")), &fs, Path::new(SLOW_DIR))?);
        }
    }
    Ok(paths)
}

/// Copies the files of one directory.
fn save_dir(to: &dyn FileSystem, dir: &Path, fs: &SimFs, from: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    to.create_dir_all(dir)?;
    for (name, bytes) in files(fs, from)? {
        let path = dir.join(name);
        let file = to.create(&path)?;
        file.append(&bytes)?;
        file.sync_data()?;
        paths.push(path);
    }
    to.sync_dir(dir)?;
    Ok(paths)
}
