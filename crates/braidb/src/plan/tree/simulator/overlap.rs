//! L0 of a leveled tree waits until its tables overlap (TRIAD-DISK).

use super::*;
use crate::base::sample::ZERO_BITS;

/// Guards, since L0 does not wait without them. No key has a hash that makes it one.
const NO_KEY: Guards = Guards::Sampled { top_level_bits: 60, bit_decrement: 1 };

/// A leveled tree of one cell a level. Tables of L1 reach over all keys below 20,000, and have so many that what L0 may hide is not too
/// much garbage.
fn leveled() -> Simulator {
    let mut sim = Simulator::with(1, NO_KEY);
    sim.options.l0_slowdown_tables = 8;
    sim.options.base_bytes = u64::MAX / 8;
    (0..10_000).for_each(|key| sim.put(key * 2 + 1));
    sim.compact();
    assert_eq!((sim.version().last_level(), sim.version().level(1).runs()), (1, 1));
    sim
}

/// The keys of a table. All tables have the first `shared` keys of 100, and the others are those of table `number` alone.
fn keys(shared: u64, number: u64) -> impl Iterator<Item = u64> {
    (0..100).map(move |key| if key < shared { key * 200 } else { key * 200 + 1 + number })
}

/// The number of tables at which L0 is merged.
fn merged_at(mut sim: Simulator, mut add: impl FnMut(&mut Simulator, u64)) -> usize {
    loop {
        let tables = sim.version().level(0).runs();
        add(&mut sim, tables as u64);
        assert_eq!(sim.version().level(0).runs(), tables + 1);
        match sim.propose() {
            None => assert!(tables < 20, "L0 waits for ever"),
            Some(Plan::Merge(merge)) => {
                let taken = merge.inputs.iter().filter(|input| input.run.level == 0).count();
                assert_eq!((merge.reason, taken), (Reason::L0, tables + 1), "all of L0 is merged at once");
                return tables + 1;
            }
            Some(plan) => panic!("{plan:?}"),
        }
    }
}

fn add(sim: &mut Simulator, shared: u64, number: u64) {
    keys(shared, number).for_each(|key| sim.keep(key));
    sim.flush();
}

#[test]
fn l0_waits_below_the_threshold_up_to_six_tables() {
    // The ratio of n tables is (n - 1) / n of the shared part.
    for (shared, tables) in [(0, 6), (49, 6), (50, 5), (53, 5), (54, 4), (100, 4)] {
        assert_eq!(merged_at(leveled(), |sim, number| add(sim, shared, number)), tables, "{shared} shared");
    }
}

#[test]
fn a_tombstone_is_a_key_as_any_other() {
    for (shared, tables) in [(49, 6), (50, 5), (54, 4)] {
        let delete = |sim: &mut Simulator, number| keys(shared, number).for_each(|key| sim.delete(key));
        assert_eq!(merged_at(leveled(), delete), tables, "{shared} shared");
    }
}

#[test]
fn l0_does_not_wait_where_samples_tell_nothing() {
    let without = |bits: Option<u32>, place: u64| {
        merged_at(leveled(), |sim, number| {
            sim.sample_bits = if number == place { bits } else { Some(0) };
            add(sim, 0, number);
        })
    };
    assert_eq!(without(Some(0), 0), 6);
    assert!((0..4).all(|place| without(None, place) == 4), "a table without a sample");
    let few = |sim: &mut Simulator, number| {
        sim.sample_bits = Some(ZERO_BITS);
        add(sim, 0, number);
    };
    assert_eq!(merged_at(leveled(), few), 4, "so few samples say nothing");
    let mut sim = leveled();
    sim.options.asks_overlap = false;
    assert_eq!(merged_at(sim, |sim, number| add(sim, 0, number)), 4);
}

#[test]
fn l0_waits_no_longer_than_until_writes_are_slowed_down() {
    for slowdown in [1, 2, 3, 4, 5, 6, 7, 20] {
        let mut sim = leveled();
        sim.options.l0_slowdown_tables = slowdown;
        assert_eq!(merged_at(sim, |sim, number| add(sim, 0, number)), slowdown.min(6));
    }
}

#[test]
fn a_cell_that_was_not_asked_yet_waits() {
    let mut sim = leveled();
    (0..4).for_each(|number| add(&mut sim, 100, number));
    assert!(sim.propose().is_some());
    let asked = sim.version().level(0).cells[0].clone();
    let unasked = Cell::clone(&asked);
    assert!(sampling::is_l0_due(&asked, &sim.options) && !sampling::is_l0_due(&unasked, &sim.options));
}

#[test]
fn tables_that_meet_nothing_do_not_wait() {
    let mut sim = leveled();
    for number in 0..4 {
        (0..100).for_each(|key| sim.keep(100_000 + 100 * number + key));
        sim.flush();
        assert_eq!(sim.propose().is_some(), number == 3);
    }
    assert!(matches!(sim.propose(), Some(Plan::Move(_))));
}

