//! The modelled machine of `--device`: its devices, and the placement of the data on two of them.

use super::Settings;
use crate::failure::{Failure, Outcome};
use braidb::Options;
use braidb_device::{DeviceId, Profile, Testbed};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// A modelled device on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DeviceArg {
    /// 60 accesses a second under load, 150 MB/s: LogStore's disk
    Hdd,
    /// 1,500 accesses a second, 240 MB/s: LogStore's SSD
    Ssd,
    /// 6,000 accesses a second, 480 MB/s: LogStore's NVMe
    Nvme,
    /// A disk of 7,200 turns a minute: a mean seek of 8.5 ms, half a turn of 4.2 ms, 150 MB/s
    Disk7200,
}

impl DeviceArg {
    pub fn name(self) -> &'static str {
        self.profile().name()
    }

    pub fn profile(self) -> Profile {
        match self {
            DeviceArg::Hdd => Profile::HDD,
            DeviceArg::Ssd => Profile::SSD,
            DeviceArg::Nvme => Profile::NVME,
            DeviceArg::Disk7200 => Profile::DISK7200,
        }
    }
}

/// Where the data lies on two modelled devices.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Placement {
    /// By the engine: a database with a slow tier
    Tiers,
    /// Each table and value file on one of the two by chance, all other files on the fast device
    Random,
    /// Everything on the slow device, and copies of pages that were read on the fast one
    Cache,
}

impl Placement {
    /// The name on the command line.
    fn name(self) -> String {
        self.to_possible_value().expect("no placement is hidden").get_name().to_owned()
    }
}

/// Modelled devices.
#[derive(clap::Args, Clone, Debug)]
pub struct DeviceArgs {
    /// Measure on a modelled device, in modelled time that is equal on every machine; nothing is written to DIR
    #[arg(long, value_enum)]
    pub device: Option<DeviceArg>,
    /// A second modelled device, which is the slow one; --device is then the fast one
    #[arg(long, value_enum, requires = "device")]
    slow_device: Option<DeviceArg>,
    /// Where the data lies on the two devices
    #[arg(long, value_enum, default_value_t = Placement::Tiers, requires = "slow_device")]
    placement: Placement,
    /// Share of the data on the fast device, in percent: the fast share of the engine, the chance of each file, or the size of the cache in
    /// percent of the rows' bytes
    #[arg(long, value_name = "PERCENT", default_value_t = FAST_SHARE, requires = "slow_device")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    fast_share: u64,
    /// Size of each modelled device, in MiB
    #[arg(long, default_value_t = DEVICE_MIB, value_parser = clap::value_parser!(u64).range(1..=16 << 20))]
    device_mib: u64,
    /// Page cache of the modelled machine, in MiB
    #[arg(long, default_value_t = PAGE_CACHE_MIB, value_parser = clap::value_parser!(u64).range(1..=16 << 20))]
    page_cache_mib: u64,
}

/// The default of `--fast-share` in percent: half of the data.
const FAST_SHARE: u64 = 50;

/// The default of `--device-mib`: room for a few copies of the default keys, whatever the merges.
const DEVICE_MIB: u64 = 64 << 10;

/// The default of `--page-cache-mib`.
const PAGE_CACHE_MIB: u64 = 256;

/// Bounds of the size of a flash cache, in bytes: what the testbed needs, and the largest `--device-mib`.
const FLASH_BYTES: (u64, u64) = (1 << 20, 8 << 40);

impl DeviceArgs {
    /// One device of the usual size.
    pub const fn one(device: DeviceArg) -> DeviceArgs {
        DeviceArgs {
            device: Some(device),
            slow_device: None,
            placement: Placement::Tiers,
            fast_share: FAST_SHARE,
            device_mib: DEVICE_MIB,
            page_cache_mib: PAGE_CACHE_MIB,
        }
    }

    /// Two devices of the usual size, with half of the data on the fast one.
    pub const fn two(fast: DeviceArg, slow: DeviceArg, placement: Placement) -> DeviceArgs {
        DeviceArgs { slow_device: Some(slow), placement, ..DeviceArgs::one(fast) }
    }

    /// These devices with another share of the data on the fast one, in percent.
    pub const fn with_fast_share(self, fast_share: u64) -> DeviceArgs {
        DeviceArgs { fast_share, ..self }
    }

    /// These devices with another page cache.
    pub fn with_page_cache_mib(self, page_cache_mib: u64) -> DeviceArgs {
        DeviceArgs { page_cache_mib, ..self }
    }

