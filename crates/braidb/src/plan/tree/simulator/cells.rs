//! The fragmented tree.

use super::*;
use crate::version::{Cell, Run};

const SAMPLED: Guards = Guards::Sampled { top_level_bits: 10, bit_decrement: 2 };

/// Random writes, snapshots, and up to three jobs at a time that end in any order; the options change with `change`.
fn live(seed: u64, sim: &mut Simulator, change: impl Fn(u64, &mut TreeOptions)) {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15 ^ seed);
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
            32 => (0..rng.below(3)).for_each(|_| sim.pay(rng.below(keys), rng.below(100))),
            _ => sim.put(key),
        }
        change(step, &mut sim.options);
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
    let last = version.level(version.last_level());
    let totals = last.totals();
    assert_eq!((filled, totals.entries, totals.tombstones), (1, sim.model.len() as u64, 0), "seed {seed}");
    assert!(last.cells.iter().all(|cell| cell.runs.len() <= 1), "seed {seed}");
}

#[test]
fn overlapping_jobs_keep_every_key_in_order() {
    let mut together = 0;
    for (runs, guards) in [1, 2, 4, 8]
        .into_iter()
        .flat_map(|runs| [Guards::None, Guards::Balanced, SAMPLED].map(|guards| (runs, guards)))
    {
        for seed in 1..=3 {
            let mut sim = Simulator::with(runs, guards);
            live(seed, &mut sim, |_, _| {});
            assert!(sim.deepest_cell <= 2 * runs + 2, "{} runs with a bound of {runs}", sim.deepest_cell);
            assert_eq!(guards == Guards::None, sim.splits == 0, "{runs} {guards:?}");
            together += sim.together;
        }
    }
    assert!(together > 1_000, "{together} merges ran beside another");
}

#[test]
fn options_change_within_a_life() {
    for seed in 1..=6 {
        let mut sim = Simulator::with(4, Guards::Balanced);
        let choices = [Guards::Balanced, Guards::None, SAMPLED];
        live(seed, &mut sim, |step, options| {
            if step % 1_000 == 0 {
                let turn = (step / 1_000 + seed) as usize;
                options.max_runs = [[1, 4, 8, 2][turn % 4]; LEVELS];
                options.max_runs[1 + turn % 3] = 1 + turn % 5;
                options.guards = choices[turn % 3];
            }
        });
        assert!(sim.deepest_cell <= 2 * 8 + 2, "{}", sim.deepest_cell);
    }
}

/// The trees that the fragmented policy plans, all with cells of `table_memtables` memtables.
fn trees(table_memtables: u64) -> impl Iterator<Item = Simulator> {
    let guards = [Guards::None, Guards::Balanced, SAMPLED];
    let trees = [2, 4, 8].into_iter().flat_map(move |runs| guards.map(|guards| (runs, guards)));
    trees.map(move |(runs, guards)| {
        let mut sim = Simulator::with(runs, guards);
        sim.options.table_bytes *= table_memtables;
        sim
    })
}

fn describe(sim: &Simulator) -> String {
    let TreeOptions { max_runs, guards, table_bytes, .. } = sim.options;
    format!("{} runs, {guards:?}, cells of {table_bytes} bytes", max_runs[1])
}

/// Puts the keys, and carries out all wanted plans after each flush.
fn put_and_settle(sim: &mut Simulator, keys: impl Iterator<Item = u64>) {
    for key in keys {
        sim.put(key);
        if sim.memtable.is_empty() {
            sim.settle();
        }
    }
}

/// Each number below `count` once, shuffled.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| at * 7_919 % count)
}

