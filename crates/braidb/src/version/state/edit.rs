//! One atomic change of the database's state, and its bytes in the manifest.
//!
//! ```text
//! edit    = field*
//! field   = tag varint │ length varint │ payload            tag = number × 2 + (1 if a reader may skip it unknown)
//!
//! number  payload (integers are varints, `b` is a length-prefixed byte string)
//!  1      next file number
//!  2      last sequence number
//!  3      family: id, name b, comparator b, replay_from
//!  4      replay_from: family, log
//!  5      slice added: family, level, cell b, epoch, table, low b, high b, first seq, last seq, entries, tombstones, keys, bytes
//!  6      slice removed: family, level, cell b, epoch, table, low b
//!  7      table added: id, bytes, checksum u32, tier
//!  8      bodies of a table that is added: table, then for each: log, bytes of the values that handles lead to, length of the log
//!  9      log cut: log, offset, resume
//! 10      log sealed: log, bytes
//! 11      tier: id, epoch
//! 12      guard: family, key b, top level
//! 13      cut is covered: log                                                                      may be skipped
//! 14      in place of 8 if a body is a value file: table, then for each: kind (0 a log, 1 a value file), and as in 8
//! 15      in place of 5 if entries lead into value files: as in 5, then for each, ascending: value file, bytes of the records
//! 16      in place of 14 if a body is a trie table: as in 14, with 2 for a trie table
//! 17      database id: 16 bytes
//! 18      place of a tier: tier, path b
//! 19      tier removed: id
//! ```
//!
//! In fields 14 and 16 the number of a value file's kind is larger by 16 times its tier. A database has field 17 before its first slow
//! tier, so versions without tiers refuse every database that has one.
//!
//! A table leaves the state with its last slice, so no field removes tables. The order of fields has no meaning:
//! removals are applied before additions.

use crate::base::MAX_KEY_BYTES;
use crate::base::codec::{Decoder, put_bytes, put_u32, put_varint};
use crate::base::counters::LEVELS;
use crate::base::error::Error;
use crate::base::ids::{DatabaseId, Epoch, FamilyId, FileId, MAX_SEQ, SeqNo, TierId};
use crate::base::key::KeyRange;
use crate::base::part::Part;
use crate::value::{self, BodyUse};
use crate::version::shape::{RunId, Slice};
use crate::version::table_file::NewTable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The reason why an edit cannot be read or applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The edit contradicts itself or the state.
    Wrong(String),
    /// The edit uses a feature that this version does not know.
    Unsupported(String),
}

impl Reject {
    pub(in crate::version) fn at(self, path: &Path, offset: u64) -> Error {
        match self {
            Reject::Wrong(what) => Error::corruption(path, offset, what),
            Reject::Unsupported(what) => Error::Unsupported { path: path.to_owned(), what },
        }
    }
}

impl From<String> for Reject {
    fn from(what: String) -> Reject {
        Reject::Wrong(what)
    }
}

/// One field of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    NextFile(FileId),
    LastSeq(SeqNo),
    FamilyCreated {
        id: FamilyId,
        name: String,
        comparator: String,
        replay_from: FileId,
    },
    /// Logs before this one need not be replayed for the family.
    ReplayFrom {
        family: FamilyId,
        log: FileId,
    },
    SliceAdded {
        family: FamilyId,
        run: RunId,
        table: FileId,
        part: Part,
    },
    SliceRemoved {
        family: FamilyId,
        run: RunId,
        table: FileId,
        low: Vec<u8>,
    },
    TableAdded {
        id: FileId,
        bytes: u64,
        checksum: u32,
        tier: TierId,
    },
    /// The bodies of a table that the same edit adds: at least one, in the order of the table's properties.
    TableBodies {
        table: FileId,
        bodies: Vec<BodyUse>,
    },
    /// Log `log` ends at `offset`, and the logs after it and before `resume` are never replayed.
    LogCut {
        log: FileId,
        offset: u64,
        resume: FileId,
    },
    /// All logs up to the end of this log's cut are stable: synced marks covered them, or recovery wrote them again.
    /// Versions that do not know this field skip it; for them the cut proves nothing.
    CutCovered {
        log: FileId,
    },
    /// The log was closed with exactly `bytes` bytes.
    LogSealed {
        log: FileId,
        bytes: u64,
    },
    Tier {
        id: TierId,
        epoch: Epoch,
    },
    /// Never changes once it is there.
    DatabaseId(DatabaseId),
    /// Where the user said that the tier is. The fast tier has the path at which the database was opened.
    TierPlace {
        id: TierId,
        path: PathBuf,
    },
    /// No table and no value file is on the tier any more. Its id is never given again.
    TierRemoved {
        id: TierId,
    },
    /// The guard is on level `top` and on every deeper level; [`LEVELS`] removes the guard.
    Guard {
        family: FamilyId,
        key: Vec<u8>,
        top: usize,
    },
}

