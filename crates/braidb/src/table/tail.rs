//! The end of a table: filter, properties, index, and the footer that names their places.
//!
//! ```text
//! footer, the last 64 bytes of the file
//!  0  table id          u64
//!  8  file length       u64   this footer included
//! 16  filter offset     u64   where the data blocks end
//! 24  properties offset u64   equal to the one before if there is no filter
//! 32  index offset      u64   the index ends where the footer starts
//! 40  format version    u32   1
//! 44  required features u32   a reader that does not know one of these bits refuses the table
//! 48  optional features u32   a reader may ignore them
//! 52  crc32c            u32   over (table id, offset of the footer, bytes 0 to 51, magic)
//! 56  magic             8 bytes "BraidTbl"
//! ```
//!
//! Magic, checksum and version keep their places in all versions, so a flipped bit is never taken for a newer format.

use super::filter::Filter;
use super::index::Index;
use super::properties::Properties;
use super::section::{self, Fault, Flaw, TRAILER_BYTES};
use crate::base::checksum;
use crate::base::codec::{Decoder, put_u32, put_u64};
use crate::base::ids::FileId;
use braidb_storage::File;

pub const FOOTER_BYTES: usize = 64;
const CHECKED_BYTES: usize = 52;
const FORMAT_VERSION: u32 = 1;
/// No feature is defined yet.
const KNOWN_FEATURES: u32 = 0;
const MAGIC: &[u8; 8] = b"BraidTbl";

/// The places of the sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    pub id: FileId,
    pub filter: u64,
    pub properties: u64,
    pub index: u64,
}

impl Footer {
    /// Writes the footer of a table that is `at` bytes long so far.
    pub fn encode(&self, at: u64, out: &mut Vec<u8>) {
        self.encode_as(FORMAT_VERSION, KNOWN_FEATURES, at, out);
    }

    fn encode_as(&self, version: u32, required: u32, at: u64, out: &mut Vec<u8>) {
        let start = out.len();
        for number in [self.id.0, at + FOOTER_BYTES as u64, self.filter, self.properties, self.index] {
            put_u64(out, number);
        }
        for number in [version, required, 0] {
            put_u32(out, number);
        }
        let crc = checksum::at_place(self.id.0, at, &[&out[start..], MAGIC]);
        put_u32(out, crc);
        out.extend_from_slice(MAGIC);
    }

    /// Decodes the footer at offset `at` of a file that should be table `id`.
    fn decode(bytes: &[u8; FOOTER_BYTES], id: FileId, at: u64) -> Result<Footer, Fault> {
        let damage = |what: String| Err(Fault::damage(at, FOOTER_BYTES as u64, what));
        let (checked, rest) = bytes.split_at(CHECKED_BYTES);
        let (crc, magic) = rest.split_at(4);
        if magic != MAGIC {
            return damage("it does not end as a table does".to_owned());
        }
        let mut decoder = Decoder::new(checked);
        let mut number = || decoder.u64().expect("the footer is long enough");
        let (stored_id, length) = (FileId(number()), number());
        let footer = Footer { id: stored_id, filter: number(), properties: number(), index: number() };
        let mut number = || decoder.u32().expect("the footer is long enough");
        let (version, required) = (number(), number());
        if checksum::at_place(stored_id.0, at, &[checked, magic]).to_le_bytes() != *crc {
            return damage("the footer does not match its checksum".to_owned());
        }
        if stored_id != id {
            return damage(format!("it is table {stored_id}, under the name of table {id}"));
        }
        let unsupported = |what: String| Err(Fault::unsupported(at, FOOTER_BYTES as u64, what));
        if version != FORMAT_VERSION {
            return unsupported(format!(
                "it has format version {version}, and this one knows {FORMAT_VERSION}"
            ));
        }
        if required & !KNOWN_FEATURES != 0 {
            let unknown: Vec<u32> =
                (0..32).filter(|bit| required & !KNOWN_FEATURES & (1 << bit) != 0).collect();
            return unsupported(format!("it requires features with the bits {unknown:?}"));
        }
        if length != at + FOOTER_BYTES as u64 || !footer.is_ordered(at) {
            return damage("the footer names impossible places".to_owned());
        }
        Ok(footer)
    }

    /// Reads the footer of a file that should be table `id` and `expected_bytes` long. Returns the footer and its
    /// offset.
    fn read(file: &dyn File, id: FileId, expected_bytes: u64) -> Result<(Footer, u64), Fault> {
        let length = file.len().map_err(|source| Fault::read(0, expected_bytes, source))?;
        if length != expected_bytes {
            let extra = length.saturating_sub(expected_bytes);
            let what = format!("it has {length} bytes, and should have {expected_bytes}");
            return Err(Fault::damage(length - extra, extra, what));
        }
        let Some(at) = length.checked_sub(FOOTER_BYTES as u64) else {
            return Err(Fault::damage(0, length, "it is too short for a table"));
        };
        let mut bytes = [0; FOOTER_BYTES];
        file.read_exact_at(at, &mut bytes).map_err(|source| Fault::read(at, FOOTER_BYTES as u64, source))?;
        Ok((Footer::decode(&bytes, id, at)?, at))
    }

    fn is_ordered(&self, end: u64) -> bool {
        self.filter <= self.properties && self.properties <= self.index && self.index <= end
    }
}

