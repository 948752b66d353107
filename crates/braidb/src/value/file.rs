//! Value files: bodies that flushes and merges write. A value lies in one of these files from the job that separates it from its key
//! until it is dead, whichever table leads to it.
//!
//! ```text
//! header  30 bytes
//!   0  magic              "BRAIDVAL"
//!   8  version            u16     1
//!  10  required features  u32     none is known
//!  14  optional features  u32     none is known
//!  18  file id            u64
//!  26  crc                u32     of (file id, 0, bytes 0..26)
//!
//! record
//!   0  crc                u32     of (file id, offset of the record, bytes 4..20)
//!   4  value bytes        u32
//!   8  key hash           u64
//!  16  value crc          u32     of the content alone, as in a handle
//!  20  value
//! ```
//!
//! Records follow each other without a gap, up to the length that the manifest names. Mostly one job writes a file and syncs it once.
//! Only to a trie table (`jobs/trie.rs`) do later jobs append, each behind the length that the previous job committed. A handle points
//! to the value of a record, not to its head; the head serves verification and repair.

use super::holes::has_hole;
use super::{BodyFile, BodyKind, Handle};
use crate::base::MAX_VALUE_BYTES;
use crate::base::checksum;
use crate::base::codec::{Decoder, put_u32, put_u64};
use crate::base::error::{Error, Result};
use crate::base::holes::HOLE_ALIGNMENT;
use crate::base::ids::{FileId, TierId};
use crate::base::mutant::mutant;
use crate::base::report::Damage;
use crate::base::write_out::WriteOut;
use braidb_storage::{File, FileSystem};
use std::cell::LazyCell;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"BRAIDVAL";
const VERSION: u16 = 1;
pub const HEADER_BYTES: usize = 30;
const RECORD_HEAD_BYTES: usize = 20;
/// Size of an append in bytes: records are collected until they take this many bytes.
const APPEND_BYTES: usize = 256 << 10;
/// Bytes that verification reads at a time.
const READ_BYTES: usize = 1 << 20;

/// Bytes of the record of a value. The account of a value file counts records, so a file whose records are all alive has no garbage.
pub fn record_bytes(handle: &Handle) -> u64 {
    RECORD_HEAD_BYTES as u64 + u64::from(handle.bytes)
}

/// The bytes of the record of a value. A handle of a damaged table may lead to a place before any record.
pub fn record_of(handle: &Handle) -> Range<u64> {
    let end = handle.offset.saturating_add(handle.bytes.into());
    end.saturating_sub(record_bytes(handle))..end
}

/// A value file under construction. A job that fails deletes the file, unless older tables lead into it.
#[derive(Debug)]
pub struct ValueWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    id: FileId,
    kind: BodyKind,
    tier: TierId,
    /// Bytes that are not appended yet.
    out: Vec<u8>,
    written: u64,
    write_out: WriteOut,
    /// The length at the last sync.
    committed: u64,
    /// The length that edits name; 0 before the first edit.
    named: u64,
}

