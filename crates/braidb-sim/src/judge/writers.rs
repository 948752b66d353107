//! Two writers and a reader, on real threads.
//!
//! Each writer owns its keys, in two families. Every batch writes to both families and leaves the writer's count in
//! both, so a reader, taking snapshots all the time, can tell whether a batch was torn and whether counts ever fall. The
//! main thread takes crash images meanwhile: what was acknowledged before the image must be in it, what was not yet asked
//! for after it cannot be. Threads interleave as they like, so a case does not replay exactly; what is checked holds for
//! every interleaving.

use super::Case;
use crate::client::Client;
use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict, no_panic};
use crate::fs::{Crash, SimFs};
use crate::machine::{DIR, Machine};
use crate::report::Tally;
use crate::rng::Rng;
use crate::workload::{Bytes, CRASHES, Change, Span};
use braidb::{Durability, Error, Snapshot};
use braidb_storage::Env;
use braidb_storage::inline::SeededRandom;
use braidb_storage::real::{MonotonicClock, Threads};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WRITERS: usize = 2;
const FAMILIES: [usize; 2] = [0, 1];
/// Crash images that are judged in one case, besides the one at the end.
const IMAGES: u64 = 6;

/// What one writer did, for all to see.
#[derive(Debug, Default)]
struct Progress {
    /// Batches asked for.
    issued: AtomicU64,
    /// Batches that survive a killed process, and lost power.
    kill_floor: AtomicU64,
    power_floor: AtomicU64,
    /// The writer is done, or failed.
    ended: AtomicBool,
}

impl Progress {
    fn floor(&self, crash: Crash) -> u64 {
        match crash {
            Crash::Process => self.kill_floor.load(Ordering::SeqCst),
            Crash::PowerAllLost | Crash::PowerTorn => self.power_floor.load(Ordering::SeqCst),
        }
    }

    fn acknowledged(&self, batch: u64, durability: Durability) {
        if durability >= Durability::Buffer {
            self.kill_floor.store(batch, Ordering::SeqCst);
        }
        if durability >= Durability::Sync {
            self.power_floor.store(batch, Ordering::SeqCst);
        }
    }
}

/// The key under which a writer leaves its count.
fn count_key(writer: usize) -> Bytes {
    format!("w{writer}").into_bytes().into()
}

/// The batch of that number: it depends on nothing but the seed.
fn batch(seed: u64, writer: usize, number: u64) -> (Vec<Change>, Durability, u64) {
    let mut rng = Rng::new(seed ^ (writer as u64) << 56 ^ number);
    let count = number.to_be_bytes();
    let mut changes: Vec<Change> = FAMILIES
        .map(|family| Change { family, key: count_key(writer), value: Some(count[..].into()) })
        .to_vec();
    for _ in 0..rng.between(1, 4) {
        let key = format!("w{writer}/{:03}", rng.below(200)).into_bytes().into();
        let len = rng.pick(&[0, 10, 100, 700]);
        let value = (!rng.one_in(4)).then(|| number.to_be_bytes().repeat(len / 8 + 1).into());
        changes.push(Change { family: rng.pick(&FAMILIES), key, value });
    }
    let durability = rng.weighted(&[(4, Durability::None), (8, Durability::Buffer), (1, Durability::Sync)]);
    (changes, durability, rng.below(1_000))
}

/// What a writer's keys hold after so many of its batches.
type Contents = [BTreeMap<Bytes, Bytes>; 2];

