//! Reading where much was deleted: queues, stacks, priority queues, sweeps. Scans jump over ranges of deleted keys (*gaps*). The tests
//! bound the entries that scans step over. The machine decides when flushes and merges drop dead versions, so the bounds are wide; but a
//! scan without gaps exceeds each of them many times. The ignored tests print rates, and `braidb-lab regress` runs them.

use braidb::{Db, Options, WriteBatch};
use braidb_storage::Clock;
use braidb_storage::real::MonotonicClock;
use std::path::PathBuf;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("braidb-dead-ranges-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const VALUE: [u8; 100] = [7; 100];

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn fill(db: &Db, keys: impl Iterator<Item = u64>) {
    for n in keys {
        db.put(key(n), VALUE).unwrap();
    }
}

/// Small memory, so that the entries of a few thousand operations lie in memory and in several levels.
fn small(gaps: Option<u64>) -> Options {
    Options::new().memtable_bytes(256 << 10).tuning(|tuning| tuning.gap_entries(gaps).table_bytes(256 << 10))
}

fn pop(db: &Db, from_back: bool) -> Option<Vec<u8>> {
    let entry = if from_back { db.last() } else { db.first() };
    let (key, _) = entry.unwrap()?;
    db.delete(&key).unwrap();
    Some(key)
}

/// Entries that each of `pops` pops steps over.
fn stepped_over(db: &Db, pops: u64, mut pop: impl FnMut(u64)) -> u64 {
    let before = db.stats().counts.scan_dead_entries;
    (0..pops).for_each(&mut pop);
    (db.stats().counts.scan_dead_entries - before) / pops
}

#[test]
fn a_queue_and_a_stack_do_not_step_over_what_was_popped() {
    for from_back in [false, true] {
        let dir = Dir::new(if from_back { "stack" } else { "queue" });
        let db = small(Some(64)).open(&dir.0).unwrap();
        fill(&db, 0..10_000);
        let mut expected: Vec<u64> = (0..10_000).collect();
        if from_back {
            expected.reverse();
        }
        let steps = stepped_over(&db, 9_000, |n| {
            assert_eq!(pop(&db, from_back).unwrap(), key(expected[n as usize]));
        });
        assert!(steps <= 50, "{steps} entries a pop");
        let counts = db.stats().counts;
        let written: u64 = counts.merge_bytes.iter().sum();
        assert!(written <= 4 * counts.user_bytes, "{written} bytes merged for {}", counts.user_bytes);
    }
    let dir = Dir::new("without");
    let db = small(None).open(&dir.0).unwrap();
    fill(&db, 0..2_000);
    let steps = stepped_over(&db, 1_000, |_| drop(pop(&db, false)));
    assert!(steps > 100, "without gaps a pop steps over {steps} entries");
}

#[test]
fn a_priority_queue_jumps_although_pushes_cut_its_gap() {
    let dir = Dir::new("priority");
    let db = small(Some(64)).open(&dir.0).unwrap();
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 8
    };
    fill(&db, (0..5_000).map(|_| random()));
    let steps = stepped_over(&db, 4_000, |n| {
        drop(pop(&db, false).unwrap());
        drop(pop(&db, false).unwrap());
        // One push in three is more urgent than all that wait.
        let urgent = if n % 3 == 0 { n << 16 } else { random() };
        db.put(key(urgent), VALUE).unwrap();
    });
    assert!(steps <= 200, "{steps} entries for two pops");
}

#[test]
fn bursts_of_pushes_do_not_wear_a_gap_out() {
    let dir = Dir::new("bursts");
    let db = small(Some(64)).open(&dir.0).unwrap();
    fill(&db, 0..20_000);
    (0..10_000).for_each(|_| drop(pop(&db, true).unwrap()));
    let steps = stepped_over(&db, 20, |_| {
        fill(&db, 10_000..10_020);
        (0..20).for_each(|_| drop(pop(&db, true).unwrap()));
    });
    assert!(steps <= 20 * 100, "{steps} entries for 20 pushes and 20 pops");
}

#[test]
fn a_key_with_several_dead_versions_does_not_stop_jumps() {
    let dir = Dir::new("versions");
    let db = small(Some(64)).open(&dir.0).unwrap();
    fill(&db, 0..4_000);
    db.flush().unwrap();
    (0..3_900).for_each(|n| db.delete(key(n)).unwrap());
    assert_eq!(db.first().unwrap().unwrap().0, key(3_900));
    let steps = stepped_over(&db, 50, |n| {
        // A put, an update and a delete in the middle of the gap.
        fill(&db, [1_000 + 10 * n; 2].into_iter());
        db.delete(key(1_000 + 10 * n)).unwrap();
        assert_eq!(db.first().unwrap().unwrap().0, key(3_900));
    });
    assert!(steps <= 500, "{steps} entries for a first entry");
}