impl ValueWriter {
    /// Starts a value file on `tier`, which must not exist yet.
    pub fn create(
        fs: &dyn FileSystem,
        path: &Path,
        id: FileId,
        kind: BodyKind,
        tier: TierId,
    ) -> Result<ValueWriter> {
        assert!(kind.is_value_file());
        let file = fs.create(path).map_err(|source| Error::io("create", path, source))?;
        let path = path.to_owned();
        let (out, write_out) = (Vec::new(), WriteOut::default());
        let (written, committed, named) = (0, 0, 0);
        let mut writer =
            ValueWriter { file, path, id, kind, tier, out, written, write_out, committed, named };
        writer.out.extend_from_slice(MAGIC);
        writer.out.extend_from_slice(&VERSION.to_le_bytes());
        put_u32(&mut writer.out, 0);
        put_u32(&mut writer.out, 0);
        put_u64(&mut writer.out, id.0);
        let crc = checksum::at_place(id.0, 0, &[&writer.out]);
        put_u32(&mut writer.out, crc);
        assert_eq!(writer.out.len(), HEADER_BYTES);
        Ok(writer)
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    pub fn tier(&self) -> TierId {
        self.tier
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    /// Adds the value of a key with this hash.
    pub fn append(&mut self, key_hash: u64, value: &[u8]) -> Result<Handle> {
        assert!(value.len() <= MAX_VALUE_BYTES, "the database refuses larger values");
        let (at, bytes, value_crc) = (self.bytes(), value.len() as u32, checksum::of_value(value));
        let mut head = Vec::with_capacity(RECORD_HEAD_BYTES);
        put_u32(&mut head, bytes);
        put_u64(&mut head, key_hash);
        put_u32(&mut head, value_crc);
        put_u32(&mut self.out, checksum::at_place(self.id.0, at, &[&head]));
        self.out.extend_from_slice(&head);
        self.out.extend_from_slice(value);
        if self.out.len() >= APPEND_BYTES {
            self.flush()?;
        }
        Ok(Handle { offset: at + RECORD_HEAD_BYTES as u64, bytes, crc: value_crc })
    }

    /// Writes the rest and syncs the file. Its name is stable only after the caller synced the directory.
    pub fn commit(&mut self) -> Result<BodyFile> {
        self.rest()?;
        let is_forgotten = self.committed > 0 && mutant!("trie_table_synced_once");
        if !is_forgotten && !mutant!("value_not_synced") {
            self.file.sync_data().map_err(|source| Error::io("sync", &self.path, source))?;
        }
        self.committed = self.written;
        let cut_off = u64::from(mutant!("value_beyond_the_committed_length"));
        Ok(BodyFile { kind: self.kind, tier: self.tier, id: self.id, bytes: self.written - cut_off })
    }

    /// Notes that an edit names the whole file now.
    pub fn named(&mut self) {
        assert_eq!(self.uncommitted_bytes(), 0, "an edit names stable bytes");
        self.named = self.committed;
    }

    /// Gives back the space behind the length that edits name, if they name the file. No value can be added afterwards.
    pub fn cut_back(self) {
        if self.named > 0 {
            // If this fails, the next open of the database finds the space.
            let _ = self.file.truncate(self.named);
        }
    }

    /// Bytes behind the last sync.
    pub fn uncommitted_bytes(&self) -> u64 {
        self.bytes() - self.committed
    }

    /// Writes the rest and holds no buffer until the next value.
    pub fn rest(&mut self) -> Result<()> {
        self.flush()?;
        self.out = Vec::new();
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.append(&self.out).map_err(|source| Error::io("write", &self.path, source))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        // Frees the space of a huge value, which would otherwise stay allocated for the rest of the file.
        self.out.shrink_to(2 * APPEND_BYTES);
        self.write_out.written(&*self.file, self.written);
        Ok(())
    }
}

/// Where the living records of a value file start, ascending; `None` if it is unknown.
pub type Living<'a> = &'a dyn Fn() -> Option<Vec<u64>>;

/// Reads all records of value file `id`, except what was punched out of it, and reports what is wrong. `bytes` is the length that the
/// manifest names; without a manifest it is the length of the file. Asks for the `living` records if it meets a record that is damaged or
/// was punched out.
pub fn verify(fs: &dyn FileSystem, path: &Path, id: FileId, bytes: u64, living: Living<'_>) -> Vec<Damage> {
    let mut damages = Vec::new();
    let damage = |offset: u64, bytes: u64, what: &str| Damage {
        path: path.to_owned(),
        offset,
        bytes,
        what: what.to_owned(),
    };
    let file = match fs.open(path) {
        Ok(file) => file,
        Err(error) => return vec![damage(0, bytes, &format!("it cannot be read: {error}"))],
    };
    let living = LazyCell::new(living);
    let skip = |at| behind_hole(&*file, at, bytes, living.as_deref()?).transpose();
    let walked =
        walk(&*file, id, bytes, skip, |offset, bytes, what| damages.push(damage(offset, bytes, what)));
    if let Err(error) = walked {
        damages.push(match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let end = file.len().map_or(0, |end| end.min(bytes));
                damage(end, bytes - end, "the file ends too early")
            }
            _ => damage(0, bytes, &format!("it cannot be read: {error}")),
        });
    }
    damages
}

