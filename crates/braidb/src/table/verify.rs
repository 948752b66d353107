//! Reads every byte of a table from disk, and says where it is not what it should be.

use super::block::Payload;
use super::filter::Filter;
use super::holes::dead_extents;
use super::index::Index;
use super::properties::Properties;
use super::section::{self, Fault, Flaw, Why};
use super::tail::Tail;
use crate::base::checksum;
use crate::base::ids::{FileId, SeqNo};
use crate::base::key::{self, KeyRange};
use crate::base::report::Damage;
use braidb_storage::{File, FileSystem};
use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;

/// Bytes read at once, but for a block that is larger by itself.
const READ_BYTES: u64 = 1 << 20;

/// Checks the file of table `id` against the length and the checksum over all of it that the manifest holds, and against
/// itself: checksums, order, index, filter and properties. Nothing found means that it is whole.
///
/// `live`, sorted by low keys, are the ranges that the slices of the table have, and None says all of it. Blocks that may have
/// been punched out because no slice reaches into them are not looked at; and if there are any, what is known of the whole
/// file (its checksum, its properties) proves nothing and is not compared.
pub fn verify(
    fs: &dyn FileSystem,
    path: &Path,
    id: FileId,
    expected_bytes: u64,
    expected_checksum: Option<u32>,
    live: Option<&[KeyRange]>,
) -> Vec<Damage> {
    let faults = match fs.open(path) {
        Ok(file) => faults(&*file, id, expected_bytes, expected_checksum, live),
        Err(error) => vec![Fault { offset: 0, bytes: 0, why: Why::Unreadable(error) }],
    };
    let damage = |Fault { offset, bytes, why }| {
        let what = match why {
            Why::Damaged(what) => what,
            Why::Unsupported(what) => format!("it cannot be read by this version: {what}"),
            Why::Unreadable(error) => format!("it cannot be read: {error}"),
        };
        Damage { path: path.to_owned(), offset, bytes, what }
    };
    faults.into_iter().map(damage).collect()
}

fn faults(
    file: &dyn File,
    id: FileId,
    expected_bytes: u64,
    expected_checksum: Option<u32>,
    live: Option<&[KeyRange]>,
) -> Vec<Fault> {
    let tail = match Tail::read(file, id, expected_bytes) {
        Ok(tail) => tail,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    let properties = tail.properties().map_err(|fault| faults.push(fault)).ok();
    let filter = tail.filter().map_err(|fault| faults.push(fault)).ok().flatten();
    let Ok(index) = tail.index().map_err(|fault| faults.push(fault)) else {
        return faults;
    };

    let holes = live.map_or_else(Vec::new, |live| dead_extents(&index, live));
    let mut walk = Walk {
        index: &index,
        holes: &holes,
        filter: filter.as_ref(),
        counted: Properties::new(properties.as_ref().map_or(0, |properties| properties.block_bytes)),
        before: None,
        key: Vec::new(),
        seq: 0,
    };
    let mut crc = 0;
    walk.read(file, id, &mut crc, &mut faults);
    if !faults.is_empty() || !holes.is_empty() {
        return faults;
    }
    walk.counted.range.high = std::mem::take(&mut walk.key);
    let differing = properties.map_or_else(Vec::new, |properties| properties.differences(&walk.counted));
    if !differing.is_empty() {
        let (start, end) = (tail.footer.properties, tail.footer.index);
        let what = format!("the properties disagree with the entries: {}", differing.join(", "));
        faults.push(Fault::damage(start, end - start, what));
    }
    let found = checksum::extend(crc, tail.bytes());
    if expected_checksum.is_some_and(|expected| expected != found) {
        let what = "it is whole in itself, but not the file that the manifest describes";
        faults.push(Fault::damage(0, expected_bytes, what));
    }
    faults
}

/// Goes over all entries once.
struct Walk<'a> {
    index: &'a Index,
    /// Bytes that nobody needs, in order.
    holes: &'a [Range<u64>],
    filter: Option<&'a Filter>,
    counted: Properties,
    /// The block that was looked at last.
    before: Option<usize>,
    /// The last entry of it.
    key: Vec<u8>,
    seq: SeqNo,
}

