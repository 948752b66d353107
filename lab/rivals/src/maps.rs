//! `memory` and `instructions`: maps in memory that hold as many pairs as a budget of 64 MiB has room for.
//!
//! Keys come in random order. The first nine tenths are the map's *load*. The last tenth are inserts into a map that is nearly full. Then
//! one key, the hot key, is written repeatedly, each time with another value. Keys are made beforehand. The allocations and copies that a
//! map makes for a pair count for the map.
//!
//! Times are measured on the thread that writes. `writer_cpu` is the processor time of this thread, which is less if other threads wanted
//! the processor too. `cpu` is the processor time of all threads until a map has finished its work for the writes.

use crate::Outcome;
use crate::child::{self, Figures, thread_cpu_ns};
use braidb_bench::draws::{Noise, shuffled, write_decimal};
use braidb_bench::host::clock::Stopwatch;
use braidb_bench::host::process::Usage;
use clap::ValueEnum;
use crossbeam_skiplist::SkipMap;
use engine::{MemoryCompaction, Pipeline};
use std::ffi::OsString;

/// Time inserts and updates of maps in memory
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    sizes: Sizes,
    /// Runs of each map, which take turns; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Count the instructions of map operations, with cachegrind
#[derive(clap::Args)]
pub struct Sizes {
    /// Pairs [default: keys and values of 64 MiB together]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..))]
    pairs: Option<u64>,
    /// Writes of the hot key
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    updates: u64,
    /// Bytes of a value; a key has 16
    #[arg(long, default_value_t = 128)]
    value_bytes: usize,
}

/// Measures one run.
#[derive(clap::Args)]
pub struct OneArgs {
    #[arg(value_enum)]
    side: Side,
    #[command(flatten)]
    sizes: Sizes,
    /// Where to end
    #[arg(long, value_enum, default_value_t = Stage::Updated)]
    until: Stage,
}

/// The stage with which a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Stage {
    Loaded,
    Filled,
    Updated,
}

/// A map in memory. A further map needs a variant here, its name, and a [`Map`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Crossbeam,
    /// BraidDB's memory, compacted by a thread of its own, as in the engine.
    Braidb,
    /// BraidDB's memory, compacted by the thread that writes.
    BraidbInline,
    /// The writer's own work: a full segment is dropped, so there is no full map.
    BraidbWriter,
}

impl Side {
    /// The sides whose times mean something.
    const TIMED: [Side; 3] = [Side::Crossbeam, Side::Braidb, Side::BraidbInline];
    /// The sides that execute an equal number of instructions in each run.
    const COUNTED: [Side; 3] = [Side::Crossbeam, Side::BraidbInline, Side::BraidbWriter];

    fn name(self) -> &'static str {
        match self {
            Side::Crossbeam => "crossbeam",
            Side::Braidb => "braidb",
            Side::BraidbInline => "braidb-inline",
            Side::BraidbWriter => "braidb-writer",
        }
    }

    fn map(self) -> Box<dyn Map> {
        match self {
            Side::Crossbeam => Box::new(Boxed::new()),
            Side::Braidb => Box::new(Pipeline::new(MemoryCompaction::Beside)),
            Side::BraidbInline => Box::new(Pipeline::new(MemoryCompaction::Inline)),
            Side::BraidbWriter => Box::new(Pipeline::new(MemoryCompaction::Never)),
        }
    }
}

/// The operations of a map. A map keeps a copy of each pair, which replaces an older pair with its key.
trait Map {
    fn insert(&self, key: &[u8], value: &[u8]);

    fn holds(&self, key: &[u8], value: &[u8]) -> bool;

    /// Waits until the work for the writes is finished.
    fn settle(&self) {}
}

/// Keys and values in allocations of their own.
type Boxed = SkipMap<Box<[u8]>, Box<[u8]>>;

impl Map for Boxed {
    fn insert(&self, key: &[u8], value: &[u8]) {
        SkipMap::insert(self, key.into(), value.into());
    }

    fn holds(&self, key: &[u8], value: &[u8]) -> bool {
        self.get(key).is_some_and(|entry| **entry.value() == *value)
    }
}

impl Map for Pipeline {
    fn insert(&self, key: &[u8], value: &[u8]) {
        Pipeline::insert(self, key, value);
    }

    fn holds(&self, key: &[u8], value: &[u8]) -> bool {
        self.get(key, |found| found == Some(value))
    }

    fn settle(&self) {
        Pipeline::settle(self);
    }
}

const KEY_BYTES: usize = 16;
const BUDGET_BYTES: u64 = 64 << 20;
const SEED: u64 = 1;

impl Sizes {
    fn pairs(&self) -> u64 {
        self.pairs.unwrap_or(BUDGET_BYTES / (KEY_BYTES + self.value_bytes) as u64)
    }

    /// The number of pairs that are not the load.
    fn inserts(&self) -> u64 {
        self.pairs() / 10
    }

    fn command_line(&self, side: Side, until: Stage) -> Vec<OsString> {
        let until = until.to_possible_value().expect("none is hidden");
        let mut line =
            vec!["one-memory".into(), side.name().into(), "--until".into(), until.get_name().into()];
        for (option, value) in [
            ("--pairs", self.pairs()),
            ("--updates", self.updates),
            ("--value-bytes", self.value_bytes as u64),
        ] {
            line.extend([option.into(), value.to_string().into()]);
        }
        line
    }
}

