//! The interface that a workload needs of a store.

use crate::settings::Course;
use std::error::Error;

/// The result of a step of a benchmark.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Gets the entries of a scan: key and value.
pub type See<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// An open store. Families have the numbers from 0 on; their number is fixed when the store is opened.
pub trait Store: Sync {
    /// Writes `value` under `key`. The store hands its log to the operating system before this returns.
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome;

    /// Removes `key`, which may be missing.
    fn delete(&self, family: usize, key: &[u8]) -> Outcome;

    /// Shows the value of `key` to `see`, without a copy where the store can. Returns whether there is a value.
    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Shows up to `limit` entries (key, value) to `see`, upwards from the first key that is not below `from`. Returns their count.
    fn scan(&self, family: usize, from: &[u8], limit: usize, see: See<'_>) -> Outcome<usize>;

    /// Like `scan`, on another course. Shows an empty value where the course has no values.
    fn scan_on(
        &self,
        course: Course,
        _family: usize,
        _from: &[u8],
        _limit: usize,
        _see: See<'_>,
    ) -> Outcome<usize> {
        Err(format!("--scan: this store cannot scan {course:?}").into())
    }

    /// Waits until no background work is left. Memory is not flushed. Calls `mark` when the work may have ended. If `mark` is called
    /// several times, the last call marks the end. So the time that a store has to be watched is not counted.
    /// Without a method of its own a store does all work within its calls.
    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome {
        mark();
        Ok(())
    }

    /// The store's own counters, by name. A name ends with its unit. Counters only grow, and their names are equal at each call.
    fn counts(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
