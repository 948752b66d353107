//! Samples tell how much the runs of cells overlap.

use super::*;
use crate::base::sample::{LEAST, ZERO_BITS};
use crate::version::Cell;

/// Number of entries of a cell that have a newer one above them.
fn exactly_hidden(sim: &Simulator, cell: &Cell) -> u64 {
    let slices = cell.slices().map(|(_, slice)| sim.entries(slice.table.id, &slice.range));
    let mut keys: Vec<u64> = slices.flatten().map(|entry| entry.0).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    (all - keys.len()) as u64
}

/// A tree of large cells, filled with `draw`.
fn large_cells(bits: u32, guards: Guards, memtables: u64, mut draw: impl FnMut() -> u64) -> Simulator {
    let mut sim = Simulator::with(8, guards);
    sim.sample_bits = Some(bits);
    sim.options.table_bytes *= 128;
    for _ in 0..memtables {
        sim.put(draw());
        while !sim.memtable.is_empty() {
            sim.put(draw());
        }
        sim.settle();
    }
    sim
}

fn deep_cells(sim: &Simulator) -> Vec<Arc<Cell>> {
    let version = sim.version();
    let cells = version.levels().skip(1).flat_map(|level| level.cells.to_vec());
    cells.filter(|cell| cell.runs.len() > 1).collect()
}

#[test]
fn an_estimate_is_near_the_exact_count() {
    let (mut squares, mut asked, mut seed) = (0.0, 0, 0);
    for keys in [20_000, 60_000, 1 << 40] {
        for skew in [false, true] {
            seed += 1;
            let mut rng = Rng(0x1234_5678 * seed);
            let draw = || if skew && rng.below(2) == 0 { rng.below(keys / 10) } else { rng.below(keys) };
            let sim = large_cells(ZERO_BITS, Guards::Balanced, 500, draw);
            for cell in deep_cells(&sim) {
                let entries: u64 = cell.slices().map(|(_, slice)| slice.entries).sum();
                let Some(estimate) = sampling::estimate(&cell) else {
                    assert!(entries < (2 * LEAST) << ZERO_BITS, "{entries} are enough");
                    continue;
                };
                let exact = exactly_hidden(&sim, &cell);
                // One in 64 entries of the garbage that makes a cell due is sampled.
                let deviation = (64.0 * (entries as f64 / 5.0)).sqrt();
                let error = (estimate as f64 - exact as f64) / deviation;
                assert!(error.abs() < 3.0, "{estimate} for {exact} of {entries}, {keys} keys");
                squares += error * error;
                asked += 1;
            }
        }
    }
    assert!(asked >= 12 && squares / f64::from(asked) < 1.0, "{squares} of {asked}");
}

#[test]
fn slices_count_their_own_keys_alone_and_large_cells_some_of_them() {
    let (mut exact, mut near) = (0, 0);
    for guards in [Guards::Balanced, Guards::None] {
        let mut rng = Rng(77);
        let sim = large_cells(0, guards, 400, || rng.below(50_000));
        for cell in deep_cells(&sim) {
            let entries: u64 = cell.slices().map(|(_, slice)| slice.entries).sum();
            let hidden = exactly_hidden(&sim, &cell);
            let Some(estimate) = sampling::estimate(&cell) else { continue };
            if entries <= 8192 {
                assert_eq!(estimate, hidden, "all keys were asked");
                exact += 1;
            } else {
                assert!(estimate.abs_diff(hidden) < 100 + hidden / 10, "{estimate} for {hidden}");
                near += 1;
            }
        }
        let slices = |sim: &Simulator| sim.version().slices().count() > sim.state.tables().count();
        assert!(slices(&sim) || guards == Guards::None, "tables are cut");
    }
    assert!(exact > 0 && near > 0, "{exact} {near}");
}

#[test]
fn a_table_without_a_sample_is_guessed_about() {
    let mut sim = large_cells(0, Guards::None, 0, || 0);
    let mut rng = Rng(5);
    let mut write = |sim: &mut Simulator, bits| {
        sim.sample_bits = bits;
        (0..MEMTABLE).for_each(|_| sim.keep(rng.below(1 << 40)));
        sim.flush();
    };
    sim.options.l0_slowdown_tables = 1;
    (0..4).for_each(|_| write(&mut sim, Some(0)));
    sim.settle();
    let answer = |sim: &Simulator| sim.version().level(1).cells[0].answer();
    assert_eq!((sim.version().level(1).runs(), answer(&sim)), (4, Some(Some(0))));
    assert!(sim.answers.spared > 0, "{:?}", sim.answers);
    write(&mut sim, None);
    sim.settle();
    assert!(answer(&sim) != Some(Some(0)), "{:?}", answer(&sim));
    let mut few = large_cells(ZERO_BITS, Guards::None, 0, || 0);
    few.options.l0_slowdown_tables = 1;
    (0..4).for_each(|_| write(&mut few, Some(ZERO_BITS)));
    few.settle();
    assert_eq!((few.answers.cells, few.answers.spared), (0, 0), "so few samples say nothing");
}