pub fn run(args: &Args) -> Outcome {
    let mut runs = Side::TIMED.map(|side| (side, Vec::new()));
    for _ in 0..args.rounds {
        for (side, runs) in &mut runs {
            runs.push(child::figures_of(&args.sizes.command_line(*side, Stage::Updated))?);
        }
    }
    let sides = runs.map(|(side, runs)| (side.name().to_owned(), child::medians(&runs)));
    if args.json {
        println!("{}", child::as_json(&sides));
        return Ok(());
    }
    println!("{} pairs of {KEY_BYTES} and {} bytes", args.sizes.pairs(), args.sizes.value_bytes);
    for (side, figures) in &sides {
        let told = |name: &str| {
            let figure = |unit: &str| figures[&format!("{name}_{unit}")];
            let [all, writer, cpu] = ["ns", "writer_cpu_ns", "cpu_ns"].map(figure);
            format!("{all:.0} ns ({writer:.0} of a processor; all threads {cpu:.0})")
        };
        println!(
            "{side}: load {}, insert into the full map {}, update of the hot key {}",
            told("load"),
            told("insert"),
            told("update")
        );
    }
    Ok(())
}

pub fn run_one(args: &OneArgs) -> Outcome {
    let (sizes, pairs) = (&args.sizes, args.sizes.pairs());
    let noise = Noise::new(SEED, sizes.value_bytes);
    let mut keys = vec![0; KEY_BYTES * usize::try_from(pairs)?];
    for (number, key) in (0..).zip(keys.chunks_exact_mut(KEY_BYTES)) {
        write_decimal(shuffled(number, pairs, SEED), key);
    }
    let map = args.side.map();
    let fill = |from: u64, to: u64| {
        for (number, key) in (from..to).zip(keys[KEY_BYTES * from as usize..].chunks_exact(KEY_BYTES)) {
            map.insert(key, noise.value(number, sizes.value_bytes));
        }
    };
    let mut figures = Figures::new();
    let mut time = |name: &str, operations: u64, work: &dyn Fn()| {
        let (before, writer_before) = (Usage::now(), thread_cpu_ns());
        let watch = Stopwatch::start();
        work();
        let (elapsed_ns, writer_ns) = (watch.elapsed().as_nanos() as u64, thread_cpu_ns() - writer_before);
        map.settle();
        let cpu_ns = Usage::now().since(&before).cpu_us * 1000;
        for (unit, total) in [("ns", elapsed_ns), ("writer_cpu_ns", writer_ns), ("cpu_ns", cpu_ns)] {
            figures.insert(format!("{name}_{unit}"), total as f64 / operations as f64);
        }
    };
    let load = pairs - sizes.inserts();
    time("load", load, &|| fill(0, load));
    if args.until >= Stage::Filled {
        time("insert", sizes.inserts(), &|| fill(load, pairs));
    }
    if args.until >= Stage::Updated {
        let hot = &keys[..KEY_BYTES];
        time("update", sizes.updates, &|| {
            (0..sizes.updates).for_each(|number| map.insert(hot, noise.value(number, sizes.value_bytes)));
        });
    }
    check(&*map, args, &keys, &noise)?;
    println!("{}", serde_json::to_string(&figures)?);
    // Dropping the map would count too, so the map is leaked.
    std::mem::forget(map);
    Ok(())
}

/// Checks a thousand pairs of a map.
fn check(map: &dyn Map, args: &OneArgs, keys: &[u8], noise: &Noise) -> Outcome {
    if args.side == Side::BraidbWriter {
        return Ok(());
    }
    let (pairs, bytes) = (args.sizes.pairs(), args.sizes.value_bytes);
    let written = if args.until >= Stage::Filled { pairs } else { pairs - args.sizes.inserts() };
    for number in (0..written).step_by((written / 1000 + 1) as usize) {
        let key = &keys[number as usize * KEY_BYTES..][..KEY_BYTES];
        let is_hot = number == 0 && args.until >= Stage::Updated;
        let value = noise.value(if is_hot { args.sizes.updates - 1 } else { number }, bytes);
        if !map.holds(key, value) {
            return Err(format!("{} lost pair {number}", args.side.name()).into());
        }
    }
    Ok(())
}

/// Counts instructions by runs of different length under cachegrind: the difference of two runs is the cost of the additional operations.
pub fn count_instructions(sizes: &Sizes) -> Outcome {
    println!("{} pairs of {KEY_BYTES} and {} bytes", sizes.pairs(), sizes.value_bytes);
    for side in Side::COUNTED {
        let count = |until| child::instructions(&sizes.command_line(side, until));
        let (loaded, filled, updated) =
            (count(Stage::Loaded)?, count(Stage::Filled)?, count(Stage::Updated)?);
        println!(
            "{:14} insert into the full map {:.0} instructions, update of the hot key {:.0}",
            side.name(),
            (filled - loaded) / sizes.inserts() as f64,
            (updated - filled) / sizes.updates as f64
        );
    }
    Ok(())
}
