//! One life of the database: what its threads do, and what each of them checks.

use super::holes::Holes;
use super::{COUNTED, LATE, Script, failed, number_in};
use crate::client::Client;
use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict, all, no_panic};
use crate::machine::DIR;
use crate::model::State;
use crate::readers::Expected;
use crate::report::Tally;
use crate::rng::Rng;
use crate::workload::{FAMILIES, Scan, Span};
use braidb::{Durability, Snapshot};
use braidb_storage::inline::SeededRandom;
use braidb_storage::real::{MonotonicClock, Threads};
use braidb_storage::sim::{BesideFs, Crash};
use braidb_storage::{Env, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reader threads. Two, so that both may collect garbage at once when their snapshots are dropped.
const READERS: u64 = 2;
/// Snapshots, with their iterators, that one reader holds at once.
const HELD: usize = 3;
/// A reader holds one in `LOOKS` of its snapshots. From the others it reads only the counts.
const LOOKS: u64 = 40;
/// Microseconds that a thread sleeps between two looks at the writers' progress. A writer takes about as long for a few
/// batches.
const SLEEP_US: u64 = 100;

/// The progress of one writer, shared with all threads.
#[derive(Debug, Default)]
struct Progress {
    /// Batches that the database held when the life began.
    start: u64,
    /// The last batch of the writer in this life.
    until: u64,
    /// Batches asked for.
    issued: AtomicU64,
    /// Batches that survive a kill, and batches that survive a power failure.
    kill_floor: AtomicU64,
    power_floor: AtomicU64,
    /// Whether the writer is done or failed.
    ended: AtomicBool,
}

impl Progress {
    fn acknowledged(&self, batch: u64, durability: Durability) {
        if durability >= Durability::Buffer {
            self.kill_floor.store(batch, Ordering::SeqCst);
        }
        if durability >= Durability::Sync {
            self.power_floor.store(batch, Ordering::SeqCst);
        }
    }
}

/// An open database and its writers.
#[derive(Debug)]
pub struct Life<'a> {
    pub client: Client,
    script: &'a Script,
    runtime: Arc<Threads>,
    progress: Vec<Progress>,
    /// Whether all writers have ended.
    done: AtomicBool,
}

