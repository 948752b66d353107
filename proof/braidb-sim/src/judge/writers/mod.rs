//! Writers and readers on real threads, with flushes, compactions, verifications and new families at the same time.
//!
//! Each writer owns its keys, in all families. Every batch stores the writer's count in the first two families. Readers take
//! snapshots all the time, and find torn batches and counts that fall. A held snapshot or iterator must keep showing what it
//! showed first.
//!
//! The main thread takes crash images meanwhile. A write acknowledged before the image must be in it. A write not yet asked for
//! cannot be in it.
//!
//! A case is several lives of one database. Each life opens it with its own options, after a close or a crash. Threads
//! interleave freely, so a case does not replay exactly. What is checked holds for every interleaving. The judges run with the
//! profile `dev` of the workspace's Cargo.toml, which checks overflows.

mod holes;
mod life;

use super::Case;
use crate::client::Client;
use crate::draw::{OptionSet, Preset};
use crate::failure::{Failure, Verdict};
use crate::machine::{self, Machine};
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::Outage;
use crate::workload::{Bytes, CRASHES, Change, FAMILIES};
use braidb::tuning::Guards;
use braidb::{Durability, Error};
use braidb_storage::sim::{BesideFs, Crash, SimFs};
use holes::Holes;
use life::Life;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The families that hold every writer's count. They exist from the beginning.
const COUNTED: [usize; 2] = [0, 1];
/// The family that writers create during a life.
const LATE: usize = 2;
/// Crash images that are judged in one life, besides the one at its end.
const IMAGES: u64 = 3;

/// What the writers of a case write. It depends only on the seed and the sizes.
#[derive(Clone, Copy, Debug)]
struct Script {
    seed: u64,
    writers: usize,
    /// Batches of each writer over all lives.
    batches: u64,
}

/// One batch, its durability, and a number below 1,000 that decides what the writer does after the batch.
struct Batch {
    changes: Vec<Change>,
    durability: Durability,
    chance: u64,
}

/// The contents of some writers' keys, by family.
type Contents = [BTreeMap<Bytes, Bytes>; FAMILIES.len()];

impl Script {
    /// The key of a writer's count.
    fn count_key(writer: usize) -> Bytes {
        format!("w{writer}").into_bytes().into()
    }

    /// A writer's batch `number`, from 1.
    fn batch(&self, writer: usize, number: u64) -> Batch {
        let mut rng = Rng::new(self.seed ^ (writer as u64) << 56 ^ number);
        let count = number.to_be_bytes();
        let mut changes: Vec<Change> = COUNTED
            .map(|family| Change { family, key: Script::count_key(writer), value: Some(count[..].into()) })
            .to_vec();
        let families = if number > self.batches / 4 { LATE + 1 } else { LATE };
        for _ in 0..rng.between(1, 4) {
            let key = format!("w{writer}/{:03}", rng.below(200)).into_bytes().into();
            let len = rng.pick(&[0, 10, 100, 700]);
            let value = (!rng.one_in(4)).then(|| number.to_be_bytes().repeat(len / 8 + 1).into());
            changes.push(Change { family: rng.below(families as u64) as usize, key, value });
        }
        let durability =
            rng.weighted(&[(4, Durability::None), (8, Durability::Buffer), (1, Durability::Sync)]);
        Batch { changes, durability, chance: rng.below(1_000) }
    }

    /// Adds the contents of a writer's keys after its first `batches` batches.
    fn add_contents(&self, contents: &mut Contents, writer: usize, batches: u64) {
        for number in 1..=batches {
            for Change { family, key, value } in self.batch(writer, number).changes {
                match value {
                    Some(value) => contents[family].insert(key, value),
                    None => contents[family].remove(&key),
                };
            }
        }
    }

    /// Compares the database with what the writers wrote. The count in the database tells how many batches of a writer it
    /// holds. The count must lie within the writer's range in `allowed` (fewest, most). Returns the counts.
    fn check(&self, client: &Client, allowed: &[(u64, u64)]) -> Verdict<Vec<u64>> {
        // A new client also opens families that were created since.
        let client = Client::new(client.db.clone()).map_err(failed)?;
        let state = client.read_all(None, &[]).map_err(|trouble| Failure::new(trouble.to_string()))?;
        let mut expected = Contents::default();
        let mut counts = Vec::new();
        for (writer, &(fewest, most)) in allowed.iter().enumerate() {
            let count = state[0].get(&Script::count_key(writer)).map_or(0, |value| number_in(value));
            if !(fewest..=most).contains(&count) {
                return Err(Failure::new(format!(
                    "{count} batches of writer {writer} are there; {fewest} to {most} may be"
                )));
            }
            self.add_contents(&mut expected, writer, count);
            counts.push(count);
        }
        match (0..FAMILIES.len()).find(|&family| state[family] != expected[family]) {
            Some(family) => {
                Err(Failure::new(format!("family {family} is not what the batches up to the counts wrote")))
            }
            None => Ok(counts),
        }
    }
}