/// Where the first living record behind the dead record at `at` starts, or `end`, if a hole lies between. `None` if the record at `at` lives,
/// or if there is no hole.
fn behind_hole(file: &dyn File, at: u64, end: u64, living: &[u64]) -> io::Result<Option<u64>> {
    let next = living.partition_point(|&start| start < at);
    let start = living.get(next).map_or(end, |&start| start.min(end));
    // The block of `at` may be the last one of a hole: a dead value before `at` matches its checksum if it ends in zeros.
    let from = at / HOLE_ALIGNMENT * HOLE_ALIGNMENT;
    Ok((start > at && has_hole(file, from..start)?).then_some(start))
}

/// Walks the records up to `end`. Calls `flaw` with offset, bytes and reason of each damaged place. After a damaged head the records
/// behind it cannot be found, so the rest of the file counts as damaged. Where `skip` knows what lies behind a hole, the walk goes on there.
fn walk(
    file: &dyn File,
    id: FileId,
    end: u64,
    skip: impl Fn(u64) -> Option<io::Result<u64>>,
    mut flaw: impl FnMut(u64, u64, &str),
) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    if end < HEADER_BYTES as u64 {
        flaw(0, end, "the file is shorter than its header");
        return Ok(());
    }
    file.read_exact_at(0, &mut header)?;
    if let Err(what) = check_header(&header, id) {
        flaw(0, HEADER_BYTES as u64, what);
    }
    let mut at = HEADER_BYTES as u64;
    let mut piece = Vec::new();
    while at < end {
        let mut head = [0; RECORD_HEAD_BYTES];
        if end - at < RECORD_HEAD_BYTES as u64 {
            flaw(at, end - at, "the last record is cut off");
            break;
        }
        file.read_exact_at(at, &mut head)?;
        let Some(record) = Record::parse(&head, id, at)
            .filter(|record| u64::from(record.value_bytes) <= end - at - RECORD_HEAD_BYTES as u64)
        else {
            if let Some(next) = skip(at) {
                at = next?;
                continue;
            }
            flaw(at, end - at, "the head of a record does not match its checksum, or leads beyond the end");
            break;
        };
        let (value_at, value_end) = (at + RECORD_HEAD_BYTES as u64, at + record.bytes());
        let (mut crc, mut read) = (0, value_at);
        while read < value_end {
            piece.resize((value_end - read).min(READ_BYTES as u64) as usize, 0);
            file.read_exact_at(read, &mut piece)?;
            crc = checksum::extend(crc, &piece);
            read += piece.len() as u64;
        }
        if crc != record.value_crc {
            if let Some(next) = skip(at) {
                at = next?;
                continue;
            }
            flaw(value_at, u64::from(record.value_bytes), "a value does not match its checksum");
        }
        at = value_end;
    }
    Ok(())
}

fn check_header(header: &[u8; HEADER_BYTES], id: FileId) -> Result<(), &'static str> {
    let (content, crc) = header.split_at(HEADER_BYTES - 4);
    if checksum::at_place(id.0, 0, &[content]).to_le_bytes() != *crc {
        return Err("the header does not match its checksum");
    }
    let expected = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &[0; 4]].concat();
    if !content.starts_with(&expected) {
        return Err("the file is of another kind, or of a version that this one does not know");
    }
    Ok(())
}

/// The head of a record.
struct Record {
    value_bytes: u32,
    value_crc: u32,
}

