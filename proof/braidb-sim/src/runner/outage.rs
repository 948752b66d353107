//! Crashes of a machine with several devices: all devices meet one crash together, or each meets its own.
//!
//! The first device holds the logs and the manifest. So its crash alone decides which writes may be lost: what the manifest names on
//! a slow device was synced before.

use super::crash_name;
use crate::rng::Rng;
use crate::workload::CRASHES;
use braidb_storage::sim::{Crash, SimFs};
use std::fmt;
use std::path::{Path, PathBuf};

/// The crash that each device of a machine meets.
#[derive(Clone, Debug)]
pub struct Outage {
    /// The crash of the first device.
    pub first: Crash,
    /// The crash of each other device, by the device's directory. Empty if all devices meet one crash together.
    others: Vec<(PathBuf, Crash)>,
}

impl Outage {
    /// A crash of the first device. In half of the cases each other device of `fs` meets a crash of its own. Draws nothing if there
    /// is one device.
    pub fn draw(fs: &SimFs, first: Crash, rng: &mut Rng) -> Outage {
        let dirs = fs.device_dirs();
        if dirs.len() == 1 || rng.one_in(2) {
            return Outage { first, others: Vec::new() };
        }
        Outage { first, others: dirs.into_iter().skip(1).map(|dir| (dir, rng.pick(&CRASHES))).collect() }
    }

    /// Whether the devices meet crashes of their own.
    pub fn is_apart(&self) -> bool {
        !self.others.is_empty()
    }

    /// The files that the next process finds. On a device that keeps its power, unsynced changes stay unsynced.
    pub fn image(&self, fs: &SimFs, seed: u64) -> SimFs {
        if self.is_apart() {
            let others = self.others.iter().map(|(dir, crash)| (dir.as_path(), *crash));
            let crashes: Vec<_> = others.chain([(Path::new("/"), self.first)]).collect();
            return fs.crash_image_apart(&crashes, seed);
        }
        match self.first {
            Crash::Process => fs.without_process(),
            Crash::PowerAllLost | Crash::PowerTorn => fs.crash_image(self.first, seed),
        }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(crash_name(self.first))?;
        self.others
            .iter()
            .try_for_each(|(dir, crash)| write!(f, ", {} at {}", crash_name(*crash), dir.display()))
    }
}
