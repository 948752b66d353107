//! One file: its present contents, and its stable contents.
//!
//! Between two syncs the changes wait in a list, in order. A crash chooses which of them reach the disk. A failed sync makes
//! its changes *lost*: the kernel drops them from its list of dirty pages, so no later sync writes them. A lost change may
//! still have been written by chance. Later synced changes stay in the list behind lost ones, because a crash must replay both
//! in order.

use std::sync::Arc;

use super::content::Content;
use super::crash::{Crash, Dice};

/// The disk writes whole sectors of 512 bytes. A torn write leaves a subset of its sectors.
pub(super) const SECTOR_BYTES: u64 = 512;

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Waits for a sync.
    Pending,
    /// A failed sync covered the change. A crash decides its fate; no later sync does.
    Lost,
    /// Stable.
    Synced,
}

/// A change of data or of length. An append is one of each.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, data: Arc<[u8]> },
    Grow { len: u64 },
    Truncate { len: u64 },
    Punch { offset: u64, len: u64 },
}

impl Change {
    fn is_length(&self) -> bool {
        matches!(self, Change::Grow { .. } | Change::Truncate { .. })
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub now: Content,
    stable: Content,
    changes: Vec<(Change, Fate)>,
    /// The end of the appended bytes. A log file is longer, because it includes its preallocated space.
    pub written: u64,
    /// The bytes for which space was preallocated.
    pub preallocated: u64,
    /// The offset and bytes of a store into a mapping that is under way. The process may die in the middle of it.
    storing: Option<(u64, Arc<[u8]>)>,
    /// Names that the file has now.
    pub links: usize,
    /// Handles that are open on the file.
    pub handles: usize,
}

impl Inode {
    /// A new file, with a name and a handle.
    pub fn created() -> Inode {
        Inode { links: 1, handles: 1, ..Inode::default() }
    }

    /// A stable file.
    pub fn stable(content: Content, links: usize) -> Inode {
        Inode { written: content.len(), stable: content.clone(), now: content, links, ..Inode::default() }
    }

    /// Replaces the content. The new content is stable.
    pub fn replace(&mut self, content: Content) {
        self.written = content.len();
        self.stable = content.clone();
        self.now = content;
        self.changes.clear();
    }

    /// Writes at `offset`, and grows the file if needed.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.now.write(offset, data);
        self.changes.push((Change::Write { offset, data: data.into() }, Fate::Pending));
        self.written = offset + data.len() as u64;
        self.grow(self.written);
    }

    /// Writes the bytes at `offset` again, unchanged. The system then writes the length again too.
    pub fn rewrite(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let mut shown = vec![0; data.len()];
        assert_eq!(
            (self.now.read(offset, &mut shown), &shown[..]),
            (data.len(), data),
            "other bytes at {offset}"
        );
        self.changes.push((Change::Write { offset, data: data.into() }, Fate::Pending));
        self.changes.push((Change::Grow { len: end }, Fate::Pending));
    }

    /// Makes write-back of pending changes fail: with dice for a random part, without dice for all of them.
    pub fn lose_write_backs(&mut self, mut dice: Option<&mut Dice>) {
        if let Some(dice) = &mut dice {
            dice.begin(self.changes.len());
        }
        for (_, fate) in self.changes.iter_mut().filter(|(_, fate)| *fate == Fate::Pending) {
            if !dice.as_mut().is_some_and(|dice| dice.keeps()) {
                *fate = Fate::Lost;
            }
        }
    }

    /// Makes the file at least `len` long.
    pub fn grow(&mut self, len: u64) {
        if len > self.now.len() {
            self.now.grow(len);
            self.changes.push((Change::Grow { len }, Fate::Pending));
        }
    }

    /// Begins a store into a mapping. [`Inode::write`] completes it, unless a crash comes first.
    pub fn begin_store(&mut self, offset: u64, data: &[u8]) {
        // An append beyond the end of the file is a system call. A killed process leaves nothing of it.
        if offset + data.len() as u64 <= self.now.len() {
            self.storing = Some((offset, data.into()));
        }
    }

    pub fn end_store(&mut self) {
        self.storing = None;
    }

    /// Kills the process that has the file open; the system lives on. A store under way has written its first half.
    pub fn lose_process(&mut self) {
        self.handles = 0;
        if let Some((offset, data)) = self.storing.take() {
            self.write(offset, &data[..data.len() / 2]);
        }
    }

    pub fn truncate(&mut self, len: u64) {
        self.written = len;
        self.preallocated = self.preallocated.min(len);
        self.now.truncate(len);
        self.changes.push((Change::Truncate { len }, Fate::Pending));
    }