impl Record {
    /// Bytes of the whole record.
    fn bytes(&self) -> u64 {
        RECORD_HEAD_BYTES as u64 + u64::from(self.value_bytes)
    }

    fn parse(head: &[u8; RECORD_HEAD_BYTES], id: FileId, at: u64) -> Option<Record> {
        let mut decoder = Decoder::new(head);
        let crc = decoder.u32()?;
        if checksum::at_place(id.0, at, &[decoder.rest()]) != crc {
            return None;
        }
        let (value_bytes, _key_hash, value_crc) = (decoder.u32()?, decoder.u64()?, decoder.u32()?);
        Some(Record { value_bytes, value_crc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::names;
    use braidb_storage::sim::SimFs;

    const ID: FileId = FileId(7);

    /// A file with these values, its length, and a handle of each.
    fn written(values: &[&[u8]]) -> (SimFs, PathBuf, u64, Vec<Handle>) {
        let (fs, dir) = (SimFs::new(), Path::new("db"));
        fs.create_dir_all(dir).unwrap();
        let path = names::values(dir, ID);
        let mut writer = ValueWriter::create(&fs, &path, ID, BodyKind::Values, TierId::FAST).unwrap();
        let handles = values.iter().map(|value| writer.append(3, value).unwrap()).collect();
        let file = writer.commit().unwrap();
        assert_eq!((file.kind, file.id), (BodyKind::Values, ID));
        (fs, path, file.bytes, handles)
    }

    #[test]
    fn handles_lead_to_the_values() {
        let large = vec![7; APPEND_BYTES + 5];
        let values: [&[u8]; 4] = [b"one", b"", &large, b"after"];
        let (fs, path, bytes, handles) = written(&values);
        let file = fs.open(&path).unwrap();
        assert_eq!(file.len().unwrap(), bytes);
        for (value, handle) in values.iter().zip(&handles) {
            let mut read = vec![0; handle.bytes as usize];
            file.read_exact_at(handle.offset, &mut read).unwrap();
            assert_eq!((&read, checksum::of_value(&read)), (&value.to_vec(), handle.crc));
        }
        assert_eq!(verify(&fs, &path, ID, bytes, &|| None), []);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (fs, path, bytes, handles) = written(&[b"one", b"two"]);
        for bit in 0..bytes * 8 {
            fs.flip_bit(&path, bit).unwrap();
            let damages = verify(&fs, &path, ID, bytes, &|| None);
            assert_eq!(damages.len(), 1, "bit {bit}");
            assert!(
                (damages[0].offset..damages[0].offset + damages[0].bytes).contains(&(bit / 8)),
                "bit {bit}"
            );
            fs.flip_bit(&path, bit).unwrap();
        }
        assert_eq!(verify(&fs, &path, ID, bytes, &|| None), []);
        assert_eq!(
            verify(&fs, &path, FileId(8), bytes, &|| None).len(),
            2,
            "header and records belong to file 7"
        );
        for cut in 1..bytes {
            let is_whole = handles.iter().any(|handle| handle.offset + u64::from(handle.bytes) == cut);
            let has_none = cut == HEADER_BYTES as u64;
            assert_eq!(
                verify(&fs, &path, ID, cut, &|| None).is_empty(),
                is_whole || has_none,
                "the first {cut} bytes"
            );
        }
        assert_eq!(verify(&fs, &path, ID, bytes + 1, &|| None).len(), 1, "the manifest names more");
    }

    #[test]
    fn of_a_cut_file_only_what_it_lacks_is_damaged() {
        let (fs, path, bytes, _) = written(&[b"one", b"two"]);
        let damages = verify(&fs, &path, ID, bytes + 100, &|| None);
        let [damage] = &damages[..] else { panic!("{damages:?}") };
        assert_eq!((damage.offset, damage.bytes, &*damage.what), (bytes, 100, "the file ends too early"));
    }
}
