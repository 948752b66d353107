//! Directories: the present names, the stable names, and the changes between them.
//!
//! A change of names is atomic: a rename takes one name and gives another in one step. It waits for the sync of a directory
//! that it touches. Syncing a directory also makes stable the earlier changes that its changes depend on. These touch a
//! directory that a synced change touches too. Between syncs a crash keeps any of the changes, in their order.
//!
//! A change touches one device, and each device has its own order: a crash decides about the changes of each device apart.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::crash::{Crash, Dice};
use super::devices::device_of;
use super::inode::Fate;
use super::{EISDIR, ENOTDIR, errno};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Dir(u64),
}

/// A directory and a name in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub dir: u64,
    pub name: String,
}

/// The root directory. It always exists.
const ROOT: u64 = 0;

/// All names of a file system.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    dirs: BTreeMap<u64, BTreeMap<String, Node>>,
}

/// Takes a name, gives a name, or does both at once.
#[derive(Clone, Debug)]
struct NameChange {
    takes: Option<Place>,
    gives: Option<(Place, Node)>,
}

impl NameChange {
    fn dirs(&self) -> impl Iterator<Item = u64> {
        self.takes.iter().chain(self.gives.iter().map(|(place, _)| place)).map(|place| place.dir)
    }

    fn is_on(&self, device: usize) -> bool {
        self.dirs().all(|dir| device_of(dir) == device)
    }
}

impl Tree {
    fn new() -> Tree {
        Tree { dirs: BTreeMap::from([(ROOT, BTreeMap::new())]) }
    }

    fn apply(&mut self, change: &NameChange) {
        if let Some(place) = &change.takes
            && let Some(names) = self.dirs.get_mut(&place.dir)
        {
            names.remove(&place.name);
        }
        if let Some((place, node)) = &change.gives {
            // A crash may have lost the directory itself. The name is then unreachable, but not wrong.
            self.dirs.entry(place.dir).or_default().insert(place.name.clone(), *node);
            if let Node::Dir(dir) = node {
                self.dirs.entry(*dir).or_default();
            }
        }
    }

    pub fn get(&self, place: &Place) -> Option<Node> {
        self.dirs.get(&place.dir)?.get(&place.name).copied()
    }

    pub fn names(&self, dir: u64) -> impl Iterator<Item = (&String, Node)> {
        self.dirs.get(&dir).into_iter().flatten().map(|(name, node)| (name, *node))
    }

    /// The directory at `path`.
    pub fn dir(&self, path: &Path) -> io::Result<u64> {
        let mut dir = ROOT;
        for name in components(path)? {
            match self.get(&Place { dir, name: name.to_owned() }) {
                Some(Node::Dir(child)) => dir = child,
                Some(Node::File(_)) => return Err(errno(ENOTDIR)),
                None => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        Ok(dir)
    }

    /// The directory and the last name of `path`. The name need not exist.
    pub fn place(&self, path: &Path) -> io::Result<Place> {
        let mut names = components(path)?;
        let name = names.pop().ok_or_else(|| errno(EISDIR))?;
        let parent = names.iter().collect::<PathBuf>();
        Ok(Place { dir: self.dir(&parent)?, name: name.to_owned() })
    }

    /// The file at `path`.
    pub fn file(&self, path: &Path) -> io::Result<u64> {
        match self.get(&self.place(path)?) {
            Some(Node::File(id)) => Ok(id),
            Some(Node::Dir(_)) => Err(errno(EISDIR)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Every reachable name of a file, with its path, sorted by path.
    pub fn files(&self) -> BTreeMap<PathBuf, u64> {
        let mut files = BTreeMap::new();
        let mut waiting = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, dir)) = waiting.pop() {
            for (name, node) in self.names(dir) {
                match node {
                    Node::File(id) => drop(files.insert(path.join(name), id)),
                    Node::Dir(child) => waiting.push((path.join(name), child)),
                }
            }
        }
        files
    }
}

/// The names in `path`, from the root. A relative path starts at the root too.
fn components(path: &Path) -> io::Result<Vec<&str>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name.to_str().ok_or(io::ErrorKind::InvalidFilename)?),
            Component::ParentDir | Component::Prefix(_) => return Err(io::ErrorKind::InvalidFilename.into()),
        }
    }
    Ok(names)
}

/// The present names, and what a crash may make of them.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub now: Tree,
    stable: Tree,
    changes: Vec<(NameChange, Fate)>,
}

impl Names {
    pub fn new() -> Names {
        Names::stable(Tree::new())
    }