/// Changes that are committed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    pub changes: Vec<Change>,
}

impl Edit {
    pub fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Adds a new table without its parts. The caller adds each part to its run.
    pub fn add_table(&mut self, table: &NewTable) {
        let NewTable { id, bytes, checksum, tier, .. } = *table;
        self.push(Change::TableAdded { id, bytes, checksum, tier });
        if !table.bodies.is_empty() {
            self.push(Change::TableBodies { table: id, bodies: table.bodies.clone() });
        }
    }

    /// Adds a new table and all its parts to one run.
    pub fn add_whole_table(&mut self, family: FamilyId, run: &RunId, table: &NewTable) {
        self.add_table(table);
        for part in &table.parts {
            self.add_slice(family, run.clone(), table.id, part);
        }
    }

    /// Adds a slice of a table that is in the state or is added by this edit.
    pub fn add_slice(&mut self, family: FamilyId, run: RunId, table: FileId, part: &Part) {
        self.push(Change::SliceAdded { family, run, table, part: part.clone() });
    }

    pub fn remove_slice(&mut self, family: FamilyId, run: RunId, slice: &Slice) {
        let low = slice.range.low.clone();
        self.push(Change::SliceRemoved { family, run, table: slice.table.id, low });
    }

    /// The value files that tables which this edit adds lead into, and their tiers.
    pub fn value_files(&self) -> Vec<(FileId, TierId)> {
        let bodies = self.changes.iter().filter_map(|change| match change {
            Change::TableBodies { bodies, .. } => Some(bodies),
            _ => None,
        });
        let files = bodies.flatten().map(|body| body.file);
        files.filter(|file| file.kind.is_value_file()).map(|file| (file.id, file.tier)).collect()
    }

    pub fn encode(&self) -> Vec<u8> {
        let (mut out, mut payload) = (Vec::new(), Vec::new());
        for change in &self.changes {
            payload.clear();
            let number = change.encode(&mut payload);
            put_varint(&mut out, number << 1 | u64::from(change.may_be_skipped()));
            put_bytes(&mut out, &payload);
        }
        out
    }

    pub fn decode(input: &[u8]) -> Result<Edit, Reject> {
        let mut decoder = Decoder::new(input);
        let mut edit = Edit::default();
        while !decoder.is_empty() {
            let field = (|| Some((decoder.varint()?, decoder.bytes()?)))();
            let (tag, payload) = field.ok_or_else(|| "an edit ends within a field".to_owned())?;
            match Change::decode(tag >> 1, &mut Decoder::new(payload)) {
                Decoded::Change(change) if (tag & 1 == 1) == change.may_be_skipped() => edit.push(change),
                Decoded::Change(_) | Decoded::Malformed => {
                    return Err(format!("field {} of an edit is malformed", tag >> 1).into());
                }
                Decoded::Unknown if tag & 1 == 1 => {}
                Decoded::Unknown => {
                    return Err(Reject::Unsupported(format!("the manifest has a field {}", tag >> 1)));
                }
            }
        }
        Ok(edit)
    }
}

enum Decoded {
    Change(Change),
    Malformed,
    Unknown,
}

impl Change {
    /// Whether a version that does not know the field may skip it.
    fn may_be_skipped(&self) -> bool {
        matches!(self, Change::CutCovered { .. })
    }

