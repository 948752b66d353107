//! Reads every byte of a table from disk, and reports each place that is wrong.

use super::block::{Payload, Pointer};
use super::filter::Filter;
use super::holes::dead_extents;
use super::index::Index;
use super::properties::Properties;
use super::reader::{NO_SUCH_BODY, Table, names_bodies};
use super::section::{self, Fault, Flaw, Why};
use super::tail::Tail;
use crate::base::checksum;
use crate::base::error::Error;
use crate::base::ids::{FileId, SeqNo};
use crate::base::key::{self, KeyRange};
use crate::base::report::Damage;
use crate::base::sample::Sample;
use crate::value::{Body, BodyUse};
use braidb_storage::{File, FileSystem};
use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes of one read, unless a single block is larger.
const READ_BYTES: u64 = 1 << 20;
/// Damaged values of one log that are reported one by one; further ones are reported as one range.
const TOLD_VALUES: usize = 10;

/// Checks the file of table `id` against `expected` and against itself. Checked are checksums, order, index, filter,
/// properties, and every value that a handle leads to. An empty result means that the table is whole.
///
/// Skips blocks that may have been punched out because no living slice reaches into them. If there are such blocks, the
/// checksum and the properties of the whole file prove nothing and are not compared.
pub fn verify(fs: &dyn FileSystem, path: &Path, id: FileId, expected: &Expected<'_>) -> Vec<Damage> {
    let mut values = Values::new(expected);
    let faults = match fs.open(path) {
        Ok(file) => faults(&*file, id, expected, &mut values),
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
    faults.into_iter().map(damage).chain(values.damages()).collect()
}

impl Table {
    /// The blocks in `range` that cannot be read or fail their check: the keys that each may hold, and the error.
    pub fn damaged_blocks(&self, range: &KeyRange) -> Vec<(KeyRange, Error)> {
        let (index, mut bytes, mut damaged) = (self.index(), Vec::new(), Vec::new());
        let mut low = range.low.clone();
        for number in index.first_at_or_after(&range.low)..index.blocks() {
            let separator = index.separator(number);
            let read = self.read_blocks(number, number + 1, &mut bytes);
            if let Err(error) = read.and_then(|()| self.check_block(number, &bytes).map(drop)) {
                let high = separator.clone().min(range.high.clone());
                damaged.push((KeyRange { low, high }, error));
            }
            // The versions of a key may continue in the next block, so its keys begin with this separator.
            low = separator.max(range.low.clone());
            if low > range.high {
                break;
            }
        }
        damaged
    }
}

/// What the manifest, or another source, says about a table.
#[derive(Debug)]
pub struct Expected<'a> {
    /// Length of the file.
    pub bytes: u64,
    /// The checksum of the whole file; `None` if unknown.
    pub checksum: Option<u32>,
    /// The ranges of the table's slices, in key order and apart from each other; `None` means the whole table.
    pub live: Option<&'a [KeyRange]>,
    /// The bodies that the handles lead into; with `None`, values in bodies are not checked.
    pub bodies: Option<Vec<Arc<Body>>>,
}

/// The checks of values in bodies, by the number of the body; empty if the bodies are unknown.
struct Values<'a>(Vec<ValuesOfBody<'a>>);

struct ValuesOfBody<'a> {
    body: &'a Body,
    /// A read of the body failed; the remaining values are not tried.
    is_unreadable: bool,
    damages: Vec<Damage>,
    /// The number of further damaged values, and the range of the log in which they lie.
    others: Option<(u64, Range<u64>)>,
}

impl<'a> Values<'a> {
    fn new(expected: &'a Expected<'_>) -> Values<'a> {
        let of_body = |body: &'a Arc<Body>| ValuesOfBody {
            body,
            is_unreadable: false,
            damages: Vec::new(),
            others: None,
        };
        Values(expected.bodies.iter().flatten().map(of_body).collect())
    }

    /// Reads the value that an entry points to. An error is reported as damage to the log.
    fn check(&mut self, pointer: &Pointer) {
        let Some(values) = self.0.get_mut(pointer.body as usize) else { return };
        if values.is_unreadable {
            return;
        }
        let (body, bytes) = (values.body, u64::from(pointer.handle.bytes));
        match body.read_in_passing(&pointer.handle) {
            Ok(_) => {}
            Err(Error::Corruption { path, offset, what }) if values.damages.len() < TOLD_VALUES => {
                values.damages.push(Damage { path, offset, bytes, what });
            }
            Err(Error::Corruption { offset, .. }) => {
                let end = offset.saturating_add(bytes);
                let (count, range) = values.others.get_or_insert((0, offset..end));
                *count += 1;
                *range = range.start.min(offset)..range.end.max(end);
            }
            Err(error) => {
                // The other values would fail in the same way.
                values.is_unreadable = true;
                let path = body.path().to_owned();
                values.damages.push(Damage {
                    path,
                    offset: 0,
                    bytes: body.file.bytes,
                    what: error.to_string(),
                });
            }
        }
    }

    /// All damages found.
    fn damages(self) -> impl Iterator<Item = Damage> {
        self.0.into_iter().flat_map(|ValuesOfBody { body, damages, others, .. }| {
            let others = others.map(|(count, range)| Damage {
                path: body.path().to_owned(),
                offset: range.start,
                bytes: range.end - range.start,
                what: match count {
                    1 => "one more value that a table points to is damaged".to_owned(),
                    _ => format!("in this range, {count} more values that a table points to are damaged"),
                },
            });
            damages.into_iter().chain(others)
        })
    }
}

