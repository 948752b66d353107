//! BraidDB.

use super::family_name;
use crate::Outcome;
use braidb::{ColumnFamily, Db, Options};
use braidb_bench::Store;
use std::path::Path;

struct Braid {
    db: Db,
    families: Vec<ColumnFamily>,
}

/// Opens it with the durability that is its default: a put hands the log to the operating system.
pub fn open(options: Options, dir: &Path, families: usize) -> Outcome<Box<dyn Store>> {
    let db = options.open(dir)?;
    let families = (0..families).map(|family| match family {
        0 => db.column_family("default"),
        _ => db.column_family(&family_name(family)),
    });
    let families = families.collect::<Result<_, _>>()?;
    Ok(Box::new(Braid { db, families }))
}

impl Store for Braid {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        Ok(self.families[family].put(key, value)?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        Ok(self.families[family].delete(key)?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let value = self.families[family].get(key)?;
        Ok(value.inspect(|value| see(value)).is_some())
    }

    fn scan(
        &self,
        family: usize,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        let mut seen = 0;
        for entry in self.families[family].range(from..).take(limit) {
            let (key, value) = entry?;
            see(&key, &value);
            seen += 1;
        }
        Ok(seen)
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        self.db.settle()?;
        mark();
        Ok(())
    }

    fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.db.stats().counts;
        let named = [
            ("log_bytes", counts.log_bytes.saturating_sub(counts.written_back_bytes)),
            ("write_back_bytes", counts.written_back_bytes),
            ("flush_bytes", counts.flush_bytes),
            ("manifest_bytes", counts.manifest_bytes),
            // Of the first two, those that no write call saw.
            ("mapped_bytes", counts.log_mapped_bytes),
        ];
        let merges =
            (0..).zip(counts.merge_bytes).map(|(level, bytes)| (format!("merge_l{level}_bytes"), bytes));
        named.map(|(name, bytes)| (name.to_owned(), bytes)).into_iter().chain(merges).collect()
    }
}