#[test]
fn random_inserts_merge_about_half_of_what_a_leveled_tree_does() {
    for (memtables, cell) in [(68, 1), (350, 16)] {
        let amplification = |mut sim: Simulator| {
            let mut rng = Rng(42);
            put_and_settle(&mut sim, (0..memtables * 100).map(|_| rng.below(1 << 40)));
            sim.amplification()
        };
        // The usual leveled tree, whose L0 does not wait for overlap.
        let mut leveled = Simulator::new();
        leveled.options.asks_overlap = false;
        leveled.options.table_bytes *= cell;
        let leveled = amplification(leveled);
        for sim in trees(cell).filter(|sim| memtables < 100 || sim.options.guards == Guards::Balanced) {
            let limit = match (sim.options.max_runs[1], memtables < 100) {
                (2, true) => 0.85,
                (2, false) => 0.6,
                (_, true) => {
                    if sim.options.guards == Guards::Balanced {
                        0.65
                    } else {
                        0.7
                    }
                }
                (_, false) => 0.5,
            };
            let what = describe(&sim);
            let share = amplification(sim) / leveled;
            assert!(share < limit, "{share:.2} of leveled: {what}");
        }
    }
}

#[test]
fn a_sequential_fill_merges_not_a_byte() {
    for mut sim in trees(1).chain(trees(16)) {
        put_and_settle(&mut sim, 0..35_000);
        assert_eq!((sim.merged_bytes, sim.state.tables().count()), (0, 350), "{}", describe(&sim));
        assert_eq!(sim.deepest_cell, 1, "{}", describe(&sim));
        sim.check(35_000);
    }
}

#[test]
fn updates_keep_space_in_bounds() {
    for (memtables, cell) in [(22, 1), (60, 2)] {
        let keys = memtables * 100;
        for mut sim in trees(cell) {
            let mut rng = Rng(42);
            put_and_settle(&mut sim, shuffled(keys));
            let (mut peak, mut sum) = (0f64, 0.0);
            for _ in 0..3 * memtables {
                (0..100).for_each(|_| sim.put(rng.below(keys)));
                sim.flush();
                peak = peak.max(sim.space());
                sim.settle();
                sum += sim.space();
            }
            let mean = sum / (3 * memtables) as f64;
            // Garbage of one memtable is allowed beyond the shares. The worst mean is 1.42, with 60 memtables and cells of two.
            let most = 1.4 + 2.0 / memtables as f64;
            assert!(
                mean < most && sim.space() < most && peak < 1.95,
                "{mean:.2} {peak:.2} {}",
                describe(&sim)
            );
            sim.check(keys);
        }
    }
}

#[test]
fn a_queue_stays_small() {
    for mut sim in trees(1).chain(trees(4)) {
        let live = 2_000;
        put_and_settle(&mut sim, 0..live);
        for key in live..12_000 {
            sim.put(key);
            sim.delete(key - live);
            if sim.memtable.is_empty() {
                sim.settle();
                assert!(sim.space() < 1.35, "{:.2} {}", sim.space(), describe(&sim));
            }
        }
        let below_l0: u64 = sim.version().levels().skip(1).map(|level| level.totals().tombstones).sum();
        assert!(below_l0 <= live / 10, "{below_l0} tombstones: {}", describe(&sim));
        let guards = sim.version().guards().len() as u64;
        assert!(guards <= 4 * live * PUT_BYTES / sim.options.table_bytes, "{guards}: {}", describe(&sim));
        assert_eq!((sim.get(9_999), sim.get(10_000).is_some()), (None, true));
    }
}

#[test]
fn deleting_gives_space_back_and_guards_too() {
    for mut sim in trees(1) {
        put_and_settle(&mut sim, shuffled(5_000));
        let full: u64 = sim.level_bytes().iter().sum();
        for key in shuffled(5_000) {
            sim.delete(key);
            if sim.memtable.is_empty() {
                sim.settle();
            }
        }
        let rest: u64 = sim.level_bytes().iter().sum();
        assert!(rest < full / 20, "{rest} of {full} bytes are left: {}", describe(&sim));
        assert!(
            sim.version().guards().len() < 10,
            "{} guards: {}",
            sim.version().guards().len(),
            describe(&sim)
        );
        sim.check(5_000);
    }
}

fn bytes(cell: &Cell) -> u64 {
    cell.runs.iter().map(Run::bytes).sum()
}

