//! The whole machine as a value: devices, files, names, locks and space, and the rules between them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::content::Content;
use super::crash::{Crash, Dice};
use super::devices::{Devices, device_of, id_on, same_device};
use super::inode::Inode;
use super::names::{Names, Node, Place, Tree};
use super::{EEXIST, EISDIR, errno};
use crate::descriptors::EMFILE;

/// A lock of a file: one holder, or the number of those that share it.
#[derive(Debug)]
enum Lock {
    Exclusive,
    Shared(u64),
}

#[derive(Debug)]
pub(super) struct State {
    inodes: BTreeMap<u64, Inode>,
    pub names: Names,
    pub devices: Devices,
    /// The next number for a file or directory, on any device. 0 is the root.
    next_number: u64,
    /// Whether a file without a name becomes unreadable, as on some network file systems.
    pub unlinked_are_gone: bool,
    /// Whether an append into space that was not preallocated panics.
    pub appends_need_space: bool,
    locked: BTreeMap<u64, Lock>,
    /// Descriptors that the process may have, and those that it has.
    pub descriptor_limit: Option<u64>,
    pub open_descriptors: u64,
}

impl State {
    pub fn new() -> State {
        State {
            inodes: BTreeMap::new(),
            names: Names::new(),
            devices: Devices::new(),
            next_number: 1,
            unlinked_are_gone: false,
            appends_need_space: false,
            locked: BTreeMap::new(),
            descriptor_limit: None,
            open_descriptors: 0,
        }
    }

    /// The state after a crash: everything is stable, no file is open or locked.
    pub fn after(&self, crash: Crash, seed: u64) -> State {
        let mut dice = Dice::new(seed);
        let tree = self.names.after(crash, self.devices.count(), &mut dice);
        let mut inodes = BTreeMap::new();
        for (id, links) in links_in(&tree) {
            inodes.insert(id, Inode::stable(self.inodes[&id].after(crash, &mut dice), links));
        }
        State {
            inodes,
            names: Names::stable(tree),
            devices: self.devices.clone(),
            next_number: self.next_number,
            unlinked_are_gone: self.unlinked_are_gone,
            appends_need_space: self.appends_need_space,
            locked: BTreeMap::new(),
            descriptor_limit: self.descriptor_limit,
            open_descriptors: 0,
        }
    }

    /// The state that the next process finds after a kill: no file is open or locked. Unsynced changes stay unsynced.
    pub fn without_process(&self) -> State {
        let mut inodes = self.inodes.clone();
        inodes.values_mut().for_each(Inode::lose_process);
        let mut state = State {
            inodes,
            names: self.names.clone(),
            devices: self.devices.clone(),
            next_number: self.next_number,
            unlinked_are_gone: self.unlinked_are_gone,
            appends_need_space: self.appends_need_space,
            locked: BTreeMap::new(),
            descriptor_limit: self.descriptor_limit,
            open_descriptors: 0,
        };
        state.sweep();
        state
    }

    /// The state that the next process finds after a kill, and after power failures of the devices in `crashes`.
    pub fn after_apart(&self, crashes: &BTreeMap<usize, Crash>, seed: u64) -> State {
        let mut dice = Dice::new(seed);
        let mut state = self.without_process();
        for (&device, &crash) in crashes.iter().filter(|(_, crash)| **crash != Crash::Process) {
            state.names.lose_power(device, crash, &mut dice);
            state.inodes.retain(|id, _| device_of(*id) != device);
            for (id, links) in links_in(&state.names.now) {
                if device_of(id) == device {
                    let left = self.inodes[&id].after(crash, &mut dice);
                    state.inodes.insert(id, Inode::stable(left, links));
                }
            }
        }
        state
    }

    /// Makes write-back of unsynced data and names fail: with a seed for a random part, without a seed for all of them.
    pub fn lose_write_backs(&mut self, seed: Option<u64>) {
        let mut dice = seed.map(Dice::new);
        for device in 0..self.devices.count() {
            self.names.lose_write_backs(device, dice.as_mut());
        }
        self.lose_data_write_backs(dice);
    }