    /// Writes the payload and returns the field's number.
    fn encode(&self, out: &mut Vec<u8>) -> u64 {
        match self {
            Change::NextFile(id) => {
                put_varint(out, id.0);
                1
            }
            Change::LastSeq(seq) => {
                put_varint(out, *seq);
                2
            }
            Change::FamilyCreated { id, name, comparator, replay_from } => {
                put_varint(out, id.0.into());
                put_bytes(out, name.as_bytes());
                put_bytes(out, comparator.as_bytes());
                put_varint(out, replay_from.0);
                3
            }
            Change::ReplayFrom { family, log } => {
                put_varint(out, family.0.into());
                put_varint(out, log.0);
                4
            }
            Change::SliceAdded { family, run, table, part } => {
                put_place(out, *family, run, *table, &part.range.low);
                put_bytes(out, &part.range.high);
                let Part { range: _, seqs, entries, tombstones, keys, bytes, values } = part;
                for number in [seqs.0, seqs.1, *entries, *tombstones, *keys, *bytes] {
                    put_varint(out, number);
                }
                for &(file, bytes) in values {
                    put_varint(out, file.0);
                    put_varint(out, bytes);
                }
                if values.is_empty() { 5 } else { 15 }
            }
            Change::SliceRemoved { family, run, table, low } => {
                put_place(out, *family, run, *table, low);
                6
            }
            Change::TableAdded { id, bytes, checksum, tier } => {
                put_varint(out, id.0);
                put_varint(out, *bytes);
                put_u32(out, *checksum);
                put_varint(out, tier.0.into());
                7
            }
            Change::TableBodies { table, bodies } => {
                put_varint(out, table.0);
                value::encode_bodies(bodies, out);
                match value::have_tries(bodies) {
                    true => 16,
                    false if value::are_logs(bodies) => 8,
                    false => 14,
                }
            }
            Change::LogCut { log, offset, resume } => {
                put_varint(out, log.0);
                put_varint(out, *offset);
                put_varint(out, resume.0);
                9
            }
            Change::LogSealed { log, bytes } => {
                put_varint(out, log.0);
                put_varint(out, *bytes);
                10
            }
            Change::Tier { id, epoch } => {
                put_varint(out, id.0.into());
                put_varint(out, *epoch);
                11
            }
            Change::Guard { family, key, top } => {
                put_varint(out, family.0.into());
                put_bytes(out, key);
                put_varint(out, *top as u64);
                12
            }
            Change::CutCovered { log } => {
                put_varint(out, log.0);
                13
            }
            Change::DatabaseId(DatabaseId(bytes)) => {
                out.extend_from_slice(bytes);
                17
            }
            Change::TierPlace { id, path } => {
                put_varint(out, id.0.into());
                put_bytes(out, path.as_os_str().as_bytes());
                18
            }
            Change::TierRemoved { id } => {
                put_varint(out, id.0.into());
                19
            }
        }
    }

    fn decode(number: u64, input: &mut Decoder<'_>) -> Decoded {
        let change = match number {
            1 => seq(input).map(|next| Change::NextFile(FileId(next))),
            2 => seq(input).map(Change::LastSeq),
            3 => family_created(input),
            4 => (|| Some(Change::ReplayFrom { family: family(input)?, log: file(input)? }))(),
            5 => slice_added(input),
            6 => (|| {
                let (family, run, table, low) = place(input)?;
                Some(Change::SliceRemoved { family, run, table, low })
            })(),
            7 => table_added(input),
            8 => table_bodies(input, value::decode_logs),
            9 => {
                (|| Some(Change::LogCut { log: file(input)?, offset: input.varint()?, resume: file(input)? }))(
                )
            }
            10 => (|| Some(Change::LogSealed { log: file(input)?, bytes: input.varint()? }))(),
            11 => (|| Some(Change::Tier { id: tier(input)?, epoch: input.varint()? }))(),
            12 => (|| Some(Change::Guard { family: family(input)?, key: key(input)?, top: level(input)? }))(),
            13 => file(input).map(|log| Change::CutCovered { log }),
            14 => table_bodies(input, |input| {
                value::decode_bodies(input).filter(|bodies| !value::have_tries(bodies))
            }),
            16 => table_bodies(input, |input| {
                value::decode_bodies(input).filter(|bodies| value::have_tries(bodies))
            }),
            15 => slice_added(input).and_then(|added| with_values(added, input)),
            17 => input.take(16).map(|id| Change::DatabaseId(DatabaseId(id.try_into().expect("16 bytes")))),
            18 => (|| {
                let (id, path) = (tier(input)?, input.bytes()?);
                Some(Change::TierPlace { id, path: OsStr::from_bytes(path).into() })
            })(),
            19 => tier(input).map(|id| Change::TierRemoved { id }),
            _ => return Decoded::Unknown,
        };
        change.filter(|_| input.is_empty()).map_or(Decoded::Malformed, Decoded::Change)
    }
}