#[test]
fn push_and_pop_in_step_stays_cheap() {
    let dir = Dir::new("step");
    let db = small(Some(64)).open(&dir.0).unwrap();
    let steps = stepped_over(&db, 10_000, |n| {
        db.put(key(n), VALUE).unwrap();
        assert_eq!(pop(&db, false).unwrap(), key(n));
    });
    assert!(steps <= 100, "{steps} entries a pair");
}

#[test]
fn a_swept_range_is_stepped_over_once() {
    let dir = Dir::new("sweep");
    let db = small(Some(64)).open(&dir.0).unwrap();
    fill(&db, 0..20_000);
    let old = db.snapshot();
    for first in (5_000..15_000).step_by(1_000) {
        let mut batch = WriteBatch::new();
        (first..first + 1_000).for_each(|n| {
            batch.delete(key(n));
        });
        db.write(&batch).unwrap();
    }
    let first_after = |n: u64| db.range(key(n)..).next().unwrap().unwrap().0;
    for (reading, most) in [(1, 25_000), (2, 64)] {
        let steps = stepped_over(&db, 1, |_| assert_eq!(first_after(5_000), key(15_000)));
        assert!(steps <= most, "reading {reading} stepped over {steps}");
        // If a job held the commit lock when the first reading ended, the gaps that it offered wait for these commits.
        (0..20).for_each(|_| db.put(key(0), VALUE).unwrap());
    }
    let before = db.range(..key(15_000)).next_back().unwrap().unwrap().0;
    assert_eq!(before, key(4_999), "from the other end");
    assert_eq!(db.iter().count(), 10_000);
    assert_eq!(old.iter().count(), 20_000, "an older reader uses no gap");
    db.put(key(9_000), "back").unwrap();
    assert_eq!(first_after(5_000), key(9_000), "a put cuts the gap");
    assert_eq!(db.range(key(9_001)..).next().unwrap().unwrap().0, key(15_000));
}

/// The block where a long walk over dead entries ends is read once: the next walk jumps there, and finds it in the cache. Values lie in one
/// table, and tombstones in another.
#[test]
fn a_walk_that_jumps_over_a_swept_range_reads_no_block_again() {
    for from_back in [false, true] {
        let dir = Dir::new(if from_back { "kept-blocks-backward" } else { "kept-blocks" });
        let options = Options::new().background_merges(false);
        // Reads of values in logs would be counted too.
        let db = options.tuning(|tuning| tuning.log_table_percent(0)).open(&dir.0).unwrap();
        fill(&db, 0..20_000);
        db.flush().unwrap();
        (5_020..15_020).for_each(|n| db.delete(key(n)).unwrap());
        db.flush().unwrap();
        let blocks_read = || {
            let before = db.stats().counts.cache_misses;
            let (found, expected) = match from_back {
                false => (db.range(key(5_020)..).next(), key(15_020)),
                true => (db.range(..key(15_020)).next_back(), key(5_019)),
            };
            assert_eq!(found.unwrap().unwrap().0, expected);
            db.stats().counts.cache_misses - before
        };
        let first = blocks_read();
        // If a job held the commit lock when the walk ended, the gap that it offered waits for this commit.
        db.put(key(0), VALUE).unwrap();
        assert!(first > 10, "{first} blocks");
        assert_eq!(blocks_read(), 0, "from_back {from_back}");
    }
}

#[test]
fn readers_on_threads_see_what_was_put_before_they_began() {
    let dir = Dir::new("threads");
    let db = small(Some(1)).open(&dir.0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..4_000_u64 {
                    // Each thread owns every third key. Deleted keys of all threads lie side by side.
                    let mine = key((n % 200) * 3 + thread);
                    db.put(mine, key(n)).unwrap();
                    let found = db.range(mine..).next().unwrap().unwrap();
                    assert_eq!((&found.0[..], &found.1[..]), (&mine[..], &key(n)[..]), "own put {n}");
                    let found = db.range(..=mine).next_back().unwrap().unwrap();
                    assert_eq!(
                        (&found.0[..], &found.1[..]),
                        (&mine[..], &key(n)[..]),
                        "own put {n}, backward"
                    );
                    db.delete(mine).unwrap();
                    assert!(db.range(mine..=mine).next().is_none());
                }
            });
        }
    });
    assert!(db.first().unwrap().is_none());
    let counts = db.stats().counts;
    assert!(counts.gaps_accepted > 0, "{counts:?}");
}

