//! The bytes of a log's header, of a frame's head and of a footer. docs/formats.md, "The commit log", draws them. This module reads and
//! writes no files.

use super::batch::{EncodedBatch, MIN_ENTRY_BYTES};
use crate::base::checksum;
use crate::base::codec::{Decoder, put_u32, put_u64, put_varint};
use crate::base::ids::{FileId, MAX_SEQ, SeqNo};

const MAGIC: &[u8; 8] = b"BRAIDLOG";
const VERSION: u16 = 1;
/// Required feature bit of a log that may hold records written back.
const WRITTEN_BACK: u32 = 1;
/// Required feature bits that this version understands.
const KNOWN_FEATURES: u32 = WRITTEN_BACK;
/// Optional feature bit: a synced mark of 1 or more in this log also covers logs that were begun before the database was opened.
/// Versions before this bit took old logs for stable after a sync that may have proved nothing.
const COVERS_EARLIER_OPENS: u32 = 1;
/// Optional feature bit: the log is the first one that was begun after the database was opened. Recovery replays such a log only if the
/// manifest names it.
const FIRST_OF_OPEN: u32 = 2;

/// Bytes of a log's header, and the smallest synced mark that covers bytes of its own log.
pub const HEADER_BYTES: u64 = 46;
/// Bytes of a footer.
pub const FOOTER_BYTES: u64 = 29;
/// Most bytes of a frame before its list: checksum, kind, five varints of 10 bytes.
pub(super) const MAX_HEAD_BYTES: u64 = 4 + 1 + 5 * 10;

pub(super) const KIND_BATCH: u8 = 1;
pub(super) const KIND_FOOTER: u8 = 2;
pub(super) const KIND_WRITTEN_BACK: u8 = 3;

/// The fields of a log's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The log before this one, and where it ends: its final length, or where recovery cut it.
    pub previous: Option<(FileId, u64)>,
    /// Whether the log may hold records written back, which recovery replays before all others.
    pub written_back: bool,
    /// Whether the log's synced marks also cover logs that were begun before the database was opened.
    pub covers_earlier_opens: bool,
    /// Whether the log is the first one that was begun after the database was opened.
    pub is_first_of_open: bool,
}

/// Why bytes are no usable header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Damaged, or never written.
    Bad,
    /// Whole, but of a format that this version does not know.
    Unsupported(String),
}

impl Header {
    pub(super) fn encode(&self, id: FileId) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES as usize);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        put_u32(&mut out, bit(self.written_back, WRITTEN_BACK));
        let covers = bit(self.covers_earlier_opens, COVERS_EARLIER_OPENS);
        put_u32(&mut out, covers | bit(self.is_first_of_open, FIRST_OF_OPEN));
        put_u64(&mut out, id.0);
        let (previous, length) = self.previous.map_or((0, 0), |(previous, length)| (previous.0, length));
        put_u64(&mut out, previous);
        put_u64(&mut out, length);
        let crc = checksum::at_place(id.0, 0, &[&out]);
        put_u32(&mut out, crc);
        out
    }

    /// Decodes the first [`HEADER_BYTES`] of log `id`. Every later version keeps their layout, so the checksum is compared before the
    /// version. A flipped bit in the version is damage and not a newer format.
    pub(super) fn decode(bytes: &[u8], id: FileId) -> Result<Header, HeaderFault> {
        let (content, crc) = bytes.split_at_checked(HEADER_BYTES as usize - 4).ok_or(HeaderFault::Bad)?;
        if Decoder::new(crc).u32() != Some(checksum::at_place(id.0, 0, &[content])) {
            return Err(HeaderFault::Bad);
        }
        Header::decode_fields(content, id).ok_or(HeaderFault::Bad)?
    }

    fn decode_fields(content: &[u8], id: FileId) -> Option<Result<Header, HeaderFault>> {
        let mut fields = Decoder::new(content);
        let magic = fields.take(MAGIC.len())?;
        let version = u16::from_le_bytes(fields.take(2)?.try_into().ok()?);
        let (required, optional) = (fields.u32()?, fields.u32()?);
        let (own, previous, length) = (fields.u64()?, fields.u64()?, fields.u64()?);
        if magic != MAGIC || own != id.0 {
            return None;
        }
        if version != VERSION {
            return Some(Err(HeaderFault::Unsupported(format!("version {version} of the log format"))));
        }
        let unknown = required & !KNOWN_FEATURES;
        if unknown != 0 {
            let bit = unknown.trailing_zeros();
            return Some(Err(HeaderFault::Unsupported(format!(
                "required feature bit {bit} of the log format"
            ))));
        }
        let previous = (previous != 0).then_some((FileId(previous), length));
        Some(Ok(Header {
            previous,
            written_back: required & WRITTEN_BACK != 0,
            covers_earlier_opens: optional & COVERS_EARLIER_OPENS != 0,
            is_first_of_open: optional & FIRST_OF_OPEN != 0,
        }))
    }
}

