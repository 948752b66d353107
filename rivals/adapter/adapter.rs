//! The engine of any commit as a store for workloads, by what all commits have of its public API.

use crate::mutant::Mutant;
use braidb::{ColumnFamily, Db, Options};
use braidb_bench::{Outcome, Store};
use std::path::Path;

/// An open database and the families that workloads write to.
pub struct Braid {
    db: Db,
    families: Vec<ColumnFamily>,
    mutant: Mutant,
}

impl Braid {
    /// Opens `dir` with `families` families; the first is the default one.
    pub fn open(dir: &Path, options: Options, families: u64, mutant: Mutant) -> Outcome<Braid> {
        mutant.plant();
        let db = options.open(dir)?;
        let name = |number: u64| match number {
            0 => "default".to_owned(),
            _ => format!("family-{number}"),
        };
        let families =
            (0..families).map(|number| db.column_family(&name(number))).collect::<Result<Vec<_>, _>>()?;
        Ok(Braid { db, families, mutant })
    }
}

impl Store for Braid {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        self.mutant.plant();
        Ok(self.families[family].put(key, value)?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        self.mutant.plant();
        Ok(self.families[family].delete(key)?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.mutant.plant();
        let found = self.families[family].get(key)?;
        if let Some(value) = &found {
            see(value);
        }
        Ok(found.is_some())
    }

    fn scan(
        &self,
        family: usize,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        self.mutant.plant();
        let mut count = 0;
        for entry in self.families[family].range(from..).take(limit) {
            let (key, value) = entry?;
            see(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        self.db.settle()?;
        mark();
        Ok(())
    }

    /// What was written, by cause, and `mapped_bytes`: of the log, what was stored into a mapping.
    fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.db.stats().counts;
        let named = counts.named();
        // A commit that maps no log has no such count.
        let of = |name: &str| named.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
        let mut written: Vec<(String, u64)> =
            ["log_bytes", "manifest_bytes", "flush_bytes"].map(|name| (name.to_owned(), of(name))).into();
        written.push(("mapped_bytes".to_owned(), of("log_mapped_bytes")));
        let merged = counts.merge_bytes.iter().enumerate();
        written.extend(merged.map(|(level, bytes)| (format!("merge_l{level}_bytes"), *bytes)));
        written
    }
}
