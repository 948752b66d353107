//! Tests with writers that are faster than merges. Time passes here: two threads merge while a writer fills memtables.

use super::*;

/// Memtables that a thread merges while a writer fills one.
const MERGED: f64 = 6.0;
/// Bytes of a memtable.
const MEMTABLE_BYTES: u64 = MEMTABLE as u64 * PUT_BYTES;

/// What writers met.
#[derive(Debug, Default)]
struct Met {
    /// Time that a writer waited because L0 was full, in memtables that it would have filled.
    waited: f64,
    /// The largest L1, in memtables.
    largest_l1: u64,
}

/// Fills memtables with keys drawn at random.
fn press(sim: &mut Simulator, memtables: u64) -> Met {
    let mut rng = Rng(42);
    let (mut met, mut now, mut written) = (Met::default(), 0.0f64, 0);
    // When each running job ends.
    let mut ends: Vec<f64> = Vec::new();
    let is_full = |sim: &Simulator| sim.version().level(0).runs() >= sim.options.l0_stop_tables;
    while written < memtables {
        while ends.len() < 2
            && let Some(plan) = sim.propose()
        {
            let bytes = match &plan {
                Plan::Merge(merge) => merge.bytes(),
                _ => 0,
            };
            ends.push(now + bytes as f64 / MEMTABLE_BYTES as f64 / MERGED);
            sim.start(plan);
        }
        let next = (0..ends.len()).min_by(|&a, &b| ends[a].total_cmp(&ends[b]));
        let (waits, is_done_at) = (is_full(sim), now + 1.0);
        match next {
            Some(next) if waits || ends[next] <= is_done_at => {
                let end = ends.swap_remove(next).max(now);
                met.waited += if waits { end - now } else { 0.0 };
                now = end;
                sim.finish(next);
            }
            _ => {
                assert!(!waits, "a writer waits for ever");
                now = is_done_at;
                written += 1;
                (0..MEMTABLE).for_each(|_| sim.keep(rng.below(1 << 40)));
                sim.flush();
                met.largest_l1 = met.largest_l1.max(sim.level_bytes()[1] / MEMTABLE_BYTES);
            }
        }
    }
    met
}

/// Each merge of L0 writes what it meets of L1 again. Merges of L0 that came one after the other would let L1 grow without end.
#[test]
fn l1_keeps_near_its_target_while_writers_press() {
    for (runs, guards) in [(1, Guards::None), (1, Guards::Balanced), (8, Guards::None), (8, Guards::Balanced)]
    {
        let mut sim = Simulator::with(runs, guards);
        let met = press(&mut sim, 400);
        println!("{runs} runs, {guards:?}: {met:?}, {:?}", sim.level_bytes());
        // While L1 goes down, L0 fills up, and then comes at once. Without guards L1 also waits for a merge of the whole level below.
        let target = sim.options.base_bytes / MEMTABLE_BYTES;
        let below = if guards == Guards::None { 400 / MERGED as u64 } else { 0 };
        let most = target + sim.options.l0_stop_tables as u64 + below;
        assert!(met.largest_l1 <= most, "{runs} runs, {guards:?}: {met:?}, {most} are expected at most");
        assert!(met.waited < 150.0, "{runs} runs, {guards:?}: {met:?}");
    }
}

/// Sequential writes with a tombstone now and then: tables move to the last level as they are. Old tombstones there cost the slice that has
/// them, not the level.
#[test]
fn an_old_tombstone_costs_its_slice() {
    for (runs, guards) in [(1, Guards::None), (1, Guards::Balanced), (8, Guards::None), (8, Guards::Balanced)]
    {
        let mut sim = Simulator::with(runs, guards);
        sim.options.cold_ops = 2_000;
        for key in 0..20_000u64 {
            if key % 1_000 == 0 {
                sim.delete(key)
            } else {
                sim.put(key)
            }
            sim.settle();
        }
        println!(
            "{runs} runs, {guards:?}: {} bytes merged of {} flushed",
            sim.merged_bytes, sim.flushed_bytes
        );
        assert!(
            sim.merged_bytes * 2 <= sim.flushed_bytes,
            "{runs} runs, {guards:?}: {} bytes merged",
            sim.merged_bytes
        );
    }
}

/// Two corners of the keys are written, and all between them stays as it is.
#[test]
fn what_lies_between_tables_of_l0_is_not_merged_with_them() {
    let mut sim = Simulator::with(1, Guards::None);
    sim.options.base_bytes = u64::MAX / 8;
    (0..20_000u64).for_each(|key| sim.put(key << 16));
    sim.settle();
    let before = sim.merged_bytes;
    for round in 1..9u64 {
        let corner = if round % 2 == 0 { 0 } else { 19_000 };
        (0..50u64).for_each(|key| sim.keep((corner + key) << 16 | round));
        sim.flush();
    }
    sim.settle();
    assert!(sim.version().level(0).runs() <= 4, "the tables of one corner wait");
    let merged = (sim.merged_bytes - before) / MEMTABLE_BYTES;
    assert!(merged <= 20, "{merged} memtables merged of 4 that were written and 200 that were there");
}