#[test]
fn balanced_cells_are_neither_large_nor_many() {
    for runs in [1, 4] {
        let mut sim = Simulator::with(runs, Guards::Balanced);
        put_and_settle(&mut sim, shuffled(15_000));
        let version = sim.version();
        let last = version.level(version.last_level());
        let largest = last.cells.iter().map(|cell| bytes(cell)).max().unwrap();
        assert!(largest <= sim.options.table_bytes, "{largest}");
        let needed = (last.totals().bytes / sim.options.table_bytes) as usize;
        assert!((needed..4 * needed).contains(&last.cells.len()), "{} cells", last.cells.len());
        for (number, level) in version.levels().enumerate().skip(1) {
            for (at, cell) in level.cells.iter().enumerate() {
                let next = version.levels().nth(number + 1);
                let is_whole = |next: &Level| {
                    let inside = next.cells.iter().filter(|inner| inner.low > cell.low);
                    level
                        .cells
                        .get(at + 1)
                        .is_some_and(|end| inside.clone().all(|inner| inner.low >= end.low))
                };
                let is_small = bytes(cell) <= sim.options.table_bytes;
                assert!(is_small || next.is_some_and(is_whole), "a cell above is cut where one below is");
            }
        }
        assert!(sim.joins > 0, "what was the last level needs fewer cells when another is");
    }
}

#[test]
fn sampled_guards_stand_where_the_hash_says() {
    let mut sim = Simulator::with(4, SAMPLED);
    put_and_settle(&mut sim, shuffled(10_000));
    let version = sim.version();
    assert!(version.guards().len() > 5, "{}", version.guards().len());
    for (key, &top) in version.guards() {
        assert!(SAMPLED.sampled_level(key).is_some_and(|sampled| sampled <= top), "{key:?} {top}");
    }
    let lots = (0..100_000u64).filter_map(|key| SAMPLED.sampled_level(&key.to_be_bytes()));
    let mut of_level = [0; LEVELS];
    lots.for_each(|level| of_level[level] += 1);
    // One key in 2^10 may stand on L1, four times as many on L2 and so on.
    assert!((50..200).contains(&of_level[1]) && (150..500).contains(&of_level[2]), "{of_level:?}");
    assert_eq!(Guards::Balanced.sampled_level(b"k"), None);
}

#[test]
fn a_cold_slice_does_not_pin_a_dead_table() {
    // A part of the keys is never written again.
    let pinned = |cold_ops: u64| {
        let mut sim = Simulator::with(8, Guards::Balanced);
        sim.options.cold_ops = cold_ops;
        put_and_settle(&mut sim, shuffled(6_800));
        let mut rng = Rng(7);
        let hot = |key: u64| if key < 3_000 { key } else { key + 600 };
        put_and_settle(&mut sim, (0..30_000).map(|_| hot(rng.below(6_200))));
        let old = sim.seq - 10_000;
        let version = sim.version();
        let mut live: BTreeMap<FileId, (u64, u64, SeqNo)> = BTreeMap::new();
        for slice in version.slices() {
            let table = live.entry(slice.table.id).or_insert((0, slice.table.bytes, 0));
            table.0 += slice.bytes;
            table.2 = table.2.max(slice.seqs.1);
        }
        sim.check(6_800);
        live.values().filter(|&&(live, all, newest)| live * 4 < all && newest < old).count()
    };
    assert_eq!(pinned(5_000), 0);
    assert!(pinned(u64::MAX) > 0, "the rule makes the difference");
}

#[test]
fn old_tombstones_do_not_linger() {
    let lingering = |cold_ops: u64| {
        let mut sim = Simulator::with(4, Guards::Balanced);
        sim.options.cold_ops = cold_ops;
        put_and_settle(&mut sim, shuffled(20_000));
        (0..20).for_each(|key| sim.delete(10_000 + key * 100));
        let deleted = sim.seq;
        // Writes behind all other keys.
        put_and_settle(&mut sim, 20_000..25_000);
        let version = sim.version();
        sim.check(25_000);
        version.slices().filter(|slice| slice.tombstones > 0 && slice.seqs.0 <= deleted).count()
    };
    assert_eq!(lingering(1_000), 0);
    assert!(lingering(u64::MAX) > 0, "the rule makes the difference");
}

