//! What a load would cost, without carrying it out.

use super::Options;
use crate::base::error::Result;
use crate::plan::sizes::{Forecast, Load, forecast};
use crate::version::TableStore;
use std::path::Path;

/// What memory holds for each entry besides its key and value: a node, its links, a version.
const MEMORY_BYTES: u64 = 58;

impl Options {
    /// Carries a load through the policy that looks after the tree, over sizes alone: no file is touched. Ten terabytes take
    /// seconds. Merges are taken to keep up with the writes.
    ///
    /// ```
    /// let load = braidb::Load { entries: 100_000_000, entry_bytes: 144, keys: u64::MAX, is_sequential: false };
    /// let tiered = braidb::Options::new().max_runs_per_guard(8).forecast(&load)?;
    /// let leveled = braidb::Options::new().max_runs_per_guard(1).guards(braidb::Guards::None).forecast(&load)?;
    /// assert!(tiered.merge_amplification() < leveled.merge_amplification());
    /// # Ok::<(), braidb::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`](crate::Error::InvalidOption) names an option that cannot work.
    pub fn forecast(&self, load: &Load) -> Result<Forecast> {
        self.check()?;
        let share = load.entry_bytes as f64 / (load.entry_bytes + MEMORY_BYTES) as f64;
        let memtable_bytes = (self.memtable_bytes as f64 * share) as u64;
        let store = TableStore::detached(self.env_or_real().fs, Path::new(""));
        Ok(forecast(load, memtable_bytes, &self.tree_options(), store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Segment;
    use crate::visible::EntryKind;

    #[test]
    fn memory_holds_so_much_for_each_entry() {
        let (segment, mut writer) = Segment::new(1);
        let (entries, value) = (4_000u64, [7; 128]);
        for seq in 1..=entries {
            let key = crate::base::key::hash(&seq.to_le_bytes()).to_be_bytes().repeat(2);
            writer.insert(&key, seq, EntryKind::Put, &value);
        }
        let each = segment.bytes() / entries - 144;
        assert!(each.abs_diff(MEMORY_BYTES) <= 6, "{each}");
    }
}
