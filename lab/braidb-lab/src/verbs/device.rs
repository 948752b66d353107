//! `device PATH`: measures the device that holds a directory, and names the modelled device that is most like it.

use crate::failure::{Failure, Outcome, storage};
use crate::figures::{bytes_text, nanoseconds_text, ratio};
use crate::host::clock::Stopwatch;
use crate::text;
use crate::verbs::print_text;
use braidb::storage::{DeviceTimes, real};
use braidb_device::Profile;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Measure the device that holds a directory: seek time, read rate and write rate
///
/// Writes, reads and deletes one file in the directory, `braidb.measure` of 1 to 16 MiB, in five seconds at most. It needs 100 MiB of free
/// space. The seek time is that of 4 KiB at random places of the file. The file is small, so the arm of a hard disk hardly moves. A seek
/// from end to end of the disk takes up to three times as long. A device that reads from a cache of its own, or a file system in memory,
/// seems faster than it is.
///
/// The nearest profile is one of the devices that `braidb-lab bench --device` models.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// A directory on the device, which must exist; it may hold a database
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let path = &args.path;
    require_directory(path)?;
    let watch = Stopwatch::start();
    let times = real::env(1)
        .and_then(|env| DeviceTimes::measure(&env, path, DeviceTimes::BUDGET_US))
        .map_err(|error| storage(&format!("could not measure the device of {}", path.display()), error))?;
    let text = match args.json {
        true => format!("{:#}\n", as_json(&times)),
        false => as_text(path, &times, watch.seconds()),
    };
    print_text(&text)
}

fn require_directory(path: &Path) -> Outcome {
    let what = match (path.is_dir(), path.exists()) {
        (true, _) => return Ok(()),
        (_, true) => format!("{} is a file: name a directory on the device", path.display()),
        _ => format!("there is no {}: name a directory that exists on the device", path.display()),
    };
    Err(Failure::Use(what))
}

/// The profile whose times differ least from these, by the product of the ratios of seek, read rate and write rate.
fn nearest(times: &DeviceTimes) -> Profile {
    let apart = |a: u64, b: u64| ratio(a.max(b), a.min(b).max(1));
    let distance = |profile: &Profile| {
        apart(times.seek_ns, profile.mean_positioning_ns())
            * apart(times.read_bytes_per_second, profile.bytes_per_second())
            * apart(times.write_bytes_per_second, profile.bytes_per_second())
    };
    let nearest = Profile::ALL.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    nearest.expect("there are profiles")
}

fn as_json(times: &DeviceTimes) -> Value {
    json!({
        "seek_ns": times.seek_ns,
        "read_bytes_per_second": times.read_bytes_per_second,
        "write_bytes_per_second": times.write_bytes_per_second,
        "nearest_profile": nearest(times).name(),
    })
}

fn as_text(path: &Path, times: &DeviceTimes, seconds: f64) -> String {
    let profile = nearest(times);
    format!(
        "the device of {}, measured in {seconds:.1} s\n\
         seek             {}\n\
         read             {}/s\n\
         write            {}/s\n\
         nearest profile  {}: seek {}, read and write {}/s\n",
        path.display(),
        nanoseconds_text(times.seek_ns),
        bytes_text(times.read_bytes_per_second),
        bytes_text(times.write_bytes_per_second),
        profile.name(),
        nanoseconds_text(profile.mean_positioning_ns()),
        bytes_text(profile.bytes_per_second()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seek_ns: u64, read_bytes_per_second: u64, write_bytes_per_second: u64) -> DeviceTimes {
        DeviceTimes { seek_ns, read_bytes_per_second, write_bytes_per_second }
    }

    #[test]
    fn each_profile_is_nearest_to_itself_and_others_to_what_they_are_like() {
        for profile in Profile::ALL {
            let rate = profile.bytes_per_second();
            assert_eq!(nearest(&times(profile.mean_positioning_ns(), rate, rate)), profile);
        }
        assert_eq!(nearest(&times(5_500_000, 200_000_000, 180_000_000)).name(), "disk7200");
        assert_eq!(nearest(&times(20_000_000, 100_000_000, 20_000_000)).name(), "hdd");
        assert_eq!(nearest(&times(80_000, 3_000_000_000, 1_000_000_000)).name(), "nvme");
        assert_eq!(nearest(&times(500_000, 130_000_000, 130_000_000)).name(), "ssd");
        assert_eq!(nearest(&times(1, u64::MAX, u64::MAX)).name(), "nvme");
    }

    #[test]
    fn the_text_has_units() {
        let text = as_text(Path::new("/mnt/slow"), &times(8_500_000, 150 << 20, 140 << 20), 2.34);
        let expected = "the device of /mnt/slow, measured in 2.3 s\n\
                        seek             8.5 ms\n\
                        read             150.0 MiB/s\n\
                        write            140.0 MiB/s\n\
                        nearest profile  disk7200: seek 12.7 ms, read and write 143.1 MiB/s\n";
        assert_eq!(text, expected);
    }
}
