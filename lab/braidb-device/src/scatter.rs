//! Random placement: each new file of data goes to the first or the second device, whatever its directory.
//!
//! Random placement is what a placement by heat must beat. It needs nothing of the engine, so the engine keeps one
//! directory.

use braidb_storage::inline::SeededRandom;

use crate::kernel::FIRST;

/// The endings of files that hold the data of a database: tables and values. Logs and manifests stay on the device of
/// their directory, as in an engine that places data.
const ENDINGS: [&str; 2] = ["table", "values"];

/// The start of the hash FNV-1a of 64 bits, and the number that it multiplies by.
const FNV: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0100_0000_01b3);

/// The rule of random placement.
#[derive(Debug)]
pub struct Scatter {
    seed: u64,
    first_percent: u64,
}

impl Scatter {
    /// Puts `first_percent` of the files on the first device.
    ///
    /// # Panics
    ///
    /// If `first_percent` is over 100.
    pub fn new(seed: u64, first_percent: u64) -> Scatter {
        assert!(first_percent <= 100, "first_percent must be at most 100");
        Scatter { seed, first_percent }
    }

    /// The device of a new file, by the hash of its name. `None` for a file that is no table and has no values.
    pub fn device_of(&self, name: &str) -> Option<usize> {
        let ending = name.rsplit_once('.')?.1;
        if !ENDINGS.contains(&ending) {
            return None;
        }
        let hash = name.bytes().fold(FNV.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV.1));
        let is_first = SeededRandom::new(self.seed ^ hash).below(100) < self.first_percent;
        Some(if is_first { FIRST } else { FIRST + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_the_files_is_as_asked_for_and_a_name_stays_where_it_is() {
        let scatter = Scatter::new(7, 30);
        let device =
            |scatter: &Scatter, number: u64| scatter.device_of(&format!("{number:06}.table")).unwrap();
        let on_first = (0..10_000).filter(|number| device(&scatter, *number) == FIRST).count();
        assert!((2_850..3_150).contains(&on_first), "{on_first} of 10,000 files");
        let other = Scatter::new(8, 30);
        let differ = (0..100).filter(|number| device(&scatter, *number) != device(&other, *number)).count();
        assert!(differ > 20, "{differ} of 100 files move with another seed");
        assert_eq!(device(&scatter, 5), device(&Scatter::new(7, 30), 5));
        assert!(scatter.device_of("000001.values").is_some());
        for elsewhere in ["000001.log", "000001.manifest", "CURRENT", "LOCK", "table"] {
            assert_eq!(scatter.device_of(elsewhere), None, "{elsewhere}");
        }
    }
}
