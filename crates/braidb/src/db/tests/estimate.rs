//! Estimates of ranges: how far they are off, and what they read.

use super::executor::{Bench, options};
use std::ops::Bound;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// 20,000 keys, written in a mixed order, in several runs and in memory.
fn bench() -> Bench {
    let bench = Bench::new(options().tuning(|tuning| tuning.separation_threshold(None)));
    for number in 0..20_000_u32 {
        bench.db.put(key(number.wrapping_mul(7_919) % 20_000 * 2), [7; 60]).unwrap();
    }
    bench
}

#[test]
fn a_range_is_off_by_a_fifth_and_two_blocks_a_run_at_most() {
    let bench = bench();
    let db = &bench.db;
    let runs: usize =
        db.tree()[0].levels.iter().flat_map(|level| &level.cells).map(|cell| cell.runs.len()).sum();
    assert!(runs > 1 && db.stats().memory_bytes > 0, "{runs} runs");
    let entries_of_block = 4096 / 64;
    let misses = db.stats().counts.cache_misses;
    for (low, high) in
        [(0, 40_000), (0, 1), (5_000, 25_000), (30_000, 39_999), (12_000, 12_200), (39_998, 50_000)]
    {
        let estimate = db.estimate(key(low)..key(high)).unwrap();
        let exact = u64::from(high.min(40_000).div_ceil(2) - low.div_ceil(2));
        let most_off = exact / 5 + 2 * (runs * entries_of_block) as u64;
        assert!(
            estimate.entries.abs_diff(exact) <= most_off,
            "{low} to {high}: {estimate:?}, exactly {exact}"
        );
        assert_eq!(estimate.tombstones, 0);
    }
    assert_eq!(db.stats().counts.cache_misses, misses, "no block is read");
    let all = db.estimate(..).unwrap();
    assert_eq!(all.entries, 20_000, "what lies within the range whole is exact");
    assert!(all.bytes > 20_000 * 64 && all.value_bytes == 0);
    for beyond in
        [(Bound::Included(key(40_000)), Bound::Unbounded), (Bound::Excluded(key(39_998)), Bound::Unbounded)]
    {
        assert_eq!(db.estimate(beyond).unwrap().entries, 0);
    }
}

#[test]
fn deletes_and_value_files_are_told_apart() {
    let bench = Bench::new(options().tuning(|tuning| tuning.separation_threshold(Some(100))));
    let family = bench.db.create_column_family("large").unwrap();
    for number in 0..100_u32 {
        family.put(key(number), [7; 1_000]).unwrap();
    }
    (0..10_u32).for_each(|number| family.delete(key(number)).unwrap());
    assert_eq!(family.estimate(..).unwrap().tombstones, 10, "in memory");
    bench.db.flush().unwrap();
    let all = family.estimate(..).unwrap();
    assert!(all.value_bytes >= 90 * 1_000 && all.bytes >= 90 * 1_000, "{all:?}");
    assert!(all.tombstones <= 10 && bench.db.estimate(..).unwrap().entries == 0);
}
