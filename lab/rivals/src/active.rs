//! `active`: compares the active segment, a skiplist, with a hash index over records in arrival order.
//!
//! A run has stages, all in one new segment. *insert* writes keys in random order until the segment is full. *hit* and *miss* get keys. The
//! first *scan* is a seek and 50 entries. *flatten* follows, then *update* of one key. A small segment is filled repeatedly until the bytes
//! of a large one were written. Times are processor time for each operation. One thread writes and reads, so other processes do not count.

use crate::Outcome;
use crate::child::{self, Figures, thread_cpu_ns};
use crate::hash_index::HashIndex;
use braidb_bench::draws::{Noise, mix, shuffled, write_decimal};
use clap::ValueEnum;
use engine::{Cursor, EntryKind, Immutable, Records, Segment, SegmentWriter, merge};
use std::ffi::OsString;
use std::hint::black_box;
use std::sync::Arc;

/// Time the active segment and a hash index in its place
#[derive(clap::Args)]
pub struct Args {
    /// Runs of each side, which take turns; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Count instructions with cachegrind, not times
    #[arg(long)]
    instructions: bool,
}

/// Measures one run.
#[derive(clap::Args)]
pub struct OneArgs {
    #[arg(value_enum)]
    side: Side,
    #[arg(value_enum)]
    keys: Keys,
    /// Pairs in a segment
    pairs: u64,
    /// Segments to fill
    segments: u64,
    /// The last stage
    #[arg(long, value_enum, default_value_t = Stage::Update)]
    until: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Skiplist,
    Hash,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Keys {
    /// Digits with zeros in front: the first eight bytes are equal, so a skiplist's prefixes decide nothing.
    Digits,
    /// Random bytes, so a skiplist's prefixes decide everything.
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Stage {
    Nothing,
    Insert,
    Hit,
    Miss,
    Scan,
    Flatten,
    Update,
}

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 128;
/// The bytes that a pair takes in a skiplist.
const PAIR_BYTES: u64 = 218;
const LARGE_BYTES: u64 = 64 << 20;
const SMALL_BYTES: u64 = LARGE_BYTES * 4 / 100;
const SCANNED: usize = 50;
const SEED: u64 = 1;

/// The operations of an active segment.
trait Active {
    fn insert(&mut self, key: &[u8], seq: u64, value: &[u8]);
    fn get(&self, key: &[u8]) -> Option<usize>;
    /// The bytes of the first 50 keys from `key` on.
    fn scan(&self, key: &[u8]) -> usize;
    /// Puts the entries in order. Returns their number.
    fn flatten(&self) -> usize;
}

struct Skiplist(Arc<Segment>, SegmentWriter);

impl Active for Skiplist {
    fn insert(&mut self, key: &[u8], seq: u64, value: &[u8]) {
        self.1.insert(key, seq, EntryKind::Put, value);
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        self.0.get(key, engine::hash(key), u64::MAX).map(|found| found.value.len())
    }

    fn scan(&self, key: &[u8]) -> usize {
        let mut cursor = self.0.cursor();
        cursor.seek(key).expect("memory does not fail");
        let mut bytes = 0;
        for _ in 0..SCANNED {
            if !cursor.valid() {
                break;
            }
            bytes += cursor.key().len();
            cursor.next().expect("memory does not fail");
        }
        bytes
    }

    fn flatten(&self) -> usize {
        let merged = merge(&[Immutable::List(self.0.clone())], None, Records::Stay, || true);
        merged.map_or(0, |merged| black_box(merged).entries as usize)
    }
}

impl Active for HashIndex {
    fn insert(&mut self, key: &[u8], seq: u64, value: &[u8]) {
        HashIndex::insert(self, key, seq, value);
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        HashIndex::get(self, key).map(<[u8]>::len)
    }

    fn scan(&self, key: &[u8]) -> usize {
        let sorted = self.sorted_keys();
        let start = sorted.partition_point(|&(_, at)| self.key(at) < key);
        sorted[start..].iter().take(SCANNED).map(|&(_, at)| self.key(at).len()).sum()
    }

    fn flatten(&self) -> usize {
        black_box(self.sorted_versions()).len()
    }
}

impl Keys {
    fn write(self, number: u64, key: &mut [u8]) {
        match self {
            Keys::Digits => write_decimal(number, key),
            Keys::Random => {
                key[..8].copy_from_slice(&mix(number).to_be_bytes());
                key[8..].copy_from_slice(&mix(!number).to_be_bytes());
            }
        }
    }
}

pub fn run_one(args: &OneArgs) -> Outcome {
    let noise = Noise::new(SEED, VALUE_BYTES);
    // Every second key is never written.
    let mut keys = vec![0; 2 * KEY_BYTES * args.pairs as usize];
    for (number, key) in (0..).zip(keys.chunks_exact_mut(KEY_BYTES)) {
        args.keys.write(shuffled(number, 2 * args.pairs, SEED), key);
    }
    let (written, others) = keys.split_at(keys.len() / 2);
    let mut times = [0; 7];
    for _ in 0..args.segments {
        let mut active: Box<dyn Active> = match args.side {
            Side::Skiplist => {
                let (segment, writer) = Segment::new(SEED);
                Box::new(Skiplist(segment, writer))
            }
            Side::Hash => Box::new(HashIndex::new(2 * (args.pairs * PAIR_BYTES) as usize)),
        };
        for stage in Stage::value_variants().iter().filter(|&&stage| stage <= args.until) {
            let before = thread_cpu_ns();
            perform(*stage, &mut *active, [written, others], &noise);
            times[*stage as usize] += thread_cpu_ns() - before;
        }
    }
    let figure = |stage: &Stage| {
        let operations = stage.operations(args.pairs) * args.segments;
        (stage.name(), times[*stage as usize] as f64 / operations as f64)
    };
    let figures: Figures = Stage::value_variants()[1..].iter().map(figure).collect();
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

fn perform(stage: Stage, active: &mut dyn Active, [written, others]: [&[u8]; 2], noise: &Noise) {
    let keys = || (1..).zip(written.chunks_exact(KEY_BYTES));
    let pairs = written.len() / KEY_BYTES;
    match stage {
        Stage::Nothing => {}
        Stage::Insert => {
            keys().for_each(|(seq, key)| active.insert(key, seq, noise.value(seq, VALUE_BYTES)));
        }
        Stage::Hit => keys().for_each(|(_, key)| assert_eq!(active.get(key), Some(VALUE_BYTES))),
        Stage::Miss => others.chunks_exact(KEY_BYTES).for_each(|key| assert_eq!(active.get(key), None)),
        Stage::Scan => assert!(black_box(active.scan(&others[..KEY_BYTES])) <= SCANNED * KEY_BYTES),
        Stage::Flatten => assert_eq!(active.flatten(), pairs),
        Stage::Update => {
            let hot = &written[..KEY_BYTES];
            let seqs = (pairs as u64 + 1..).take(pairs / 2);
            seqs.for_each(|seq| active.insert(hot, seq, noise.value(seq, VALUE_BYTES)));
        }
    }
}

impl Stage {
    fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }

    /// The number of operations of a stage. Flattening counts a pair as one operation.
    fn operations(self, pairs: u64) -> u64 {
        match self {
            Stage::Nothing | Stage::Scan => 1,
            Stage::Update => pairs / 2,
            _ => pairs,
        }
    }
}

fn command_line(side: Side, keys: Keys, bytes: u64, segments: u64, until: Stage) -> Vec<OsString> {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        OsString::from(value().expect("none is hidden").get_name())
    };
    let (side, keys) = (name(&|| side.to_possible_value()), name(&|| keys.to_possible_value()));
    let pairs = (bytes / PAIR_BYTES).to_string().into();
    let segments = segments.to_string().into();
    vec!["one-active".into(), side, keys, pairs, segments, "--until".into(), until.name().into()]
}

pub fn run(args: &Args) -> Outcome {
    for keys in [Keys::Digits, Keys::Random] {
        for bytes in [SMALL_BYTES, LARGE_BYTES] {
            let name = keys.to_possible_value().expect("none is hidden");
            let unit = if args.instructions { "instructions" } else { "ns" };
            println!(
                "keys are {}, a segment of {:.1} MiB, {unit}:",
                name.get_name(),
                bytes as f64 / 1_048_576.0
            );
            let sides =
                if args.instructions { counts(keys, bytes)? } else { times(keys, bytes, args.rounds)? };
            for stage in &Stage::value_variants()[1..] {
                let [skiplist, hash] = [0, 1].map(|side: usize| sides[side][&stage.name()]);
                let ratio = hash / skiplist;
                println!("{:8} skiplist {skiplist:11.0}  hash index {hash:11.0}  {ratio:8.2}", stage.name());
            }
        }
    }
    Ok(())
}

fn times(keys: Keys, bytes: u64, rounds: u64) -> Outcome<[Figures; 2]> {
    let mut runs = [Side::Skiplist, Side::Hash].map(|side| (side, Vec::new()));
    for _ in 0..rounds {
        for (side, runs) in &mut runs {
            let line = command_line(*side, keys, bytes, LARGE_BYTES / bytes, Stage::Update);
            runs.push(child::figures_of(&line)?);
        }
    }
    Ok(runs.map(|(_, runs)| child::medians(&runs)))
}

/// Counts the instructions of each stage: the difference between a run that ends with the stage and a run that ends one stage earlier.
fn counts(keys: Keys, bytes: u64) -> Outcome<[Figures; 2]> {
    let count = |side| -> Outcome<Figures> {
        let mut figures = Figures::new();
        let mut before = 0.0;
        for &stage in Stage::value_variants() {
            let all = child::instructions(&command_line(side, keys, bytes, 1, stage))?;
            figures.insert(stage.name(), (all - before) / stage.operations(bytes / PAIR_BYTES) as f64);
            before = all;
        }
        Ok(figures)
    };
    Ok([count(Side::Skiplist)?, count(Side::Hash)?])
}
