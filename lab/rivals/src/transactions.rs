//! `transactions STORE DIR`: optimistic transactions of threads that raise counters. If two transactions meet at a key, one of them begins
//! again.

use crate::Outcome;
use crate::stores::{Settings, fjall::open_transactional};
use braidb::{Db, Durability, Options};
use braidb_bench::draws::{Noise, mix, write_decimal};
use braidb_bench::host::files;
use clap::ValueEnum;
use fjall::{OptimisticTxDatabase, OptimisticTxKeyspace, Readable};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Bytes of a key, as in the workloads of `run`.
const KEY_BYTES: usize = 16;
/// Bytes of a counter at the beginning of a value.
const COUNTER_BYTES: usize = 8;
/// Bytes of a value. Bytes that do not compress follow the counter, so that a value is as long as a small record.
const VALUE_BYTES: usize = 100;
type Value = [u8; VALUE_BYTES];

/// A store, and how it raises a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// `Db::transact` of BraidDB with its defaults
    Braidb,
    /// A get and a put of BraidDB without a transaction; only one thread keeps counters right
    BraidbPlain,
    /// A transaction of fjall's `OptimisticTxDatabase`, which begins again after a conflict
    Fjall,
}

/// Measure transactions that get a counter and put one more
#[derive(clap::Args)]
pub struct Args {
    #[arg(value_enum)]
    store: Way,
    /// A directory, which is created if it is missing; the store lies in DIR/store, which is removed before and after
    dir: PathBuf,
    /// Threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    threads: u64,
    /// Transactions of all threads together
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// Keys, drawn uniformly
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
}

pub fn run(args: &Args) -> Outcome {
    let dir = args.dir.join("store");
    files::remove_if_there(&dir)?;
    fs::create_dir_all(&dir).map_err(|error| format!("could not create {}: {error}", dir.display()))?;
    let store = Store::open(args.store, &dir)?;
    store.fill(args.keys)?;
    let begin = Instant::now();
    let conflicts = store.raise(args)?;
    let operations_per_second = args.operations as f64 / begin.elapsed().as_secs_f64();
    store.check(args)?;
    drop(store);
    files::remove_if_there(&dir)?;
    println!(
        "{}",
        serde_json::json!({ "operations_per_second": operations_per_second, "conflicts": conflicts })
    );
    Ok(())
}

/// An open store.
enum Store {
    Braidb(Db),
    BraidbPlain(Db),
    Fjall(OptimisticTxDatabase, OptimisticTxKeyspace),
}

impl Store {
    fn open(way: Way, dir: &Path) -> Outcome<Store> {
        let braidb = || Options::new().durability(Durability::Buffer).open(dir);
        Ok(match way {
            Way::Braidb => Store::Braidb(braidb()?),
            Way::BraidbPlain => Store::BraidbPlain(braidb()?),
            Way::Fjall => {
                let (db, keyspace) = open_transactional(dir, &Settings::ALIKE)?;
                Store::Fjall(db, keyspace)
            }
        })
    }

    /// Sets the counters of all keys to 0.
    fn fill(&self, keys: u64) -> Outcome {
        let noise = Noise::new(1, VALUE_BYTES);
        for number in 0..keys {
            let mut value: Value = noise.value(number, VALUE_BYTES).try_into()?;
            value[..COUNTER_BYTES].fill(0);
            match self {
                Store::Braidb(db) | Store::BraidbPlain(db) => db.put(key(number), value)?,
                Store::Fjall(_, keyspace) => keyspace.insert(key(number), value)?,
            }
        }
        Ok(())
    }

    /// Raises counters of drawn keys until the threads have done all operations. Returns how often a transaction began again.
    fn raise(&self, args: &Args) -> Outcome<u64> {
        let next = AtomicU64::new(0);
        let work = || -> Outcome<u64> {
            let mut conflicts = 0;
            loop {
                let operation = next.fetch_add(1, Ordering::Relaxed);
                if operation >= args.operations {
                    return Ok(conflicts);
                }
                conflicts += self.raise_one(key(mix(operation) % args.keys))?;
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
        })
    }