fn put_place(out: &mut Vec<u8>, family: FamilyId, run: &RunId, table: FileId, low: &[u8]) {
    put_varint(out, family.0.into());
    put_varint(out, run.level as u64);
    put_bytes(out, &run.cell);
    put_varint(out, run.epoch);
    put_varint(out, table.0);
    put_bytes(out, low);
}

fn place(input: &mut Decoder<'_>) -> Option<(FamilyId, RunId, FileId, Vec<u8>)> {
    let family = family(input)?;
    let level = level(input).filter(|&level| level < LEVELS)?;
    let run = RunId { level, cell: key(input)?, epoch: epoch(input)? };
    Some((family, run, file(input)?, key(input)?))
}

fn slice_added(input: &mut Decoder<'_>) -> Option<Change> {
    let (family, run, table, low) = place(input)?;
    let high = key(input)?;
    if low > high {
        return None;
    }
    let seqs = (seq(input)?, seq(input)?);
    let [entries, tombstones, keys, bytes] =
        [input.varint()?, input.varint()?, input.varint()?, input.varint()?];
    let range = KeyRange { low, high };
    let part = Part { range, seqs, entries, tombstones, keys, bytes, values: Vec::new() };
    Some(Change::SliceAdded { family, run, table, part })
}

/// Reads the account of values of an added slice, at least one file, to the end of the input.
fn with_values(mut added: Change, input: &mut Decoder<'_>) -> Option<Change> {
    let Change::SliceAdded { part: Part { values, .. }, .. } = &mut added else { return None };
    while values.is_empty() || !input.is_empty() {
        let (file, bytes) = (file(input)?, input.varint()?);
        if values.last().is_some_and(|&(before, _)| before >= file) {
            return None;
        }
        values.push((file, bytes));
    }
    Some(added)
}

fn table_added(input: &mut Decoder<'_>) -> Option<Change> {
    Some(Change::TableAdded {
        id: file(input)?,
        bytes: input.varint()?,
        checksum: input.u32()?,
        tier: tier(input)?,
    })
}

