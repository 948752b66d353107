//! Writing bytes of a log again in place.
//!
//! After a failed write-back the page cache shows bytes that the device may lack, and calls their pages clean. Overwriting them with
//! identical bytes makes the pages dirty, so a sync writes them. Recovery rewrites in place where the device has no room for a copy.
//! Only bytes with right checksums are written.

use super::frame::HEADER_BYTES;
use super::reader::{At, Reader};
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use braidb_storage::FileSystem;
use std::path::Path;

/// Bytes written with one call: 1 MiB. So calls cost little compared with the device, and the buffer is small compared with the memory
/// of a recovery.
const CHUNK_BYTES: usize = 1 << 20;

/// Writes the bytes of log `id` from `from` to `end` again, and syncs them through the descriptor that wrote them. Each of `from` and
/// `end` is the end of the header or of a frame, or 0.
///
/// # Errors
/// `Corruption` if the bytes up to `end` are not whole frames; the bytes written until then are identical to the old ones.
pub fn rewrite(fs: &dyn FileSystem, path: &Path, id: FileId, from: u64, end: u64) -> Result<()> {
    let mut reader = Reader::open(fs, path, id, Some(end))?;
    let file = fs.open_to_rewrite(path).map_err(|error| Error::io("open for rewriting", path, error))?;
    let write = |at: u64, bytes: &[u8]| {
        file.rewrite(at, bytes).map_err(|error| Error::io("write again a part of", path, error))
    };
    let (mut offset, mut chunk, mut chunk_at) = (from, Vec::new(), from);
    while offset < end {
        let next = match offset {
            0 => reader.header()?.map(|_| HEADER_BYTES),
            _ if offset >= reader.limit => None,
            _ => match reader.at(offset)? {
                At::Batch(head) | At::Footer(head) => Some(head.end()),
                At::Zeros | At::Bad { .. } | At::Senseless { .. } => None,
            },
        };
        let changed = || Error::corruption(path, offset, "the log changed while it was being recovered");
        let next = next.filter(|&next| next <= end).ok_or_else(changed)?;
        chunk.extend_from_slice(reader.bytes(offset, next)?);
        offset = next;
        if chunk.len() >= CHUNK_BYTES {
            write(chunk_at, &chunk)?;
            chunk.clear();
            chunk_at = offset;
        }
    }
    if !chunk.is_empty() {
        write(chunk_at, &chunk)?;
    }
    file.sync_data().map_err(|error| Error::io("sync", path, error))
}