    pub fn punch(&mut self, offset: u64, len: u64) {
        self.now.punch(offset, len);
        self.changes.push((Change::Punch { offset, len }, Fate::Pending));
    }

    pub fn sync(&mut self) {
        for (_, fate) in &mut self.changes {
            if *fate == Fate::Pending {
                *fate = Fate::Synced;
            }
        }
        if self.changes.iter().all(|(_, fate)| *fate == Fate::Synced) {
            self.stable = self.now.clone();
            self.changes.clear();
        }
    }

    pub fn fail_sync(&mut self) {
        for (_, fate) in &mut self.changes {
            if *fate == Fate::Pending {
                *fate = Fate::Lost;
            }
        }
    }

    /// The content after a crash. Kept data beyond the kept length is gone.
    pub fn after(&self, crash: Crash, dice: &mut Dice) -> Content {
        if crash == Crash::Process {
            let mut left = self.now.clone();
            if let Some((offset, data)) = &self.storing {
                store_part(&mut left, *offset, data, dice);
            }
            return left;
        }
        let mut left = self.stable.clone();
        let undecided = self.changes.iter().filter(|(_, fate)| *fate != Fate::Synced).count();
        dice.begin(undecided);
        for (change, fate) in &self.changes {
            let kept = match (fate, crash) {
                (Fate::Synced, _) => true,
                (_, Crash::PowerTorn) if change.is_length() => dice.keeps_length(),
                (_, Crash::PowerTorn) => dice.keeps(),
                _ => false,
            };
            match change {
                Change::Write { offset, data } if kept => left.write(*offset, data),
                Change::Write { offset, data } if crash == Crash::PowerTorn => {
                    tear(&mut left, *offset, data, dice)
                }
                Change::Grow { len } if kept => left.grow(*len),
                Change::Truncate { len } if kept => left.truncate(*len),
                Change::Punch { offset, len } if kept => left.punch(*offset, *len),
                _ => {}
            }
        }
        if let Some((offset, data)) = self.storing.as_ref().filter(|_| crash == Crash::PowerTorn) {
            // The kernel may write a page out at any moment.
            store_part(&mut left, *offset, data, dice);
        }
        let len = left.len();
        left.truncate(len);
        left
    }
}

/// Makes a part of a store: a prefix of it, or any of its 64-byte cache lines.
fn store_part(left: &mut Content, offset: u64, data: &[u8], dice: &mut Dice) {
    const LINE_BYTES: usize = 64;
    match dice.below(2) {
        0 => left.write(offset, &data[..dice.below(data.len() as u64 + 1) as usize]),
        _ => {
            for (line, at) in data.chunks(LINE_BYTES).zip((offset..).step_by(LINE_BYTES)) {
                if dice.below(2) == 0 {
                    left.write(at, line);
                }
            }
        }
    }
}

/// Writes some sectors of a write that was not kept whole: mostly none, else a prefix or a random subset.
fn tear(left: &mut Content, offset: u64, data: &[u8], dice: &mut Dice) {
    let sectors = sectors(offset, data.len() as u64);
    let Some(tear) = dice.tear(sectors.len()) else { return };
    for (index, sector) in sectors.iter().enumerate() {
        if tear.keeps(index, dice) {
            left.write(offset + sector.start as u64, &data[sector.clone()]);
        }
    }
}

/// Splits a write of `len` bytes at `offset` at sector boundaries.
fn sectors(offset: u64, len: u64) -> Vec<std::ops::Range<usize>> {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < len {
        let end = len.min(at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES);
        parts.push(at as usize..end as usize);
        at = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_kept_beyond_a_dropped_length_is_gone() {
        let mut inode = Inode::created();
        inode.write(0, b"secret");
        let mut cut = 0;
        for seed in 0..100 {
            let mut left = inode.after(Crash::PowerTorn, &mut Dice::new(seed));
            if left.len() == 0 {
                cut += 1;
                left.grow(6);
                let mut bytes = [b'?'; 6];
                assert_eq!(left.read(0, &mut bytes), 6);
                assert_eq!(bytes, [0; 6]);
            }
        }
        assert!(cut > 10 && cut < 90, "{cut} of 100 images dropped the length");
    }

    #[test]
    fn sectors_are_those_of_the_disk() {
        assert_eq!(sectors(700, 1000), [0..324, 324..836, 836..1000]);
        assert_eq!(sectors(512, 513), [0..512, 512..513]);
        assert!(sectors(3, 0).is_empty());
    }
}
