//! Reading a log from its file: checks the frame at an offset, and finds the next whole frame behind damage.
//!
//! The file passes through one window, which holds at least the current frame. The window grows for a large frame, never beyond the
//! bytes of the file, and shrinks again.

use super::batch::{self, Fault};
use super::frame::{self, Contents, HEADER_BYTES, Head, Header, HeaderFault, MAX_HEAD_BYTES, Numbers};
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use braidb_storage::{File, FileSystem};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at a time.
const WINDOW_BYTES: usize = 256 << 10;
/// Bytes that a search may look at: `SEARCH_FACTOR` times the bytes that it searches, and `SEARCH_EXTRA_BYTES` more. Damage met by
/// chance never needs as much; bytes made to look like frames would cost time in the square of their number.
const SEARCH_FACTOR: u64 = 16;
const SEARCH_EXTRA_BYTES: u64 = 16 << 20;

/// What a log holds at an offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A good batch.
    Batch(Head),
    /// A footer with the right checksum. Its fields are not compared with the log.
    Footer(Head),
    /// Only zeros up to the limit.
    Zeros,
    /// No good frame. The next frame may begin at `resume`.
    Bad { what: &'static str, resume: u64 },
    /// A frame with the right checksum that no writer writes: damage in memory, or a bug; never a crash.
    Senseless { what: &'static str, resume: u64 },
}

/// A reader of one log.
#[derive(Debug)]
pub(super) struct Reader {
    pub path: PathBuf,
    pub id: FileId,
    file: Arc<dyn File>,
    /// No byte behind this offset is read: the end of the file, or the known end of the log.
    pub limit: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Reader {
    pub fn open(fs: &dyn FileSystem, path: &Path, id: FileId, known_end: Option<u64>) -> Result<Reader> {
        let file = fs.open(path).map_err(|error| Error::io("open", path, error))?;
        let file_bytes = file.len().map_err(|error| Error::io("ask for the length of", path, error))?;
        let limit = known_end.map_or(file_bytes, |end| end.min(file_bytes));
        Ok(Reader { path: path.to_owned(), id, file, limit, window: Vec::new(), window_at: 0 })
    }

    /// The bytes from `start` to `end`, both at most the limit.
    pub fn bytes(&mut self, start: u64, end: u64) -> Result<&[u8]> {
        let window_end = self.window_at + self.window.len() as u64;
        if start < self.window_at || end > window_end {
            self.fill(start, end)?;
        }
        let from = (start - self.window_at) as usize;
        Ok(&self.window[from..from + (end - start) as usize])
    }

    fn fill(&mut self, start: u64, end: u64) -> Result<()> {
        debug_assert!(start <= end && end <= self.limit);
        let wanted = (end - start).max(WINDOW_BYTES as u64).min(self.limit - start);
        // Cleared before the read, so that the window holds nothing after an error.
        self.window.clear();
        self.window.shrink_to(WINDOW_BYTES);
        self.window_at = start;
        let mut window = std::mem::take(&mut self.window);
        window.resize(wanted as usize, 0);
        let mut filled = 0;
        while filled < window.len() {
            let at = start + filled as u64;
            let read = self.file.read_at(at, &mut window[filled..]);
            match read.map_err(|error| Error::io("read", &self.path, error))? {
                // The file was longer when the reader was opened. The seal of the log that is being written cuts off the zeros behind
                // its end. Any other program that cuts off more leaves frames that are not whole.
                0 => break,
                bytes => filled += bytes,
            }
        }
        self.window = window;
        Ok(())
    }

    /// The header; `None` when it is damaged or was never written.
    pub fn header(&mut self) -> Result<Option<Header>> {
        let bytes = self.bytes(0, HEADER_BYTES.min(self.limit))?.to_vec();
        match Header::decode(&bytes, self.id) {
            Ok(header) => Ok(Some(header)),
            Err(HeaderFault::Bad) => Ok(None),
            Err(HeaderFault::Unsupported(what)) => Err(Error::Unsupported { path: self.path.clone(), what }),
        }
    }

    /// Checks the bytes at `offset`, the values included. `offset` is below the limit.
    pub fn at(&mut self, offset: u64) -> Result<At> {
        let resume = offset + 1;
        let Some(head) = self.head(offset)? else {
            return Ok(match self.is_zero_from(offset)? {
                true => At::Zeros,
                false => At::Bad { what: "no frame begins here", resume },
            });
        };
        if head.covered_end() > self.limit {
            return Ok(At::Bad { what: "the frame is cut off", resume });
        }
        if !self.checksum_holds(&head)? {
            return Ok(At::Bad { what: "the checksum of the frame is wrong", resume });
        }
        // The checksum covers the head, so the next frame begins at this frame's end.
        let Contents::Batch { count, numbers, .. } = head.contents else { return Ok(At::Footer(head)) };
        let resume = head.end().min(self.limit);
        if head.end() > self.limit {
            return Ok(At::Bad { what: "the values of the frame are cut off", resume });
        }
        let (list, values) = self.batch(&head)?;
        Ok(match batch::check(list, values, count, matches!(numbers, Numbers::Own { .. })) {
            Ok(()) => At::Batch(head),
            Err(Fault::Value) => At::Bad { what: "the checksum of a value is wrong", resume },
            Err(Fault::List) => {
                At::Senseless { what: "a batch with a right checksum makes no sense", resume }
            }
        })
    }

    fn head(&mut self, offset: u64) -> Result<Option<Head>> {
        let end = self.limit.min(offset + MAX_HEAD_BYTES);
        Ok(Head::decode(self.bytes(offset, end)?, offset))
    }

    fn checksum_holds(&mut self, head: &Head) -> Result<bool> {
        let id = self.id;
        Ok(frame::checksum_holds(self.bytes(head.offset, head.covered_end())?, id, head.offset))
    }

    /// The list and the values of a batch that ends at or below the limit.
    pub fn batch(&mut self, head: &Head) -> Result<(&[u8], &[u8])> {
        let Contents::Batch { list_at, list_bytes, .. } = head.contents else {
            unreachable!("only batches have entries");
        };
        let frame = self.bytes(head.offset, head.end())?;
        Ok(frame[(list_at - head.offset) as usize..].split_at(list_bytes as usize))
    }

    /// Whether all bytes from `offset` up to the limit are zero.
    pub fn is_zero_from(&mut self, offset: u64) -> Result<bool> {
        let mut from = offset;
        while from < self.limit {
            let to = self.limit.min(from + WINDOW_BYTES as u64);
            if self.bytes(from, to)?.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            from = to;
        }
        Ok(true)
    }

    /// The end of the last byte from `offset` on that is not zero; `offset` if there is none.
    pub fn zeros_from(&mut self, offset: u64) -> Result<u64> {
        let mut to = self.limit;
        while to > offset {
            let from = to.saturating_sub(WINDOW_BYTES as u64).max(offset);
            if let Some(last) = self.bytes(from, to)?.iter().rposition(|&byte| byte != 0) {
                return Ok(from + last as u64 + 1);
            }
            to = from;
        }
        Ok(offset)
    }

    /// Starts a search for whole frames behind damage.
    pub fn search(&self, from: u64) -> Search {
        let budget = (self.limit - from).saturating_mul(SEARCH_FACTOR).saturating_add(SEARCH_EXTRA_BYTES);
        Search { from, budget }
    }
}

/// Finds frames at any offset by their checksum. The checksum covers log and offset, so no frame is found by accident.
///
/// Most offsets are refused after a look at a few bytes. Bytes made to look like frames at every offset could cost time in the square
/// of their number. A budget bounds the search; no data exhausts it by chance. When it is spent, it is unknown how far the log was
/// synced, and the search fails with an error.
#[derive(Debug)]
pub(super) struct Search {
    from: u64,
    budget: u64,
}

impl Search {
    /// The next frame, its values unchecked. The search goes on behind the frame.
    pub fn next(&mut self, reader: &mut Reader) -> Result<Option<Head>> {
        while self.from < reader.limit {
            let offset = self.from;
            self.from += 1;
            if let Some(head) = self.frame_at(reader, offset)? {
                self.from = head.end().min(reader.limit);
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    fn frame_at(&mut self, reader: &mut Reader, offset: u64) -> Result<Option<Head>> {
        let start = reader.bytes(offset, reader.limit.min(offset + 5))?;
        let kinds = [frame::KIND_BATCH, frame::KIND_FOOTER, frame::KIND_WRITTEN_BACK];
        if !start.get(4).is_some_and(|kind| kinds.contains(kind)) {
            return Ok(None);
        }
        let Some(head) = reader.head(offset)? else { return Ok(None) };
        if head.covered_end() > reader.limit || !self.list_looks_right(reader, &head)? {
            return Ok(None);
        }
        self.spend(head.covered_end() - offset, reader)?;
        Ok(reader.checksum_holds(&head)?.then_some(head))
    }

    /// Checks the part of the list that is in the window already.
    fn list_looks_right(&mut self, reader: &mut Reader, head: &Head) -> Result<bool> {
        let Contents::Batch { list_at, list_bytes, count, numbers, .. } = head.contents else {
            return Ok(true);
        };
        let window_end = reader.window_at + reader.window.len() as u64;
        let part = reader.bytes(list_at, window_end.min(list_at + list_bytes))?;
        let (right, looked_at) =
            batch::may_begin_list(part, list_bytes, count, matches!(numbers, Numbers::Own { .. }));
        self.spend(looked_at as u64, reader)?;
        Ok(right)
    }

    fn spend(&mut self, bytes: u64, reader: &Reader) -> Result<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => self.budget = left,
            None => {
                let what = "too much behind the damage looks like frames to tell how far the log was synced";
                return Err(Error::corruption(&reader.path, self.from, what));
            }
        }
        Ok(())
    }
}
