//! `DeviceTimes::measure` finds the times of each modelled device, within the budget.

use std::path::Path;

use braidb_device::{Profile, Testbed};
use braidb_storage::{DeviceTimes, MEASURE_FILE};

/// A machine with little page cache, so that reads come from the device.
fn machine(profile: Profile) -> Testbed {
    Testbed::new(profile, 8 << 30, 256 << 10, 1, 7)
}

#[track_caller]
fn assert_within(percent: u64, what: &str, found: u64, said: u64) {
    assert!(found.abs_diff(said) * 100 <= said * percent, "{what}: found {found}, the profile says {said}");
}

#[test]
fn the_times_of_a_device_are_found() {
    for profile in [Profile::HDD, Profile::SSD, Profile::NVME] {
        let testbed = machine(profile);
        let env = testbed.env();
        let times = DeviceTimes::measure(&env, Path::new("/"), DeviceTimes::BUDGET_US).unwrap();
        assert_within(3, "seek", times.seek_ns, profile.mean_positioning_ns());
        assert_within(10, "read", times.read_bytes_per_second, profile.bytes_per_second());
        assert_within(10, "write", times.write_bytes_per_second, profile.bytes_per_second());
        assert!(testbed.now_ns() < DeviceTimes::BUDGET_US * 1_000, "{} ns", testbed.now_ns());
        assert!(env.fs.list(Path::new("/")).unwrap().is_empty());
    }
}

#[test]
fn a_seek_within_one_file_takes_little_of_the_arms_way() {
    let times = DeviceTimes::measure(&machine(Profile::DISK7200).env(), Path::new("/"), 5_000_000).unwrap();
    // 1 ms to the next track and half a turn, and less than a twentieth of the way from end to end.
    assert!((5_200_000..5_900_000).contains(&times.seek_ns), "{times:?}");
}

#[test]
fn a_smaller_budget_is_enough() {
    for budget_us in [1_000_000, 2_000_000] {
        let testbed = machine(Profile::HDD);
        let times = DeviceTimes::measure(&testbed.env(), Path::new("/"), budget_us).unwrap();
        // The last block may begin within the budget and end after it.
        assert!(testbed.now_ns() <= budget_us * 1_000 + 17_000_000, "{} ns", testbed.now_ns());
        assert_within(3, "seek", times.seek_ns, Profile::HDD.mean_positioning_ns());
        assert_within(10, "read", times.read_bytes_per_second, Profile::HDD.bytes_per_second());
        assert_within(10, "write", times.write_bytes_per_second, Profile::HDD.bytes_per_second());
    }
}

#[test]
fn without_a_budget_one_mib_is_measured() {
    let testbed = machine(Profile::HDD);
    let times = DeviceTimes::measure(&testbed.env(), Path::new("/"), 0).unwrap();
    // The seeks of the write, of its barrier, of the read and of five blocks, and 7 ms for each MiB.
    assert!(testbed.now_ns() <= 8 * 16_700_000 + 2 * 7_000_000 + 1_000_000, "{} ns", testbed.now_ns());
    // Half of the time at most counts as seeks, so the rates are too low, but none is absurd.
    let rates = [times.read_bytes_per_second, times.write_bytes_per_second];
    assert!(rates.iter().all(|rate| (20_000_000..=150_000_000).contains(rate)), "{times:?}");
}

#[test]
fn the_file_takes_a_hundredth_of_the_free_space() {
    let written = |device_bytes| {
        let testbed = Testbed::new(Profile::NVME, device_bytes, 4 << 20, 1, 7);
        let times = DeviceTimes::measure(&testbed.env(), Path::new("/"), DeviceTimes::BUDGET_US);
        times.map(|_| testbed.figures().devices.written_bytes >> 20)
    };
    assert_eq!(written(8 << 30).unwrap(), 16);
    assert_eq!(written(1 << 30).unwrap(), 8);
    assert_eq!(written(110 << 20).unwrap(), 1);
    let error = written(99 << 20).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert!(error.to_string().contains(MEASURE_FILE), "{error}");
}
