//! Other load of the machine during a run, from /proc. Values that the kernel does not tell are zero or `unknown`.
#![allow(clippy::disallowed_methods, reason = "see the module `host`")]

use crate::results::Machine;
use std::fs;
use std::path::Path;

/// A reading at the beginning of a run.
#[derive(Clone, Debug)]
pub struct Watch {
    machine: Machine,
    steal_before: f64,
}

impl Watch {
    /// Takes the first reading. `directory` exists and holds the files of the store.
    pub fn start(directory: &Path) -> Watch {
        let machine = Machine {
            load: load(),
            steal_seconds: 0.0,
            device: device(&read("/proc/self/mountinfo"), &directory.canonicalize().unwrap_or_default()),
            processor: processor(&read("/proc/cpuinfo")),
        };
        Watch { machine, steal_before: steal_seconds() }
    }

    /// The state of the machine from the start of this watch until now.
    pub fn stop(self) -> Machine {
        let steal_seconds = (steal_seconds() - self.steal_before).max(0.0);
        Machine { steal_seconds, ..self.machine }
    }
}

/// The mean number of processes that wanted to run in the last minute.
pub fn load() -> f64 {
    read("/proc/loadavg").split(' ').next().and_then(|mean| mean.parse().ok()).unwrap_or(0.0)
}

/// Processor time that the hypervisor gave to other machines since this machine started, over all processors.
pub fn steal_seconds() -> f64 {
    steal_ticks(&read("/proc/stat")) / rustix::param::clock_ticks_per_second() as f64
}

/// The steal time, the eighth number of the first line of /proc/stat: see proc(5).
fn steal_ticks(stat: &str) -> f64 {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    all.and_then(|numbers| numbers.split_whitespace().nth(7)?.parse().ok()).unwrap_or(0.0)
}

/// The file system that holds `directory`, and its device: `ext4 on /dev/vda`.
fn device(mounts: &str, directory: &Path) -> String {
    // A later mount hides an earlier one at the same place.
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let Some((place, kind)) = line.split_once(" - ") else { continue };
        let (Some(point), mut kind) = (place.split(' ').nth(4), kind.split(' ')) else { continue };
        let (Some(file_system), Some(source)) = (kind.next(), kind.next()) else { continue };
        // The kernel writes a space in a name as \040.
        let point = point.replace("\\040", " ");
        let is_longer = best.as_ref().is_none_or(|(length, _)| point.len() >= *length);
        if directory.starts_with(&point) && is_longer {
            best = Some((point.len(), format!("{file_system} on {source}")));
        }
    }
    best.map_or_else(|| "unknown".to_owned(), |(_, device)| device)
}

/// How many processors there are, and which: `2 x Some Processor`.
fn processor(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let named = |line: &str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        cpuinfo.lines().filter_map(named).collect::<Vec<String>>()
    };
    let count = field("processor").len().max(1);
    let model = field("model name").into_iter().next().unwrap_or_else(|| "unknown".to_owned());
    format!("{count} x {model}")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let stat = "cpu  157534 11389 17831 185540 1711 0 164 314 5 6\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(steal_ticks(stat), 314.0);
        assert_eq!(steal_ticks("cpu  1 2 3\n"), 0.0);
        assert_eq!(steal_ticks(""), 0.0);
    }

    #[test]
    fn a_directory_lies_on_the_innermost_mount() {
        let mounts = "22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:25 / /tmp rw - tmpfs tmpfs rw\n\
                      31 22 0:26 / /tmp rw - xfs /dev/vdb rw\n\
                      32 22 0:27 / /with\\040space rw - btrfs /dev/vdc rw\n\
                      a line without a mount\n";
        for (directory, expected) in [
            ("/home/x", "ext4 on /dev/vda"),
            ("/tmp", "xfs on /dev/vdb"),
            ("/tmp/a/b", "xfs on /dev/vdb"),
            ("/tmpfile", "ext4 on /dev/vda"),
            ("/with space/a", "btrfs on /dev/vdc"),
        ] {
            assert_eq!(device(mounts, Path::new(directory)), expected, "{directory}");
        }
        assert_eq!(device("", Path::new("/tmp")), "unknown");
    }

    #[test]
    fn processors_are_counted_and_named() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Quick 9\n\nprocessor\t: 1\nmodel name\t: Quick 9\n";
        assert_eq!(processor(cpuinfo), "2 x Quick 9");
        assert_eq!(processor(""), "1 x unknown");
    }

    #[test]
    fn a_watch_fills_what_a_row_records() {
        let machine = Watch::start(&std::env::temp_dir()).stop();
        assert!(machine.load >= 0.0 && machine.steal_seconds >= 0.0, "{machine:?}");
        if cfg!(target_os = "linux") {
            assert!(machine.device.contains(" on ") && machine.processor.contains(" x "), "{machine:?}");
        }
    }
}
