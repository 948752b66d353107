//! The option `memory_limit` on a real machine: the most memory that the process has while it fills a database, reads it and scans it.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the memory is that of a real process, and a thread beside the engine asks for it"
)]

use braidb::{Db, Options};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const KEYS: u64 = 20_000_000;
const FAMILIES: u64 = 5_000;
/// Tells the child which load it runs.
const LOAD: &str = "BRAIDB_MEMORY_LOAD";

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Bytes of memory that the process has for itself. Pages of mapped logs are in the page cache, and the kernel takes them away when it needs
/// them.
fn own_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Runs a load and prints the most memory that it took.
fn watch(name: &str, limit_bytes: usize, load: impl FnOnce()) {
    let (is_over, most) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                most.fetch_max(own_bytes(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        load();
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{name}-share {:.3}", most.load(Ordering::Relaxed) as f64 / limit_bytes as f64);
}

/// Fills, reads and scans 20 million keys of 16 + 100 bytes.
fn many_keys(dir: &Path, limit_bytes: usize) {
    let db = Options::new().memory_limit(Some(limit_bytes)).open(dir).unwrap();
    let mut value = [7; 100];
    watch("fill", limit_bytes, || {
        for number in 0..KEYS {
            value[..8].copy_from_slice(&number.to_be_bytes());
            db.put(key(number), value).unwrap();
        }
    });
    watch("gets", limit_bytes, || {
        for number in 0..KEYS / 4 {
            assert!(db.get(key(number * 2_654_435_761 % KEYS)).unwrap().is_some());
        }
    });
    watch("scans", limit_bytes, || assert_eq!(db.iter().count() as u64, KEYS));
    let stats = db.stats();
    println!(
        "table-mb {:.1}\ncache-limit-mb {:.1}",
        stats.table_memory_bytes as f64 / 1e6,
        stats.cache_limit_bytes as f64 / 1e6
    );
}

/// Writes a million keys to 5,000 families in turns, and reads them.
fn many_families(dir: &Path, limit_bytes: usize) {
    let db: Db = Options::new().memory_limit(Some(limit_bytes)).open(dir).unwrap();
    watch("families", limit_bytes, || {
        let families: Vec<_> = (0..FAMILIES)
            .map(|number| db.create_column_family(&format!("family-{number}")).unwrap())
            .collect();
        for number in 0..FAMILIES * 200 {
            families[(number % FAMILIES) as usize].put(key(number), [7; 100]).unwrap();
        }
        for number in 0..FAMILIES * 200 {
            assert!(families[(number % FAMILIES) as usize].get(key(number)).unwrap().is_some());
        }
    });
}

#[test]
#[ignore = "takes minutes; `braidb-lab regress bridges-memory`"]
fn the_limit_holds() {
    let dir = std::env::temp_dir().join(format!("braidb-memory-limit-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    match std::env::var(LOAD).as_deref() {
        Ok("keys") => many_keys(&dir, 256 << 20),
        Ok("families") => many_families(&dir, 256 << 20),
        // Each load has a process of its own, because memory that a load freed may stay with the process.
        _ => {
            for load in ["keys", "families"] {
                let mut child = Command::new(std::env::current_exe().unwrap());
                child.args(["the_limit_holds", "--exact", "--ignored", "--nocapture"]).env(LOAD, load);
                assert!(child.status().unwrap().success(), "{load}");
            }
        }
    }
    let _ = fs::remove_dir_all(&dir);
}