/// The fields of a frame before its list, or of a footer, with its offset. A head read from disk proves nothing until the checksum was
/// compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub offset: u64,
    pub mark: u64,
    pub contents: Contents,
}

/// Where the sequence numbers of a batch are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// The entries have this number and the numbers after it.
    From(SeqNo),
    /// Each entry holds its own number: the frame has records written back. Families that replay from `replay_from` or a later log need
    /// them. The other families replay the original records.
    Own { replay_from: FileId },
}

impl Numbers {
    /// The largest number among `count` entries; 0 if each entry holds its own.
    pub fn last(self, count: u64) -> SeqNo {
        match self {
            Numbers::From(base) => base + (count - 1),
            Numbers::Own { .. } => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    Batch { list_at: u64, list_bytes: u64, values_bytes: u64, count: u64, numbers: Numbers },
    Footer { frames: u64, length: u64 },
}

impl Head {
    /// Decodes the head of the frame at `offset` from the bytes there: as many as the log has, up to [`MAX_HEAD_BYTES`]. `None` if the
    /// fields cannot belong to a head. In a head that is returned, `list_at + list_bytes + values_bytes` does not overflow.
    pub fn decode(bytes: &[u8], offset: u64) -> Option<Head> {
        let mut fields = Decoder::new(bytes);
        fields.u32()?;
        let head = match fields.u8()? {
            kind @ (KIND_BATCH | KIND_WRITTEN_BACK) => {
                let (list_bytes, values_bytes, count) =
                    (fields.varint()?, fields.varint()?, fields.varint()?);
                let (mark, base) = (fields.varint()?, fields.varint()?);
                let list_at = offset.checked_add((bytes.len() - fields.rest().len()) as u64)?;
                list_at.checked_add(list_bytes)?.checked_add(values_bytes)?;
                let list_holds_count = count > 0 && count <= list_bytes / MIN_ENTRY_BYTES;
                let (numbers, numbers_exist) = match kind {
                    KIND_BATCH => {
                        let next = base.checked_add(count);
                        (Numbers::From(base), next.is_some_and(|next| next <= MAX_SEQ + 1))
                    }
                    _ => (Numbers::Own { replay_from: FileId(base) }, true),
                };
                if !list_holds_count || !numbers_exist {
                    return None;
                }
                Head {
                    offset,
                    mark,
                    contents: Contents::Batch { list_at, list_bytes, values_bytes, count, numbers },
                }
            }
            KIND_FOOTER => {
                let (mark, frames, length) = (fields.u64()?, fields.u64()?, fields.u64()?);
                offset.checked_add(FOOTER_BYTES)?;
                Head { offset, mark, contents: Contents::Footer { frames, length } }
            }
            _ => return None,
        };
        let mark_is_possible = head.mark <= 1 || (HEADER_BYTES..=offset).contains(&head.mark);
        mark_is_possible.then_some(head)
    }

    /// The end of the bytes that the frame's checksum covers.
    pub fn covered_end(&self) -> u64 {
        match self.contents {
            Contents::Batch { list_at, list_bytes, .. } => list_at + list_bytes,
            Contents::Footer { .. } => self.offset + FOOTER_BYTES,
        }
    }

    /// The end of the frame, values included.
    pub fn end(&self) -> u64 {
        match self.contents {
            Contents::Batch { values_bytes, .. } => self.covered_end() + values_bytes,
            Contents::Footer { .. } => self.covered_end(),
        }
    }
}

/// Appends the frame of `batch`, without its values, to `out`. The frame will lie at `offset` of log `id`.
pub(super) fn put_batch(
    out: &mut Vec<u8>,
    id: FileId,
    offset: u64,
    mark: u64,
    numbers: Numbers,
    batch: &EncodedBatch,
) {
    let start = out.len();
    put_u32(out, 0);
    let (kind, base) = match numbers {
        Numbers::From(base) => (KIND_BATCH, base),
        Numbers::Own { replay_from } => (KIND_WRITTEN_BACK, replay_from.0),
    };
    assert_eq!(batch.has_numbers(), kind == KIND_WRITTEN_BACK, "only records written back have numbers");
    out.push(kind);
    put_varint(out, batch.list().len() as u64);
    put_varint(out, batch.values().len() as u64);
    put_varint(out, batch.count() as u64);
    put_varint(out, mark);
    put_varint(out, base);
    out.extend_from_slice(batch.list());
    set_checksum(&mut out[start..], id, offset);
}

/// Appends the footer that will lie at `offset` of log `id`, after `frames` frames.
pub(super) fn put_footer(out: &mut Vec<u8>, id: FileId, offset: u64, mark: u64, frames: u64) {
    let start = out.len();
    put_u32(out, 0);
    out.push(KIND_FOOTER);
    put_u64(out, mark);
    put_u64(out, frames);
    put_u64(out, offset + FOOTER_BYTES);
    set_checksum(&mut out[start..], id, offset);
}

fn set_checksum(frame: &mut [u8], id: FileId, offset: u64) {
    let (crc, covered) = frame.split_at_mut(4);
    crc.copy_from_slice(&checksum::at_place(id.0, offset, &[covered]).to_le_bytes());
}

/// Whether `covered`, the bytes of a frame up to [`Head::covered_end`], are the bytes that were written at `offset`.
pub(super) fn checksum_holds(covered: &[u8], id: FileId, offset: u64) -> bool {
    let mut rest = Decoder::new(covered);
    rest.u32() == Some(checksum::at_place(id.0, offset, &[rest.rest()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::FamilyId;

    const ID: FileId = FileId(7);

    #[test]
    fn a_header_comes_back_and_every_flip_shows() {
        for previous in [None, Some((FileId(6), 1 << 40))] {
            let is_some = previous.is_some();
            let header = Header {
                previous,
                written_back: !is_some,
                covers_earlier_opens: is_some,
                is_first_of_open: !is_some,
            };
            let bytes = header.encode(ID);
            assert_eq!(bytes.len() as u64, HEADER_BYTES);
            assert_eq!(Header::decode(&bytes, ID), Ok(header));
            assert_eq!(Header::decode(&bytes, FileId(8)), Err(HeaderFault::Bad));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&flipped, ID), Err(HeaderFault::Bad), "bit {bit}");
            }
            for len in 0..bytes.len() {
                assert_eq!(Header::decode(&bytes[..len], ID), Err(HeaderFault::Bad));
            }
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name_and_an_optional_bit_is_not() {
        let with = |at: usize, byte: u8| {
            let mut bytes = Header::default().encode(ID);
            bytes[at] = byte;
            let crc = checksum::at_place(ID.0, 0, &[&bytes[..42]]);
            bytes[42..].copy_from_slice(&crc.to_le_bytes());
            Header::decode(&bytes, ID)
        };
        let unsupported = |what: &str| Err(HeaderFault::Unsupported(what.to_owned()));
        assert_eq!(with(8, 2), unsupported("version 2 of the log format"));
        assert_eq!(with(11, 4), unsupported("required feature bit 10 of the log format"));
        assert_eq!(with(14, 1), Ok(Header { covers_earlier_opens: true, ..Header::default() }));
        assert_eq!(with(14, 2), Ok(Header { is_first_of_open: true, ..Header::default() }));
        assert_eq!(with(14, 4), Ok(Header::default()));
        assert_eq!(with(10, 1), Ok(Header { written_back: true, ..Header::default() }));
    }

    #[test]
    fn a_small_put_costs_at_most_31_bytes_more() {
        let mut batch = EncodedBatch::default();
        batch.push_put(FamilyId(0), &[1; 16], &[2; 128]);
        let mut out = Vec::new();
        put_batch(&mut out, ID, 1 << 28, (1 << 28) - 1, Numbers::From(MAX_SEQ), &batch);
        assert!(out.len() + batch.values().len() <= 175);
        let head = Head::decode(&out, 1 << 28).unwrap();
        assert_eq!(head.end(), (1 << 28) + out.len() as u64 + 128);
    }

    #[test]
    fn heads_that_cannot_be_are_refused() {
        let head = |list: u64, values: u64, count: u64, mark: u64, base: u64| {
            let mut out = vec![0, 0, 0, 0, KIND_BATCH];
            [list, values, count, mark, base].into_iter().for_each(|field| put_varint(&mut out, field));
            Head::decode(&out, 1000)
        };
        assert!(head(9, 0, 3, 1000, MAX_SEQ - 2).is_some());
        assert!(head(9, 0, 0, 0, 1).is_none(), "no entries");
        assert!(head(9, 0, 4, 0, 1).is_none(), "more entries than the list can hold");
        assert!(head(9, 0, 3, 1001, 1).is_none(), "a mark behind the frame");
        assert!(head(9, 0, 3, HEADER_BYTES - 1, 1).is_none(), "a mark within the header");
        assert!(head(9, 0, 3, 0, MAX_SEQ - 1).is_none(), "numbers past the last");
        assert!(head(u64::MAX, 0, 3, 0, 1).is_none());
        assert!(head(9, u64::MAX, 3, 0, 1).is_none());
    }
}
