//! Every store behaves as a map does, tells when it has settled, and refuses what it cannot open.

#[path = "../../../../crates/braidb-cli/tests/command/common/run.rs"]
#[allow(dead_code, reason = "the tests of the commands use the rest")]
pub mod run;

use super::*;
use braidb_bench::draws::{Noise, mix};
use run::Place;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Sizes at which a few megabytes are flushed and merged.
const SMALL: Settings = Settings { memtable_bytes: 256 << 10, cache_bytes: 8 << 20, sync: false };

/// Bytes of the largest value that tests write. BraidDB keeps it apart from its key.
const LARGEST: usize = 2048;

/// The stores that are part of this program, and those whose shared object is there.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::value_variants().iter().copied().filter(|kind| kind.origin().is_ok())
}

/// A directory for a test of a store.
fn place(test: &str, kind: Kind) -> Place {
    Place::new(&format!("rivals-{test}-{}", kind.name()))
}

type Model = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// A key of 1 to 5 bytes, so that some keys are prefixes of others and many are hit twice.
fn key(random: u64) -> Vec<u8> {
    const BYTES: [u8; 4] = [0, b'a', b'b', 0xff];
    let bytes = 1 + mix(random) % 5;
    (0..bytes).map(|place| BYTES[mix(random ^ place) as usize % BYTES.len()]).collect()
}

/// Does one random operation on the store and the model, and compares reads.
fn operate(store: &dyn Store, model: &mut Model, random: u64, noise: &Noise) {
    let family = mix(random ^ 0xf) as usize % model.len();
    let (key, map) = (key(random), &mut model[family]);
    match random % 10 {
        0..5 => {
            let value = noise.value(random, mix(random ^ 1) as usize % LARGEST);
            store.put(family, &key, value).unwrap();
            map.insert(key, value.to_vec());
        }
        5 => {
            store.delete(family, &key).unwrap();
            map.remove(&key);
        }
        6..9 => {
            let mut seen = None;
            let is_there = store.get(family, &key, &mut |value| seen = Some(value.to_vec())).unwrap();
            assert_eq!(seen.as_ref(), map.get(&key));
            assert_eq!(is_there, seen.is_some());
        }
        _ => compare_from(store, map, family, &key, mix(random ^ 2) as usize % 20),
    }
}

fn compare_from(
    store: &dyn Store,
    map: &BTreeMap<Vec<u8>, Vec<u8>>,
    family: usize,
    from: &[u8],
    limit: usize,
) {
    let mut seen = Vec::new();
    let count = store.scan(family, from, limit, &mut |key, value| seen.push((key.to_vec(), value.to_vec())));
    let expected = map.range(from.to_vec()..).take(limit).map(|(key, value)| (key.clone(), value.clone()));
    assert_eq!(count.unwrap(), seen.len());
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

#[test]
fn stores_do_what_a_map_does() {
    let noise = Noise::new(1, LARGEST);
    for kind in kinds() {
        for families in [1, 3] {
            let place = place("model", kind);
            let mut model = vec![BTreeMap::new(); families];
            for session in 0..4 {
                let store = kind.open_with(&place.path("db"), families, &SMALL).unwrap();
                for (family, map) in model.iter().enumerate() {
                    compare_from(&*store, map, family, b"", usize::MAX);
                }
                for operation in 0..400 {
                    operate(&*store, &mut model, mix(session << 32 | operation), &noise);
                }
            }
            assert!(model.iter().all(|map| map.len() > 20), "{kind:?}: {}", model[0].len());
        }
    }
}

#[test]
fn stores_settle_and_tell_when() {
    const BYTES: u64 = 1100;
    const PUTS: u64 = 6000;
    let noise = Noise::new(2, BYTES as usize);
    for kind in kinds() {
        let place = place("settle", kind);
        let store = kind.open_with(&place.path("db"), 1, &SMALL).unwrap();
        let before = store.counts();
        for put in 0..PUTS {
            store.put(0, &mix(put).to_be_bytes(), noise.value(put, BYTES as usize)).unwrap();
        }
        let marks = Cell::new(0);
        store.settle(&mut || marks.set(marks.get() + 1)).unwrap();
        assert!(marks.get() > 0, "{kind:?}");
        let after = store.counts();
        let names =
            |counts: &[(String, u64)]| counts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after), "{kind:?}");
        assert!(before.iter().zip(&after).all(|(before, after)| before.1 <= after.1), "{kind:?}");
        assert!(before.is_empty() || before != after, "{kind:?} counted nothing");
        let settled = files_below(&place.path("db"));
        std::thread::sleep(Duration::from_millis(100));
        // Files may vanish, but no file is created, and no file changes its size.
        let later = files_below(&place.path("db"));
        assert!(later.iter().all(|(path, bytes)| settled.get(path) == Some(bytes)), "{kind:?}: {later:?}");
        for put in 0..PUTS {
            let mut is_right = false;
            let expected = noise.value(put, BYTES as usize);
            store.get(0, &mix(put).to_be_bytes(), &mut |value| is_right = value == expected).unwrap();
            assert!(is_right, "{kind:?}: put {put}");
        }
    }
}

