//! What a workload asks of a store.

use std::error::Error;

/// What a step of a benchmark returns.
pub type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// An open store. Families are numbers from 0, as many as it was opened with.
pub trait Store: Sync {
    /// Writes `value` under `key`. The store hands its log to the operating system before this returns.
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Outcome;

    /// Removes `key`, which may be missing.
    fn delete(&self, family: usize, key: &[u8]) -> Outcome;

    /// Shows the value of `key` to `see`, without copying it where the store can. Returns whether there is one.
    fn get(&self, family: usize, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Shows up to `limit` entries (key, value) to `see`, upwards from the first key that is not below `from`. Returns their count.
    fn scan(
        &self,
        family: usize,
        from: &[u8],
        limit: usize,
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize>;

    /// Waits until no background work is left. Memory stays in memory. Calls `mark` when the work may have ended; if `mark` is called
    /// several times, the last call tells when it did, so that a store which has to be watched for a while is not charged for the watch.
    fn settle(&self, mark: &mut dyn FnMut()) -> Outcome;

    /// Counters of the store's own, by name with the unit last, that only grow. The names are the same at each call.
    fn counts(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
