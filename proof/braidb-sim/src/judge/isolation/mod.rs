//! Transactions of eight threads at once, judged by their history.
//!
//! The threads append to lists, transfer between accounts, count with `update`, and make lists by plain writes. A transaction reads single
//! lists, or scans all of them. The checker (`history.rs`) says whether a serial order explains what they read. The sum of all accounts is the
//! same in each scan, and no count is lost. One thread stages and commits pairs in an overlay; the others find each pair whole.
//!
//! Flushes, merges and excises (`excises.rs`) run beside the transactions. Threads interleave freely, so a case does not replay exactly.

mod excises;
mod history;

use super::Case;
use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict, all, no_panic};
use crate::machine::{self, DIR};
use crate::report::Tally;
use crate::rng::Rng;
use braidb::{ColumnFamily, Db, Durability, Error, Overlay, Transaction, WriteBatch};
use braidb_storage::Env;
use braidb_storage::inline::SeededRandom;
use braidb_storage::real::{MonotonicClock, Threads};
use braidb_storage::sim::SimFs;
use history::{Read, Run};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that run transactions.
const THREADS: u64 = 8;
/// Lists that transactions append to. Plain writes make lists with larger numbers.
const LISTS: u64 = 24;
/// Lists to which most appends go, so that transactions meet.
const HOT_LISTS: u64 = 3;
const ACCOUNTS: u64 = 6;
/// What each account has in the beginning.
const BALANCE: u64 = 1_000;
const COUNTER: &[u8] = b"counter";

/// What all threads share.
struct Shared {
    db: Db,
    /// Lists are in the default family, accounts in this one.
    accounts: ColumnFamily,
    /// One thread stages both of a pair of numbers here and commits them; all threads read them.
    overlay: Overlay,
    pairs: ColumnFamily,
    /// Originals and copies, which excises take.
    copies: ColumnFamily,
    /// Gives each begin and end of a run a moment of its own.
    clock: AtomicU64,
    next_element: AtomicU64,
    next_list: AtomicU64,
    mutant: Option<String>,
}

/// What a thread did.
#[derive(Default)]
struct Done {
    runs: Vec<Run>,
    counted: u64,
    tally: Tally,
}

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let set = OptionSet {
        merge_bytes_per_second: None,
        slow_tiers: 0,
        // Small rings are overrun, so that commits compare versions.
        gap_puts: rng.pick(&[1, 4, 64, 1 << 10]),
        ..OptionSet::draw(case.preset, &mut rng)
    };
    let fs = SimFs::new();
    machine::attach(&fs, &set);
    let runtime = Threads::new(set.background_threads).map_err(|error| Failure::new(error.to_string()))?;
    let env = Env {
        fs: Arc::new(fs),
        clock: Arc::new(MonotonicClock::new()),
        random: Arc::new(SeededRandom::new(rng.bits())),
        runtime: Arc::new(runtime),
    };
    let db = set.options(env).open(DIR).map_err(failed)?;
    let accounts = db.create_column_family("accounts").map_err(failed)?;
    for account in 0..ACCOUNTS {
        accounts.put(account.to_be_bytes(), BALANCE.to_be_bytes()).map_err(failed)?;
    }
    let pairs = db.create_column_family("pairs").map_err(failed)?;
    let copies = db.create_column_family("copies").map_err(failed)?;
    let shared = Shared {
        overlay: db.overlay(),
        db,
        accounts,
        pairs,
        copies,
        clock: AtomicU64::new(0),
        next_element: AtomicU64::new(0),
        next_list: AtomicU64::new(LISTS),
        mutant: braidb::mutants::active(),
    };
    let ops = case.ops / THREADS + 1;
    let seeds: Vec<u64> = (0..THREADS).map(|_| rng.bits()).collect();
    let ended = std::thread::scope(|scope| {
        let shared = &shared;
        let begin = |(number, &seed)| scope.spawn(move || work(shared, number, seed, ops));
        let threads: Vec<_> = seeds.iter().enumerate().map(begin).collect();
        all(threads.into_iter().map(|thread| thread.join().expect("panics are caught")).collect())
    })?;
    let mut tally = Tally::default();
    ended.iter().for_each(|done| tally.merge(&done.tally));
    check(&shared, &ended)?;
    shared.db.close().map_err(failed)?;
    Ok(tally)
}