    /// Names that are all stable.
    pub fn stable(tree: Tree) -> Names {
        Names { now: tree.clone(), stable: tree, changes: Vec::new() }
    }

    pub fn give(&mut self, place: Place, node: Node) {
        self.change(NameChange { takes: None, gives: Some((place, node)) });
    }

    pub fn take(&mut self, place: Place) {
        self.change(NameChange { takes: Some(place), gives: None });
    }

    pub fn rename(&mut self, from: Place, to: Place, node: Node) {
        self.change(NameChange { takes: Some(from), gives: Some((to, node)) });
    }

    fn change(&mut self, change: NameChange) {
        self.now.apply(&change);
        self.changes.push((change, Fate::Pending));
    }

    /// Gives a name that is stable at once.
    pub fn give_stable(&mut self, place: Place, node: Node) {
        let change = NameChange { takes: None, gives: Some((place, node)) };
        self.now.apply(&change);
        self.changes.push((change, Fate::Synced));
        self.fold();
    }

    pub fn sync(&mut self, dir: u64) {
        self.settle(dir, Fate::Synced);
        self.fold();
    }

    pub fn fail_sync(&mut self, dir: u64) {
        self.settle(dir, Fate::Lost);
    }

    /// Makes write-back of a device's pending changes fail: with dice for a random part, without dice for all of them.
    pub fn lose_write_backs(&mut self, device: usize, mut dice: Option<&mut Dice>) {
        if let Some(dice) = &mut dice {
            dice.begin(self.of(device).count());
        }
        let changes = self.changes.iter_mut().filter(|(change, _)| change.is_on(device));
        for (_, fate) in changes.filter(|(_, fate)| *fate == Fate::Pending) {
            if !dice.as_mut().is_some_and(|dice| dice.keeps()) {
                *fate = Fate::Lost;
            }
        }
    }

    /// Decides the pending changes of `dir`, and the earlier changes that they depend on.
    fn settle(&mut self, dir: u64, decided: Fate) {
        let mut dirs = BTreeSet::from([dir]);
        for (change, fate) in self.changes.iter_mut().rev() {
            if *fate == Fate::Pending && change.dirs().any(|touched| dirs.contains(&touched)) {
                dirs.extend(change.dirs());
                *fate = decided;
            }
        }
    }

    fn fold(&mut self) {
        let open =
            self.changes.iter().position(|(_, fate)| *fate != Fate::Synced).unwrap_or(self.changes.len());
        for (change, _) in self.changes.drain(..open) {
            self.stable.apply(&change);
        }
    }

    /// What a crash of all `devices` leaves.
    pub fn after(&self, crash: Crash, devices: usize, dice: &mut Dice) -> Tree {
        if crash == Crash::Process {
            return self.now.clone();
        }
        let mut left = self.stable.clone();
        for device in 0..devices {
            self.apply_kept(device, crash, dice, &mut left);
        }
        left
    }

    /// Decides the changes of a device that loses power while the others keep theirs.
    pub fn lose_power(&mut self, device: usize, crash: Crash, dice: &mut Dice) {
        let mut stable = self.stable.clone();
        self.apply_kept(device, crash, dice, &mut stable);
        self.changes.retain(|(change, _)| !change.is_on(device));
        self.now = stable.clone();
        self.changes.iter().for_each(|(change, _)| self.now.apply(change));
        self.stable = stable;
    }

    /// Applies to `left` the changes of a device that a power failure leaves.
    fn apply_kept(&self, device: usize, crash: Crash, dice: &mut Dice, left: &mut Tree) {
        dice.begin(self.of(device).filter(|(_, fate)| *fate != Fate::Synced).count());
        for (change, fate) in self.of(device) {
            if *fate == Fate::Synced || (crash == Crash::PowerTorn && dice.keeps()) {
                left.apply(change);
            }
        }
    }

    /// The changes of a device.
    fn of(&self, device: usize) -> impl Iterator<Item = &(NameChange, Fate)> {
        self.changes.iter().filter(move |(change, _)| change.is_on(device))
    }

    /// The files that a crash may show again, although they have no name now.
    pub fn remembered(&self) -> BTreeSet<u64> {
        let given = self.changes.iter().filter_map(|(change, _)| Some(change.gives.as_ref()?.1));
        let stable = self.stable.dirs.values().flat_map(|names| names.values().copied());
        let files = stable.chain(given).filter_map(|node| match node {
            Node::File(id) => Some(id),
            Node::Dir(_) => None,
        });
        files.collect()
    }
}
