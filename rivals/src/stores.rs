//! The stores, opened alike: a log that is written to the operating system at every put and never synced for it, no
//! compression, the same memory for writes and for blocks. All else is each store's own default.

use crate::Outcome;
use braidb::{Db, Durability, Options};
use clap::ValueEnum;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, config::CompressionPolicy};
use std::path::Path;
use std::time::{Duration, Instant};

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Braidb,
    Fjall,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Braidb, Kind::Fjall];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Braidb => "braidb",
            Kind::Fjall => "fjall",
        }
    }

    pub fn open(self, dir: &Path, memtable_bytes: usize, cache_bytes: usize) -> Outcome<Box<dyn Store>> {
        Ok(match self {
            Kind::Braidb => {
                let options = Options::new().durability(Durability::Buffer);
                Box::new(options.memtable_bytes(memtable_bytes).block_cache_bytes(cache_bytes).open(dir)?)
            }
            Kind::Fjall => {
                let db = Database::builder(dir).cache_size(cache_bytes as u64).open()?;
                let options = || {
                    KeyspaceCreateOptions::default()
                        .max_memtable_size(memtable_bytes as u64)
                        .data_block_compression_policy(CompressionPolicy::disabled())
                        .index_block_compression_policy(CompressionPolicy::disabled())
                };
                let keyspace = db.keyspace("default", options)?;
                Box::new(Fjall { db, keyspace })
            }
        })
    }
}

/// What is asked of a store.
pub trait Store {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome;

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>>;

    /// Waits until no background work is left, and reads the meters at that moment. Memory stays in memory.
    fn settle(&self, read: &dyn Fn() -> Reading) -> Outcome<Reading>;
}

/// The meters at a moment.
#[derive(Clone, Copy)]
pub struct Reading {
    pub seconds: f64,
    pub usage: crate::process::Usage,
}

impl Store for Db {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome {
        Ok(Db::put(self, key, value)?)
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(Db::get(self, key)?.map(|value| value.to_vec()))
    }

    fn settle(&self, read: &dyn Fn() -> Reading) -> Outcome<Reading> {
        Db::settle(self)?;
        Ok(read())
    }
}

struct Fjall {
    db: Database,
    keyspace: Keyspace,
}

/// So long nothing may happen until fjall counts as settled.
const QUIET: Duration = Duration::from_millis(200);

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.keyspace.get(key)?.map(|value| value.to_vec()))
    }

    /// fjall has no call for this, but counters: flushes that wait, sealed memtables, compactions under way and those that
    /// ended. A worker takes a message before it raises a counter, so for a moment all may look idle: they must stay as they
    /// are for a while. What counts is the reading at that while's start, so the wait costs fjall nothing.
    fn settle(&self, read: &dyn Fn() -> Reading) -> Outcome<Reading> {
        let mut quiet: Option<(usize, Instant, Reading)> = None;
        loop {
            let ended = self.db.compactions_completed();
            let is_idle = self.db.outstanding_flushes() == 0
                && self.keyspace.sealed_memtable_count() == 0
                && self.db.active_compactions() == 0;
            match &quiet {
                Some((ended_then, since, reading)) if is_idle && *ended_then == ended => {
                    if since.elapsed() >= QUIET {
                        return Ok(*reading);
                    }
                }
                _ if is_idle => quiet = Some((ended, Instant::now(), read())),
                _ => quiet = None,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
