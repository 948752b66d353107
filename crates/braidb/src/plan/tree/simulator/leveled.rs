//! The leveled policy.

use super::*;
use crate::base::key::Span;

#[test]
fn a_sequential_fill_merges_not_a_byte() {
    let mut sim = Simulator::new();
    for key in 0..60_000 {
        sim.put(key);
        sim.settle();
    }
    assert_eq!(sim.merged_bytes, 0);
    assert!(sim.moves > 500);
    let bytes = sim.level_bytes();
    assert!(bytes[0] < 4 * 10_000 && bytes[3] > bytes[2], "{bytes:?}");
    assert_eq!(sim.version().slices().count(), 600);
    sim.check(60_000);
}

#[test]
fn a_random_fill_keeps_levels_at_their_targets() {
    let mut sim = Simulator::new();
    let mut rng = Rng(42);
    for _ in 0..60_000 {
        sim.put(rng.below(1 << 40));
        sim.settle();
    }
    let bytes = sim.level_bytes();
    // The data are 150 times L1's target: four levels, each at most a tenth of the next.
    assert_eq!(sim.version().last_level(), 4, "{bytes:?}");
    assert!(bytes[0] < 40_000 && bytes[1] <= 40_000, "{bytes:?}");
    assert!(bytes[2] <= bytes[4] / 100 && bytes[3] <= bytes[4] / 10, "{bytes:?}");
    assert!(bytes.iter().sum::<u64>() <= bytes[4] * 5 / 4, "{bytes:?}");
    let amplification = sim.merged_bytes as f64 / sim.flushed_bytes as f64;
    assert!((4.0..12.0).contains(&amplification), "{amplification}");
    let keys: Vec<u64> = sim.model.keys().copied().collect();
    for key in keys {
        assert_eq!(sim.get(key), sim.model.get(&key).copied());
    }
}

