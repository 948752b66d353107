//! The times of a device: to get to a place, and to transfer bytes there. They are measured through the seams alone.
//!
//! The measurement writes one file, reads it in order, reads blocks of it at random places, and deletes it. The seams
//! tell all times, so on a modelled device the result is that of the model.
//!
//! Two fixed costs would make a rate too low: a sync waits for more than its bytes, and a read in order begins with a
//! seek. So each rate is a slope: how much longer more bytes take (`rate`).
//!
//! # Limits
//!
//! - The random places lie in one file of at most 16 MiB. So the arm of a hard disk hardly travels, and `seek_ns` is
//!   little more than half a rotation. Between far places the disk takes up to three times as long.
//! - A cache inside the device is not emptied. A device that keeps what it has just written seems faster than it is.
//! - A file system without [`File::forget_cached`] answers from memory, such as tmpfs does; `seek_ns` is then small.
//! - Other work on the device counts as slowness of the device.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::inline::SeededRandom;
use crate::{Env, File, Random};

/// The name of the file that [`DeviceTimes::measure`] writes and deletes. A process that dies meanwhile leaves it behind.
/// The next measurement in the directory replaces it, and any program may delete it.
pub const MEASURE_FILE: &str = "braidb.measure";

/// Bytes of one append and of one read in order, and of the smallest file. On a disk with 150 MB/s they take 7 ms: less
/// than a seek. A larger unit would hold up a measurement of a slow device too long.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of the largest file. On a disk with 150 MB/s they take 112 ms: seven seeks. A larger file would wear flash more.
const MOST_BYTES: u64 = 16 << 20;
/// The file takes at most one part in this many of the free space. So a measurement never fills a device.
const FREE_SHARE: u64 = 100;
/// Bytes of a read at a random place: a page of the page cache, which is the least that the system reads.
const BLOCK_BYTES: u64 = 4096;
/// Most reads at random places. After 128 reads the median rotational delay of a disk is known to within 7%. They take a
/// disk 1 to 2 s.
const MOST_BLOCKS: usize = 128;
/// Fewest reads at random places, even if the time is over: 5. Two odd reads then do not change the median much.
const LEAST_BLOCKS: usize = 5;
/// Writing begins no further step after this share of the budget, in percent. Each step waits for a sync, whose times
/// vary most.
const WRITE_PERCENT: u64 = 40;
/// Reading in order ends after this share of the budget, in percent. The rest is for random places, which take longest.
const READ_PERCENT: u64 = 60;
/// The most of all time, in percent, that is attributed to syncs and seeks instead of transfers. On a hard disk a sync
/// takes two seeks of 17 ms, so the syncs of a file of 16 MiB, four in all, take 56% of the time. With a higher limit,
/// noise could make a rate boundless.
const MOST_FIXED_PERCENT: u128 = 60;
/// Nanoseconds of the shortest seek that is reported: 1 µs, the unit of [`crate::Clock`].
const LEAST_SEEK_NS: u64 = 1_000;

/// The times of a device. No field is 0.
///
/// ```
/// use braidb_storage::{DeviceTimes, real};
/// let dir = std::env::temp_dir().join(format!("braidb-storage-doc-times-{}", std::process::id()));
/// let env = real::env(1)?;
/// env.fs.create_dir_all(&dir)?;
/// let times = DeviceTimes::measure(&env, &dir, 100_000)?;
/// assert!(times.read_bytes_per_second > 0 && times.seek_ns > 0);
/// assert!(env.fs.list(&dir)?.is_empty());
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTimes {
    /// The median time of a read at a random place, without the transfer, in nanoseconds; at least 1,000.
    pub seek_ns: u64,
    /// The rate of reads in order, in bytes per second.
    pub read_bytes_per_second: u64,
    /// The rate of writes in order that a sync makes stable, in bytes per second.
    pub write_bytes_per_second: u64,
}

impl DeviceTimes {
    /// The times of a device without a measurement: round figures of an SSD at a SATA port, as data
    /// sheets give them.
    pub const UNKNOWN: DeviceTimes = DeviceTimes {
        seek_ns: 100_000,
        read_bytes_per_second: 500_000_000,
        write_bytes_per_second: 400_000_000,
    };

