//! The times of a device: to get to a place, and to transfer bytes there.
//!
//! All arithmetic is in integers, so each machine computes the same nanoseconds.

/// The unit of the page cache, of space and of addresses on the device.
pub const PAGE_BYTES: u64 = 4096;

const SECOND_NS: u64 = 1_000_000_000;

/// The times of a device.
///
/// ```
/// use braidb_device::Profile;
/// let hdd = Profile::named("hdd").unwrap();
/// assert_eq!((hdd.name(), hdd.bytes_per_second()), ("hdd", 150_000_000));
/// assert!(Profile::named("tape").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    name: &'static str,
    bytes_per_second: u64,
    positioning: Positioning,
}

/// The time from the end of one access to the beginning of the next, if the next access lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Positioning {
    /// A fixed time that does not depend on the distance.
    Same { ns: u64 },
    /// `track_ns + stroke_ns * sqrt(distance / size)` for the arm, and `rotation_ns` until the sector arrives.
    ByDistance { track_ns: u64, stroke_ns: u64, rotation_ns: u64 },
}

impl Profile {
    /// A hard disk under load: 60 discontiguous accesses a second (LogStore VI-A3) and 150 MB/s (LogStore VI-B1).
    pub const HDD: Profile = Profile::flat("hdd", 60, 150_000_000);
    /// A network SSD of a cloud: 1,500 discontiguous accesses a second (LogStore VI-A3) and 240 MB/s (LogStore VI-B1).
    pub const SSD: Profile = Profile::flat("ssd", 1_500, 240_000_000);
    /// A local NVMe drive of a cloud: 6,000 discontiguous accesses a second (LogStore VI-A3) and 480 MB/s (LogStore VI-B1).
    pub const NVME: Profile = Profile::flat("nvme", 6_000, 480_000_000);
    /// A disk with 7,200 turns a minute: a seek of 8.5 ms between random places, 4.2 ms for half a turn, and 150 MB/s.
    /// Usual figures of data sheets.
    ///
    /// A seek over a share `x` of the device takes `1 ms + 14.0625 ms * sqrt(x)`: 1 ms to the next track, 15.1 ms from
    /// end to end. The distance of two uniformly drawn places has density `2 (1 - x)`. The mean of `sqrt(x)` is then
    /// 8/15, and the mean of a seek is 1 ms + 7.5 ms = 8.5 ms. The square root stands for the arm, which speeds up half the
    /// way and then slows down. The rotation is always the mean: a drawn one would need more accesses for the same
    /// mean.
    pub const DISK7200: Profile = Profile {
        name: "disk7200",
        bytes_per_second: 150_000_000,
        positioning: Positioning::ByDistance {
            track_ns: 1_000_000,
            stroke_ns: 14_062_500,
            rotation_ns: 4_200_000,
        },
    };
    /// All profiles.
    pub const ALL: [Profile; 4] = [Profile::HDD, Profile::SSD, Profile::NVME, Profile::DISK7200];

    const fn flat(name: &'static str, seeks_per_second: u64, bytes_per_second: u64) -> Profile {
        let positioning = Positioning::Same { ns: SECOND_NS / seeks_per_second };
        Profile { name, bytes_per_second, positioning }
    }

    /// The profile called `name`: `hdd`, `ssd`, `nvme` or `disk7200`.
    pub fn named(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// The name by which [`Profile::named`] finds it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The rate of a transfer, in bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// The mean time between two accesses at places drawn uniformly, without the transfer, in nanoseconds.
    pub fn mean_positioning_ns(&self) -> u64 {
        match self.positioning {
            Positioning::Same { ns } => ns,
            Positioning::ByDistance { track_ns, stroke_ns, rotation_ns } => {
                track_ns + stroke_ns * 8 / 15 + rotation_ns
            }
        }
    }

    /// The time to get from page `from` to page `to` of a device of `device_pages`, even if the pages are equal.
    pub(crate) fn positioning_ns(&self, from: u64, to: u64, device_pages: u64) -> u64 {
        match self.positioning {
            Positioning::Same { ns } => ns,
            Positioning::ByDistance { track_ns, stroke_ns, rotation_ns } => {
                // The root of the share in units of 2^-20; the share itself is in units of 2^-40.
                let share = (u128::from(from.abs_diff(to)) << 40) / u128::from(device_pages);
                let root = share.isqrt() as u64;
                track_ns + ((u128::from(stroke_ns) * u128::from(root)) >> 20) as u64 + rotation_ns
            }
        }
    }

    /// The time to transfer `pages`, in nanoseconds, rounded up.
    pub(crate) fn transfer_ns(&self, pages: u64) -> u64 {
        (pages * PAGE_BYTES * SECOND_NS).div_ceil(self.bytes_per_second)
    }
}

#[cfg(test)]
mod tests {
    use braidb_storage::inline::SeededRandom;

    use super::*;

    #[test]
    fn a_seek_of_the_disk_takes_8500_microseconds_on_average() {
        let (random, pages, draws) = (SeededRandom::new(3), 1 << 28, 100_000);
        let disk = Profile::DISK7200;
        let seeks = (0..draws)
            .map(|_| disk.positioning_ns(random.below(pages), random.below(pages), pages) - 4_200_000);
        let mean_ns = seeks.sum::<u64>() / draws;
        assert!((8_450_000..8_550_000).contains(&mean_ns), "{mean_ns} ns");
        assert_eq!(disk.mean_positioning_ns(), 12_700_000);
        assert_eq!(disk.positioning_ns(0, pages, pages), 1_000_000 + 14_062_500 + 4_200_000);
        assert_eq!(disk.positioning_ns(7, 8, pages), 5_200_000 + 858, "a seek by one page: 14.1 ms / 2^14");
    }

    #[test]
    fn times_are_those_of_the_sources() {
        assert_eq!(Profile::HDD.positioning_ns(0, 9, 100), 16_666_666);
        assert_eq!(Profile::SSD.positioning_ns(0, 99, 100), 666_666);
        assert_eq!(Profile::NVME.positioning_ns(0, 1, 100), 166_666);
        assert_eq!(Profile::HDD.transfer_ns(1), 27_307);
        assert_eq!(Profile::NVME.transfer_ns(1 << 18), 2_236_962_134);
    }
}