/// Two groups of tables, at both ends of the keys. One merge of all would write what lies between them in L1.
#[test]
fn groups_of_tables_that_lie_apart_are_merged_one_by_one() {
    let inputs = |is_l1_one_table: bool| {
        let mut sim = Simulator::with(1, NO_KEY);
        sim.options.l0_slowdown_tables = 8;
        sim.options.base_bytes = u64::MAX / 8;
        if is_l1_one_table {
            (0..100).for_each(|key| sim.put(key * 2_000));
        } else {
            (0..2_000).for_each(|key| sim.put(key * 100));
        }
        sim.compact();
        for number in 0..6 {
            (0..100).for_each(|key| sim.keep((number % 2) * 190_000 + 90 * key + 1 + number));
            sim.flush();
        }
        let Some(Plan::Merge(merge)) = sim.propose() else { panic!("six tables are merged") };
        let taken = merge.inputs.iter().filter(|input| input.run.level == 0).count();
        (taken, merge.inputs.len() - taken)
    };
    assert_eq!(inputs(true), (6, 1), "both groups meet the same table");
    let (taken, met) = inputs(false);
    assert!(taken == 3 && (1..=2).contains(&met), "{taken} {met}");
}

/// Bytes merged a byte flushed under a load, and space a live byte.
fn cost(load: &str, asks_overlap: bool) -> (f64, f64) {
    const KEYS: u64 = 6_000;
    let mut sim = Simulator::with(1, Guards::Balanced);
    sim.options.l0_slowdown_tables = 8;
    sim.options.asks_overlap = asks_overlap;
    let mut rng = Rng(42);
    for _ in 0..400 {
        while sim.memtable.len() < MEMTABLE {
            sim.keep(match load {
                "inserts" => rng.below(1 << 40),
                // Nine writes of ten to a tenth of the keys.
                "skewed" if rng.below(10) < 9 => 10 * rng.below(KEYS / 10),
                // The logarithm of the rank is uniform.
                "zipfian" => {
                    libm::pow(KEYS as f64, rng.below(1 << 20) as f64 / f64::from(1 << 20)) as u64 * 7_919
                        % KEYS
                }
                _ => rng.below(KEYS),
            });
        }
        sim.flush();
        sim.settle();
    }
    (sim.amplification(), sim.space())
}

/// Prints what loads merge a byte flushed. 0.92, 0.87, 0.86 and 0.85 of the bytes were found.
#[test]
fn waiting_merges_fewer_bytes() {
    for load in ["inserts", "uniform", "skewed", "zipfian"] {
        let (at_once, waiting) = (cost(load, false), cost(load, true));
        let share = waiting.0 / at_once.0;
        println!(
            "{load}: {:.2} and {:.2} bytes, {share:.3}; space {:.2} and {:.2}",
            at_once.0, waiting.0, at_once.1, waiting.1
        );
        assert!(share < 0.95 && waiting.1 < at_once.1 + 0.1, "{load}: {at_once:.2?}, {waiting:.2?}");
    }
}

/// Prints the error of the ratio of six tables that samples of one key in 64 tell. It is within three standard errors.
#[test]
fn the_error_of_the_ratio_falls_with_the_samples() {
    let (mut largest, mut squares, mut cases) = (0.0f64, 0.0, 0);
    for entries in [2_000u64, 16_000, 64_000] {
        // All keys, as a multiple of those of a table.
        for multiple in [1, 2, 4, 16, 1_000] {
            let mut sim = Simulator::with(1, Guards::None);
            sim.sample_bits = Some(ZERO_BITS);
            let mut rng = Rng(0x5851_f42d_4c95_7f2d ^ (entries + multiple));
            for _ in 0..6 {
                (0..entries).for_each(|_| sim.keep(rng.below(entries * multiple)));
                sim.flush();
            }
            let version = sim.version();
            let cell = &version.level(0).cells[0];
            let sum: u64 = cell.slices().map(|(_, slice)| slice.keys).sum();
            let of = |hidden: u64| hidden as f64 / sum as f64;
            let (told, exact) =
                (of(sampling::estimate(cell).expect("enough samples")), of(sum - sim.model.len() as u64));
            let samples = sum as f64 / 64.0;
            let error = told - exact;
            println!(
                "{entries} entries of {} keys: {exact:.3}, estimated {told:.3}, {error:+.3}",
                entries * multiple
            );
            let bound = 1.5 / libm::sqrt(samples);
            assert!(error.abs() <= bound, "{told} for {exact} of {samples} samples");
            largest = largest.max(error.abs());
            squares += error * error;
            cases += 1;
        }
    }
    println!("largest error {largest:.3}, root mean square {:.3}", libm::sqrt(squares / f64::from(cases)));
}