    /// Makes write-back of unsynced file data fail: with dice for a random part, without dice for all of it.
    pub fn lose_data_write_backs(&mut self, mut dice: Option<Dice>) {
        self.inodes.values_mut().for_each(|inode| inode.lose_write_backs(dice.as_mut()));
    }

    /// A file that a handle or a name leads to.
    pub fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect("a file lives as long as a name or a handle leads to it")
    }

    /// The file that now has the name `path`.
    pub fn file_at(&mut self, path: &Path) -> io::Result<&mut Inode> {
        let id = self.names.now.file(path)?;
        Ok(self.inode(id))
    }

    /// Makes the directory `path`, of a new device. Directory and missing parents are stable.
    pub fn add_device(&mut self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent()
            && self.names.now.dir(parent).is_err()
        {
            let missing = parent.ancestors().filter(|dir| self.names.now.dir(dir).is_err());
            for dir in missing.collect::<Vec<_>>().into_iter().rev() {
                let place = self.vacant(dir)?;
                let id = self.new_id(&place);
                self.names.give_stable(place, Node::Dir(id));
            }
        }
        let place = self.vacant(path)?;
        let device = self.devices.add(path);
        let id = id_on(device, self.new_number());
        self.names.give_stable(place, Node::Dir(id));
        Ok(())
    }

    /// Makes the directory `path`. Its parent must exist.
    pub fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let place = self.vacant(path)?;
        let id = self.new_id(&place);
        self.names.give(place, Node::Dir(id));
        Ok(())
    }

    /// Removes the directory `path` if it exists and is empty.
    pub fn remove_dir(&mut self, path: &Path) {
        let is_empty = |dir| self.names.now.names(dir).next().is_none();
        if self.names.now.dir(path).is_ok_and(is_empty)
            && let Ok(place) = self.names.now.place(path)
        {
            self.names.take(place);
        }
    }

    /// Makes a file and opens one handle on it.
    pub fn create(&mut self, path: &Path) -> io::Result<u64> {
        let place = self.vacant(path)?;
        self.check_descriptor()?;
        let id = self.new_id(&place);
        self.open_descriptors += 1;
        self.inodes.insert(id, Inode::created());
        self.names.give(place, Node::File(id));
        Ok(id)
    }

    /// Opens another handle on a file.
    pub fn open(&mut self, path: &Path) -> io::Result<u64> {
        let id = self.names.now.file(path)?;
        self.check_descriptor()?;
        self.open_descriptors += 1;
        self.inode(id).handles += 1;
        Ok(id)
    }

    /// Fails if the process has as many descriptors as it may have.
    pub fn check_descriptor(&self) -> io::Result<()> {
        match self.descriptor_limit.is_some_and(|limit| self.open_descriptors >= limit) {
            true => Err(errno(EMFILE)),
            false => Ok(()),
        }
    }

    /// Closes a handle.
    pub fn close(&mut self, id: u64) {
        self.inode(id).handles -= 1;
        self.open_descriptors -= 1;
        self.sweep();
    }

    pub fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (old, new) = (self.names.now.place(from)?, self.names.now.place(to)?);
        // Linux compares the devices before it looks for the file.
        same_device(old.dir, new.dir)?;
        let id = self.names.now.file(from)?;
        match self.names.now.get(&new) {
            Some(Node::Dir(_)) => return Err(errno(EISDIR)),
            // POSIX keeps both names when a rename connects two names of one file.
            Some(Node::File(other)) if other == id => return Ok(()),
            Some(Node::File(other)) => self.inode(other).links -= 1,
            None => {}
        }
        self.names.rename(old, new, Node::File(id));
        Ok(())
    }

    pub fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.names.now.file(from)?;
        let place = self.vacant(to)?;
        same_device(id, place.dir)?;
        self.inode(id).links += 1;
        self.names.give(place, Node::File(id));
        Ok(())
    }

    pub fn unlink(&mut self, path: &Path) -> io::Result<()> {
        let id = self.names.now.file(path)?;
        let place = self.names.now.place(path)?;
        self.inode(id).links -= 1;
        self.names.take(place);
        Ok(())
    }

    /// Syncs the names of a directory, or loses its pending changes if the sync `fails`.
    pub fn sync_dir(&mut self, path: &Path, fails: bool) -> io::Result<()> {
        let dir = self.names.now.dir(path)?;
        match fails {
            true => self.names.fail_sync(dir),
            false => self.names.sync(dir),
        }
        self.sweep();
        Ok(())
    }

    /// Locks the file at `path`. Makes the file if it does not exist.
    pub fn lock(&mut self, path: &Path) -> io::Result<u64> {
        let id = self.open_or_create(path)?;
        if self.locked.contains_key(&id) {
            self.close(id);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.locked.insert(id, Lock::Exclusive);
        Ok(id)
    }

    /// As [`State::lock`], for a lock that others may share.
    pub fn lock_shared(&mut self, path: &Path) -> io::Result<u64> {
        let id = self.open_or_create(path)?;
        match self.locked.entry(id).or_insert(Lock::Shared(0)) {
            Lock::Exclusive => {
                self.close(id);
                Err(io::ErrorKind::WouldBlock.into())
            }
            Lock::Shared(holders) => {
                *holders += 1;
                Ok(id)
            }
        }
    }

    fn open_or_create(&mut self, path: &Path) -> io::Result<u64> {
        match self.names.now.file(path) {
            Ok(_) => self.open(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(path),
            Err(error) => Err(error),
        }
    }

    pub fn unlock(&mut self, id: u64) {
        match self.locked.get_mut(&id) {
            Some(Lock::Shared(holders)) if *holders > 1 => *holders -= 1,
            _ => _ = self.locked.remove(&id),
        }
        self.close(id);
    }

    /// Puts a file at `path`. Contents and name are stable.
    pub fn put_stable(&mut self, path: &Path, data: &[u8]) -> io::Result<()> {
        let mut content = Content::default();
        content.write(0, data);
        content.grow(data.len() as u64);
        if let Ok(inode) = self.file_at(path) {
            inode.replace(content);
            return Ok(());
        }
        let place = self.vacant(path)?;
        let id = self.new_id(&place);
        self.inodes.insert(id, Inode::stable(content, 1));
        self.names.give_stable(place, Node::File(id));
        Ok(())
    }

    /// Free blocks of a device.
    pub fn free_blocks(&self, device: usize) -> u64 {
        self.devices.free_blocks(device, self.taken_blocks(device))
    }

    /// Blocks that the files of a device take.
    pub fn taken_blocks(&self, device: usize) -> u64 {
        let files = self.inodes.iter().filter(|(id, _)| device_of(**id) == device).map(|(_, inode)| inode);
        let files = files.filter(|inode| inode.links > 0 || inode.handles > 0);
        files.map(|inode| inode.now.taken_blocks()).sum()
    }

    /// The place of `path`, if it has no name yet.
    fn vacant(&self, path: &Path) -> io::Result<Place> {
        let place = self.names.now.place(path)?;
        match self.names.now.get(&place) {
            Some(_) => Err(errno(EEXIST)),
            None => Ok(place),
        }
    }

    /// The id of a new file or directory at `place`, on the device of the directory that holds it.
    fn new_id(&mut self, place: &Place) -> u64 {
        id_on(device_of(place.dir), self.new_number())
    }

    fn new_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Forgets files without handles that no name leads to, now or after a crash.
    fn sweep(&mut self) {
        if self.inodes.values().all(|inode| inode.links > 0 || inode.handles > 0) {
            return;
        }
        let remembered = self.names.remembered();
        self.inodes.retain(|id, inode| inode.links > 0 || inode.handles > 0 || remembered.contains(id));
    }
}

/// The files that have names, each with the number of its names.
fn links_in(tree: &Tree) -> BTreeMap<u64, usize> {
    let mut links: BTreeMap<u64, usize> = BTreeMap::new();
    for id in tree.files().into_values() {
        *links.entry(id).or_default() += 1;
    }
    links
}