    /// Raises the counter of a key by one. Returns how often the transaction began again.
    fn raise_one(&self, key: [u8; KEY_BYTES]) -> Outcome<u64> {
        let mut runs = 0;
        match self {
            Store::Braidb(db) => db.transact(|transaction| {
                runs += 1;
                let old = transaction.get(key)?;
                Ok::<_, Box<dyn Error + Send + Sync>>(transaction.put(key, raised(old.as_deref())?)?)
            })?,
            Store::BraidbPlain(db) => {
                runs += 1;
                db.put(key, raised(db.get(key)?.as_deref())?)?;
            }
            Store::Fjall(db, keyspace) => loop {
                runs += 1;
                let mut transaction = db.write_tx()?;
                let old = transaction.get(keyspace, key)?;
                transaction.insert(keyspace, key, raised(old.as_deref())?);
                if transaction.commit()?.is_ok() {
                    break;
                }
            },
        }
        Ok(runs - 1)
    }

    /// The counter of the key of `number`.
    fn counter(&self, number: u64) -> Outcome<u64> {
        match self {
            Store::Braidb(db) | Store::BraidbPlain(db) => counter_of(db.get(key(number))?.as_deref()),
            Store::Fjall(_, keyspace) => counter_of(keyspace.get(key(number))?.as_deref()),
        }
    }

    /// Fails if the counters do not add up to the operations. Without transactions, several threads may lose operations.
    fn check(&self, args: &Args) -> Outcome {
        let sum: u64 = (0..args.keys).map(|number| self.counter(number)).sum::<Outcome<_>>()?;
        let may_lose = args.store == Way::BraidbPlain && args.threads > 1;
        match sum == args.operations || may_lose {
            true => Ok(()),
            false => {
                Err(format!("{} operations were done, but the counters say {sum}", args.operations).into())
            }
        }
    }
}

fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    write_decimal(number, &mut key);
    key
}

/// The value with a counter that is one higher.
fn raised(old: Option<&[u8]>) -> Outcome<Value> {
    let counter = counter_of(old)? + 1;
    let mut value: Value = old.unwrap_or_default().try_into()?;
    value[..COUNTER_BYTES].copy_from_slice(&counter.to_be_bytes());
    Ok(value)
}

fn counter_of(value: Option<&[u8]>) -> Outcome<u64> {
    let counter = value.and_then(|value| value.first_chunk()).ok_or("a key has no counter")?;
    Ok(u64::from_be_bytes(*counter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::tests::run::Place;

    #[test]
    fn every_operation_counts_once() {
        for (store, threads) in [(Way::Braidb, 4), (Way::BraidbPlain, 1), (Way::Fjall, 4)] {
            let place = Place::new(&format!("rivals-transactions-{store:?}"));
            let args = Args { store, dir: place.path(""), threads, operations: 2000, keys: 3 };
            let dir = place.path("db");
            fs::create_dir(&dir).unwrap();
            let open = || Store::open(store, &dir).unwrap();
            let opened = open();
            opened.fill(args.keys).unwrap();
            let conflicts = opened.raise(&args).unwrap();
            assert!(threads > 1 || conflicts == 0, "{store:?}: {conflicts}");
            drop(opened);

            let opened = open();
            opened.check(&args).unwrap();
            let mut expected = [0; 3];
            (0..args.operations).for_each(|operation| expected[(mix(operation) % args.keys) as usize] += 1);
            let counters: Vec<u64> = (0..args.keys).map(|number| opened.counter(number).unwrap()).collect();
            assert_eq!(counters, expected, "{store:?}");

            assert_eq!(opened.raise_one(key(0)).unwrap(), 0, "{store:?}");
            let error = opened.check(&args).unwrap_err().to_string();
            assert_eq!(error, "2000 operations were done, but the counters say 2001", "{store:?}");
            run(&args).unwrap();
            assert!(!place.path("store").exists(), "{store:?}");
        }
    }
}
