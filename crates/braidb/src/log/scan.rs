//! Reading a log for recovery, and verifying it.
//!
//! A caller that recovers several logs scans them from the oldest on. While each log is [`End::Sealed`] at the length that the next
//! log's header gives, nothing is missing. At the first log that is not, the caller scans the later logs without replaying them. A
//! [`Scan::max_mark`] of at least 1 in any later log proves that this log was sealed and synced, so it is damaged. Otherwise the
//! commits end in this log, and the later logs are set aside.

use super::batch::{self, Entry};
use super::frame::{Contents, FOOTER_BYTES, HEADER_BYTES, Head, Header, Numbers};
use super::reader::{At, Reader};
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, SeqNo};
use crate::base::mutant::mutant;
use crate::base::report::Damage;
use braidb_storage::FileSystem;
use std::path::Path;

const BAD_HEADER: &str = "the header of the log is damaged";
const ZEROS: &str = "zeros instead of a frame";

/// One batch, read back.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The offset at which the frame begins in the log.
    pub offset: u64,
    /// The length of the frame, head and values included.
    pub bytes: u64,
    /// The sequence numbers of the entries.
    pub numbers: Numbers,
    list: &'a [u8],
    values: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The entries with their sequence numbers, in the order of writing.
    pub fn entries(&self) -> impl Iterator<Item = (SeqNo, Entry<'a>)> {
        let (base, has_numbers) = match self.numbers {
            Numbers::From(base) => (base, false),
            Numbers::Own { .. } => (0, true),
        };
        let entries = batch::entries(self.list, self.values, has_numbers);
        (base..).zip(entries).map(|(seq, entry)| (entry.seq.unwrap_or(seq), entry))
    }
}

/// What a scan found in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// `None` when the header is damaged or was never written; no frame was visited then.
    pub header: Option<Header>,
    pub end: End,
    /// Visited frames, and their entries.
    pub frames: u64,
    pub entries: u64,
    /// The largest sequence number of a commit anywhere in the log, also behind damage; 0 without any.
    pub last_seq: SeqNo,
    /// The largest synced mark anywhere in the log, also behind damage.
    pub max_mark: u64,
}

/// Where the good frames of a log end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At a footer, which `length` includes.
    Sealed { length: u64 },
    /// At the end of the file, at the end that the caller knows, or with only zeros from here on.
    Open { offset: u64 },
    /// At bytes that are no frame and, as far as is known, were never synced. `bytes` does not count zeros at the end.
    Torn { offset: u64, bytes: u64, whole_frames_behind: u64 },
}

/// Reads log `id` from the beginning and passes each frame to `visit`, after checking the whole frame, up to the first bad frame.
///
/// With `known_end` the log is known to be good up to there: a shorter log is corruption, and later bytes are ignored. Without it,
/// damage is corruption where a mark behind it proves that it was synced, and a torn tail otherwise. A file that is empty or zero has
/// no header and is open at 0.
pub fn scan(
    fs: &dyn FileSystem,
    path: &Path,
    id: FileId,
    known_end: Option<u64>,
    visit: &mut dyn FnMut(&Frame) -> Result<()>,
) -> Result<Scan> {
    let known_end = known_end.filter(|_| !mutant!("seal_not_checked"));
    let mut reader = Reader::open(fs, path, id, known_end)?;
    let header = reader.header()?;
    let mut scan =
        Scan { header, end: End::Open { offset: 0 }, frames: 0, entries: 0, last_seq: 0, max_mark: 0 };
    if header.is_none() {
        scan.end = match known_end.is_none() && reader.is_zero_from(0)? {
            true => End::Open { offset: 0 },
            false => torn(&mut reader, &mut scan, known_end, 0, 1, BAD_HEADER)?,
        };
        return Ok(scan);
    }
    let mut offset = HEADER_BYTES;
    scan.end = loop {
        if offset >= reader.limit {
            break match known_end {
                Some(end) if offset != end => {
                    return Err(Error::corruption(path, offset, format!("the log must go on to byte {end}")));
                }
                _ => End::Open { offset },
            };
        }
        match reader.at(offset)? {
            At::Batch(head) => {
                scan.visit(&mut reader, &head, visit)?;
                offset = head.end();
            }
            At::Footer(head) => break scan.footer(&reader, &head, known_end)?,
            At::Zeros if known_end.is_none() => break End::Open { offset },
            At::Zeros => return Err(Error::corruption(path, offset, ZEROS)),
            At::Bad { what, resume } => break torn(&mut reader, &mut scan, known_end, offset, resume, what)?,
            At::Senseless { what, .. } => return Err(Error::corruption(path, offset, what)),
        }
    };
    Ok(scan)
}

impl Scan {
    fn visit(
        &mut self,
        reader: &mut Reader,
        head: &Head,
        visit: &mut dyn FnMut(&Frame) -> Result<()>,
    ) -> Result<()> {
        let Contents::Batch { count, numbers, .. } = head.contents else {
            unreachable!("a footer is no batch")
        };
        let (list, values) = reader.batch(head)?;
        let bytes = head.end() - head.offset;
        visit(&Frame { offset: head.offset, bytes, numbers, list, values })?;
        self.frames += 1;
        self.entries += count;
        self.last_seq = self.last_seq.max(numbers.last(count));
        self.max_mark = self.max_mark.max(head.mark);
        Ok(())
    }

