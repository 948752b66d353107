//! Deferral below L0. Each test checks one decision of the switch, with overlap on and off.

use super::*;
use crate::plan::tree::leveled::FAIR;

/// Percentages of overlap to try: 0 switches overlap off, 40 is the paper's threshold.
const PERCENTS: [u32; 2] = [0, 40];

/// A leveled tree.
fn tree(percent: u32, defers_below_l0: bool) -> Simulator {
    let mut sim = Simulator::new(4);
    sim.options.l0_slowdown_tables = 6;
    sim.options.overlap.percent = percent;
    sim.options.defers_below_l0 = defers_below_l0;
    sim
}

/// Writes random keys, each once, and carries out all wanted plans. Returns the most slices that one merge took from a level
/// below L0.
fn fill(sim: &mut Simulator, entries: u64) -> usize {
    let (mut rng, mut most) = (Rng(42), 0);
    for _ in 0..entries {
        sim.put(rng.below(1 << 40));
        while let Some(plan) = sim.propose() {
            if let Plan::Merge(merge) = &plan
                && merge.from > 0
            {
                let sources = merge.inputs.iter().filter(|input| input.run.level == merge.from);
                most = most.max(sources.count());
            }
            sim.start(plan);
            sim.finish(0);
        }
    }
    most
}

#[test]
fn only_leveled_trees_that_are_told_to_defer_below_l0() {
    for (percent, defers, runs) in PERCENTS.into_iter().flat_map(|percent| {
        [false, true].into_iter().flat_map(move |defers| [1, 2].map(|runs| (percent, defers, runs)))
    }) {
        for guards in [Guards::None, Guards::Balanced] {
            let mut options = tree(percent, defers).options;
            (options.max_runs, options.guards) = ([runs; LEVELS], guards);
            let is_patient = defers && runs == 1 && guards == Guards::None;
            assert_eq!(options.is_patient(), is_patient, "{options:?}");
            assert_eq!(options.wants_sketch(0), is_patient || percent > 0 && runs == 1, "{options:?}");
        }
    }
}

/// Levels grow by one factor, and go down in stretches.
#[test]
fn levels_above_the_last_are_larger_and_go_down_in_stretches() {
    for percent in PERCENTS {
        let [defers, null] = [true, false].map(|defers| {
            let mut sim = tree(percent, defers);
            let most = fill(&mut sim, 40_000);
            assert_eq!(sim.version().last_level(), 3, "{:?}", sim.level_bytes());
            let bytes = sim.level_bytes();
            (most, bytes[2] * 1000 / bytes[3], sim.merged_bytes)
        });
        println!("figure: {percent}% overlap: {defers:?} with deferral below L0, {null:?} without");
        assert!(defers.0 > 1 && null.0 == 1, "{defers:?} {null:?}");
        assert!(null.1 <= 100 && defers.1 > 100, "{defers:?} {null:?}");
        assert!(defers.2 < null.2, "{defers:?} {null:?}");
    }
}

/// With deferral below L0, L1 is merged down before L0. A merge of L0 would write all of L1 again.
#[test]
fn l1_goes_down_before_l0_comes_into_it() {
    for percent in PERCENTS {
        let first = [true, false].map(|defers| {
            let mut sim = tree(percent, defers);
            sim.options.base_bytes = 1 << 30;
            fill(&mut sim, 40 * MEMTABLE as u64);
            // Nine tables of L0 are 2.25 times their bound; L1 is just over its own.
            let mut rng = Rng(7);
            while sim.version().level(0).runs() < 9 {
                sim.put(rng.below(1 << 40));
            }
            sim.options.base_bytes = sim.level_bytes()[1] * 3 / 4;
            let plan = sim.propose().expect("two levels are due");
            while sim.version().level(0).runs() < sim.options.l0_stop_tables {
                sim.put(rng.below(1 << 40));
            }
            let at_the_limit = sim.propose().expect("L0 is at its limit");
            assert_eq!(at_the_limit.claims()[0].level, 0);
            plan.claims()[0].level
        });
        assert_eq!(first, [1, 0], "{percent}% overlap");
    }
}

