//! The devices of the simulated machine: which files are on which, their space, and how they fail or lose power apart.
//!
//! A device is named by its directory, as a mounted file system is. It holds all files and names below the directory. The first
//! device holds the rest. The directory itself is always there, as a mount point is. A file never moves to another device.
//!
//! Device 0 is the first. The numbers of files and directories carry their device in the high bits, so that the order of the
//! numbers on the first device is the order of creation.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::content::BLOCK_BYTES;
use super::crash::Crash;
use super::ops::{Fault, Lasting};
use super::{EXDEV, SimFs, errno};

/// Free bytes that a device without a capacity reports: 1 TiB, which is more than any judge writes.
const BOUNDLESS_BYTES: u64 = 1 << 40;

/// The bits of a file's or directory's number below those of its device. 2^48 files are more than any judge makes.
const NUMBER_BITS: u32 = 48;

/// The device of a file or directory.
pub(super) fn device_of(id: u64) -> usize {
    (id >> NUMBER_BITS) as usize
}

/// The id of the file or directory `number` on `device`.
pub(super) fn id_on(device: usize, number: u64) -> u64 {
    (device as u64) << NUMBER_BITS | number
}

/// Refuses a rename or link between two devices. Takes the ids of files or directories on them.
pub(super) fn same_device(from: u64, to: u64) -> io::Result<()> {
    match device_of(from) == device_of(to) {
        true => Ok(()),
        false => Err(errno(EXDEV)),
    }
}

/// All devices of a machine.
#[derive(Clone, Debug)]
pub(super) struct Devices(Vec<Device>);

#[derive(Clone, Debug)]
struct Device {
    dir: PathBuf,
    capacity_bytes: Option<u64>,
}

impl Devices {
    /// The first device alone.
    pub fn new() -> Devices {
        Devices(vec![Device { dir: "/".into(), capacity_bytes: None }])
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds a device for the files below `dir`. Returns its number.
    pub fn add(&mut self, dir: &Path) -> usize {
        self.0.push(Device { dir: absolute(dir), capacity_bytes: None });
        self.0.len() - 1
    }

    /// The device of `path`, whether it exists or not.
    pub fn at(&self, path: &Path) -> usize {
        let path = absolute(path);
        let holders = self.0.iter().enumerate().filter(|(_, device)| path.starts_with(&device.dir));
        holders.max_by_key(|(_, device)| device.dir.components().count()).map_or(0, |(number, _)| number)
    }

    /// Free blocks of a device of which files take `taken_blocks`.
    pub fn free_blocks(&self, device: usize, taken_blocks: u64) -> u64 {
        match self.0[device].capacity_bytes {
            Some(capacity_bytes) => (capacity_bytes / BLOCK_BYTES).saturating_sub(taken_blocks),
            None => BOUNDLESS_BYTES / BLOCK_BYTES,
        }
    }
}

/// Relative paths start at the root.
fn absolute(path: &Path) -> PathBuf {
    Path::new("/").join(path)
}

/// The judge's side of the devices. A device is named by any path on it.
impl SimFs {
    /// Adds an empty device that holds all files and names below `dir`, which must not exist. The directory and its parents are
    /// stable at once. `rename` and `link` fail with `CrossesDevices` between two devices. Fails with `AlreadyExists` if the
    /// directory exists.
    ///
    /// ```
    /// use std::path::Path;
    /// use braidb_storage::sim::{Crash, SimFs};
    /// use braidb_storage::FileSystem;
    ///
    /// let fs = SimFs::new();
    /// let (fast, slow) = (Path::new("/fast"), Path::new("/slow/file"));
    /// fs.add_device(Path::new("/slow"))?;
    /// fs.create(fast)?;
    /// fs.create(slow)?;
    /// let image = fs.crash_image_apart(&[(slow, Crash::PowerAllLost)], 0);
    /// assert_eq!(image.files(), [fast]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn add_device(&self, dir: &Path) -> io::Result<()> {
        self.shared.state.lock().add_device(dir)
    }

    /// The directories of all devices. The first one's, `/`, comes first.
    pub fn device_dirs(&self) -> Vec<PathBuf> {
        self.shared.state.lock().devices.0.iter().map(|device| device.dir.clone()).collect()
    }

    /// The file system that the next process finds if this one dies now and each device of `crashes` meets its own crash. A
    /// device that is not named, or meets [`Crash::Process`], keeps its power: what is unsynced there stays unsynced, as by
    /// [`SimFs::without_process`]. All is stable on the others. The image has no locks, faults or hook, and counts operations
    /// from 0.
    pub fn crash_image_apart(&self, crashes: &[(&Path, Crash)], seed: u64) -> SimFs {
        let state = self.shared.state.lock();
        let crashes: BTreeMap<usize, Crash> =
            crashes.iter().map(|(path, crash)| (state.devices.at(path), *crash)).collect();
        SimFs::over(state.after_apart(&crashes, seed))
    }

    /// Makes an operation on the device of `path` fail, like [`SimFs::fail_nth`]: the `nth` one from now that `fault` can strike.
    /// Operations on other devices are not counted and do not fail.
    pub fn fail_device(&self, path: &Path, nth: u64, fault: Fault, lasting: Lasting, seed: u64) {
        let devices = self.shared.state.lock().devices.clone();
        let device = devices.at(path);
        self.fail_nth_where(nth, fault, lasting, seed, move |op| devices.at(&op.path) == device);
    }

    /// Limits the space of the first device, in bytes. Only file data takes space, in blocks of 4 KiB.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.set_capacity_of(Path::new("/"), bytes);
    }

    /// Limits the space of the device of `path`, in bytes, like [`SimFs::set_capacity`].
    pub fn set_capacity_of(&self, path: &Path, bytes: Option<u64>) {
        let devices = &mut self.shared.state.lock().devices;
        let device = devices.at(path);
        devices.0[device].capacity_bytes = bytes;
    }

    /// The blocks that all files of the first device take, in bytes.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes_of(Path::new("/"))
    }

    /// The blocks that all files of the device of `path` take, in bytes.
    pub fn taken_bytes_of(&self, path: &Path) -> u64 {
        let state = self.shared.state.lock();
        state.taken_blocks(state.devices.at(path)) * BLOCK_BYTES
    }
}
