//! Merges of L0 that wait for overlap.

use super::*;
use crate::plan::tree::overlap::{Verdict, estimate_permille, verdict};

/// Two trees whose L0 is merged, by two planners. The soft limit of L0 is the default.
fn trees(percent: u32) -> [Simulator; 2] {
    [Guards::None, Guards::Balanced].map(|guards| tree(1, guards, percent))
}

fn tree(runs: usize, guards: Guards, percent: u32) -> Simulator {
    let mut sim = Simulator::with(runs, guards, 4);
    sim.options.l0_slowdown_tables = 6;
    sim.options.table_bytes *= 4;
    sim.options.overlap.percent = percent;
    sim.options.defers_below_l0 = percent > 0;
    sim
}

/// Tables after which all trees here have a deep last level.
const WARM: usize = 200;

fn l0(sim: &Simulator) -> usize {
    sim.version().level(0).runs()
}

fn write_table(sim: &mut Simulator, mut key: impl FnMut() -> u64) {
    sim.put(key());
    while !sim.memtable.is_empty() {
        sim.put(key());
    }
}

/// Writes `tables` tables, and carries out all wanted plans after each. Returns the numbers of L0 tables that merges took.
fn fill(sim: &mut Simulator, tables: usize, mut key: impl FnMut() -> u64) -> Vec<usize> {
    let mut merged = Vec::new();
    for _ in 0..tables {
        write_table(sim, &mut key);
        while let Some(plan) = sim.propose() {
            if let Plan::Merge(merge) = &plan
                && merge.from == 0
            {
                merged.push(merge.inputs.iter().filter(|input| input.run.level == 0).count());
            }
            sim.start(plan);
            sim.finish(0);
        }
    }
    merged
}

#[test]
fn tables_that_share_few_keys_wait_for_more_and_go_all_at_once() {
    for (mut waits, mut counts) in trees(40).into_iter().zip(trees(0)) {
        let [waits, counts] = [(&mut waits, 6), (&mut counts, 4)].map(|(sim, tables)| {
            let mut rng = Rng(42);
            // In a small tree L0 would be merged for the space that newer entries may waste.
            fill(sim, WARM, || rng.below(1 << 40));
            let before = sim.merged_bytes;
            let merged = fill(sim, 120, || rng.below(1 << 40));
            assert!(merged.len() >= 18 && merged[1..].iter().all(|&merged| merged == tables), "{merged:?}");
            sim.merged_bytes - before
        });
        assert!(waits * 100 < counts * 97, "{waits} and {counts}");
    }
}

#[test]
fn tables_that_share_keys_do_not_wait() {
    for mut sim in trees(40) {
        let mut rng = Rng(42);
        fill(&mut sim, 50, || rng.below(3_000));
        // Nine writes of ten go to as many keys as a table has.
        let mut hot = || if rng.below(10) < 9 { 30 * rng.below(100) } else { rng.below(3_000) };
        fill(&mut sim, 8, &mut hot);
        let merged = fill(&mut sim, 40, &mut hot);
        assert!(merged.len() >= 8 && merged.iter().all(|&tables| tables <= 4), "{merged:?}");
    }
}

#[test]
fn sequential_writes_move_as_metadata_without_waiting() {
    for mut sim in trees(40).into_iter().chain([tree(4, Guards::Balanced, 40)]) {
        for key in 0..30_000 {
            sim.put(key);
            sim.settle();
            assert!(l0(&sim) < 4);
        }
        assert_eq!(sim.merged_bytes, 0);
        sim.check(30_000);
    }
}

#[test]
fn where_l0_is_handed_over_nothing_waits() {
    let [null, asked] = [0, 40].map(|percent| {
        let mut sim = tree(4, Guards::Balanced, percent);
        let mut rng = Rng(42);
        fill(&mut sim, 100, || rng.below(1 << 40));
        assert_eq!(estimate_permille(&sim.version(), &sim.options), None);
        (sim.merged_bytes, sim.moves)
    });
    assert_eq!(null, asked);
}

#[test]
fn no_merge_is_deferred_at_the_limits_of_l0() {
    for tables in [5, 6, 7, 19, 20, 25] {
        for mut sim in trees(90) {
            sim.options.overlap.tables = 1000;
            let mut rng = Rng(42);
            fill(&mut sim, WARM, || rng.below(1 << 40));
            // Flushes go on while nothing is carried out.
            while l0(&sim) < tables {
                write_table(&mut sim, || rng.below(1 << 40));
            }
            sim.settle();
            assert_eq!(l0(&sim), if tables < 6 { tables } else { 0 });
        }
    }
}