fn failed(error: Error) -> Failure {
    Failure::new(format!("fails: {error}"))
}

/// Checks what all threads did.
fn check(shared: &Shared, ended: &[Done]) -> Verdict {
    let mut last = BTreeMap::new();
    for entry in shared.db.prefix("list/") {
        let (key, value) = entry.map_err(failed)?;
        last.insert(list_of(&key), elements(&value));
    }
    let runs: Vec<Run> = ended.iter().flat_map(|done| done.runs.iter().cloned()).collect();
    history::check(&runs, &last).map_err(Failure::new)?;
    let counted: u64 = ended.iter().map(|done| done.counted).sum();
    let counter = shared.db.get(COUNTER).map_err(failed)?.map_or(0, |value| number(&value));
    if counter != counted {
        return Err(Failure::new(format!(
            "{counted} updates of the counter succeeded, and it stands at {counter}"
        )));
    }
    excises::look(shared)?;
    audit(shared)
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("numbers have 8 bytes"))
}

fn list_key(list: u64) -> Vec<u8> {
    format!("list/{list:02}").into_bytes()
}

fn list_of(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[5..]).expect("keys are ASCII").parse().expect("keys end in numbers")
}

fn elements(value: &[u8]) -> Vec<u64> {
    value.chunks(8).map(number).collect()
}

/// The life of one thread.
fn work(shared: &Shared, thread: usize, seed: u64, ops: u64) -> Verdict<Done> {
    braidb::mutants::activate(shared.mutant.as_deref());
    no_panic(|| {
        let (mut rng, mut done, mut pair) = (Rng::new(seed), Done::default(), 0);
        for _ in 0..ops {
            match rng.below(24) {
                0..11 => append(shared, &mut rng, &mut done)?,
                11..14 => transfer(shared, &mut rng, &mut done)?,
                14..16 => audit(shared)?,
                16..18 => {
                    let add_one = |old: Option<&[u8]>| Some((old.map_or(0, number) + 1).to_be_bytes());
                    shared.db.update(COUNTER, add_one).map_err(failed)?;
                    done.counted += 1;
                }
                18 => make_lists(shared, &mut rng, &mut done)?,
                20.. => excises::step(shared, &mut rng, &mut done)?,
                _ if rng.one_in(2) && thread == 0 => stage_pair(shared, &mut pair)?,
                _ if rng.one_in(2) => pair = read_pair(shared, pair)?,
                _ if rng.one_in(8) => shared.db.flush().map_err(failed)?,
                _ if rng.one_in(20) => shared.db.compact().map_err(failed)?,
                _ => {}
            }
        }
        Ok(done)
    })
}

fn draw_list(rng: &mut Rng) -> u64 {
    if rng.one_in(4) { rng.below(LISTS) } else { rng.below(HOT_LISTS) }
}

/// Runs one transaction over lists, and keeps its run.
fn append(shared: &Shared, rng: &mut Rng, done: &mut Done) -> Verdict {
    let mut run = Run { begun: shared.clock.fetch_add(1, Ordering::SeqCst), ..Run::default() };
    let transaction = shared.db.transaction().map_err(failed)?;
    run.has_scanned = rng.one_in(3);
    if run.has_scanned {
        run.reads = scan(&transaction).map_err(failed)?;
    }
    let mut lists = vec![draw_list(rng)];
    if rng.one_in(2) {
        lists.extend([draw_list(rng)]);
        lists.dedup();
    }
    // Some lists are read only.
    let appended = rng.below(lists.len() as u64 + 1) as usize;
    for (place, &list) in lists.iter().enumerate() {
        let value = transaction.get(list_key(list)).map_err(failed)?;
        let mut bytes = value.map_or(Vec::new(), |value| value.to_vec());
        if !run.has_scanned {
            run.reads.push((list, elements(&bytes)));
        }
        if place < appended {
            let element = shared.next_element.fetch_add(1, Ordering::SeqCst);
            bytes.extend(element.to_be_bytes());
            transaction.put(list_key(list), bytes).map_err(failed)?;
            run.appends.push((list, element));
        }
    }
    if rng.one_in(4) {
        std::thread::yield_now();
    }
    let durability = rng.weighted(&[(2, Durability::None), (4, Durability::Buffer), (4, Durability::Sync)]);
    match transaction.commit_with(durability) {
        Ok(()) => run.is_committed = true,
        Err(Error::Conflict) => done.tally.add("conflicts", 1),
        Err(error) => return Err(failed(error)),
    }
    run.ended = shared.clock.fetch_add(1, Ordering::SeqCst);
    done.tally.add("runs", 1);
    done.runs.push(run);
    Ok(())
}