fn contents_after(seed: u64, writer: usize, batches: u64) -> Contents {
    let mut contents = Contents::default();
    for number in 1..=batches {
        for Change { family, key, value } in batch(seed, writer, number).0 {
            match value {
                Some(value) => contents[family].insert(key, value),
                None => contents[family].remove(&key),
            };
        }
    }
    contents
}

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    // Threads sleep in earnest: a drawn rate would only make the case long.
    let set = OptionSet { merge_bytes_per_second: None, ..OptionSet::draw(case.preset, &mut rng) };
    let fs = SimFs::new();
    let threads = Threads::new(set.background_threads).map_err(|error| Failure::new(error.to_string()))?;
    let env = Env {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(MonotonicClock::new()),
        random: Arc::new(SeededRandom::new(rng.bits())),
        runtime: Arc::new(threads),
    };
    let mut client = set.options(env).open(DIR).and_then(Client::new).map_err(failed)?;
    client.create(1).map_err(failed)?;
    let progress: [Progress; WRITERS] = Default::default();
    let done = AtomicBool::new(false);
    let batches = case.ops / WRITERS as u64;
    let shared = Shared { client: &client, progress: &progress, seed: case.seed, done: &done };
    let mut tally = Tally::default();
    let images = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || shared.write_to_the_end(writer, batches)))
            .collect();
        let reader = scope.spawn(move || no_panic(|| shared.read()));
        let images = take_images(&fs, &shared, batches, &mut rng);
        let wrote: Vec<Verdict> = writers.into_iter().map(|writer| writer.join().expect("caught")).collect();
        done.store(true, Ordering::SeqCst);
        let snapshots = reader.join().expect("caught")?;
        tally.add("snapshots", snapshots);
        wrote.into_iter().collect::<Verdict>().map(|()| images)
    })?;
    for image in images {
        tally.add("images", 1);
        image.judge(case.seed, &set, rng.bits())?;
    }
    // All batches, live, and after closing.
    check_contents(&client, case.seed, |_| batches..=batches).map_err(|f| f.at("at the end"))?;
    client.db.close().map_err(failed)?;
    drop(client);
    let last = Image { fs: fs.crash_image(Crash::PowerAllLost, 0), allowed: [(batches, batches); WRITERS] };
    last.judge(case.seed, &set, rng.bits()).map_err(|f| f.at("after closing"))?;
    tally.add("batches", batches * WRITERS as u64);
    Ok(tally)
}

/// What the threads share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    client: &'a Client,
    progress: &'a [Progress; WRITERS],
    seed: u64,
    done: &'a AtomicBool,
}

impl Shared<'_> {
    fn write_to_the_end(&self, writer: usize, batches: u64) -> Verdict {
        let wrote = no_panic(|| self.write(writer, batches));
        self.progress[writer].ended.store(true, Ordering::SeqCst);
        wrote
    }

    fn write(&self, writer: usize, batches: u64) -> Verdict {
        let progress = &self.progress[writer];
        for number in 1..=batches {
            let (changes, durability, chance) = batch(self.seed, writer, number);
            progress.issued.store(number, Ordering::SeqCst);
            self.client.write(&changes, Some(durability)).map_err(failed)?;
            progress.acknowledged(number, durability);
            match chance {
                0..3 => {
                    self.client.db.flush().map_err(failed)?;
                    progress.acknowledged(number, Durability::Sync);
                }
                3..6 => {
                    self.client.db.persist(Durability::Sync).map_err(failed)?;
                    progress.acknowledged(number, Durability::Sync);
                }
                6 => self.client.db.compact().map_err(failed)?,
                _ => {}
            }
            // Its own writes are visible to a writer at once.
            let Change { family, key, value } = &changes[changes.len() - 1];
            let got = self.client.get(*family, key, None).map_err(failed)?;
            if got.as_deref() != value.as_deref() {
                return Err(Failure::new(format!("writer {writer} does not see its batch {number}")));
            }
        }
        Ok(())
    }

    /// Takes snapshots until the writers are done, one at least; in each, both families show the same count, which never falls.
    fn read(&self) -> Verdict<u64> {
        let mut last = [0; WRITERS];
        let mut snapshots = 0;
        loop {
            let snapshot = self.client.db.snapshot();
            for (writer, last) in last.iter_mut().enumerate() {
                let counts = [self.count(&snapshot, writer, 0)?, self.count(&snapshot, writer, 1)?];
                if counts[0] != counts[1] || counts[0] < *last {
                    return Err(Failure::new(format!(
                        "a snapshot shows batch {counts:?} of writer {writer} in the two families, after {last}"
                    )));
                }
                *last = counts[0];
            }
            snapshots += 1;
            if snapshots % 50 == 1 {
                self.compare_scans(&snapshot)?;
            }
            if self.done.load(Ordering::SeqCst) {
                return Ok(snapshots);
            }
        }
    }

    fn count(&self, snapshot: &Snapshot, writer: usize, family: usize) -> Verdict<u64> {
        let value = self.client.get(family, &count_key(writer), Some(snapshot)).map_err(failed)?;
        Ok(value.map_or(0, |value| u64::from_be_bytes(value[..].try_into().expect("a count has 8 bytes"))))
    }

    /// A snapshot scanned twice, forward and backward, gives the same.
    fn compare_scans(&self, snapshot: &Snapshot) -> Verdict {
        for family in FAMILIES {
            let scan = || self.client.scan(family, &Span::All, Some(snapshot));
            let forward: Vec<_> = scan().collect::<Result<_, _>>().map_err(failed)?;
            let mut backward: Vec<_> = scan().rev().collect::<Result<_, _>>().map_err(failed)?;
            backward.reverse();
            if forward != backward {
                return Err(Failure::new("the two directions of a snapshot differ"));
            }
        }
        Ok(())
    }
}