#[test]
fn overlapping_jobs_keep_every_key_in_order() {
    for seed in 1..=12 {
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15 ^ seed);
        let mut sim = Simulator::new();
        let keys = 5_000;
        for step in 0..20_000 {
            let key = match rng.below(4) {
                0 => step % keys,
                1 => rng.below(keys / 10),
                _ => rng.below(keys),
            };
            match rng.below(100) {
                0..30 => sim.delete(key),
                30 if sim.snapshots.len() < 3 => sim.snapshots.push(sim.seq),
                31 if !sim.snapshots.is_empty() => drop(sim.snapshots.remove(0)),
                _ => sim.put(key),
            }
            if step % 20 == 0
                && sim.running.len() < 3
                && let Some(plan) = sim.propose()
            {
                sim.start(plan);
            }
            if rng.below(40) == 0 && !sim.running.is_empty() {
                let at = rng.below(sim.running.len() as u64) as usize;
                sim.finish(at);
            }
        }
        sim.check(keys);
        sim.settle();
        sim.check(keys);
        sim.snapshots.clear();
        sim.compact();
        sim.check(keys);
        let version = sim.version();
        let filled = version.levels().filter(|level| !level.is_empty()).count();
        let totals = version.level(version.last_level()).totals();
        assert_eq!(
            (filled, totals.entries, totals.tombstones),
            (1, sim.model.len() as u64, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn a_compaction_cleans_a_lone_last_level_as_far_as_readers_allow() {
    let mut sim = Simulator::new();
    (0..1_000).for_each(|key| sim.put(key));
    sim.snapshots.push(sim.seq);
    (0..1_000).for_each(|key| if key % 2 == 0 { sim.put(key) } else { sim.delete(key) });
    sim.compact();
    let entries = |sim: &Simulator| sim.version().slices().map(|slice| slice.entries).sum::<u64>();
    assert_eq!(entries(&sim), 2_000, "the reader sees the first thousand");
    sim.snapshots.clear();
    let before = sim.merged_bytes;
    sim.compact();
    assert_eq!(entries(&sim), 500);
    assert!(sim.merged_bytes > before);
    let clean = sim.merged_bytes;
    sim.compact();
    assert_eq!(sim.merged_bytes, clean, "there is nothing left to do");
}

#[test]
fn deleting_gives_space_back_without_a_compaction() {
    let mut sim = Simulator::new();
    (0..20_000).for_each(|key| {
        sim.put(key * 7_919 % 20_000);
        sim.settle();
    });
    let full: u64 = sim.level_bytes().iter().sum();
    (0..20_000).for_each(|key| {
        sim.delete(key);
        sim.settle();
    });
    let rest: u64 = sim.level_bytes().iter().sum();
    assert!(rest < full / 10, "{rest} of {full} bytes are left");
    sim.check(20_000);
}

#[test]
fn a_heavy_slice_is_not_rewritten_while_a_reader_needs_it() {
    let mut sim = Simulator::new();
    (0..1_000).for_each(|key| sim.put(key));
    sim.snapshots.push(sim.seq);
    (0..1_000).for_each(|key| sim.delete(key));
    sim.compact();
    let written = sim.merged_bytes;
    sim.settle();
    assert_eq!(sim.merged_bytes, written);
    sim.snapshots.clear();
    sim.settle();
    assert_eq!(sim.level_bytes().iter().sum::<u64>(), 0);
}

#[test]
fn l0_at_its_limit_goes_first_and_is_not_kept_waiting() {
    let mut sim = Simulator::new();
    let mut rng = Rng(7);
    // L1 far over its target, L2 with data, and jobs that are slow to finish.
    for _ in 0..30 {
        (0..400).for_each(|_| sim.put(rng.below(100_000)));
        let Some(plan) = sim.propose() else { continue };
        sim.start(plan);
        sim.finish(0);
    }
    while sim.version().level(0).runs() < sim.options.l0_stop_tables {
        sim.put(rng.below(100_000));
    }
    assert!(matches!(sim.propose(), Some(Plan::Merge(Merge { from: 0, .. }))));
    // A job on L1 is in the way of L0: no other job may take a part of L1.
    let slice = sim.version().level(1).slices().next().unwrap().2.range.clone();
    let claim = Claim { family: FAMILY, level: 1, span: Span::from(&slice), kind: Use::Take };
    let ticket = sim.claims.add(vec![claim]);
    for _ in 0..LEVELS {
        let Some(plan) = sim.propose() else { break };
        assert!(plan.claims().iter().all(|claim| claim.level > 1), "{plan:?}");
        sim.start(plan);
    }
    while !sim.running.is_empty() {
        sim.finish(0);
    }
    sim.claims.release(ticket);
    assert!(matches!(sim.propose(), Some(Plan::Merge(Merge { from: 0, .. }))));
}

/// Tables to be rewritten are rewritten on every level.
#[test]
fn tables_whose_logs_are_to_go_are_rewritten() {
    for guards in [Guards::None, Guards::Balanced] {
        let mut sim = Simulator::with(if guards == Guards::None { 1 } else { 4 }, guards);
        for step in 0..12_000 {
            sim.put(step * 7_919 % 9_000);
            if step % 20 == 0 {
                sim.settle();
            }
        }
        let tables = |sim: &Simulator| sim.version().slices().map(|slice| slice.table.id).collect();
        let levels = sim.version().levels().filter(|level| !level.is_empty()).count();
        sim.to_rewrite = tables(&sim);
        assert!(levels > 1 && sim.to_rewrite.len() > 10);
        sim.settle();
        let left: BTreeSet<FileId> = tables(&sim);
        assert!(left.is_disjoint(&sim.to_rewrite), "{guards:?}");
        sim.check(9_000);
    }
}

#[test]
fn an_empty_tree_wants_nothing() {
    let sim = Simulator::new();
    assert!(sim.propose().is_none());
    let done = sim.pick(|picker| picker.compact(&Span::ALL, SeqNo::MAX));
    assert!(matches!(done, Step::Done));
}

/// L0 cannot go down past a slice that is avoided. Then the planner keeps nothing free for the merge of L0, so deeper levels can reach
/// their targets.
#[test]
fn what_is_avoided_keeps_no_deeper_level_waiting() {
    for guards in [Guards::Sampled { top_level_bits: 6, bit_decrement: 2 }, Guards::Balanced] {
        let mut sim = Simulator::with(1, guards);
        let mut rng = Rng(42);
        for _ in 0..100 {
            (0..100).for_each(|_| sim.put(rng.below(1 << 40)));
            sim.settle();
        }
        let version = sim.version();
        let avoided = version.level(1).slices().next().unwrap().2.range.clone();
        let claim = Claim { family: FAMILY, level: 1, span: Span::from(&avoided), kind: Use::Take };
        sim.claims = sim.claims.avoiding(vec![claim]);
        sim.options.base_bytes /= 4;
        let l1_bytes = sim.level_bytes()[1];
        (0..2_000).for_each(|_| sim.put(rng.below(1 << 40)));
        sim.settle();
        assert!(sim.version().level(0).runs() > 4, "L0 waits");
        assert!(sim.version().level(1).slices().any(|(_, _, slice)| slice.range.overlaps(&avoided)));
        assert!(
            sim.level_bytes()[1] <= l1_bytes / 2,
            "{l1_bytes} bytes before, then {:?}",
            sim.level_bytes()
        );
    }
}