/// The batch number that a count holds.
fn number_in(count: &[u8]) -> u64 {
    u64::from_be_bytes(count.try_into().expect("a count has 8 bytes"))
}

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let (writers, lives) = (rng.between(2, 8), rng.between(2, 3));
    // A case has about `case.ops` batches in total.
    let batches_of_life = (case.ops / writers / lives).max(1);
    let script = Script { seed: case.seed, writers: writers as usize, batches: batches_of_life * lives };
    let mut tally = Tally::default();
    let mut left = Image { fs: SimFs::new(), allowed: vec![(0, 0); script.writers] };
    for number in 1..=lives {
        left = live(case.preset, &script, left, batches_of_life, &mut rng, &mut tally)
            .map_err(|failure| failure.at(format_args!("life {number} of {lives}")))?;
    }
    left.judge(&script, case.preset, &mut rng).map_err(|failure| failure.at("after the last life"))?;
    tally.add("lives", lives);
    Ok(tally)
}

/// One life of the database: opens what the previous life left, and leaves it closed or crashed.
fn live(
    preset: Preset,
    script: &Script,
    found: Image,
    batches: u64,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Verdict<Image> {
    let set = draw(preset, rng);
    machine::attach(&found.fs, &set);
    let holes = Arc::new(Holes::default());
    let fs = BesideFs::new(found.fs.clone(), holes.clone());
    let mut life = Life::open(script, &set, fs, rng.bits())?;
    let counts = script.check(&life.client, &found.allowed).map_err(|failure| failure.at("opened"))?;
    let until: Vec<u64> = counts.iter().map(|count| (count + batches).min(script.batches)).collect();
    life.begin(&counts, &until);
    tally.add("batches", until.iter().sum::<u64>() - counts.iter().sum::<u64>());
    let images = life.live(rng, |life, rng| take_images(&found.fs, life, rng), tally)?;
    for image in images {
        tally.add("images", 1);
        image.judge(script, preset, rng).map_err(|f| f.at("an image taken while writers wrote"))?;
    }
    let all: Vec<(u64, u64)> = until.iter().map(|&count| (count, count)).collect();
    script.check(&life.client, &all).map_err(|failure| failure.at("at the end"))?;
    let crashed = rng.one_in(3).then(|| Image::take(&found.fs, &life, rng.pick(&CRASHES), rng));
    let counted_bytes = life.close()?;
    if counted_bytes != holes.bytes() {
        let made = holes.bytes();
        return Err(Failure::new(format!("{counted_bytes} bytes of holes were counted, and {made} made")));
    }
    tally.add("hole_bytes", counted_bytes);
    // All written data is stable after closing.
    Ok(crashed.unwrap_or_else(|| Image { fs: found.fs.crash_image(Crash::PowerAllLost, 0), allowed: all }))
}

/// Draws options for one open. Half of the sets let many slices share each table and die one by one. Then several threads find
/// holes in one table at once.
fn draw(preset: Preset, rng: &mut Rng) -> OptionSet {
    // A drawn merge rate would only make the case longer, because these threads really sleep.
    let set = OptionSet { merge_bytes_per_second: None, ..OptionSet::draw(preset, rng) };
    if preset == Preset::Default || rng.one_in(2) {
        return set;
    }
    OptionSet {
        memtable_bytes: rng.pick(&[8 << 10, 16 << 10, 32 << 10]),
        table_bytes: rng.pick(&[32 << 10, 128 << 10]),
        block_bytes: rng.pick(&[256, 1 << 10]),
        log_bytes: None,
        hot_keys_percent: 0,
        log_table_percent: 0,
        l0_slowdown_tables: 4,
        l0_stop_tables: 12,
        background_threads: rng.between(2, 4) as usize,
        max_runs: rng.pick(&[2, 4]),
        max_runs_at: None,
        guards: Guards::Sampled { top_level_bits: rng.pick(&[4, 5, 6]), bit_decrement: 1 },
        ..set
    }
}

/// What a crash left, and for each writer the fewest and the most batches that may be in it.
struct Image {
    fs: SimFs,
    allowed: Vec<(u64, u64)>,
}

impl Image {
    fn take(fs: &SimFs, life: &Life, crash: Crash, rng: &mut Rng) -> Image {
        let low = life.floors(crash);
        let outage = Outage::draw(fs, crash, rng);
        let fs = match outage.is_apart() {
            true => outage.image(fs, rng.bits()),
            false => fs.crash_image(crash, rng.bits()),
        };
        Image { fs, allowed: low.into_iter().zip(life.issued()).collect() }
    }

    /// Opens the image with newly drawn options, on one thread, and checks it.
    fn judge(self, script: &Script, preset: Preset, rng: &mut Rng) -> Verdict {
        let machine = Machine::new(&self.fs, rng.bits());
        let client = machine.open(&draw(preset, rng)).and_then(Client::new).map_err(failed)?;
        script.check(&client, &self.allowed).map(drop)
    }
}

/// Takes crash images while the writers write.
fn take_images(fs: &SimFs, life: &Life, rng: &mut Rng) -> Vec<Image> {
    let mut images = Vec::new();
    for at in 1..=IMAGES {
        life.wait_for(at, IMAGES + 1);
        images.push(Image::take(fs, life, CRASHES[(at % 3) as usize], rng));
    }
    images
}

fn failed(error: Error) -> Failure {
    Failure::new(format!("fails: {error}"))
}