/// What a crash left, and of each writer the fewest and the most batches that may be in it.
struct Image {
    fs: SimFs,
    allowed: [(u64, u64); WRITERS],
}

/// Takes images while the writers write.
fn take_images(fs: &SimFs, shared: &Shared, batches: u64, rng: &mut Rng) -> Vec<Image> {
    let mut images = Vec::new();
    for i in 1..=IMAGES {
        let wanted = batches * i / (IMAGES + 1);
        let progress = &shared.progress[0];
        while progress.issued.load(Ordering::SeqCst) < wanted && !progress.ended.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let crash = CRASHES[(i % 3) as usize];
        let low = [0, 1].map(|writer: usize| shared.progress[writer].floor(crash));
        let image = fs.crash_image(crash, rng.bits());
        let high = [0, 1].map(|writer: usize| shared.progress[writer].issued.load(Ordering::SeqCst));
        images.push(Image { fs: image, allowed: [(low[0], high[0]), (low[1], high[1])] });
    }
    images
}

impl Image {
    fn judge(self, seed: u64, set: &OptionSet, machine_seed: u64) -> Verdict {
        let machine = Machine::new(&self.fs, machine_seed);
        let client = machine.open(set).and_then(Client::new).map_err(failed)?;
        check_contents(&client, seed, |writer| self.allowed[writer].0..=self.allowed[writer].1)
            .map_err(|failure| failure.at("an image taken while writers wrote"))
    }
}

/// Compares everything with what the writers wrote: of each so many batches as its count tells, which must be allowed.
fn check_contents(
    client: &Client,
    seed: u64,
    allowed: impl Fn(usize) -> std::ops::RangeInclusive<u64>,
) -> Verdict {
    let state = client.read_all(None, &[]).map_err(|trouble| Failure::new(trouble.to_string()))?;
    let mut expected = Contents::default();
    for writer in 0..WRITERS {
        let count = state[0]
            .get(&count_key(writer))
            .map_or(0, |value| u64::from_be_bytes(value[..].try_into().expect("a count has 8 bytes")));
        if !allowed(writer).contains(&count) {
            let allowed = allowed(writer);
            return Err(Failure::new(format!(
                "{count} batches of writer {writer} are there; {allowed:?} may be"
            )));
        }
        for (family, contents) in contents_after(seed, writer, count).into_iter().enumerate() {
            expected[family].extend(contents);
        }
    }
    for family in FAMILIES {
        if state[family] != expected[family] {
            return Err(Failure::new(format!(
                "family {family} is not what the batches up to the counts wrote"
            )));
        }
    }
    Ok(())
}

fn failed(error: Error) -> Failure {
    Failure::new(format!("fails: {error}"))
}