#[test]
fn tables_whose_overlap_is_asked_want_samples() {
    let wants = |runs: &[usize]| {
        let mut options = Simulator::new().options;
        options.max_runs[1..1 + runs.len()].copy_from_slice(runs);
        (0..LEVELS).filter(|&level| options.wants_sample(level)).collect::<Vec<_>>()
    };
    assert_eq!(wants(&[]), [0], "L0 of a leveled tree waits for overlap");
    assert_eq!(wants(&[2]), [0, 1]);
    assert_eq!(wants(&[1, 2]), [0, 1, 2]);
    assert_eq!(wants(&[1, 1, 4]), [0, 1, 2, 3], "a table may go down as it is");
}

/// The costs of a load: bytes merged a byte flushed, and the mean and the worst space a live byte.
#[derive(Clone, Copy, Debug)]
struct Cost {
    written: f64,
    space: f64,
    worst: f64,
    /// The worst space, less 4/3 of the slack (garbage of one memtable, at most an eighth of all bytes). A cell of which a fourth may be
    /// garbage grows by 4/3 of the slack.
    beyond: f64,
}

impl Cost {
    fn of(runs: usize, guards: Guards, bits: Option<u32>, load: &str) -> Cost {
        const MEMTABLES: u64 = 400;
        const KEYS: u64 = 6_000;
        let mut sim = Simulator::with(runs, guards);
        sim.options.table_bytes *= 4;
        sim.sample_bits = bits;
        let mut rng = Rng(42);
        let mut key = |number: u64| match load {
            "inserts" => rng.below(1 << 40),
            // Each key once, and then a fifth of the keys repeatedly.
            "stretch" if number < KEYS => number * 7_919 % KEYS,
            "stretch" => rng.below(KEYS / 5),
            // Nine writes of ten to a tenth of the keys.
            "skewed" if rng.below(10) < 9 => 10 * rng.below(KEYS / 10),
            // The logarithm of the rank is uniform.
            "zipfian" => {
                libm::pow(KEYS as f64, rng.below(1 << 20) as f64 / f64::from(1 << 20)) as u64 * 7_919 % KEYS
            }
            _ => rng.below(KEYS),
        };
        let (mut space, mut worst, mut beyond, mut number) = (0.0, 0f64, 0f64, 0);
        for _ in 0..MEMTABLES {
            sim.put(key(number));
            number += 1;
            while !sim.memtable.is_empty() {
                sim.put(key(number));
                number += 1;
            }
            worst = worst.max(sim.space());
            let slack = (MEMTABLE as f64 / sim.model.len() as f64).min(sim.space() / 8.0);
            beyond = beyond.max(sim.space() - slack * 4.0 / 3.0);
            sim.settle();
            space += sim.space();
        }
        Cost { written: sim.amplification(), space: space / MEMTABLES as f64, worst, beyond }
    }
}

#[test]
fn inserts_are_merged_less_and_space_stays_in_bounds() {
    for (load, most) in
        [("inserts", 0.92), ("uniform", 1.03), ("skewed", 1.03), ("zipfian", 1.06), ("stretch", 1.06)]
    {
        for runs in [2, 4, 8] {
            let guessed = Cost::of(runs, Guards::Balanced, None, load);
            let told = Cost::of(runs, Guards::Balanced, Some(0), load);
            assert!(told.written <= most * guessed.written, "{load}, {runs} runs: {guessed:.2?}, {told:.2?}");
            // Where a cell may have eight runs, samples tell that less of it is garbage than was feared, and the cell grows.
            let more = if runs == 8 { 0.15 } else { 0.05 };
            let in_bounds = told.space < 1.35 && told.worst <= guessed.worst + more;
            assert!(in_bounds, "{load}, {runs} runs: {guessed:.2?}, {told:.2?}");
        }
    }
    // The whole tree is one cell. The last merge says nothing of the next one then, and without samples space was not in
    // bounds.
    for load in ["inserts", "uniform", "skewed", "zipfian", "stretch"] {
        let told = Cost::of(4, Guards::None, Some(0), load);
        assert!(told.space < 1.3 && told.beyond <= 1.5, "{load}, no guards: {told:.2?}");
    }
}