#[test]
fn a_cell_that_readers_paid_for_becomes_one_run() {
    for mut sim in trees(1) {
        let mut rng = Rng(3);
        put_and_settle(&mut sim, (0..15_000).map(|_| rng.below(1 << 40)));
        let runs_at = |sim: &Simulator, key: u64| -> usize {
            let version = sim.version();
            let key = key.to_be_bytes();
            let runs = version.levels().flat_map(|level| &level.cell(&key).runs);
            runs.filter(|run| run.find(&key).is_some()).count()
        };
        let key = (1u64..64).map(|part| part << 34).max_by_key(|&key| runs_at(&sim, key)).unwrap();
        let (before, merged_bytes) = (runs_at(&sim, key), sim.merged_bytes);
        sim.settle();
        assert_eq!(sim.merged_bytes, merged_bytes, "nothing is wanted before readers come");
        // Each scan finds fewer runs once enough was paid. In the end nothing is paid in vain.
        let mut rounds = 0;
        while runs_at(&sim, key) > 1 {
            sim.pay(key, 100);
            sim.settle();
            rounds += 1;
            assert!(rounds < 1_000, "{} runs of {before}: {}", runs_at(&sim, key), describe(&sim));
        }
        assert!(before > 1 && rounds > 1, "{before} runs, {rounds} rounds: {}", describe(&sim));
        let merged_bytes = sim.merged_bytes;
        (0..1_000).for_each(|_| sim.pay(key, 100));
        sim.settle();
        assert_eq!(sim.merged_bytes, merged_bytes, "one run owes nothing: {}", describe(&sim));
        sim.check(15_000);
    }
}

#[test]
fn garbage_that_scans_met_is_cleaned_and_no_more() {
    for mut sim in trees(1) {
        put_and_settle(&mut sim, shuffled(15_000));
        // Too few tombstones for the cells to be cleaned for their own sake.
        (4_000..4_100).step_by(10).chain(9_000..9_020).for_each(|key| sim.delete(key));
        sim.flush();
        sim.settle();
        let tombstones = |sim: &Simulator, low: u64, high: u64| -> u64 {
            let range = KeyRange::new(low.to_be_bytes(), high.to_be_bytes());
            let version = sim.version();
            version.slices().filter(|s| s.range.overlaps(&range)).map(|s| s.tombstones).sum()
        };
        let before = [tombstones(&sim, 4_000, 4_100), tombstones(&sim, 9_000, 9_020)];
        let range = KeyRange::new(4_000u64.to_be_bytes(), 4_100u64.to_be_bytes());
        sim.garbage_hints = vec![Garbage { range, upto: sim.seq }];
        let merged_bytes = sim.merged_bytes;
        sim.settle();
        assert!(before[0] > 0 && before[1] > 0, "{before:?} {}", describe(&sim));
        assert_eq!(tombstones(&sim, 4_000, 4_100), 0, "{}", describe(&sim));
        let merged_bytes = sim.merged_bytes - merged_bytes;
        let is_cut = sim.options.guards != Guards::None;
        assert!(!is_cut || merged_bytes < sim.level_bytes().iter().sum::<u64>() / 2, "{}", describe(&sim));
        // Later writes are treated as usual, although the hint still remembers the range.
        sim.put(4_050);
        sim.delete(4_051);
        sim.flush();
        let merged_bytes = sim.merged_bytes;
        sim.settle();
        assert_eq!(sim.merged_bytes, merged_bytes, "{}", describe(&sim));
        sim.check(15_000);
    }
}

#[test]
fn l0_is_handed_over_beside_a_job_of_l1_and_never_past_an_older_table() {
    let mut sim = Simulator::with(4, Guards::None);
    sim.options.l0_slowdown_tables = 2;
    let mut rng = Rng(7);
    let mut flush = |sim: &mut Simulator| {
        (0..100).for_each(|_| sim.put(rng.below(1 << 40)));
        assert!(sim.memtable.is_empty());
    };
    let mut begun = 0;
    // Only trivial moves finish. L1 takes runs up to its hard bound while its first runs are being merged.
    for _ in 0..30 {
        flush(&mut sim);
        while let Some(plan) = sim.propose() {
            let is_move = matches!(plan, Plan::Move(_));
            if let Plan::Move(moved) = &plan {
                let oldest = sim.version().level(0).slices().map(|(_, epoch, _)| epoch).min();
                assert_eq!(Some(moved.inputs[0].run.epoch), oldest);
            }
            begun += u64::from(!is_move);
            sim.start(plan);
            if is_move {
                sim.finish(sim.running.len() - 1);
            }
        }
    }
    assert!(begun >= 1 && sim.version().level(1).runs() == 8, "{} runs", sim.version().level(1).runs());
    assert!(sim.version().level(0).runs() > 2);
    while !sim.running.is_empty() {
        sim.finish(0);
    }
    sim.settle();
    assert!(sim.version().level(0).runs() < 2);
}