/// The bytes of the sections behind the data blocks, with the filter or without, and of the footer.
#[derive(Debug)]
pub struct Tail {
    pub footer: Footer,
    /// Where `bytes` begin in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Tail {
    /// Reads the tail of a file that should be table `id` and `expected_bytes` long.
    pub fn read(file: &dyn File, id: FileId, expected_bytes: u64) -> Result<Tail, Fault> {
        let (footer, at) = Footer::read(file, id, expected_bytes)?;
        let bytes = read(file, footer.filter, at + FOOTER_BYTES as u64)?;
        Ok(Tail { footer, start: footer.filter, bytes })
    }

    /// As [`Tail::read`], without the filter, which takes more than half of the bytes.
    pub fn read_without_filter(file: &dyn File, id: FileId, expected_bytes: u64) -> Result<Tail, Fault> {
        let (footer, at) = Footer::read(file, id, expected_bytes)?;
        let bytes = read(file, footer.properties, at + FOOTER_BYTES as u64)?;
        Ok(Tail { footer, start: footer.properties, bytes })
    }

    /// Reads only the filter of a file that should be table `id` and `expected_bytes` long.
    pub fn read_filter(file: &dyn File, id: FileId, expected_bytes: u64) -> Result<Option<Filter>, Fault> {
        let (footer, _) = Footer::read(file, id, expected_bytes)?;
        let bytes = read(file, footer.filter, footer.properties)?;
        Tail { footer, start: footer.filter, bytes }.filter()
    }

    /// Whether the filter was read, if the table has one.
    pub fn has_filter(&self) -> bool {
        self.start == self.footer.filter
    }

    /// Reads only the properties of a file that should be table `id` and `expected_bytes` long.
    pub fn read_properties(file: &dyn File, id: FileId, expected_bytes: u64) -> Result<Properties, Fault> {
        let (footer, _) = Footer::read(file, id, expected_bytes)?;
        let section = read(file, footer.properties, footer.index)?;
        check(&section, id, footer.properties, "properties", Properties::decode)
    }

    /// All bytes that were read, including the footer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn filter(&self) -> Result<Option<Filter>, Fault> {
        let Footer { filter, properties, .. } = self.footer;
        if filter == properties {
            return Ok(None);
        }
        self.section("filter", filter, properties, Filter::decode).map(Some)
    }

    pub fn properties(&self) -> Result<Properties, Fault> {
        self.section("properties", self.footer.properties, self.footer.index, Properties::decode)
    }

    /// The fault of properties that name other bodies than the manifest.
    pub fn other_bodies(&self) -> Fault {
        let Footer { properties, index, .. } = self.footer;
        Fault::damage(properties, index - properties, "it names other bodies than the manifest does")
    }

    pub fn index(&self) -> Result<Index, Fault> {
        let end = self.start + (self.bytes.len() - FOOTER_BYTES) as u64;
        self.section("index", self.footer.index, end, |payload| Index::decode(payload, self.footer.filter))
    }

    fn section<T>(
        &self,
        name: &str,
        start: u64,
        end: u64,
        decode: impl FnOnce(&[u8]) -> Result<T, Flaw>,
    ) -> Result<T, Fault> {
        let place = |offset: u64| (offset - self.start) as usize;
        check(&self.bytes[place(start)..place(end)], self.footer.id, start, name, decode)
    }
}

fn read(file: &dyn File, start: u64, end: u64) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![0; (end - start) as usize];
    file.read_exact_at(start, &mut bytes).map_err(|source| Fault::read(start, end - start, source))?;
    Ok(bytes)
}

/// Checks and decodes a section that was read from offset `start`.
fn check<T>(
    section: &[u8],
    id: FileId,
    start: u64,
    name: &str,
    decode: impl FnOnce(&[u8]) -> Result<T, Flaw>,
) -> Result<T, Fault> {
    let payload = section::check(section, id, start, name)?;
    debug_assert_eq!(payload.len() + TRAILER_BYTES, section.len());
    decode(payload).map_err(|flaw| flaw.at(start, section.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::super::section::Why;
    use super::*;

    const FOOTER: Footer = Footer { id: FileId(5), filter: 100, properties: 200, index: 300 };

    fn decode(bytes: &[u8], id: FileId, at: u64) -> Result<Footer, Fault> {
        Footer::decode(bytes.try_into().unwrap(), id, at)
    }

    #[test]
    fn a_footer_comes_back_and_every_bit_of_it_counts() {
        let mut bytes = Vec::new();
        FOOTER.encode(400, &mut bytes);
        assert_eq!(decode(&bytes, FileId(5), 400).unwrap(), FOOTER);
        for bit in 0..bytes.len() * 8 {
            let mut bent = bytes.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            let result = decode(&bent, FileId(5), 400);
            assert!(matches!(result, Err(Fault { why: Why::Damaged(_), .. })), "bit {bit}: {result:?}");
        }
        assert!(decode(&bytes, FileId(6), 400).is_err(), "another table's name");
        assert!(decode(&bytes, FileId(5), 401).is_err(), "another place");
    }

    #[test]
    fn newer_formats_are_refused_by_name() {
        for (version, required, words) in [(2, 0, "format version 2"), (1, 0b10_0001, "bits [0, 5]")] {
            let mut bytes = Vec::new();
            FOOTER.encode_as(version, required, 400, &mut bytes);
            match decode(&bytes, FileId(5), 400) {
                Err(Fault { why: Why::Unsupported(what), .. }) => assert!(what.contains(words), "{what}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn places_out_of_order_are_refused() {
        for (filter, properties, index) in [(201, 200, 300), (100, 301, 300), (100, 200, 401)] {
            let mut bytes = Vec::new();
            Footer { id: FileId(5), filter, properties, index }.encode(400, &mut bytes);
            assert!(decode(&bytes, FileId(5), 400).is_err());
        }
    }
}
