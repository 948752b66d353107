//! Figures of the kernel about this process: bytes written, processor time, resident memory and its peak.
#![allow(clippy::disallowed_methods, reason = "see the module `host`")]

use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fs;

/// A reading of counters. Figures are differences of two readings. A counter that the kernel does not tell (no /proc) is zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Bytes that this process handed to write calls (`wchar`), pipes and terminals included.
    pub called_bytes: u64,
    /// Bytes that this process caused to be sent to storage (`write_bytes`).
    pub device_bytes: u64,
    /// User and system time of all threads.
    pub cpu_us: u64,
}

impl Usage {
    pub fn now() -> Usage {
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        Usage {
            called_bytes: field(&io, "wchar:"),
            device_bytes: field(&io, "write_bytes:"),
            cpu_us: microseconds(clock_gettime(ClockId::ProcessCPUTime)),
        }
    }

    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            called_bytes: self.called_bytes.saturating_sub(earlier.called_bytes),
            device_bytes: self.device_bytes.saturating_sub(earlier.device_bytes),
            cpu_us: self.cpu_us.saturating_sub(earlier.cpu_us),
        }
    }
}

/// User and system time of the calling thread.
pub fn thread_cpu_us() -> u64 {
    microseconds(clock_gettime(ClockId::ThreadCPUTime))
}

fn microseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Restarts the measurement of peak memory, where the kernel allows it. Otherwise the peak covers the whole life of the process.
pub fn forget_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process has had resident, in bytes.
pub fn peak_memory_bytes() -> u64 {
    field(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmHWM:") * 1024
}

/// The memory that this process has resident now, in bytes, pages of mapped files included.
pub fn resident_memory_bytes() -> u64 {
    field(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmRSS:") * 1024
}

/// The number behind a name in a table of /proc.
fn field(table: &str, name: &str) -> u64 {
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let table = "rchar: 7\nwchar: 12\nwrite_bytes: 4096\ncancelled_write_bytes: 5\nVmHWM:\t  99 kB\n";
        assert_eq!(field(table, "wchar:"), 12);
        assert_eq!(field(table, "write_bytes:"), 4096);
        assert_eq!(field(table, "VmHWM:"), 99);
        assert_eq!(field(table, "VmRSS:"), 0);
    }

    #[test]
    fn work_is_seen() {
        let (before, thread_before) = (Usage::now(), thread_cpu_us());
        let path = std::env::temp_dir().join(format!("braidb-usage-{}", std::process::id()));
        fs::write(&path, vec![1; 100_000]).unwrap();
        fs::remove_file(&path).unwrap();
        let of_thread = thread_cpu_us() - thread_before;
        let spent = Usage::now().since(&before);
        assert!(spent.called_bytes >= 100_000, "{spent:?}");
        assert!(of_thread > 0 && of_thread <= spent.cpu_us + 1, "{of_thread} {spent:?}");
        assert!(spent.cpu_us > 0 && peak_memory_bytes() > 100_000);
        let held = vec![1_u8; 64 << 20];
        assert!(resident_memory_bytes() >= held.len() as u64);
    }
}