    /// Microseconds that a measurement may take where a user waits for it. A hard disk needs about half of them.
    pub const BUDGET_US: u64 = 5_000_000;

    /// Measures the device of the directory `dir` for about `budget_us` microseconds by `env.clock`, or less.
    ///
    /// Writes the file [`MEASURE_FILE`] in `dir`, of 1 to 16 MiB and at most a hundredth of the free space, and deletes
    /// it. Some steps are made even if the budget is over: 1 MiB is written, synced and read, then five blocks.
    /// On a clock that stands still, returns [`DeviceTimes::UNKNOWN`] after the first MiB.
    ///
    /// # Errors
    ///
    /// Each error names the file. `StorageFull` if less than 100 MiB are free, or the device becomes full meanwhile.
    /// `NotFound` if `dir` does not exist. Otherwise the kind of the file system's error. After an error, the file is
    /// deleted unless this fails too.
    pub fn measure(env: &Env, dir: &Path, budget_us: u64) -> io::Result<DeviceTimes> {
        let measurement = Measurement {
            env,
            path: dir.join(MEASURE_FILE),
            random: SeededRandom::new(env.random.next_u64()),
            begin_us: env.clock.now_us(),
            budget_us,
        };
        let most_bytes = measurement.most_bytes(dir)?;
        measurement.remove()?;
        let times = measurement.run(most_bytes);
        let removed = measurement.remove();
        times.and_then(|times| removed.map(|()| times))
    }
}

/// Bytes that were transferred, and the microseconds that this took.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    bytes: u64,
    us: u64,
}

/// The rate of transfers that each have the same fixed cost beside their bytes, in bytes per second: the slope of the
/// line with the least squares. Other work on the device disturbs the times, so the slope is kept within bounds. The
/// rate is at least the mean of all transfers. No fixed cost is longer than the shortest transfer, and fixed costs take
/// at most [`MOST_FIXED_PERCENT`] of all time.
fn rate(transfers: &[Transfer]) -> u64 {
    let sum = |of: fn(&Transfer) -> u128| transfers.iter().map(of).sum::<u128>();
    let count = transfers.len() as u128;
    let (bytes, us) = (sum(|each| u128::from(each.bytes)), sum(|each| u128::from(each.us)));
    let squares = sum(|each| u128::from(each.bytes) * u128::from(each.bytes));
    let products = sum(|each| u128::from(each.bytes) * u128::from(each.us));
    let per_second = |bytes: u128, us: u128| bytes * 1_000_000 / us.max(1);
    let mean = per_second(bytes, us);
    // The slope has a common factor above and below: `count` squared times the variance, or covariance.
    let (spread, shared) = (count * squares - bytes * bytes, (count * products).saturating_sub(bytes * us));
    if spread == 0 || shared == 0 {
        return as_rate(mean);
    }
    let shortest = transfers.iter().map(|each| u128::from(each.us)).min().unwrap_or(0);
    let variable = (us - count * shortest).max(us * (100 - MOST_FIXED_PERCENT) / 100);
    as_rate(per_second(spread, shared).clamp(mean, per_second(bytes, variable)))
}

/// A rate that fits its field, which is never 0.
fn as_rate(bytes_per_second: u128) -> u64 {
    u64::try_from(bytes_per_second).unwrap_or(u64::MAX).max(1)
}

/// One measurement: the file, the time when it began, and the time that it may take.
struct Measurement<'a> {
    env: &'a Env,
    path: PathBuf,
    random: SeededRandom,
    begin_us: u64,
    budget_us: u64,
}

