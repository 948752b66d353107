//! The engine of any commit as a store for workloads, over the part of its public API that all commits have. The driver of
//! `braidb-lab pair`, `braidb-lab` itself and the rivals all compile this file.

use braidb::{ColumnFamily, Db};
#[cfg(not(has_no_lending_cursor))]
use braidb_bench::settings::Course;
use braidb_bench::{Outcome, See, Store};

/// An open database and the families that workloads write to.
pub struct Braid {
    pub db: Db,
    families: Vec<ColumnFamily>,
}

impl Braid {
    /// Wraps a database, and creates the families that are missing; the first is the default one.
    pub fn new(db: Db, families: u64) -> braidb::Result<Braid> {
        let name = |number: u64| match number {
            0 => "default".to_owned(),
            _ => format!("family-{number}"),
        };
        let families =
            (0..families).map(|number| create_family(&db, &name(number))).collect::<Result<_, _>>()?;
        Ok(Braid { db, families })
    }
}

/// Opens a family, and creates it if there is none.
#[cfg(not(families_create_themselves))]
fn create_family(db: &Db, name: &str) -> braidb::Result<ColumnFamily> {
    db.create_column_family(name)
}

/// Opens a family, and creates it if there is none: at commits where `column_family` does both.
#[cfg(families_create_themselves)]
fn create_family(db: &Db, name: &str) -> braidb::Result<ColumnFamily> {
    db.column_family(name)
}

impl Store for Braid {
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome {
        Ok(self.families[family].put(key, value)?)
    }

    fn delete(&self, family: usize, key: &[u8]) -> Outcome {
        Ok(self.families[family].delete(key)?)
    }

    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let found = self.families[family].get(key)?;
        if let Some(value) = &found {
            see(value);
        }
        Ok(found.is_some())
    }

    #[cfg(not(has_no_lending_cursor))]
    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let mut cursor = self.families[family].range(from..).cursor();
        let mut count = 0;
        while count < limit && cursor.next()? {
            let (key, value) = cursor.entry()?.expect("the cursor moved to an entry");
            see(key, value);
            count += 1;
        }
        Ok(count)
    }

    /// At commits whose cursor cannot lend key and value at once, or that have no cursor.
    #[cfg(has_no_lending_cursor)]
    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize> {
        let mut count = 0;
        for entry in self.families[family].range(from..).take(limit) {
            let (key, value) = entry?;
            see(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    #[cfg(not(has_no_lending_cursor))]
    fn scan_on(
        &self,
        course: Course,
        family: usize,
        from: &[u8],
        limit: usize,
        see: See<'_>,
    ) -> Outcome<usize> {
        let family = &self.families[family];
        if course == Course::Owned {
            return family.range(from..).take(limit).try_fold(0, |count, entry| {
                let (key, value) = entry?;
                see(&key, &value);
                Ok(count + 1)
            });
        }
        let mut cursor = family.iter().cursor();
        let (is_backward, mut count) = (course.is_backward(), 0);
        let mut is_there = if is_backward { cursor.seek_for_prev(from)? } else { cursor.seek(from)? };
        while is_there && count < limit {
            if course.has_values() {
                let (key, value) = cursor.entry()?.expect("the cursor moved to an entry");
                see(key, value);
            } else {
                see(cursor.key().expect("the cursor moved to an entry"), b"");
            }
            count += 1;
            is_there = count < limit && if is_backward { cursor.prev()? } else { cursor.next()? };
        }
        Ok(count)
    }

    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        self.db.settle()?;
        mark();
        Ok(())
    }

    /// The bytes written, by cause. `mapped_bytes` are the bytes of log and write-back that were stored into a mapping.
    fn counts(&self) -> Vec<(String, u64)> {
        let counts = self.db.stats().counts;
        let named = counts.named();
        // A commit that maps no log, or writes nothing back, lacks the count.
        let of = |name: &str| named.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
        let causes = [
            ("log_bytes", of("log_bytes").saturating_sub(of("written_back_bytes"))),
            ("write_back_bytes", of("written_back_bytes")),
            ("flush_bytes", of("flush_bytes")),
            ("value_file_bytes", of("value_file_bytes")),
            ("manifest_bytes", of("manifest_bytes")),
            ("mapped_bytes", of("log_mapped_bytes")),
        ];
        let merges =
            (0..).zip(counts.merge_bytes).map(|(level, bytes)| (format!("merge_l{level}_bytes"), bytes));
        causes.map(|(name, bytes)| (name.to_owned(), bytes)).into_iter().chain(merges).collect()
    }
}
