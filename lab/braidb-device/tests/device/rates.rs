//! A sequential read of 1 GB and 10,000 random reads of 4 KiB take the time that the profile gives, to 2%.

use std::path::Path;

use braidb_device::{Profile, Testbed};
use braidb_storage::File;
use braidb_storage::inline::SeededRandom;

const FILE_BYTES: u64 = 1_000_000_000;
const PAGE: usize = 4096;

/// A testbed with a file of 1 GB, which takes nearly the whole device, and an empty page cache.
fn with_file(profile: Profile) -> (Testbed, std::sync::Arc<dyn File>) {
    // The journal takes a 64th of the device.
    let testbed = Testbed::new(profile, FILE_BYTES / 63 * 64 + (8 << 20), 4 << 20, 1, 1);
    let fs = testbed.env().fs;
    let file = fs.create(Path::new("file")).unwrap();
    let zeros = vec![0; 1_000_000];
    (0..1_000).for_each(|_| file.append(&zeros).unwrap());
    file.sync_data().unwrap();
    testbed.drop_cache();
    (testbed, fs.open(Path::new("file")).unwrap())
}

fn assert_close(what: &str, profile: Profile, measured_ns: u64, said_ns: u64) {
    assert!(
        measured_ns.abs_diff(said_ns) * 50 <= said_ns,
        "{} {what}: {measured_ns} ns are not {said_ns} ns",
        profile.name()
    );
}

fn sequential(profile: Profile, bytes_at_a_time: usize) {
    let (testbed, file) = with_file(profile);
    let (start_ns, mut buf) = (testbed.now_ns(), vec![0; bytes_at_a_time]);
    let mut at = 0;
    while at < FILE_BYTES {
        at += file.read_at(at, &mut buf).unwrap() as u64;
    }
    let said_ns = FILE_BYTES * 1_000 / (profile.bytes_per_second() / 1_000_000);
    assert_close("sequential", profile, testbed.now_ns() - start_ns, said_ns);
}

fn random(profile: Profile) {
    let (testbed, file) = with_file(profile);
    let (random, start_ns, mut buf) = (SeededRandom::new(5), testbed.now_ns(), [0; PAGE]);
    for _ in 0..10_000 {
        let page = random.below(FILE_BYTES / PAGE as u64);
        file.read_exact_at(page * PAGE as u64, &mut buf).unwrap();
    }
    let transfer_ns = PAGE as u64 * 1_000_000_000 / profile.bytes_per_second();
    let said_ns = 10_000 * (profile.mean_positioning_ns() + transfer_ns);
    assert_close("random", profile, testbed.now_ns() - start_ns, said_ns);
}

/// A test for each profile, so that the profiles are measured side by side.
macro_rules! profiles_keep_their_rates {
    ($($test:ident $profile:ident;)*) => {
        $(#[test]
        fn $test() {
            sequential(Profile::$profile, 128 << 10);
            random(Profile::$profile);
        })*
    };
}
profiles_keep_their_rates! { hdd HDD; ssd SSD; nvme NVME; disk7200 DISK7200; }

#[test]
fn small_reads_in_order_are_as_fast_thanks_to_read_ahead() {
    sequential(Profile::HDD, PAGE);
}
