//! A section is a piece of a table followed by a trailer. Every byte of a table before the footer belongs to one
//! section.
//!
//! ```text
//! payload  any length
//! type     u8    0 = uncompressed
//! crc32c   u32   over (table id, offset of the payload in the file, payload, type)
//! ```

use crate::base::checksum;
use crate::base::error::Error;
use crate::base::ids::FileId;
use std::io;
use std::path::Path;

/// Bytes of a trailer.
pub const TRAILER_BYTES: usize = 5;
const UNCOMPRESSED: u8 = 0;

/// The reason why a piece of a table cannot be used. [`Fault::into_error`] adds the path.
#[derive(Debug)]
pub struct Fault {
    pub offset: u64,
    pub bytes: u64,
    pub why: Why,
}

#[derive(Debug)]
pub enum Why {
    Damaged(String),
    /// Whole, but written by a newer version.
    Unsupported(String),
    Unreadable(io::Error),
}

impl Fault {
    pub fn damage(offset: u64, bytes: u64, what: impl Into<String>) -> Fault {
        Fault { offset, bytes, why: Why::Damaged(what.into()) }
    }

    pub fn unsupported(offset: u64, bytes: u64, what: String) -> Fault {
        Fault { offset, bytes, why: Why::Unsupported(what) }
    }

    /// The fault of a failed read. A file that ends too early counts as damaged, not as unreadable.
    pub fn read(offset: u64, bytes: u64, source: io::Error) -> Fault {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return Fault::damage(offset, bytes, "the file ends too early");
        }
        Fault { offset, bytes, why: Why::Unreadable(source) }
    }

    pub fn into_error(self, path: &Path) -> Error {
        match self.why {
            Why::Damaged(what) => Error::corruption(path, self.offset, what),
            Why::Unsupported(what) => Error::Unsupported { path: path.to_owned(), what },
            Why::Unreadable(source) => Error::io("read", path, source),
        }
    }
}

/// The wrong content of a section that passed its checksum: the writer was a newer version, or had a bug.
#[derive(Debug)]
pub enum Flaw {
    Malformed(&'static str),
    Unsupported(String),
}

impl Flaw {
    /// Adds the offset and the length of the section.
    pub fn at(self, offset: u64, bytes: u64) -> Fault {
        match self {
            Flaw::Malformed(what) => Fault::damage(offset, bytes, what),
            Flaw::Unsupported(what) => Fault::unsupported(offset, bytes, what),
        }
    }
}

/// Closes a section that starts at `start` of `out` and at `offset` of the table file.
pub fn put_trailer(out: &mut Vec<u8>, start: usize, id: FileId, offset: u64) {
    out.push(UNCOMPRESSED);
    let crc = checksum::at_place(id.0, offset, &[&out[start..]]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Checks a section with its trailer, read from `offset`, and returns the payload.
pub fn check<'a>(section: &'a [u8], id: FileId, offset: u64, name: &str) -> Result<&'a [u8], Fault> {
    let bytes = section.len() as u64;
    let damage = |what| Fault::damage(offset, bytes, what);
    let Some((covered, crc)) = section.split_last_chunk::<4>() else {
        return Err(damage(format!("the {name} is too short")));
    };
    let Some((&kind, payload)) = covered.split_last() else {
        return Err(damage(format!("the {name} is too short")));
    };
    if checksum::at_place(id.0, offset, &[covered]) != u32::from_le_bytes(*crc) {
        return Err(damage(format!("the {name} does not match its checksum")));
    }
    if kind != UNCOMPRESSED {
        return Err(Fault::unsupported(offset, bytes, format!("the {name} has compression type {kind}")));
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_good_only_whole_and_in_its_place() {
        let mut section = b"payload".to_vec();
        put_trailer(&mut section, 0, FileId(3), 40);
        assert_eq!(check(&section, FileId(3), 40, "block").unwrap(), b"payload");
        assert!(matches!(check(&section, FileId(4), 40, "block"), Err(Fault { why: Why::Damaged(_), .. })));
        assert!(matches!(check(&section, FileId(3), 41, "block"), Err(Fault { why: Why::Damaged(_), .. })));
        for len in 0..section.len() {
            assert!(
                matches!(
                    check(&section[..len], FileId(3), 40, "block"),
                    Err(Fault { why: Why::Damaged(_), .. })
                ),
                "{len}"
            );
        }
    }

    #[test]
    fn an_unknown_compression_is_refused_by_number() {
        let mut section = b"payload\x02".to_vec();
        let crc = checksum::at_place(3, 40, &[&section]);
        section.extend_from_slice(&crc.to_le_bytes());
        match check(&section, FileId(3), 40, "block") {
            Err(Fault { why: Why::Unsupported(what), .. }) => assert!(what.contains("type 2"), "{what}"),
            other => panic!("{other:?}"),
        }
    }
}