impl<'a> Life<'a> {
    pub fn open(script: &'a Script, set: &OptionSet, fs: BesideFs<Holes>, seed: u64) -> Verdict<Life<'a>> {
        let threads =
            Threads::new(set.background_threads).map_err(|error| Failure::new(error.to_string()))?;
        let runtime = Arc::new(threads);
        let env = Env {
            fs: Arc::new(fs),
            clock: Arc::new(MonotonicClock::new()),
            random: Arc::new(SeededRandom::new(seed)),
            runtime: runtime.clone(),
        };
        let mut client = set.options(env).open(DIR).and_then(Client::new).map_err(failed)?;
        for family in COUNTED {
            client.create(family).map_err(failed)?;
        }
        Ok(Life { client, script, runtime, progress: Vec::new(), done: AtomicBool::new(false) })
    }

    /// Starts each writer behind the batches that the database holds. An open makes what it found fully stable.
    pub fn begin(&mut self, counts: &[u64], until: &[u64]) {
        let begun = |(&start, &until): (&u64, &u64)| {
            let progress = Progress { start, until, ..Progress::default() };
            progress.issued.store(start, Ordering::SeqCst);
            progress.acknowledged(start, Durability::Sync);
            progress
        };
        self.progress = counts.iter().zip(until).map(begun).collect();
    }

    /// Batches of each writer that a crash of this kind must keep.
    pub fn floors(&self, crash: Crash) -> Vec<u64> {
        let floor = |progress: &Progress| match crash {
            Crash::Process => progress.kill_floor.load(Ordering::SeqCst),
            Crash::PowerAllLost | Crash::PowerTorn => progress.power_floor.load(Ordering::SeqCst),
        };
        self.progress.iter().map(floor).collect()
    }

    /// Batches of each writer that were asked for.
    pub fn issued(&self) -> Vec<u64> {
        self.progress.iter().map(|progress| progress.issued.load(Ordering::SeqCst)).collect()
    }

    /// Waits until the first writer has asked for `part` of `parts` of its batches.
    pub fn wait_for(&self, part: u64, parts: u64) {
        let progress = &self.progress[0];
        let wanted = progress.start + (progress.until - progress.start) * part / parts;
        while progress.issued.load(Ordering::SeqCst) < wanted && !progress.ended.load(Ordering::SeqCst) {
            self.runtime.pause_us(SLEEP_US);
        }
    }

    /// Runs all threads until the writers are done, and meanwhile `watch` on this thread.
    pub fn live<T>(
        &mut self,
        rng: &mut Rng,
        watch: impl FnOnce(&Life, &mut Rng) -> T,
        tally: &mut Tally,
    ) -> Verdict<T> {
        let life = &*self;
        let seeds: Vec<u64> = (0..READERS).map(|_| rng.bits()).collect();
        let (watched, outcome) = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..life.script.writers)
                .map(|writer| scope.spawn(move || life.write_to_the_end(writer)))
                .collect();
            let readers: Vec<_> =
                seeds.into_iter().map(|seed| scope.spawn(move || no_panic(|| life.read(seed)))).collect();
            let helpers: Vec<_> = [Life::flush, Life::compact, Life::verify, Life::create_families]
                .map(|help| scope.spawn(move || no_panic(|| help(life))))
                .into_iter()
                .collect();
            let watched = watch(life, rng);
            let wrote: Vec<Verdict<Option<Seen>>> =
                writers.into_iter().map(|writer| writer.join().expect("caught").map(|()| None)).collect();
            life.done.store(true, Ordering::SeqCst);
            let helped = helpers.into_iter().map(|helper| helper.join().expect("caught").map(|()| None));
            let read = readers.into_iter().map(|reader| reader.join().expect("caught").map(Some));
            // Writers' results come last: a writer that finds the database poisoned tells least.
            (watched, all(helped.chain(read).chain(wrote).collect()))
        });
        for seen in outcome?.into_iter().flatten() {
            tally.add("snapshots", seen.snapshots);
            tally.add("snapshots held", seen.held);
        }
        Ok(watched)
    }

    /// Closes the database. Returns the bytes of holes that it counted.
    pub fn close(self) -> Verdict<u64> {
        self.client.db.close().map_err(failed)?;
        Ok(self.client.db.stats().counts.hole_bytes)
    }

    fn write_to_the_end(&self, writer: usize) -> Verdict {
        let wrote = no_panic(|| self.write(writer));
        self.progress[writer].ended.store(true, Ordering::SeqCst);
        wrote
    }

    fn write(&self, writer: usize) -> Verdict {
        let progress = &self.progress[writer];
        let mut client = self.client.clone();
        for number in progress.start + 1..=progress.until {
            let batch = self.script.batch(writer, number);
            if !client.has(LATE) && batch.changes.iter().any(|change| change.family == LATE) {
                client.create(LATE).map_err(failed)?;
            }
            progress.issued.store(number, Ordering::SeqCst);
            client.write(&batch.changes, Some(batch.durability)).map_err(failed)?;
            progress.acknowledged(number, batch.durability);
            if batch.chance < 3 {
                client.db.persist(Durability::Sync).map_err(failed)?;
                progress.acknowledged(number, Durability::Sync);
            } else if batch.chance < 6 {
                client.db.flush().map_err(failed)?;
                progress.acknowledged(number, Durability::Sync);
            }
            // A writer sees its own writes at once.
            let last = &batch.changes[batch.changes.len() - 1];
            let got = client.get(last.family, &last.key, None).map_err(failed)?;
            if got.as_deref() != last.value.as_deref() {
                return Err(Failure::new(format!("writer {writer} does not see its batch {number}")));
            }
        }
        Ok(())
    }

    /// Runs `help` `times` times, spread evenly over the progress of writer 0.
    fn help(&self, times: u64, mut help: impl FnMut(u64) -> Verdict) -> Verdict {
        for at in 1..=times {
            self.wait_for(at, times + 1);
            help(at)?;
        }
        Ok(())
    }

    fn flush(&self) -> Verdict {
        self.help(3, |_| self.client.db.flush().map_err(failed))
    }

    fn compact(&self) -> Verdict {
        self.help(3, |_| self.client.db.compact().map_err(failed))
    }

    fn verify(&self) -> Verdict {
        self.help(3, |_| {
            let report = self.client.db.verify().map_err(failed)?;
            match report.damages.is_empty() {
                true => Ok(()),
                false => Err(Failure::new(format!("verify finds damage: {:?}", report.damages))),
            }
        })
    }

    fn create_families(&self) -> Verdict {
        self.help(3, |number| {
            let family = self.client.db.create_column_family(&format!("made {number}")).map_err(failed)?;
            family.put("k", number.to_be_bytes()).map_err(failed)?;
            match family.get("k").map_err(failed)?.as_deref() == Some(&number.to_be_bytes()[..]) {
                true => Ok(()),
                false => Err(Failure::new("a new family does not show what was put")),
            }
        })
    }

    /// Takes snapshots until the writers are done, at least one. Each must show equal counts in both families, and no count may
    /// fall. Some snapshots are held, and read again later.
    fn read(&self, seed: u64) -> Verdict<Seen> {
        let mut rng = Rng::new(seed);
        let mut last: Vec<u64> = self.progress.iter().map(|progress| progress.start).collect();
        let (mut seen, mut held) = (Seen::default(), Vec::new());
        loop {
            let is_last = self.done.load(Ordering::SeqCst);
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
            seen.snapshots += 1;
            if is_last {
                held.iter_mut().try_for_each(|held: &mut Held| held.look(true, &mut rng))?;
                return Ok(seen);
            }
            match rng.below(LOOKS) {
                0 => {
                    held.truncate(HELD - 1);
                    held.insert(0, Held::take(self, snapshot, &mut rng)?);
                    seen.held += 1;
                }
                1..3 if !held.is_empty() => {
                    let which = rng.below(held.len() as u64) as usize;
                    held[which].look(rng.one_in(4), &mut rng)?;
                }
                3 => held.truncate(rng.below(HELD as u64) as usize),
                _ => {}
            }
        }
    }

    fn count(&self, snapshot: &Snapshot, writer: usize, family: usize) -> Verdict<u64> {
        let value = self.client.get(family, &Script::count_key(writer), Some(snapshot)).map_err(failed)?;
        Ok(value.map_or(0, |value| number_in(&value)))
    }
}