impl Walk<'_> {
    /// Reads the data blocks outside of holes, extends `crc` with them, and reports those that are damaged.
    fn read(&mut self, file: &dyn File, id: FileId, crc: &mut u32, faults: &mut Vec<Fault>) {
        let (index, mut first, mut buffer) = (self.index, 0, Vec::new());
        while first < index.blocks() {
            if self.is_in_hole(first) {
                first += 1;
                continue;
            }
            let offset = index.start(first);
            let mut end = first + 1;
            while end < index.blocks() && index.start(end + 1) - offset <= READ_BYTES && !self.is_in_hole(end)
            {
                end += 1;
            }
            let bytes = index.start(end) - offset;
            buffer.resize(bytes as usize, 0);
            match file.read_exact_at(offset, &mut buffer) {
                Err(error) => faults.push(Fault::read(offset, bytes, error)),
                Ok(()) => {
                    *crc = checksum::extend(*crc, &buffer);
                    for number in first..end {
                        let (start, end) = (index.start(number), index.start(number + 1));
                        let block = &buffer[(start - offset) as usize..(end - offset) as usize];
                        let checked = section::check(block, id, start, "data block");
                        let walked = checked.and_then(|payload| {
                            self.block(number, payload).map_err(|flaw| flaw.at(start, end - start))
                        });
                        faults.extend(walked.err());
                    }
                }
            }
            first = end;
        }
    }

    /// Whether a hole covers the block, or a part of it.
    fn is_in_hole(&self, number: usize) -> bool {
        let (start, end) = (self.index.start(number), self.index.start(number + 1));
        let hole = self.holes.get(self.holes.partition_point(|hole| hole.end <= start));
        hole.is_some_and(|hole| hole.start < end)
    }

    fn block(&mut self, number: usize, payload: &[u8]) -> Result<(), Flaw> {
        let payload = Payload::parse(payload)?;
        // Behind a hole nobody knows which entry stood in front; more versions of its key may follow.
        let is_after_hole = number > 0 && self.before != Some(number - 1);
        if is_after_hole {
            self.key.clear();
        }
        self.before = Some(number);
        let (mut position, mut restarts) = (0, 0);
        while position < payload.entry_bytes() {
            let entry = payload.entry(position)?;
            if position == payload.restart(restarts) {
                restarts += 1;
                ensure(entry.shared == 0, "a restart point has no whole key")?;
            }
            ensure(restarts > 0, "the first entry is no restart point")?;
            ensure(entry.shared <= self.key.len(), "an entry shares more than the key before it has")?;
            let is_first = position == 0 && (number == 0 || is_after_hole);
            let order = entry.suffix.cmp(&self.key[entry.shared..]);
            let is_new = is_first || order == Ordering::Greater;
            ensure(
                is_new || (order == Ordering::Equal && entry.seq < self.seq),
                "the entries are out of order",
            )?;
            self.key.truncate(entry.shared);
            self.key.extend_from_slice(entry.suffix);
            self.seq = entry.seq;
            if position == 0 && number > 0 {
                let follows = self.index.compare(number - 1, &self.key);
                let spans = follows == Ordering::Equal && (!is_new || is_after_hole);
                ensure(follows == Ordering::Less || spans, "a separator lies behind the next block")?;
            }
            if is_new && let Some(filter) = self.filter {
                ensure(filter.may_contain(key::hash(&self.key)), "the filter lacks a key")?;
            }
            self.counted.count(&self.key, is_new, entry.seq, entry.kind, entry.value.len());
            position = entry.next;
        }
        ensure(restarts == payload.restart_count(), "a restart point hits no entry")?;
        let ends = self.index.compare(number, &self.key);
        let is_last = number + 1 == self.index.blocks();
        ensure(
            ends == Ordering::Equal || (ends == Ordering::Greater && !is_last),
            "a separator lies inside its block",
        )
    }
}

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Flaw> {
    if holds { Ok(()) } else { Err(Flaw::Malformed(otherwise)) }
}
