//! What a judge covered: counts by name. A judge that found nothing must show what it tested.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub fn add(&mut self, name: &'static str, count: u64) {
        *self.0.entry(name).or_default() += count;
    }

    /// The count of `name`.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Tally) {
        for (name, count) in &other.0 {
            self.add(name, *count);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, count)) in self.0.iter().filter(|(_, count)| **count > 0).enumerate() {
            write!(f, "{}{name} {count}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