/// Reads all lists.
fn scan(transaction: &Transaction) -> Result<Vec<Read>, Error> {
    let lists = transaction.prefix("list/");
    lists.map(|entry| entry.map(|(key, value)| (list_of(&key), elements(&value)))).collect()
}

/// Makes lists of one element by a plain batch. Large batches overrun the ring.
fn make_lists(shared: &Shared, rng: &mut Rng, done: &mut Done) -> Verdict {
    let mut run = Run { begun: shared.clock.fetch_add(1, Ordering::SeqCst), ..Run::default() };
    let mut batch = WriteBatch::new();
    for _ in 0..rng.pick(&[1, 1, 3]) {
        let list = shared.next_list.fetch_add(1, Ordering::SeqCst);
        let element = shared.next_element.fetch_add(1, Ordering::SeqCst);
        batch.put(list_key(list), element.to_be_bytes());
        run.appends.push((list, element));
    }
    for write in 0..rng.pick(&[0, 0, 200]) {
        batch.put(format!("overrun/{write}"), "");
    }
    shared.db.write(batch).map_err(failed)?;
    run.is_committed = true;
    run.ended = shared.clock.fetch_add(1, Ordering::SeqCst);
    done.runs.push(run);
    Ok(())
}

/// Stages a pair of equal numbers in the overlay, and commits or keeps it.
fn stage_pair(shared: &Shared, last: &mut u64) -> Verdict {
    *last += 1;
    let (overlay, pairs) = (&shared.overlay, &shared.pairs);
    overlay.put_in(pairs, "first", last.to_be_bytes()).map_err(failed)?;
    overlay.put_in(pairs, "second", last.to_be_bytes()).map_err(failed)?;
    if last.is_multiple_of(3) { overlay.commit().map_err(failed) } else { Ok(()) }
}

/// Reads the pair of the overlay by an iterator. The first number is the second one, or one more; neither ever falls.
fn read_pair(shared: &Shared, last: u64) -> Verdict<u64> {
    let numbers =
        shared.overlay.range_in(&shared.pairs, ..).map(|entry| entry.map(|(_, value)| number(&value)));
    let mut numbers = numbers.collect::<Result<Vec<u64>, Error>>().map_err(failed)?;
    numbers.resize(2, 0);
    let (first, second) = (numbers[0], numbers[1]);
    if second < last || !(second..=second + 1).contains(&first) {
        return Err(Failure::new(format!("an overlay shows {first} and {second} after {last}")));
    }
    Ok(second)
}

fn transfer(shared: &Shared, rng: &mut Rng, done: &mut Done) -> Verdict {
    let (from, to) = (rng.below(ACCOUNTS).to_be_bytes(), rng.below(ACCOUNTS).to_be_bytes());
    let accounts = &shared.accounts;
    let moved = shared.db.transact(|transaction| {
        let balance = |key| {
            let value = transaction.get_in(accounts, key)?;
            Ok::<u64, Error>(value.map_or(0, |value| number(&value)))
        };
        let had = balance(from)?;
        if from == to || had == 0 {
            return Ok(false);
        }
        transaction.put_in(accounts, from, (had - 1).to_be_bytes())?;
        transaction.put_in(accounts, to, (balance(to)? + 1).to_be_bytes())?;
        Ok::<bool, Error>(true)
    });
    done.tally.add("transfers", u64::from(moved.map_err(failed)?));
    Ok(())
}

fn audit(shared: &Shared) -> Verdict {
    let sum = shared.db.transact(|transaction| {
        let entries = transaction.range_in(&shared.accounts, ..);
        entries.map(|entry| entry.map(|(_, value)| number(&value))).sum::<Result<u64, Error>>()
    });
    match sum.map_err(failed)? {
        sum if sum == ACCOUNTS * BALANCE => Ok(()),
        sum => Err(Failure::new(format!("the accounts add up to {sum}"))),
    }
}