/// Prints the rates of queues and sweeps, in thousands of operations a second. `braidb-lab regress` judges them.
#[test]
#[ignore = "measures, with optimization; `braidb-lab regress queues`"]
fn floors() {
    let clock = MonotonicClock::new();
    let seconds_since = |began_us: u64| (clock.now_us() - began_us) as f64 / 1e6;
    let rate = |name: &str, operations: u64, began_us: u64| {
        println!("{name} {:.1}", operations as f64 / (seconds_since(began_us) * 1_000.0));
    };
    let written = |name: &str, db: &Db| {
        let stats = db.stats();
        println!("{name}-bytes {:.2}", stats.total_written_bytes() as f64 / stats.counts.user_bytes as f64);
    };
    for from_back in [false, true] {
        let name = if from_back { "stack" } else { "queue" };
        let dir = Dir::new(name);
        let db = Db::open(&dir.0).unwrap();
        fill(&db, 0..800_000);
        let began = clock.now_us();
        (0..800_000).for_each(|_| drop(pop(&db, from_back).unwrap()));
        rate(name, 800_000, began);
        written(name, &db);
    }
    {
        let dir = Dir::new("priorities");
        let db = Db::open(&dir.0).unwrap();
        let scattered = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fill(&db, (0..1_100_000).map(scattered));
        let began = clock.now_us();
        for n in 0..300_000 {
            let (first, _) = db.range(&[][..]..).next().unwrap().unwrap();
            let mut batch = WriteBatch::new();
            batch.delete(first).put(key(scattered(1_100_000 + n)), VALUE);
            db.write(batch).unwrap();
        }
        rate("priority", 300_000, began);
        written("priority", &db);
    }
    {
        let dir = Dir::new("pairs");
        let db = Db::open(&dir.0).unwrap();
        let began = clock.now_us();
        for n in 0..500_000 {
            db.put(key(n), VALUE).unwrap();
            drop(pop(&db, false).unwrap());
        }
        rate("pairs", 500_000, began);
        written("pairs", &db);
    }
    {
        let dir = Dir::new("series");
        let db = Db::open(&dir.0).unwrap();
        let point = |series: u64, n: u64| [key(series), key(n)].concat();
        for n in 0..4_000 {
            (0..500).for_each(|series| db.put(point(series, n), VALUE).unwrap());
        }
        for series in 0..500 {
            let mut batch = WriteBatch::new();
            (0..3_000).for_each(|n| {
                batch.delete(point(series, n));
            });
            db.write(batch).unwrap();
        }
        for round in ["first", "second"] {
            let mut us: Vec<f64> = (0..500)
                .map(|series| {
                    let began = clock.now_us();
                    let found = db.range(point(series, 0)..).next().unwrap().unwrap().0;
                    assert_eq!(found, point(series, 3_000));
                    seconds_since(began) * 1e6
                })
                .collect();
            us.sort_by(f64::total_cmp);
            println!("series-{round}-us-p50 {:.1}\nseries-{round}-us-p99 {:.1}", us[250], us[494]);
        }
    }
    {
        let dir = Dir::new("million");
        let db = Db::open(&dir.0).unwrap();
        fill(&db, 0..1_000_000);
        let scan = |wanted: usize| {
            let began = clock.now_us();
            assert_eq!(db.iter().count(), wanted);
            seconds_since(began) * 1e3
        };
        scan(1_000_000);
        let living = scan(1_000_000);
        (0..1_000_000).for_each(|n| db.delete(key(n)).unwrap());
        let (first, second) = (scan(0), scan(0));
        println!(
            "million-living-ms {living:.1}\nmillion-first-ratio {:.2}\nmillion-second-ms {second:.2}",
            first / living
        );
    }
    {
        // A table with expiry by sweep: a reader asks for the first entry while a sweeper deletes.
        let dir = Dir::new("expiry");
        let db = Db::open(&dir.0).unwrap();
        fill(&db, 0..500_000);
        let mut us = Vec::new();
        for n in 0..4_000_u64 {
            let mut batch = WriteBatch::new();
            (n * 100..n * 100 + 100).for_each(|n| {
                batch.delete(key(n));
            });
            (0..20).for_each(|m| {
                batch.put(key(1_000_000 + n * 20 + m), VALUE);
            });
            db.write(batch).unwrap();
            let began = clock.now_us();
            assert_eq!(db.first().unwrap().unwrap().0, key(n * 100 + 100));
            us.push(seconds_since(began) * 1e6);
        }
        us.sort_by(f64::total_cmp);
        println!("expiry-us-p50 {:.1}\nexpiry-us-p99 {:.1}", us[2_000], us[3_960]);
    }
}

