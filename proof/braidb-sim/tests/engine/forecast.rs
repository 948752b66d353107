//! Compares `Options::forecast` with what the engine writes, on the simulated machine, at three sizes of the load.
//!
//! Merges keep up with the writes and no values stay in logs, as a forecast assumes. A second test has readers between the writes.

use braidb::Options;
use braidb::stats::Load;
use braidb::tuning::Guards;
use braidb_sim::rng::Rng;
use braidb_sim::sim_env;

const MEMTABLE_BYTES: usize = 256 << 10;
/// Bytes of a value. A key has 16.
const VALUE_BYTES: usize = 128;
/// Puts between two calls of `settle`. A memtable takes about 1,400.
const PUTS_BEFORE_SETTLING: u64 = 64;

/// Largest relative error of the forecast: of bytes merged, and of bytes flushed and merged per byte flushed. 10% and 8% were
/// found.
const MOST_OFF: f64 = 0.15;

/// Entries of a load.
const SIZES: [u64; 3] = [30_000, 90_000, 270_000];

/// Seeds of the keys at the least size. A few dozen merges decide what is written there, and small changes of their order change it by 5%.
/// The mean of several seeds is steadier.
const SEEDS_OF_THE_LEAST: [u64; 5] = [7, 8, 9, 10, 11];

/// What the engine did, as a mean at the least size: bytes flushed, bytes merged, and tables that gets asked.
fn carried_out(options: &Options, load: &Load) -> (u64, u64, u64) {
    let seeds = if load.entries == SIZES[0] { &SEEDS_OF_THE_LEAST[..] } else { &SEEDS_OF_THE_LEAST[..1] };
    let all: Vec<(u64, u64, u64)> = seeds.iter().map(|&seed| carried_out_with(options, load, seed)).collect();
    println!("{all:?}");
    let mean = |of: fn(&(u64, u64, u64)) -> u64| all.iter().map(of).sum::<u64>() / all.len() as u64;
    (mean(|one| one.0), mean(|one| one.1), mean(|one| one.2))
}

fn carried_out_with(options: &Options, load: &Load, seed: u64) -> (u64, u64, u64) {
    let (env, _, _) = sim_env(1);
    let db = options.clone().env(env).open("/db").unwrap();
    let mut rng = Rng::new(seed);
    // Spreads keys drawn at random over all 64-bit numbers. The multiplier is odd, so no two keys become equal.
    let key = |drawn: u64| match load.is_sequential {
        true => (u128::from(drawn) << 64).to_be_bytes(),
        false => (u128::from(drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64).to_be_bytes(),
    };
    let (mut written, mut gets, mut scans) = (Vec::new(), 0, 0);
    for number in 0..load.entries {
        let drawn = if load.is_sequential { number % load.keys } else { rng.below(load.keys) };
        db.put(key(drawn), [number as u8; VALUE_BYTES]).unwrap();
        written.push(drawn);
        while gets * load.entries < load.gets * number {
            gets += 1;
            assert!(db.get(key(written[rng.below(number) as usize])).unwrap().is_some());
        }
        while scans * load.entries < load.scans * number {
            scans += 1;
            db.range(key(written[rng.below(number) as usize])..)
                .take(50)
                .for_each(|entry| drop(entry.unwrap()));
        }
        if number % PUTS_BEFORE_SETTLING == 0 {
            db.settle().unwrap();
        }
    }
    db.flush().unwrap();
    db.settle().unwrap();
    let counts = db.stats().counts;
    let probes = counts.filter_rejections + counts.table_reads;
    (counts.flush_bytes, counts.merge_bytes.iter().sum(), probes)
}

#[test]
fn a_forecast_comes_true_in_the_engine() {
    for (runs, guards) in [(4, Guards::Balanced), (1, Guards::Balanced)] {
        let options = Options::new()
            .memtable_bytes(MEMTABLE_BYTES)
            .tuning(|tuning| tuning.table_bytes(MEMTABLE_BYTES as u64));
        let options =
            options.tuning(|tuning| tuning.max_runs_per_guard(runs).guards(guards).log_table_percent(0));
        for (entries, writes_per_key) in SIZES.into_iter().flat_map(|n| [(n, 0), (n, 4u64)]) {
            let keys = entries.checked_div(writes_per_key).unwrap_or(u64::MAX);
            let load = Load { entries, entry_bytes: 16 + VALUE_BYTES as u64, keys, ..Load::default() };
            let told = options.forecast(&load).unwrap();
            let told_merged: u64 = told.merged_bytes.iter().sum();
            let (flushed, merged, _) = carried_out(&options, &load);
            let written = (flushed + merged) as f64 / flushed as f64;
            let off = |told: f64, found: f64| told / found - 1.0;
            let off_written = off(told.merge_amplification(), written);
            let off_merged = off(told_merged as f64, merged as f64);
            println!(
                "{entries} entries, {runs} runs, {writes_per_key} writes a key (0: one): \
                 {:.2} written a byte flushed, found {written:.2}, {:+.0}%; {told_merged} merged, found {merged}, {:+.0}%",
                told.merge_amplification(),
                off_written * 100.0,
                off_merged * 100.0,
            );
            assert!(off_written.abs() < MOST_OFF && off_merged.abs() < MOST_OFF);
        }
    }
}

/// As many gets as puts, and a scan for each 20 puts. Bytes and tables asked were at most 10% off: at three sizes, of keys written once at
/// random, four times at random, and once in order.
#[test]
fn readers_of_a_forecast_come_true() {
    for entries in SIZES {
        for (keys, is_sequential) in [(u64::MAX, false), (entries / 4, false), (u64::MAX, true)] {
            let options = Options::new()
                .memtable_bytes(MEMTABLE_BYTES)
                .tuning(|tuning| tuning.table_bytes(MEMTABLE_BYTES as u64).log_table_percent(0));
            let load = Load {
                entries,
                entry_bytes: 16 + VALUE_BYTES as u64,
                keys,
                is_sequential,
                gets: entries,
                scans: entries / 20,
            };
            let told = options.forecast(&load).unwrap();
            let told_merged: u64 = told.merged_bytes.iter().sum();
            let (flushed, merged, probes) = carried_out(&options, &load);
            let written = (flushed + merged) as f64 / flushed as f64;
            let off = |told: f64, found: f64| told / found - 1.0;
            let (off_written, off_probes) =
                (off(told.merge_amplification(), written), off(told.probes as f64, probes as f64));
            println!(
                "{entries} entries, {keys} keys, in order {is_sequential}: {:.2} written a byte flushed, found {written:.2}, {:+.0}%; \
                 {told_merged} merged, found {merged}; {} tables asked, found {probes}, {:+.0}%; {} merges bought",
                told.merge_amplification(),
                off_written * 100.0,
                told.probes,
                off_probes * 100.0,
                told.bought_merges,
            );
            assert!(off_written.abs() < MOST_OFF && off_probes.abs() < MOST_OFF);
        }
    }
}