fn table_bodies(
    input: &mut Decoder<'_>,
    decode: impl Fn(&mut Decoder<'_>) -> Option<Vec<BodyUse>>,
) -> Option<Change> {
    Some(Change::TableBodies { table: file(input)?, bodies: decode(input)? })
}

fn family_created(input: &mut Decoder<'_>) -> Option<Change> {
    let id = family(input)?;
    let mut text = || Some(std::str::from_utf8(input.bytes()?).ok()?.to_owned());
    let (name, comparator) = (text()?, text()?);
    Some(Change::FamilyCreated { id, name, comparator, replay_from: file(input)? })
}

fn family(input: &mut Decoder<'_>) -> Option<FamilyId> {
    input.varint_u32().map(FamilyId)
}

/// A level, or [`LEVELS`] for none.
fn level(input: &mut Decoder<'_>) -> Option<usize> {
    usize::try_from(input.varint()?).ok().filter(|&level| level <= LEVELS)
}

/// A file number below `MAX_SEQ`, which leaves room to count up.
fn file(input: &mut Decoder<'_>) -> Option<FileId> {
    input.varint().filter(|&id| id < MAX_SEQ).map(FileId)
}

fn epoch(input: &mut Decoder<'_>) -> Option<Epoch> {
    input.varint().filter(|&epoch| epoch < MAX_SEQ)
}

fn seq(input: &mut Decoder<'_>) -> Option<SeqNo> {
    input.varint().filter(|&seq| seq <= MAX_SEQ)
}

fn key(input: &mut Decoder<'_>) -> Option<Vec<u8>> {
    input.bytes().filter(|key| key.len() <= MAX_KEY_BYTES).map(<[u8]>::to_vec)
}

fn tier(input: &mut Decoder<'_>) -> Option<TierId> {
    input.varint()?.try_into().ok().map(TierId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{BodyFile, BodyKind};

    fn body(kind: BodyKind, id: u64, live_bytes: u64, bytes: u64) -> BodyUse {
        BodyUse { file: BodyFile { kind, tier: TierId::FAST, id: FileId(id), bytes }, live_bytes }
    }

    fn every_change() -> Edit {
        let run = RunId { level: 6, cell: b"guard".to_vec(), epoch: 12 };
        let table = NewTable {
            id: FileId(9),
            bytes: 5000,
            checksum: 0xdead_beef,
            tier: TierId(1),
            parts: vec![Part {
                range: KeyRange::new(*b"", *b"zz"),
                seqs: (3, MAX_SEQ),
                entries: 70,
                tombstones: 7,
                keys: 60,
                bytes: 4000,
                values: Vec::new(),
            }],
            bodies: vec![body(BodyKind::Log, 4, 3000, 1 << 33), body(BodyKind::Log, 3, 1, 500)],
        };
        let mut edit = Edit::default();
        edit.add_table(&table);
        let bodies = vec![body(BodyKind::Values, 7, 60, 90), body(BodyKind::Log, 3, 1, 500)];
        edit.push(Change::TableBodies { table: FileId(9), bodies });
        let mut bodies = vec![body(BodyKind::Trie, 7, 60, 90), body(BodyKind::Values, 3, 1, 500)];
        bodies[1].file.tier = TierId(255);
        edit.push(Change::TableBodies { table: FileId(10), bodies });
        let values = vec![(FileId(7), 60), (FileId(300), 1 << 40)];
        edit.add_slice(FamilyId(0), run.clone(), table.id, &Part { values, ..table.parts[0].clone() });
        edit.add_slice(FamilyId(300), run.clone(), table.id, &table.parts[0]);
        edit.push(Change::Guard { family: FamilyId(300), key: b"guard".to_vec(), top: LEVELS });
        edit.push(Change::SliceRemoved { family: FamilyId(0), run, table: FileId(8), low: b"a".to_vec() });
        edit.push(Change::NextFile(FileId(10)));
        edit.push(Change::LastSeq(77));
        edit.push(Change::FamilyCreated {
            id: FamilyId(2),
            name: "näme".into(),
            comparator: "bytewise".into(),
            replay_from: FileId(4),
        });
        edit.push(Change::ReplayFrom { family: FamilyId(2), log: FileId(5) });
        edit.push(Change::LogCut { log: FileId(6), offset: 4096, resume: FileId(8) });
        edit.push(Change::CutCovered { log: FileId(6) });
        edit.push(Change::LogSealed { log: FileId(5), bytes: 1 << 40 });
        edit.push(Change::Tier { id: TierId(1), epoch: 2 });
        edit.push(Change::DatabaseId(DatabaseId(*b"sixteen bytes id")));
        edit.push(Change::TierPlace { id: TierId(1), path: OsStr::from_bytes(b"/not \xff UTF-8").into() });
        edit.push(Change::TierRemoved { id: TierId(1) });
        edit
    }

    #[test]
    fn edits_come_back() {
        let edit = every_change();
        assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
        assert_eq!(Edit::decode(&[]), Ok(Edit::default()));
    }

    #[test]
    fn unknown_fields_are_refused_unless_optional() {
        let mut bytes = every_change().encode();
        put_varint(&mut bytes, 99 << 1 | 1);
        put_bytes(&mut bytes, b"from the future");
        assert_eq!(Edit::decode(&bytes), Ok(every_change()));
        put_varint(&mut bytes, 99 << 1);
        put_bytes(&mut bytes, b"");
        assert!(matches!(Edit::decode(&bytes), Err(Reject::Unsupported(what)) if what.contains("99")));
    }

    #[test]
    fn no_cut_and_no_flip_makes_the_decoder_panic() {
        let bytes = every_change().encode();
        let whole: Vec<usize> =
            (0..=bytes.len()).filter(|&len| Edit::decode(&bytes[..len]).is_ok()).collect();
        assert_eq!(whole.len(), every_change().changes.len() + 1, "a prefix reads only where a field ends");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(edit) = Edit::decode(&flipped) {
                assert_ne!(edit, every_change(), "bit {bit}: two encodings of one edit");
            }
        }
    }

    #[test]
    fn numbers_out_of_bounds_are_malformed() {
        let mut edit = Edit::default();
        edit.push(Change::LastSeq(MAX_SEQ + 1));
        assert!(matches!(Edit::decode(&edit.encode()), Err(Reject::Wrong(_))));
        let slice = Change::SliceRemoved {
            family: FamilyId(0),
            run: RunId { level: LEVELS, cell: vec![], epoch: 0 },
            table: FileId(1),
            low: vec![],
        };
        assert!(matches!(Edit::decode(&Edit { changes: vec![slice] }.encode()), Err(Reject::Wrong(_))));
    }
}