impl Measurement<'_> {
    /// Writes and reads a file of at most `most_bytes`, which does not exist before and stays.
    fn run(&self, most_bytes: u64) -> io::Result<DeviceTimes> {
        let file = self.env.fs.create(&self.path).map_err(|error| self.named("create", &error))?;
        // Two handles: a system that reads ahead decides by what a handle has read before. They are opened at once, so
        // a process that deletes the file as a leftover does no harm.
        let (in_order, at_random) = (self.open()?, self.open()?);
        let Some((bytes, write_bytes_per_second)) = self.write(&*file, most_bytes)? else {
            return Ok(DeviceTimes::UNKNOWN);
        };
        let in_order = self.read_in_order(&*in_order, bytes)?;
        let block = self.read_blocks(&*at_random, bytes)?;
        let read_bytes_per_second = rate(&[in_order, block]);
        let transfer_ns = BLOCK_BYTES * 1_000_000_000 / read_bytes_per_second;
        let seek_ns = (block.us * 1_000).saturating_sub(transfer_ns).max(LEAST_SEEK_NS);
        Ok(DeviceTimes { seek_ns, read_bytes_per_second, write_bytes_per_second })
    }

    /// Bytes of the largest file that the free space allows.
    fn most_bytes(&self, dir: &Path) -> io::Result<u64> {
        let free = self.env.fs.free_space(dir).map_err(|error| self.named("find free space for", &error))?;
        if free / FREE_SHARE < PIECE_BYTES {
            let what = format!(
                "no room to measure the device with {}: {free} bytes are free, and {} are needed, of which the file \
                 takes a hundredth",
                self.path.display(),
                FREE_SHARE * PIECE_BYTES
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        Ok((free / FREE_SHARE).min(MOST_BYTES))
    }

    /// Writes the file in steps that each double it and end with a sync. Returns the file's bytes and the rate, or
    /// `None` if the clock stands still.
    fn write(&self, file: &dyn File, most_bytes: u64) -> io::Result<Option<(u64, u64)>> {
        let first = self.write_step(file, PIECE_BYTES)?;
        if first.us == 0 {
            return Ok(None);
        }
        let (mut bytes, mut steps) = (first.bytes, vec![first]);
        let mut next_us = first.us;
        while bytes * 2 <= most_bytes && self.is_within(WRITE_PERCENT, next_us) {
            let step = self.write_step(file, bytes)?;
            bytes += step.bytes;
            steps.push(step);
            // The next step transfers twice as many bytes, at the same rate or faster.
            next_us = step.us.saturating_mul(2);
        }
        // The first step also pays for the new file, so it counts only if it is alone.
        let counted = if steps.len() > 1 { &steps[1..] } else { &steps[..] };
        Ok(Some((bytes, rate(counted))))
    }

    /// Appends and syncs `bytes`, whole pieces, which are random so that no file system compresses them. Only the calls
    /// count.
    fn write_step(&self, file: &dyn File, bytes: u64) -> io::Result<Transfer> {
        let named = |error: io::Error| self.named("write", &error);
        let mut piece = vec![0; PIECE_BYTES as usize];
        let mut us = 0;
        for _ in 0..bytes / PIECE_BYTES {
            for word in piece.chunks_exact_mut(8) {
                word.copy_from_slice(&self.random.next_u64().to_le_bytes());
            }
            us += self.timed(|| file.append(&piece)).map_err(named)?;
        }
        us += self.timed(|| file.sync_data()).map_err(named)?;
        Ok(Transfer { bytes, us })
    }

    /// Reads the file of `bytes` from its beginning, as far as the time allows.
    fn read_in_order(&self, file: &dyn File, bytes: u64) -> io::Result<Transfer> {
        file.forget_cached(0, bytes);
        let mut piece = vec![0; PIECE_BYTES as usize];
        let mut read = Transfer { bytes: 0, us: 0 };
        while read.bytes < bytes && (read.bytes == 0 || self.is_within(READ_PERCENT, 0)) {
            read.us += self
                .timed(|| file.read_exact_at(read.bytes, &mut piece))
                .map_err(|error| self.named("read", &error))?;
            read.bytes += PIECE_BYTES;
        }
        Ok(read)
    }

    /// Reads blocks at random places of the file of `bytes`, and returns the read that took the median time.
    fn read_blocks(&self, file: &dyn File, bytes: u64) -> io::Result<Transfer> {
        let mut block = vec![0; BLOCK_BYTES as usize];
        let mut times = Vec::with_capacity(MOST_BLOCKS);
        while times.len() < LEAST_BLOCKS || times.len() < MOST_BLOCKS && self.is_within(100, 0) {
            file.forget_cached(0, bytes);
            let at = self.random.below(bytes / BLOCK_BYTES) * BLOCK_BYTES;
            let us = self.timed(|| file.read_exact_at(at, &mut block));
            times.push(us.map_err(|error| self.named("read", &error))?);
        }
        times.sort_unstable();
        Ok(Transfer { bytes: BLOCK_BYTES, us: times[times.len() / 2] })
    }

    fn open(&self) -> io::Result<Arc<dyn File>> {
        self.env.fs.open(&self.path).map_err(|error| self.named("open", &error))
    }

    /// Deletes the file if it exists.
    fn remove(&self) -> io::Result<()> {
        match self.env.fs.unlink(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.named("delete", &error)),
            _ => Ok(()),
        }
    }

    /// Whether work of `us` microseconds that begins now ends within this share of the budget.
    fn is_within(&self, percent: u64, us: u64) -> bool {
        let spent_us = self.env.clock.now_us().saturating_sub(self.begin_us);
        spent_us.saturating_add(us) <= self.budget_us.saturating_mul(percent) / 100
    }

    /// The microseconds that a call takes.
    fn timed(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
        let begin_us = self.env.clock.now_us();
        call()?;
        Ok(self.env.clock.now_us().saturating_sub(begin_us))
    }

    fn named(&self, doing: &str, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("could not {doing} {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "looks at the directory of the measurement")]

    use std::fs;

    use super::*;
    use crate::real;

    #[test]
    fn a_rate_leaves_out_what_all_transfers_share() {
        let of = |all: &[(u64, u64)]| {
            rate(&all.iter().map(|&(bytes, us)| Transfer { bytes, us }).collect::<Vec<_>>())
        };
        // 100 MB/s and 10 ms for each sync.
        assert_eq!(of(&[(8_000_000, 90_000), (1_000_000, 20_000)]), 100_000_000);
        assert_eq!(of(&[(1_000_000, 20_000), (2_000_000, 30_000), (4_000_000, 50_000)]), 100_000_000);
        // Noise: the mean at least, and fixed costs are no longer than the shortest transfer.
        assert_eq!(of(&[(1_000_000, 20_000), (4_000_000, 20_000), (3_000_000, 20_000)]), 133_333_333);
        assert_eq!(of(&[(1_000_000, 20_000), (4_000_000, 5_000), (3_000_000, 20_000)]), 177_777_777);
        assert_eq!(of(&[(1_000_000, 20_000), (2_000_000, 5_000), (8_000_000, 30_000)]), 275_000_000);
        // The long transfer took hardly longer: fixed costs are at most three fifths.
        assert_eq!(of(&[(9_000_000, 50_001), (1_000_000, 49_999)]), 250_000_000);
        // There was one transfer, one length, or no time.
        assert_eq!(of(&[(1_000_000, 10_000)]), 100_000_000);
        assert_eq!(of(&[(1_000_000, 10_000), (1_000_000, 30_000)]), 50_000_000);
        assert_eq!(of(&[(4096, 0), (1 << 20, 0)]), 1_052_672_000_000);
        assert_eq!(of(&[(1, u64::MAX)]), 1);
    }

    #[test]
    fn a_real_device_is_measured_and_keeps_nothing_of_it() {
        let dir = std::env::temp_dir().join(format!("braidb-times-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let env = real::env(1).unwrap();
        let error = DeviceTimes::measure(&env, &dir, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains(MEASURE_FILE), "{error}");
        fs::create_dir(&dir).unwrap();
        // A process died during its measurement.
        fs::write(dir.join(MEASURE_FILE), "left over").unwrap();
        let times = DeviceTimes::measure(&env, &dir, 200_000).unwrap();
        assert!(times.seek_ns >= LEAST_SEEK_NS && times != DeviceTimes::UNKNOWN, "{times:?}");
        assert!(times.read_bytes_per_second > 0 && times.write_bytes_per_second > 0, "{times:?}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        let held = Env { fs: env.fs.hold_dir(&dir).unwrap(), ..env };
        DeviceTimes::measure(&held, &dir, 0).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::remove_dir(&dir).unwrap();
    }
}