    /// Compares the footer with the frames that were read.
    fn footer(&mut self, reader: &Reader, head: &Head, known_end: Option<u64>) -> Result<End> {
        self.max_mark = self.max_mark.max(head.mark);
        let Contents::Footer { frames, length } = head.contents else { unreachable!("a batch is no footer") };
        if !mutant!("seal_not_checked") {
            if frames != self.frames || length != head.end() {
                let what = format!(
                    "the footer tells of {frames} frames in {length} bytes; there are {} in {}",
                    self.frames,
                    head.end()
                );
                return Err(Error::corruption(&reader.path, head.offset, what));
            }
            if let Some(end) = known_end.filter(|&end| end != length) {
                let what = format!("a footer ends the log at byte {length}, but it must go on to byte {end}");
                return Err(Error::corruption(&reader.path, head.offset, what));
            }
        }
        Ok(End::Sealed { length: head.end() })
    }
}

/// Decides whether the bad frame or header at `offset` is torn, or was damaged after its sync.
fn torn(
    reader: &mut Reader,
    scan: &mut Scan,
    known_end: Option<u64>,
    offset: u64,
    resume: u64,
    what: &'static str,
) -> Result<End> {
    if known_end.is_some() {
        return Err(Error::corruption(&reader.path, offset, what));
    }
    let mut whole_frames_behind = 0;
    let mut search = reader.search(resume);
    while let Some(head) = search.next(reader)? {
        scan.max_mark = scan.max_mark.max(head.mark);
        if let Contents::Batch { count, numbers, .. } = head.contents {
            scan.last_seq = scan.last_seq.max(numbers.last(count));
        }
        whole_frames_behind += u64::from(matches!(reader.at(head.offset)?, At::Batch(_)));
    }
    // A mark of 1 covers earlier logs only.
    if scan.max_mark >= HEADER_BYTES && scan.max_mark > offset {
        let what = format!("{what}, although the log was synced up to byte {}", scan.max_mark);
        return Err(Error::corruption(&reader.path, offset, what));
    }
    // Zeros at the end were never written, so they are not counted as lost.
    Ok(End::Torn { offset, bytes: reader.zeros_from(offset)? - offset, whole_frames_behind })
}

/// The header of log `id`; `None` when it is damaged or was never written.
pub fn read_header(fs: &dyn FileSystem, path: &Path, id: FileId) -> Result<Option<Header>> {
    Reader::open(fs, path, id, None)?.header()
}

/// The end of the last byte of a log from `from` on that is not zero; `from` if there is none. Zeros at the end of a log are space that was
/// allocated and never written.
pub fn written_end(fs: &dyn FileSystem, path: &Path, from: u64) -> Result<u64> {
    // No checksum is compared, so the id of the log does not matter.
    Reader::open(fs, path, FileId(0), None)?.zeros_from(from)
}

/// Reads every byte of log `id` and returns each damaged range. With `known_end` the log must be good up to there, and later bytes are
/// ignored. Without it, bytes that no mark covers may be what a crash left, and are no damage.
pub fn verify(fs: &dyn FileSystem, path: &Path, id: FileId, known_end: Option<u64>) -> Result<Vec<Damage>> {
    let mut reader = Reader::open(fs, path, id, known_end)?;
    let mut damages = Vec::new();
    let mut damage = |offset: u64, end: u64, what: &str| {
        damages.push(Damage { path: path.to_owned(), offset, bytes: end - offset, what: what.to_owned() });
    };
    let (mut offset, mut frames, mut footer, mut max_mark) = (0, 0, None, 0);
    while offset < reader.limit && footer.is_none() {
        let (what, resume) = if offset == 0 {
            if reader.header()?.is_some() {
                offset = HEADER_BYTES;
                continue;
            }
            (BAD_HEADER, 1)
        } else {
            match reader.at(offset)? {
                At::Batch(head) => {
                    frames += 1;
                    max_mark = max_mark.max(head.mark);
                    offset = head.end();
                    continue;
                }
                At::Footer(head) => {
                    max_mark = max_mark.max(head.mark);
                    footer = Some(head);
                    offset = head.end();
                    continue;
                }
                At::Zeros => (ZEROS, reader.limit),
                At::Bad { what, resume } => (what, resume),
                At::Senseless { what, resume } => {
                    // No crash leaves such a frame, so the log counts as synced up to here.
                    max_mark = max_mark.max(HEADER_BYTES).max(offset + 1);
                    (what, resume)
                }
            }
        };
        let next = reader.search(resume).next(&mut reader)?.map(|head| head.offset);
        if next.is_some() || known_end.is_some() {
            damage(offset, next.unwrap_or(reader.limit), what);
        }
        offset = next.unwrap_or(reader.limit);
    }
    if let Some(end) = known_end.filter(|&end| end > offset) {
        damage(offset, end, "the log ends too early");
    }
    // The footer's count is compared only in a whole log: missing frames were reported, or lost in a crash, where they stood.
    let is_whole = damages.is_empty();
    // Only a mark tells damage from writes that a crash left unsynced. A mark of 1 covers other logs only.
    damages.retain(|damage| known_end.is_some() || damage.offset < max_mark && max_mark >= HEADER_BYTES);
    if let Some(head) = footer.filter(|_| is_whole)
        && head.contents != (Contents::Footer { frames, length: head.end() })
    {
        let what = "the footer disagrees with the log".to_owned();
        damages.push(Damage { path: path.to_owned(), offset: head.offset, bytes: FOOTER_BYTES, what });
    }
    Ok(damages)
}
