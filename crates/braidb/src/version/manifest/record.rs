//! The bytes of a manifest file: a header, then records.
//!
//! ```text
//! header   "BraidMan" │ version u32 │ required features u64 │ optional features u64 │ manifest id u64 │ crc u32     40 bytes
//! record   crc u32 │ payload length u32 │ kind u8 │ synced u64 │ payload                              17 bytes + payload
//! kind     1 snapshot: the whole state as one edit; the first record, and only the first
//!          2 edit
//!          3 mark, without a payload: there for its `synced`
//! synced   the file was on stable storage up to this offset when the record was written
//! ```
//!
//! A crc covers manifest id, offset and the rest of its header or record. The header keeps its layout in every version.
//!
//! Each edit is synced, then followed by a mark that says so. The mark itself is synced with the next edit, so a power
//! cut may tear a mark in front of a whole edit. Therefore each record also holds the synced offset.
//!
//! A bad record is *corruption* if a whole record behind it says that this place was synced. Otherwise the bad record
//! starts a *torn tail*: at most one edit, which a crash cut short before any caller relied on it. A file that ends in
//! zeros (space allocated and never used) ends at the first of them.

use crate::base::checksum::at_place;
use crate::base::codec::{Decoder, put_u32, put_u64};
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use crate::version::state::edit::{Edit, Reject};
use std::path::Path;

const MAGIC: &[u8; 8] = b"BraidMan";
const VERSION: u32 = 1;
pub const HEADER_BYTES: usize = 40;
/// Length of a mark, and of a record without its payload.
pub const MARK_BYTES: usize = 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Snapshot = 1,
    Edit = 2,
    Mark = 3,
}

pub fn header(id: FileId) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_u32(&mut out, VERSION);
    put_u64(&mut out, 0);
    put_u64(&mut out, 0);
    put_u64(&mut out, id.0);
    let crc = at_place(id.0, 0, &[&out]);
    put_u32(&mut out, crc);
    out
}

/// Encodes a record at `offset` of manifest `id`, whose first `synced` bytes are stable. `None` if the payload is
/// longer than `u32::MAX` bytes.
pub fn record(id: FileId, offset: u64, synced: u64, kind: Kind, payload: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::with_capacity(MARK_BYTES + payload.len());
    put_u32(&mut body, u32::try_from(payload.len()).ok()?);
    body.push(kind as u8);
    put_u64(&mut body, synced);
    body.extend_from_slice(payload);
    let mut out = Vec::with_capacity(4 + body.len());
    put_u32(&mut out, at_place(id.0, offset, &[&body]));
    out.extend_from_slice(&body);
    Some(out)
}

/// The contents of a manifest file.
#[derive(Debug)]
pub struct Contents {
    /// Each snapshot or edit, with its offset. The first element is the snapshot.
    pub edits: Vec<(u64, Edit)>,
    /// The offset where a torn tail starts.
    pub torn: Option<u64>,
}

/// Parses `bytes`, the whole file at `path`, which should be manifest `id`.
pub fn read(path: &Path, id: FileId, bytes: &[u8]) -> Result<Contents> {
    check_header(path, id, bytes)?;
    let mut contents = Contents { edits: Vec::new(), torn: None };
    let mut offset = HEADER_BYTES;
    while let Some(rest) = bytes.get(offset..).filter(|rest| !is_end(rest)) {
        let Some(Record { kind, synced, payload }) = parse(id, offset, rest) else {
            let vouches = |at| parse(id, offset + at, &rest[at..]).is_some_and(|r| r.synced > offset as u64);
            if (1..rest.len()).any(vouches) || contents.edits.is_empty() {
                return Err(Error::corruption(path, offset as u64, "a record of the manifest is damaged"));
            }
            contents.torn = Some(offset as u64);
            return Ok(contents);
        };
        let misplaced = (kind == Kind::Snapshot as u8) != contents.edits.is_empty() || synced > offset as u64;
        let edit = match kind {
            _ if misplaced => Err("a record of the manifest is out of place".to_owned().into()),
            1 | 2 => Edit::decode(payload).map(Some),
            3 if payload.is_empty() => Ok(None),
            _ => Err(Reject::Unsupported(format!("the manifest has a record of kind {kind}"))),
        };
        if let Some(edit) = edit.map_err(|reject| reject.at(path, offset as u64))? {
            contents.edits.push((offset as u64, edit));
        }
        offset += MARK_BYTES + payload.len();
    }
    if contents.edits.is_empty() {
        return Err(Error::corruption(path, bytes.len() as u64, "the manifest has no snapshot"));
    }
    Ok(contents)
}

/// Whether only unused space follows. A record is never all zeros: no kind is 0.
fn is_end(rest: &[u8]) -> bool {
    rest.first().is_none_or(|&byte| byte == 0) && rest.iter().all(|&byte| byte == 0)
}

struct Record<'a> {
    kind: u8,
    synced: u64,
    payload: &'a [u8],
}

/// Parses the record at the start of `rest`, which begins at `offset` of manifest `id`. `None` if the record is not
/// whole.
fn parse(id: FileId, offset: usize, rest: &[u8]) -> Option<Record<'_>> {
    let mut decoder = Decoder::new(rest);
    let crc = decoder.u32()?;
    let body = decoder.rest();
    let len = usize::try_from(decoder.u32()?).ok()?;
    let (kind, synced) = (decoder.u8()?, decoder.u64()?);
    let payload = decoder.take(len)?;
    let covered = &body[..MARK_BYTES - 4 + len];
    (at_place(id.0, offset as u64, &[covered]) == crc).then_some(Record { kind, synced, payload })
}

fn check_header(path: &Path, id: FileId, bytes: &[u8]) -> Result<()> {
    let damaged = |what| Err(Error::corruption(path, 0, what));
    let Some((covered, crc)) = bytes.get(..HEADER_BYTES).and_then(|header| header.split_last_chunk::<4>())
    else {
        return damaged("the header of the manifest is cut short");
    };
    if at_place(id.0, 0, &[covered]) != u32::from_le_bytes(*crc) {
        return damaged("the header of the manifest is damaged");
    }
    let mut decoder = Decoder::new(covered);
    let fields =
        (|| Some((decoder.take(8)?, decoder.u32()?, decoder.u64()?, decoder.u64()?, decoder.u64()?)))();
    let Some((magic, version, required, _optional, own_id)) = fields else {
        return damaged("the header of the manifest is cut short");
    };
    if magic != MAGIC || own_id != id.0 {
        return damaged("this is not the manifest that it should be");
    }
    let unsupported = |what| Err(Error::Unsupported { path: path.to_owned(), what });
    if version != VERSION {
        return unsupported(format!("the manifest has format {version}, known is {VERSION}"));
    }
    if required != 0 {
        return unsupported(format!(
            "the manifest requires the unknown feature {}",
            required.trailing_zeros()
        ));
    }
    Ok(())
}
