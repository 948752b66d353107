//! Compares the forecast with the simulator of the planners, whose tree holds single keys. Under one policy the results must
//! agree to 15%. `proof/braidb-sim/tests/engine/forecast.rs` compares the forecast with the engine.

use super::*;
use crate::base::sample::ZERO_BITS;
use crate::plan::tree::sizes::{Forecast, Load, forecast};

/// The forecast of `entries` writes into memtables of `sim`'s size, of keys drawn from `keys`.
fn forecast_of(sim: &Simulator, entries: u64, keys: u64, is_sequential: bool) -> Forecast {
    let load = Load { entries, entry_bytes: PUT_BYTES, keys, is_sequential, ..Load::default() };
    let store = TableStore::detached(Arc::new(RealFs), Path::new("nowhere"));
    forecast(&load, MEMTABLE as u64 * PUT_BYTES, &sim.options, store, &mut |_| {})
}

#[test]
fn a_forecast_agrees_with_a_tree_of_keys() {
    // (memtables written, memtables a cell, keys by memtables written)
    for (memtables, cell, keys) in [(68, 1, u64::MAX), (250, 16, u64::MAX), (150, 4, 30)] {
        for runs in [1, 2, 4, 8] {
            for guards in [Guards::None, Guards::Balanced] {
                let mut sim = Simulator::with(runs, guards);
                sim.options.l0_slowdown_tables = 6;
                sim.options.table_bytes *= cell;
                // As few samples as in tables of this size, too few for an estimate.
                sim.sample_bits = Some(ZERO_BITS);
                let keys = keys.saturating_mul(memtables);
                let spread = if keys == u64::MAX { 1 } else { u64::MAX / keys };
                let forecast = forecast_of(&sim, memtables * 100, keys, false);
                let mut rng = Rng(42);
                for _ in 0..memtables {
                    (0..100).for_each(|_| sim.keep(rng.below(keys) * spread));
                    sim.flush();
                    sim.settle();
                }
                let what = format!("{runs} runs, {guards:?}, {memtables} memtables, {keys} keys");
                let near = |name, told: f64, found: f64| {
                    assert!((told / found - 1.0).abs() < 0.15, "{name}: {told:.2}, but {found:.2}: {what}");
                };
                near("written", forecast.merge_amplification(), 1.0 + sim.amplification());
                let space = forecast.space_bytes as f64 / forecast.live_bytes as f64;
                // A tree of one cell gives its garbage back at once, so what it holds at the end is a matter of chance.
                if guards == Guards::Balanced || keys == u64::MAX {
                    near("space", space, sim.space());
                }
            }
        }
    }
}

#[test]
fn a_forecast_knows_what_samples_tell() {
    for (runs, keys) in [(4, u64::MAX), (8, u64::MAX), (4, 30_000)] {
        let mut sim = Simulator::with(runs, Guards::Balanced);
        sim.sample_bits = Some(ZERO_BITS);
        sim.options.l0_slowdown_tables = 6;
        sim.options.table_bytes *= 320;
        let spread = u64::MAX / keys;
        let forecast = forecast_of(&sim, 60_000, keys, false);
        let mut rng = Rng(42);
        for _ in 0..600 {
            (0..100).for_each(|_| sim.keep(rng.below(keys) * spread));
            sim.flush();
            sim.settle();
        }
        let (told, found) = (forecast.merge_amplification(), 1.0 + sim.amplification());
        assert!((told / found - 1.0).abs() < 0.15, "{told:.2}, but {found:.2}: {runs} runs, {keys} keys");
        assert!(sim.answers.spared > 0 || keys < u64::MAX, "{:?}", sim.answers);
    }
}

#[test]
fn sequential_writes_are_forecast_to_merge_nothing_until_they_come_again() {
    for guards in [Guards::None, Guards::Balanced, Guards::Sampled { top_level_bits: 10, bit_decrement: 2 }] {
        let sim = Simulator::with(4, guards);
        let once = forecast_of(&sim, 20_000, 20_000, true);
        assert_eq!((once.merged_bytes, once.live_bytes), ([0; LEVELS], 2_000_000), "{guards:?}");
        assert_eq!((once.flushed_bytes, once.space_bytes), (2_000_000, 2_000_000));
        assert!(once.rearrangements > 100);
        let twice = forecast_of(&sim, 40_000, 20_000, true);
        assert_eq!((twice.flushed_bytes, twice.live_bytes), (4_000_000, 2_000_000));
        assert!(twice.merges > 0 && twice.space_bytes < 2_600_000, "{twice:?}");
    }
}

#[test]
fn a_forecast_of_ten_terabytes_has_few_cells() {
    let options = TreeOptions {
        base_bytes: 4 << 30,
        table_bytes: 64 << 20,
        ..Simulator::with(4, Guards::Balanced).options
    };
    let load = Load { entries: 10_000_000_000, entry_bytes: 1_000, keys: u64::MAX, ..Load::default() };
    let store = TableStore::detached(Arc::new(RealFs), Path::new("nowhere"));
    let forecast = forecast(&load, 1 << 30, &options, store, &mut |_| {});
    assert!(forecast.space_bytes.abs_diff(forecast.live_bytes) < forecast.live_bytes / 1_000_000);
    let amplification = forecast.merge_amplification();
    assert!((7.0..13.0).contains(&amplification), "{amplification}");
    let last = forecast.levels.iter().rev().find(|level| level.bytes > 0).unwrap();
    assert!((64..512).contains(&last.cells), "{last:?}");
}