/// Processor time of the calling thread, in nanoseconds.
fn thread_ns() -> u64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    spent.split(' ').next().unwrap().parse().unwrap()
}

/// Prints how much faster or slower puts and gets are with 1,024 gaps than without gaps, and how much two databases without gaps differ.
/// `braidb-lab regress` judges the ratios.
#[test]
#[ignore = "measures, with optimization; `braidb-lab regress beside-gaps`"]
fn beside_gaps() {
    const RUNS: u64 = 1_024;
    const KEYS_A_RUN: u64 = 500;
    const DELETED_A_RUN: u64 = 70;
    let clock = MonotonicClock::new();
    let dirs = ["with", "beside", "another"].map(Dir::new);
    let open =
        |dir: &Dir, gaps| Options::new().tuning(|tuning| tuning.gap_entries(gaps)).open(&dir.0).unwrap();
    let sides = [open(&dirs[0], Some(64)), open(&dirs[1], None), open(&dirs[2], None)];
    for db in &sides {
        fill(db, 0..RUNS * KEYS_A_RUN);
        for run in 0..RUNS {
            (0..DELETED_A_RUN).for_each(|n| db.delete(key(run * KEYS_A_RUN + n)).unwrap());
        }
        db.settle().unwrap();
        assert_eq!(db.iter().count() as u64, RUNS * (KEYS_A_RUN - DELETED_A_RUN));
    }
    assert_eq!(sides[0].stats().counts.gaps_accepted, RUNS);
    let living = |n: u64| {
        let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        (n / 1_000 % RUNS) * KEYS_A_RUN + DELETED_A_RUN + n % (KEYS_A_RUN - DELETED_A_RUN)
    };
    let median = |name: &str, prepare: &dyn Fn(&Db), operation: &dyn Fn(&Db, u64)| {
        let rounds: Vec<[[f64; 2]; 3]> = (0..9)
            .map(|round| {
                let mut spent = [[0.0; 2]; 3];
                for turn in 0..3 {
                    let side = (turn + round) % 3;
                    prepare(&sides[side]);
                    let (began_us, began_ns) = (clock.now_us(), thread_ns());
                    (0..300_000).for_each(|n| operation(&sides[side], living(round as u64 * 300_000 + n)));
                    spent[side] = [(clock.now_us() - began_us) as f64, (thread_ns() - began_ns) as f64];
                }
                spent
            })
            .collect();
        let ratio = |name: String, ratio: &dyn Fn(&[[f64; 2]; 3]) -> f64| {
            let mut ratios: Vec<f64> = rounds.iter().map(ratio).collect();
            ratios.sort_by(f64::total_cmp);
            println!("{name} {:.3}\n{name}-spread {:.3}..{:.3}", ratios[4], ratios[0], ratios[8]);
        };
        for (of, which) in [("", 0), ("-cpu", 1)] {
            ratio(format!("{name}{of}-beside-gaps"), &|spent| spent[1][which] / spent[0][which]);
            ratio(format!("{name}{of}-beside-another"), &|spent| spent[1][which] / spent[2][which]);
        }
        // Two databases without gaps differ by a tenth, so the last form compares with both.
        ratio(format!("{name}-of-both"), &|spent| (spent[1][1] + spent[2][1]) / 2.0 / spent[0][1]);
    };
    let put = |db: &Db, n| db.put(key(n), VALUE).unwrap();
    let get = |db: &Db, n| assert!(db.get(key(n)).unwrap().is_some());
    let settle = |db: &Db| db.settle().unwrap();
    let empty_memory = |db: &Db| {
        db.flush().unwrap();
        db.settle().unwrap();
    };
    median("puts", &|_| (), &put);
    sides.iter().for_each(settle);
    median("gets", &|_| (), &get);
    // What the last flush left in memory differs by a third between the databases, and so does the number of gets that read tables. A flush
    // of one database also takes time from the next one. So puts and gets are measured again from an equal state.
    median("level-puts", &empty_memory, &put);
    sides.iter().for_each(empty_memory);
    median("level-gets", &|_| (), &get);
    for (side, db) in ["gaps", "none", "another"].iter().zip(&sides) {
        let counts = db.stats().counts;
        println!("table-reads-a-get-{side} {:.3}", counts.table_reads as f64 / counts.gets as f64);
    }
}