#[test]
fn an_empty_tree_wants_nothing() {
    for sim in trees(1) {
        assert!(sim.propose().is_none());
        let done = sim.pick(|picker| picker.compact(&Span::ALL, SeqNo::MAX));
        assert!(matches!(done, Step::Done));
    }
}

/// While a compaction runs, the scheduler relieves L0. The tables that it moves down are newer than the ones to be compacted.
#[test]
fn a_compaction_ends_although_writing_goes_on() {
    let mut sim = Simulator::with(4, Guards::Balanced);
    // All data fit into L1, as in a default database up to 256 MiB.
    sim.options.base_bytes = 1 << 30;
    let mut rng = Rng(77);
    (0..4_000).for_each(|_| sim.put(rng.below(5_000)));
    sim.flush();
    let upto = sim.seq;
    for _ in 0..2_000 {
        let step = sim.pick(|picker| picker.compact(&Span::ALL, upto));
        let Step::Do(plan) = step else { return };
        sim.start(plan);
        (0..100).for_each(|_| sim.put(rng.below(2_500) * 2));
        while sim.version().level(0).runs() >= 6
            && let Some(plan) = sim.pick(|picker| picker.relieve_l0())
        {
            sim.start(plan);
            sim.finish(sim.running.len() - 1);
        }
        sim.finish(0);
    }
    panic!("it goes on and on");
}

/// Newer runs on top of the compacted ones hold nothing that the compacted tombstones hide. If they kept the tombstones alive,
/// one slice would be rewritten for ever.
#[test]
fn a_compaction_cleans_below_newer_runs() {
    for mut sim in trees(1) {
        sim.options.base_bytes = 1 << 30;
        for key in shuffled(2_000) {
            if key % 4 == 0 { sim.delete(key) } else { sim.put(key) }
        }
        // A reader keeps the tombstones until all is one run a cell, and then goes.
        sim.snapshots.push(0);
        sim.compact();
        let upto = sim.seq;
        sim.snapshots.clear();
        let tombstones = |sim: &Simulator| sim.version().slices().map(|slice| slice.tombstones).sum::<u64>();
        assert_eq!(tombstones(&sim), 500);
        for _ in 0..2 {
            shuffled(2_000).skip(7).step_by(20).for_each(|key| sim.put(key));
            sim.flush();
            while let Some(plan) = sim.pick(|picker| picker.relieve_l0()) {
                sim.start(plan);
                sim.finish(0);
            }
        }
        let is_on_top = sim.deepest_cell > 1;
        let mut steps = 0;
        while let Step::Do(plan) = sim.pick(|picker| picker.compact(&Span::ALL, upto)) {
            steps += 1;
            assert!(steps < 1_000, "it never ends: {plan:?}");
            sim.start(plan);
            sim.finish(0);
        }
        assert!(is_on_top && tombstones(&sim) == 0, "{}", describe(&sim));
        sim.check(2_000);
    }
}