/// With deferral below L0, small flushes do not cause rewrites of L1; without it they do.
#[test]
fn small_tables_of_l0_are_gathered_until_they_are_a_fair_part_of_l1() {
    for percent in PERCENTS {
        let [gathers, null] = [true, false].map(|defers| {
            let mut sim = tree(percent, defers);
            sim.options.l0_slowdown_tables = 20;
            let mut rng = Rng(42);
            (0..30_000).for_each(|_| {
                sim.put(rng.below(20_000));
                sim.settle();
            });
            let (before, mut most) = (sim.merged_into, 0);
            for _ in 0..300 {
                (0..5).for_each(|_| sim.keep(rng.below(20_000)));
                sim.flush();
                sim.settle();
                most = most.max(sim.level_bytes()[0]);
                assert!(sim.version().level(0).runs() <= 7);
            }
            sim.check(20_000);
            let fair = 2 * sim.level_bytes()[1].max(sim.options.base_bytes) / FAIR;
            assert!(!defers || most <= fair, "{most}");
            [0, 1].map(|level| sim.merged_into[level] - before[level])
        });
        assert!(null[0] == 0 && gathers[1] > 0, "{gathers:?} {null:?}");
        assert!(gathers[0] + gathers[1] < null[1] / 4 * 3, "{gathers:?} {null:?}");
    }
}

/// Tables are small, too, if they hold equal keys. The estimate of L0 with L1, which only overlap asks for, does not tell how
/// alike the tables of L0 are.
#[test]
fn large_tables_of_the_same_keys_are_gathered() {
    let scopes = [
        (40, OverlapScope::L0),
        (0, OverlapScope::L0),
        (0, OverlapScope::L0AndL1),
        (40, OverlapScope::L0AndL1),
    ];
    let [both, alone, alone_too, unknown] = scopes.map(|(percent, scope)| {
        let mut sim = Simulator::new(4);
        let mut rng = Rng(42);
        for step in 0.. {
            if step > 30_000 && sim.memtable.is_empty() && sim.version().level(0).is_empty() {
                break;
            }
            sim.put(rng.below(20_000));
            sim.settle();
        }
        sim.options.overlap = OverlapOptions { percent, tables: 3, scope };
        sim.options.defers_below_l0 = true;
        let l1: (u64, u64) = sim
            .version()
            .level(1)
            .slices()
            .fold((0, 0), |(bytes, keys), (_, _, slice)| (bytes + slice.bytes, keys + slice.entries));
        // Four tables are a quarter more than the fair part, and one of them is much less.
        let keys = l1.1 * 5 / 4 / 4 / FAIR;
        let before = sim.merged_into;
        for _ in 0..12 {
            (0..keys).for_each(|key| sim.keep(key * (20_000 / keys)));
            sim.flush();
            sim.settle();
        }
        sim.check(20_000);
        [0, 1].map(|level| sim.merged_into[level] - before[level])
    });
    for gathers in [both, alone, alone_too] {
        assert!(gathers[0] > 0 && gathers[1] == 0, "{gathers:?} {unknown:?}");
        assert!(unknown[0] == 0 && unknown[1] > 2 * gathers[0], "{gathers:?} {unknown:?}");
    }
}

/// Without overlap no table waits in L0, although deferral below L0 asks for an estimate.
#[test]
fn without_overlap_l0_is_due_by_its_number() {
    let mut sim = tree(0, true);
    let mut rng = Rng(42);
    (0..4 * MEMTABLE).for_each(|_| sim.put(rng.below(1 << 40)));
    let (permille, verdict) = overlap::weigh(&sim.version(), &sim.options);
    assert!(permille.is_some_and(|permille| permille < 30), "{permille:?}");
    assert_eq!(verdict, overlap::Verdict::Due);
    sim.options.overlap.percent = 40;
    assert_eq!(overlap::weigh(&sim.version(), &sim.options).1, overlap::Verdict::Deferred);
}