/// What a reader checked.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    snapshots: u64,
    held: u64,
}

/// A snapshot, an iterator over it, and what both must show while the tree changes.
struct Held {
    client: Client,
    snapshot: Snapshot,
    state: State,
    iterator: Option<Expected>,
}

impl Held {
    fn take(life: &Life, snapshot: Snapshot, rng: &mut Rng) -> Verdict<Held> {
        let client = Client::new(life.client.db.clone()).map_err(failed)?;
        let state = read_all(&client, &snapshot)?;
        let family = rng.below(FAMILIES.len() as u64) as usize;
        let iterator = client.has(family).then(|| {
            let scan = Scan { family, span: Span::All, snapshot: Some(0), directions: 0, steps: 0 };
            Expected::start(&client, &scan, Some(&snapshot), &state)
        });
        Ok(Held { client, snapshot, state, iterator })
    }

    /// Advances the iterator. If `at_all`, advances it to its end and reads the whole snapshot again.
    fn look(&mut self, at_all: bool, rng: &mut Rng) -> Verdict {
        let steps = if at_all { usize::MAX } else { rng.between(1, 50) as usize };
        if let Some(mut iterator) = self.iterator.take()
            && iterator.advance(rng.bits(), steps)?.map_err(failed)?
        {
            self.iterator = Some(iterator);
        }
        if at_all && read_all(&self.client, &self.snapshot)? != self.state {
            return Err(Failure::new("a snapshot does not show what it showed before"));
        }
        Ok(())
    }
}

fn read_all(client: &Client, snapshot: &Snapshot) -> Verdict<State> {
    client.read_all(Some(snapshot), &[]).map_err(|trouble| Failure::new(trouble.to_string()))
}