/// With one run a cell, L0 waits until all cells of L1 that it reaches are free. Other jobs of L1 must not keep it waiting for ever. Six
/// tables wait for no overlap.
#[test]
fn l0_gets_its_turn_among_jobs_of_one_run_cells() {
    let mut sim = Simulator::with(1, Guards::Balanced);
    let mut rng = Rng(99);
    let (mut row, mut longest) = (0, 0);
    for _ in 0..20_000 {
        if sim.version().level(0).runs() < 20 {
            sim.put(rng.below(50_000));
        }
        if rng.below(20) == 0 && !sim.running.is_empty() {
            sim.finish(0);
        }
        while sim.running.len() < 3
            && let Some(plan) = sim.propose()
        {
            let levels: Vec<usize> = plan.claims().iter().map(|claim| claim.level).collect();
            let is_l0_busy = sim.running.iter().any(|job| job.plan.claims()[0].level == 0);
            if levels[0] == 0 {
                row = 0;
            } else if sim.version().level(0).runs() >= 6 && !is_l0_busy && levels.contains(&1) {
                row += 1;
                longest = longest.max(row);
            }
            sim.start(plan);
        }
    }
    assert!(longest <= 2, "{longest} jobs of L1 in a row went before L0");
}

/// Brings all tables of L0 down by steps of a compaction.
fn drain_l0(sim: &mut Simulator, upto: SeqNo) {
    while sim.version().level(0).runs() > 0 {
        let Step::Do(plan) = sim.pick(|picker| picker.compact(&Span::ALL, upto)) else {
            panic!("nothing runs")
        };
        sim.start(plan);
        sim.finish(0);
    }
}

/// The records of L1 reach the last level two steps later. A last level that is collapsed before would be written twice.
#[test]
fn a_step_beside_another_collapses_no_cell_below_records_on_their_way() {
    let mut sim = Simulator::with(4, Guards::None);
    let mut rng = Rng(5);
    let is_deep = |version: &Version| {
        version.last_level() >= 3
            && (1..version.last_level()).all(|level| version.level(level).runs() > 0)
            && version.level(version.last_level()).runs() > 1
    };
    while !is_deep(&sim.version()) {
        assert!(sim.seq < 100_000, "{:?}", sim.level_bytes());
        put_and_settle(&mut sim, (0..MEMTABLE).map(|_| rng.below(1 << 40)));
    }
    let upto = sim.seq;
    drain_l0(&mut sim, upto);
    assert!(is_deep(&sim.version()), "{:?}", sim.level_bytes());
    let Step::Do(plan) = sim.pick(|picker| picker.compact(&Span::ALL, upto)) else { panic!("nothing runs") };
    assert_eq!(plan.claims()[0].level, 1);
    sim.start(plan);
    let beside = sim.pick(|picker| picker.compact_beside(&Span::ALL, upto));
    assert!(matches!(beside, Step::Blocked), "{beside:?}");
}

/// With one run a cell, L0 waits until all cells of L1 that it reaches are free. Steps that overlap in time must not keep it waiting.
#[test]
fn l0_gets_its_turn_among_steps_of_a_compaction() {
    let mut sim = Simulator::with(1, Guards::Balanced);
    let mut rng = Rng(99);
    put_and_settle(&mut sim, (0..15_000).map(|_| rng.below(1 << 40)));
    sim.options.l0_slowdown_tables = 4;
    let upto = sim.seq;
    drain_l0(&mut sim, upto);
    let filled = sim.version().level(1).cells.iter().filter(|cell| !cell.runs.is_empty()).count();
    assert!(filled >= 4, "{filled} cells of L1");
    let Step::Do(first) = sim.pick(|picker| picker.compact(&Span::ALL, upto)) else { panic!("nothing runs") };
    sim.start(first);
    let Step::Do(second) = sim.pick(|picker| picker.compact_beside(&Span::ALL, upto)) else {
        panic!("one step runs")
    };
    sim.start(second);
    (0..400).for_each(|_| sim.put(rng.below(1 << 40)));
    assert_eq!(sim.version().level(0).runs(), 4);
    let mut of_l1 = 0;
    loop {
        sim.finish(0);
        if sim.pick(|picker| picker.relieve_l0()).is_some() {
            break;
        }
        while sim.running.len() < 2
            && let Step::Do(plan) = sim.pick(|picker| picker.compact_beside(&Span::ALL, upto))
        {
            of_l1 += usize::from(plan.claims().iter().any(|claim| claim.level == 1));
            sim.start(plan);
        }
    }
    assert!(of_l1 <= 2, "{of_l1} steps took cells of L1 before L0 had its turn");
}