    /// An empty machine for a database in `dir`, which is only a name.
    ///
    /// # Panics
    ///
    /// If no device is named.
    pub fn machine(&self, dir: &Path, settings: &Settings) -> Outcome<Machine> {
        let device = self.device.expect("a modelled machine has a device");
        let workers = settings.engine.background_threads.max(1);
        let (seed, device_bytes) = (settings.load.seed, self.device_mib << 20);
        let with_first = |first: DeviceArg| {
            Testbed::new(first.profile(), device_bytes, self.page_cache_mib << 20, workers, seed)
        };
        let Some(slow) = self.slow_device else {
            return Ok(Machine { testbed: with_first(device), pair: None });
        };
        let (testbed, fast_id, slow_id) = match self.placement {
            Placement::Tiers | Placement::Random => {
                let (testbed, slow_dir) = (with_first(device), slow_dir(dir));
                let slow_id = testbed.add_device(&slow_dir, slow.profile(), device_bytes);
                let slow_id = slow_id.map_err(|error| Failure::file("model", &slow_dir, &error))?;
                if matches!(self.placement, Placement::Random) {
                    testbed.scatter(seed, self.fast_share);
                }
                (testbed, DeviceId::FIRST, slow_id)
            }
            Placement::Cache => {
                let (testbed, load) = (with_first(slow), &settings.load);
                let rows_bytes = load.num.saturating_mul((load.key_bytes + load.value_bytes) as u64);
                let share_bytes = rows_bytes.saturating_mul(self.fast_share) / 100;
                let fast_id =
                    testbed.cache_on(device.profile(), share_bytes.clamp(FLASH_BYTES.0, FLASH_BYTES.1));
                (testbed, fast_id, DeviceId::FIRST)
            }
        };
        let part = |label, device: DeviceArg, id| Part { label, name: device.name(), id };
        Ok(Machine { testbed, pair: Some([part("fast", device, fast_id), part("slow", slow, slow_id)]) })
    }

    /// The options of a database in `dir` on this machine: with a slow tier if the engine places the data.
    pub fn options(&self, options: Options, dir: &Path) -> Options {
        match (self.slow_device, self.placement) {
            (Some(_), Placement::Tiers) => {
                options.slow_path(slow_dir(dir)).fast_share(self.fast_share as u32)
            }
            _ => options,
        }
    }

    /// The fast or only device, the slow one, and the fast share from 0 to 1, if the engine places the data.
    pub fn tiers(&self) -> Option<(Profile, Option<Profile>, f64)> {
        match (self.device?, self.slow_device, self.placement) {
            (device, None, _) => Some((device.profile(), None, 1.0)),
            (fast, Some(slow), Placement::Tiers) => {
                Some((fast.profile(), Some(slow.profile()), self.fast_share as f64 / 100.0))
            }
            _ => None,
        }
    }

    /// The modelled devices in words, if there are any.
    pub fn title(&self) -> Option<String> {
        let fast = self.device?.name();
        Some(match self.slow_device {
            Some(slow) => format!("{fast} and {}, {} placement", slow.name(), self.placement.name()),
            None => fast.to_owned(),
        })
    }
}

/// The directory of the slow device of a database in `dir`.
fn slow_dir(dir: &Path) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push("-slow");
    name.into()
}

/// A modelled machine.
pub struct Machine {
    pub testbed: Testbed,
    /// The fast device and the slow one; `None` on a machine with one device.
    pub pair: Option<[Part; 2]>,
}

/// One of two devices.
pub struct Part {
    /// `fast` or `slow`.
    pub label: &'static str,
    /// The name of the profile.
    pub name: &'static str,
    id: DeviceId,
}

impl Machine {
    /// The reads of the fast or only device, and of the slow one, up to now.
    pub fn reads(&self) -> [u64; 2] {
        match &self.pair {
            None => [self.testbed.figures_of(DeviceId::FIRST).reads, 0],
            Some([fast, slow]) => [fast, slow].map(|part| self.testbed.figures_of(part.id).reads),
        }
    }

    /// All figures up to now, except times, by their names in JSON: `device_…` for all devices together, and
    /// `fast_device_…` and `slow_device_…` for each of two.
    pub fn figures(&self) -> Vec<(String, u64)> {
        let rows = self.testbed.figures().rows().into_iter();
        let rows = rows.filter(|(name, _)| !matches!(*name, "now_ns" | "end_ns"));
        let parts = self.pair.iter().flatten().flat_map(|part| {
            let rows = self.testbed.figures_of(part.id).rows().into_iter();
            rows.map(|(name, figure)| (format!("{}_device_{name}", part.label), figure))
        });
        rows.map(|(name, figure)| (format!("device_{name}"), figure)).chain(parts).collect()
    }
}