/// All files with their bytes. A file that vanishes meanwhile is left out.
fn files_below(dir: &Path) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let Ok(metadata) = fs::metadata(&path) else { continue };
        match metadata.is_dir() {
            true => files.extend(files_below(&path)),
            false => drop(files.insert(path, metadata.len())),
        }
    }
    files
}

#[test]
fn what_cannot_be_opened_is_an_error() {
    for kind in kinds() {
        let place = place("foreign", kind);
        let file = place.path("file");
        fs::write(&file, "not a directory").unwrap();
        let below_missing = place.path("missing/db");
        for (path, told) in
            [(&file, "is not a directory"), (&below_missing, "its parent has to be a directory")]
        {
            let error = kind.open(path, 1, false).err().expect("there is nothing to open").to_string();
            assert!(error.contains(told) && error.contains(path.to_str().unwrap()), "{kind:?}: {error}");
        }
        assert!(!below_missing.exists() && fs::read(&file).unwrap() == b"not a directory");

        kind.open_with(&place.path("db"), 1, &SMALL).unwrap().put(0, b"key", b"value").unwrap();
        for path in files_below(&place.path("db")).into_keys() {
            fs::write(path, "not what a store writes\n".repeat(1000)).unwrap();
        }
        let error = kind
            .open_with(&place.path("db"), 1, &SMALL)
            .err()
            .expect("nothing of the store is left")
            .to_string();
        assert!(
            error.contains(place.path("db").to_str().unwrap()) && error.contains(&kind.name()),
            "{kind:?}: {error}"
        );
    }
}

#[test]
fn puts_that_sync_are_puts() {
    for kind in kinds() {
        let place = place("sync", kind);
        let store = kind.open(&place.path("db"), 2, true).unwrap();
        store.put(1, b"key", b"value").unwrap();
        store.put(1, b"other", b"value").unwrap();
        store.delete(1, b"other").unwrap();
        drop(store);
        let (store, mut keys) = (kind.open(&place.path("db"), 2, true).unwrap(), Vec::new());
        assert_eq!(store.scan(1, b"", 9, &mut |key, _| keys.push(key.to_vec())).unwrap(), 1, "{kind:?}");
        assert_eq!(keys, [b"key"], "{kind:?}");
    }
}

/// LevelDB and the stores that came from it return a value with a flipped bit. Their variants that check return an error.
#[test]
fn checked_stores_find_a_flipped_bit() {
    const BYTES: usize = 1000;
    const PUTS: u64 = 2000;
    let (noise, key) = (Noise::new(3, BYTES), 0_u64.to_be_bytes());
    let value = noise.value(0, BYTES);
    let checked = [Kind::LeveldbChecked, Kind::HyperleveldbChecked, Kind::PebblesdbChecked];
    let kinds = [Kind::Leveldb, Kind::Hyperleveldb, Kind::Pebblesdb].into_iter().zip(checked);
    for (kind, checked) in kinds.filter(|(kind, _)| kind.origin().is_ok()) {
        let place = place("flipped", kind);
        let store = kind.open_with(&place.path("db"), 1, &SMALL).unwrap();
        for put in 0..PUTS {
            store.put(0, &put.to_be_bytes(), noise.value(put, BYTES)).unwrap();
        }
        store.settle(&mut || ()).unwrap();
        drop(store);
        let read = |kind: Kind| -> Outcome<(Vec<u8>, usize)> {
            let (store, mut seen) = (kind.open_with(&place.path("db"), 1, &SMALL)?, Vec::new());
            store.get(0, &key, &mut |value| seen = value.to_vec())?;
            Ok((seen, store.scan(0, &key, 1, &mut |_, _| ())?))
        };
        assert_eq!(read(checked).unwrap(), (value.to_vec(), 1), "{checked:?}");
        for path in files_below(&place.path("db")).into_keys() {
            let mut content = fs::read(&path).unwrap();
            if let Some(at) = content.windows(BYTES).position(|window| window == value) {
                content[at + BYTES / 2] ^= 1;
                fs::write(path, content).unwrap();
            }
        }
        let (seen, scanned) = read(kind).unwrap();
        assert!(seen != value && seen.len() == BYTES && scanned == 1, "{kind:?}");
        let error = read(checked).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{checked:?}: {error}");
    }
}

#[test]
fn a_store_that_cannot_be_loaded_says_what_it_wants() {
    for kind in [Kind::Hyperleveldb, Kind::Pebblesdb, Kind::Rocksdb] {
        let place = place("without", kind);
        let variable = format!("RIVALS_{}", kind.name().to_uppercase());
        match kind.origin() {
            Ok(origin) => assert!(origin.unwrap().contains("loaded from"), "{kind:?}"),
            Err(error) => {
                assert!(error.to_string().contains(&variable), "{error}");
                assert!(
                    kind.open(&place.path("db"), 1, false).err().unwrap().to_string().contains(&variable)
                );
                assert!(!place.path("db").exists());
            }
        }
    }
}