fn faults(file: &dyn File, id: FileId, expected: &Expected<'_>, values: &mut Values<'_>) -> Vec<Fault> {
    let tail = match Tail::read(file, id, expected.bytes) {
        Ok(tail) => tail,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    let properties = tail.properties().map_err(|fault| faults.push(fault)).ok();
    let filter = tail.filter().map_err(|fault| faults.push(fault)).ok().flatten();
    let Ok(index) = tail.index().map_err(|fault| faults.push(fault)) else {
        return faults;
    };

    let named = properties.as_ref().map_or(&[][..], |properties| &properties.bodies);
    if properties.is_some() && expected.bodies.as_ref().is_some_and(|bodies| !names_bodies(bodies, named)) {
        faults.push(tail.other_bodies());
        return faults;
    }
    let has = |what: fn(&Properties) -> bool| properties.as_ref().is_some_and(what);
    let sample = has(|properties| properties.sample.is_some()).then(Sample::default);
    let reason = properties.as_ref().and_then(|properties| properties.reason);
    let holes = expected.live.map_or_else(Vec::new, |live| dead_extents(&index, live));
    let counted = Properties::new(properties.as_ref().map_or(0, |properties| properties.block_bytes));
    let mut walk = Walk {
        index: &index,
        holes: &holes,
        live: expected.live,
        filter: filter.as_ref(),
        counted: Properties { sample, reason, ..counted },
        before: None,
        key: Vec::new(),
        seq: 0,
        values,
    };
    walk.counted.bodies = named.iter().map(|body| BodyUse { live_bytes: 0, ..*body }).collect();
    let mut crc = 0;
    walk.read(file, id, &mut crc, &mut faults);
    if !faults.is_empty() || !holes.is_empty() {
        return faults;
    }
    walk.counted.range.high = std::mem::take(&mut walk.key);
    let counted = walk.counted;
    let differing = properties.map_or_else(Vec::new, |properties| properties.differences(&counted));
    if !differing.is_empty() {
        let (start, end) = (tail.footer.properties, tail.footer.index);
        let what = format!("the properties disagree with the entries: {}", differing.join(", "));
        faults.push(Fault::damage(start, end - start, what));
    }
    let found = checksum::extend(crc, tail.bytes());
    if expected.checksum.is_some_and(|expected| expected != found) {
        let what = "it is whole in itself, but not the file that the manifest describes";
        faults.push(Fault::damage(0, expected.bytes, what));
    }
    faults
}

/// A walk over all entries of the table.
struct Walk<'a, 'b> {
    index: &'a Index,
    /// Bytes that no slice needs, in order.
    holes: &'a [Range<u64>],
    /// As [`Expected::live`].
    live: Option<&'a [KeyRange]>,
    filter: Option<&'a Filter>,
    counted: Properties,
    /// The last block that was checked.
    before: Option<usize>,
    /// The last entry of the block `before`: its key, then its sequence number.
    key: Vec<u8>,
    seq: SeqNo,
    values: &'a mut Values<'b>,
}

impl Walk<'_, '_> {
    /// Reads the data blocks outside of holes, adds their bytes to `crc`, and reports damaged blocks.
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

    /// Whether a hole covers at least a part of the block.
    fn is_in_hole(&self, number: usize) -> bool {
        let (start, end) = (self.index.start(number), self.index.start(number + 1));
        let hole = self.holes.get(self.holes.partition_point(|hole| hole.end <= start));
        hole.is_some_and(|hole| hole.start < end)
    }

    /// Whether the current key lies in a slice.
    fn is_live(&self) -> bool {
        self.live.is_none_or(|live| {
            let from = live.partition_point(|range| range.low <= self.key);
            from > 0 && self.key <= live[from - 1].high
        })
    }

    fn block(&mut self, number: usize, payload: &[u8]) -> Result<(), Flaw> {
        let payload = Payload::parse(payload)?;
        // Behind a hole the preceding entry is unknown; the block may start with more versions of its key.
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
            if is_new {
                let hash = key::hash(&self.key);
                ensure(self.filter.is_none_or(|filter| filter.may_contain(hash)), "the filter lacks a key")?;
                if let Some(sample) = &mut self.counted.sample {
                    sample.offer(&self.key, hash);
                }
            }
            self.counted.count(&self.key, is_new, entry.seq, entry.kind, entry.value_bytes());
            if let Some(pointer) = &entry.pointer {
                let body = self.counted.bodies.get_mut(pointer.body as usize).ok_or(NO_SUCH_BODY)?;
                body.live_bytes += u64::from(pointer.handle.bytes);
                // A value outside of all slices may have been punched out.
                if self.is_live() {
                    self.values.check(pointer);
                }
            }
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
