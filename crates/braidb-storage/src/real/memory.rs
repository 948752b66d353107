//! The memory that this process may use: that of the machine, or less if a control group, `RLIMIT_AS` or `RLIMIT_DATA` sets a lower limit.
//!
//! A container gets its limit from a control group. In version 2 of control groups, `/proc/self/cgroup` has a line `0::/PATH`, and the limits
//! are `memory.max` and `memory.high` in `/sys/fs/cgroup/PATH`. In version 1, the line is `N:memory:/PATH`, and the limit is
//! `memory.limit_in_bytes` in `/sys/fs/cgroup/memory/PATH`. The limits of all directories above hold too. A container may not see the directory of its own path. Its
//! limit then stands in the topmost directory that it sees.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

/// Bytes of memory that this process may use, if the machine tells.
pub(super) fn usable() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = least_of_groups(Path::new("/sys/fs/cgroup"), &groups);
    let limits = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    limits.into_iter().chain([machine, group]).flatten().min()
}

/// The bytes in the line `MemTotal` of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least limit of the control groups in `/proc/self/cgroup`, whose directories are below `root`.
fn least_of_groups(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (root, files) = match controllers {
            "" => (root.to_owned(), ["memory.max", "memory.high"].as_slice()),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), ["memory.limit_in_bytes"].as_slice())
            }
            _ => return Vec::new(),
        };
        let limits = Path::new(path).ancestors().flat_map(|path| {
            let dir = root.join(path.strip_prefix("/").unwrap_or(path));
            files.iter().map(move |file| fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok())
        });
        limits.collect()
    });
    limits.flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_its_memory() {
        assert_eq!(total("MemTotal:       24560000 kB\nMemFree: 1 kB\n"), Some(24_560_000 * 1024));
        assert_eq!(
            (total(""), total("MemTotal: many kB"), total("MemTotal: 18446744073709551615 kB")),
            (None, None, None)
        );
        let usable = usable().expect("Linux tells it");
        assert!(usable > 1 << 20, "{usable}");
    }

    #[test]
    fn the_lowest_limit_of_all_groups_above_holds() {
        let root = std::env::temp_dir().join(format!("braidb-groups-{}", std::process::id()));
        let set = |path: &str, limit: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), limit).unwrap();
        };
        set("memory.max", "max\n");
        set("a/memory.max", "3000000\n");
        set("a/b/memory.max", "5000000\n");
        set("a/b/c/memory.high", "2000000\n");
        set("memory/memory.limit_in_bytes", "7000000\n");
        set("memory/c/memory.limit_in_bytes", "9223372036854771712\n");
        let least = |groups| least_of_groups(&root, groups);
        assert_eq!(least("0::/a/b\n"), Some(3_000_000));
        assert_eq!(least("0::/a/b/c\n"), Some(2_000_000));
        assert_eq!(least("0::/\n"), None, "version 2 says `max` where there is no limit");
        assert_eq!(least("5:cpu:/c\n4:hugetlb,memory:/c\n0::/\n"), Some(7_000_000));
        assert_eq!(least("4:memory:/not/seen/here\n0::/a\n"), Some(3_000_000));
        assert_eq!(least("garbage\n:\n0::/nowhere\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
