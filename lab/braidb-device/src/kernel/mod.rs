//! The state of the whole testbed: files, names, page cache and devices, and the costs of calls for the calling actor.
//!
//! `reading.rs` reads bytes and `writing.rs` writes them. `devices.rs` has the devices and their journals, and
//! `flash.rs` a cache on one of them. This file has files and their names.

mod devices;
mod flash;
mod reading;
mod writing;

pub use devices::FIRST;
pub use reading::Ahead;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use crate::actors::Actors;
use crate::cache::{NONE, PageCache};
use crate::errno::{EISDIR, EXDEV, errno};
use crate::figures::{DeviceFigures, Figures};
use crate::inode::Inode;
use crate::names::{Names, Node, Place};
use crate::profile::{PAGE_BYTES, Profile};
use crate::scatter::Scatter;
use devices::Device;
use flash::Flash;

/// Most pages of one request to the device: 1 MiB, near Linux's `max_sectors_kb` of 1280. Longer accesses are several requests, and the
/// device may serve another actor between them.
pub const REQUEST_PAGES: u64 = 256;
/// Age of a file's first dirty page, in ns, from which on the file is written in the background: Linux's
/// `dirty_expire_centisecs`.
const EXPIRE_NS: u64 = 30_000_000_000;
/// Time, in ns, after which the journal writes changes that no sync has written: ext4's `commit`.
const COMMIT_NS: u64 = 5_000_000_000;
/// Most pages of the journal, which takes the first 64th of the device: 128 MiB, as ext4 on a large device.
const JOURNAL_PAGES: u64 = 32_768;
/// Files and devices have fewer pages than this: 16 TiB.
const MOST_PAGES: u64 = NONE as u64;

/// The testbed's state. One lock guards it; jobs run without the lock.
#[derive(Debug)]
pub struct State {
    pub actors: Actors,
    pub names: Names,
    devices: Vec<Device>,
    cache: PageCache,
    /// The flash cache before the first device, if there is one.
    flash: Option<Flash>,
    /// The rule that puts new files on devices at random, if there is one.
    scatter: Option<Scatter>,
    inodes: BTreeMap<u64, Inode>,
    next_id: u64,
    /// Files with dirty pages, sorted by the time of their first dirty page.
    dirty_files: BTreeSet<(u64, u64)>,
    /// The figures that no device counts by itself.
    figures: Figures,
}

/// Whether the actor waits for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Yes,
    No,
}

impl State {
    pub fn new(profile: Profile, device_bytes: u64, cache_bytes: u64, workers: usize) -> State {
        let (actors, cache_pages) = (Actors::new(workers), cache_bytes / PAGE_BYTES);
        assert!((64..MOST_PAGES).contains(&cache_pages), "page_cache_bytes must be 256 KiB to 16 TiB");
        State {
            devices: vec![Device::new(profile, device_bytes, actors.count())],
            actors,
            names: Names::new(),
            cache: PageCache::new(cache_pages as usize),
            flash: None,
            scatter: None,
            inodes: BTreeMap::new(),
            next_id: 1,
            dirty_files: BTreeSet::new(),
            figures: Figures::default(),
        }
    }

