//! Directories and the names in them. Operations here take no virtual time.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};

use crate::errno::{EEXIST, EISDIR, ENOTDIR, errno};

/// The file or directory of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    File(u64),
    Dir(u64),
}

/// A place for a name: the id of the directory, and the name in it.
pub type Place = (u64, String);

/// The root directory. It always exists; relative paths start there too.
const ROOT: u64 = 0;

/// A directory.
#[derive(Debug, Default)]
struct Dir {
    names: BTreeMap<String, Node>,
    /// The device of the directory, and of new files in it.
    device: usize,
}

/// All names.
#[derive(Debug)]
pub struct Names {
    dirs: BTreeMap<u64, Dir>,
}

impl Names {
    pub fn new() -> Names {
        Names { dirs: BTreeMap::from([(ROOT, Dir::default())]) }
    }

    /// The directory at `path`.
    pub fn dir(&self, path: &Path) -> io::Result<u64> {
        self.walk(&components(path)?)
    }

    fn walk(&self, names: &[&str]) -> io::Result<u64> {
        names.iter().try_fold(ROOT, |dir, name| match self.dirs[&dir].names.get(*name) {
            Some(Node::Dir(child)) => Ok(*child),
            Some(Node::File(_)) => Err(errno(ENOTDIR)),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    /// The place of the last name of `path`, which may be vacant.
    pub fn place(&self, path: &Path) -> io::Result<Place> {
        let names = components(path)?;
        let (name, parents) = names.split_last().ok_or_else(|| errno(EISDIR))?;
        Ok((self.walk(parents)?, (*name).to_owned()))
    }

    /// The place of the last name of `path`, or `EEXIST` if the name exists.
    pub fn vacant(&self, path: &Path) -> io::Result<Place> {
        let place = self.place(path)?;
        match self.get(&place) {
            Some(_) => Err(errno(EEXIST)),
            None => Ok(place),
        }
    }

    /// The file at `path`.
    pub fn file(&self, path: &Path) -> io::Result<u64> {
        match self.get(&self.place(path)?) {
            Some(Node::File(id)) => Ok(id),
            Some(Node::Dir(_)) => Err(errno(EISDIR)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub fn get(&self, (dir, name): &Place) -> Option<Node> {
        self.dirs.get(dir)?.names.get(name).copied()
    }

    /// Puts a name into its place, replacing an existing one. A new directory lies on the device of its parent.
    pub fn give(&mut self, (dir, name): Place, node: Node) {
        if let Node::Dir(id) = node {
            let device = self.device_of(dir);
            self.dirs.insert(id, Dir { device, ..Dir::default() });
        }
        self.dirs.get_mut(&dir).expect("a place is in a directory").names.insert(name, node);
    }

    /// The device of a directory.
    pub fn device_of(&self, dir: u64) -> usize {
        self.dirs[&dir].device
    }

    /// The device of `path`, or of its last parent that exists.
    pub fn device_at(&self, path: &Path) -> io::Result<usize> {
        let names = components(path)?;
        let dir = (0..=names.len()).rev().find_map(|count| self.walk(&names[..count]).ok());
        Ok(self.device_of(dir.unwrap_or(ROOT)))
    }

    /// Puts an empty directory, and what will be below it, on a device.
    pub fn mount(&mut self, dir: u64, device: usize) -> io::Result<()> {
        let found = self.dirs.get_mut(&dir).expect("the directory exists");
        if dir == ROOT || !found.names.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        found.device = device;
        Ok(())
    }

    pub fn take(&mut self, (dir, name): &Place) {
        self.dirs.get_mut(dir).expect("a place is in a directory").names.remove(name);
    }

    /// The names in a directory, sorted.
    pub fn list(&self, dir: u64) -> impl Iterator<Item = (&String, Node)> {
        self.dirs[&dir].names.iter().map(|(name, node)| (name, *node))
    }
}

/// The names in `path`, from the root.
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