#[test]
fn tombstones_and_the_hand_do_not_wait() {
    let mut sim = tree(1, Guards::None, 40);
    let mut rng = Rng(42);
    fill(&mut sim, 60, || rng.below(1 << 40));
    sim.compact();
    let keys: Vec<u64> = sim.model.keys().step_by(7).copied().take(3 * MEMTABLE).collect();
    let mut keys = keys.chunks(MEMTABLE);
    for (puts, deletes, rest) in [(3, 1, 4), (2, 2, 0)] {
        fill(&mut sim, puts, || rng.below(1 << 40));
        (0..deletes).for_each(|_| keys.next().unwrap().iter().for_each(|&key| sim.delete(key)));
        sim.settle();
        assert_eq!(l0(&sim), rest, "{puts} tables of puts, {deletes} of deletes");
        sim.compact();
        assert_eq!(l0(&sim), 0);
    }
}

#[test]
fn a_small_family_does_not_pay_in_space() {
    // Six memtables are more than a fifth of the data: the garbage that waits in L0 goes, and not what lies below.
    let mut sim = tree(1, Guards::Balanced, 40);
    let mut null = tree(1, Guards::Balanced, 0);
    let mut rng = Rng(42);
    fill(&mut sim, 400, || rng.below(2_000));
    let mut rng = Rng(42);
    fill(&mut null, 400, || rng.below(2_000));
    assert!(sim.merged_bytes <= null.merged_bytes, "{} and {}", sim.merged_bytes, null.merged_bytes);
    assert!(sim.space() < 1.3, "{}", sim.space());
}

#[test]
fn a_verdict_goes_by_number_overlap_and_limit() {
    let mut sim = tree(1, Guards::None, 40);
    let mut key = 0;
    for tables in 1..=30 {
        (0..MEMTABLE).for_each(|_| {
            key += 1;
            sim.put(key);
        });
        let version = sim.version();
        for (merge, wait, soft) in [(4, 6, 6), (4, 6, 20), (1, 1, 20), (2, 1000, 3), (5, 4, 5), (8, 1000, 20)]
        {
            let options = &mut sim.options;
            (options.l0_merge_tables, options.overlap.tables, options.l0_slowdown_tables) =
                (merge, wait, soft);
            for permille in [None, Some(0), Some(399), Some(400), Some(1000)] {
                let slices = version.level(0).slices().map(|(_, _, slice)| slice);
                let expected = match permille {
                    _ if tables < merge => Verdict::Few,
                    None => Verdict::Due,
                    Some(400..) => Verdict::Overlap,
                    Some(_) if tables <= wait && tables < soft => Verdict::Deferred,
                    Some(_) => Verdict::Due,
                };
                assert_eq!(verdict(slices, permille, options), expected, "{tables} tables, {permille:?}");
            }
        }
    }
}

#[test]
fn the_scope_says_which_tables_are_asked() {
    let mut sim = tree(1, Guards::None, 40);
    sim.options.defers_below_l0 = false;
    // L1 has all keys. Each table of L0 has every fourth key, and no two tables share a key.
    (0..400).for_each(|key| sim.put(key));
    sim.compact();
    assert_eq!((sim.version().last_level(), estimate_permille(&sim.version(), &sim.options)), (1, None));
    for table in 0..4 {
        (0..MEMTABLE as u64).for_each(|key| sim.put(4 * key + table));
    }
    let estimate = |sim: &Simulator| estimate_permille(&sim.version(), &sim.options).unwrap();
    assert!(estimate(&sim) < 30, "{}", estimate(&sim));
    assert!(sim.propose().is_none());
    sim.options.overlap.scope = OverlapScope::L0AndL1;
    // A merge would drop half of the entries.
    assert!((470..530).contains(&estimate(&sim)), "{}", estimate(&sim));
    assert!(sim.propose().is_some());
    assert!(sim.options.wants_sketch(1) && !sim.options.wants_sketch(2));
    sim.options.overlap.scope = OverlapScope::L0;
    assert!(sim.options.wants_sketch(0) && !sim.options.wants_sketch(1));
    sim.options.overlap.percent = 0;
    assert!(!sim.options.wants_sketch(0) && estimate_permille(&sim.version(), &sim.options).is_none());
    // Deferral below L0 also asks for the estimate, of L0 alone.
    sim.options.defers_below_l0 = true;
    sim.options.overlap.scope = OverlapScope::L0AndL1;
    assert!(sim.options.wants_sketch(0) && !sim.options.wants_sketch(1));
    assert!(estimate(&sim) < 30, "{}", estimate(&sim));
}

#[test]
fn a_table_without_a_sketch_defers_no_merge() {
    let mut sim = tree(1, Guards::None, 40);
    let mut rng = Rng(42);
    sim.has_sketches = false;
    fill(&mut sim, 1, || rng.below(1 << 40));
    sim.has_sketches = true;
    let merged = fill(&mut sim, 12, || rng.below(1 << 40));
    assert_eq!(merged, [4, 6]);
}