    /// Adds a device for the files below `dir`, which must be empty or missing. Returns the index of the device.
    pub fn add_device(&mut self, dir: &Path, profile: Profile, bytes: u64) -> io::Result<usize> {
        let mut made = PathBuf::new();
        for name in dir.components() {
            made.push(name);
            match self.names.dir(&made) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_dir(&made)?,
                other => drop(other?),
            }
        }
        let (device, added) = (self.devices.len(), Device::new(profile, bytes, self.actors.count()));
        self.names.mount(self.names.dir(dir)?, device)?;
        self.devices.push(added);
        Ok(device)
    }

    /// Adds a device that caches pages of the first one. Returns the index of the device.
    pub fn cache_on(&mut self, profile: Profile, bytes: u64) -> usize {
        assert!(self.flash.is_none(), "a testbed has one flash cache");
        let device = self.devices.len();
        self.devices.push(Device::flash(profile, bytes, self.actors.count()));
        self.flash = Some(Flash::new(device, bytes / PAGE_BYTES));
        device
    }

    /// From now on, puts new files of data on one of the first two devices at random.
    pub fn scatter(&mut self, scatter: Scatter) {
        assert!(self.flash.is_none() && self.devices.len() == 2, "files are scattered over two devices");
        self.scatter = Some(scatter);
    }

    pub fn figures(&self) -> Figures {
        let mut devices = DeviceFigures::default();
        self.devices.iter().for_each(|device| devices += device.figures);
        let end_ns = self.devices.iter().map(|device| device.timeline.end_ns()).max().unwrap_or(0);
        Figures {
            now_ns: self.actors.foreground().now_ns,
            end_ns: self.actors.latest_ns().max(end_ns),
            devices,
            foreground_cpu_ns: self.actors.foreground().cpu_ns,
            background_cpu_ns: self.actors.background_cpu_ns(),
            jobs: self.actors.jobs_run(),
            ..self.figures
        }
    }

    /// Begins a call: charges processor time, and does the periodic work of the system that is due.
    pub fn enter(&mut self, cpu_ns: u64) {
        self.actors.charge(cpu_ns);
        let now_ns = self.actors.now_ns();
        self.commit_old_changes();
        while let Some(&(since_ns, id)) = self.dirty_files.first()
            && now_ns >= since_ns.saturating_add(EXPIRE_NS)
        {
            self.write_back(id, 0..NONE, Wait::No, usize::MAX);
        }
    }

    pub fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect(LIVES)
    }

    /// Creates a file with one open handle.
    pub fn create(&mut self, path: &Path) -> io::Result<u64> {
        let place = self.names.vacant(path)?;
        let (id, dir_device) = (self.new_id(), self.names.device_of(place.0));
        let device =
            self.scatter.as_ref().and_then(|scatter| scatter.device_of(&place.1)).unwrap_or(dir_device);
        self.inodes.insert(id, Inode::created(device));
        self.names.give(place, Node::File(id));
        self.changed(dir_device);
        Ok(id)
    }

    pub fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let place = self.names.vacant(path)?;
        let (id, device) = (self.new_id(), self.names.device_of(place.0));
        self.names.give(place, Node::Dir(id));
        self.changed(device);
        Ok(())
    }

    /// Opens another handle.
    pub fn open(&mut self, path: &Path) -> io::Result<u64> {
        let id = self.names.file(path)?;
        self.inode(id).handles += 1;
        Ok(id)
    }

    /// Closes a handle.
    pub fn close(&mut self, id: u64) {
        self.inode(id).handles -= 1;
        self.sweep(id);
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.names.file(from)?;
        let (from, to) = (self.names.place(from)?, self.names.place(to)?);
        let device = self.common_device(&from, &to)?;
        let replaced = match self.names.get(&to) {
            Some(Node::Dir(_)) => return Err(errno(EISDIR)),
            // Both names lead to one file: POSIX keeps both.
            Some(Node::File(other)) if other == id => return Ok(()),
            Some(Node::File(other)) => Some(other),
            None => None,
        };
        self.names.take(&from);
        self.names.give(to, Node::File(id));
        replaced.into_iter().for_each(|other| self.unlinked(other));
        self.changed(device);
        Ok(())
    }

    pub fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.names.file(from)?;
        let (place, to) = (self.names.place(from)?, self.names.vacant(to)?);
        let device = self.common_device(&place, &to)?;
        self.inode(id).links += 1;
        self.names.give(to, Node::File(id));
        self.changed(device);
        Ok(())
    }

    /// The device of the directories of two names. A name cannot lead from the directory of one device to a file in
    /// another one's.
    fn common_device(&self, from: &Place, to: &Place) -> io::Result<usize> {
        match (self.names.device_of(from.0), self.names.device_of(to.0)) {
            (from, to) if from == to => Ok(from),
            _ => Err(errno(EXDEV)),
        }
    }

    pub fn unlink(&mut self, path: &Path) -> io::Result<()> {
        let id = self.names.file(path)?;
        let place = self.names.place(path)?;
        self.names.take(&place);
        self.unlinked(id);
        self.changed(self.names.device_of(place.0));
        Ok(())
    }

    fn unlinked(&mut self, id: u64) {
        self.inode(id).links -= 1;
        self.sweep(id);
    }

    /// Frees a file without names and handles. Its dirty pages are never written.
    fn sweep(&mut self, id: u64) {
        let inode = self.inode(id);
        if inode.links == 0 && inode.handles == 0 {
            self.free(id, 0..NONE);
            self.inodes.remove(&id);
        }
    }

    /// Locks the file at `path`, created if missing.
    pub fn lock(&mut self, path: &Path) -> io::Result<u64> {
        let id = match self.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path)?,
            other => other?,
        };
        if self.inode(id).is_locked {
            self.close(id);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.inode(id).is_locked = true;
        Ok(id)
    }

    pub fn unlock(&mut self, id: u64) {
        self.inode(id).is_locked = false;
        self.close(id);
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }
}

const LIVES: &str = "a file lives as long as a name or a handle leads to it";

/// The page of a byte.
pub fn page_of(offset: u64) -> u32 {
    (offset / PAGE_BYTES) as u32
}
