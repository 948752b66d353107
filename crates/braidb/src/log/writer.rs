//! Appending to the log: encoding frames, allocating space before it is needed, sealing a log and starting the next.
//!
//! The owner of the commit lock owns the writer. The writer never syncs: [`LogSync`] does, off the commit path.
//!
//! **Errors.** Space is allocated before a byte is written into it. A full disk is therefore refused with [`Error::Full`] while nothing
//! has changed. The writer goes on, and may accept smaller batches, or deletes. Any other error while space is allocated or a file is
//! created changes nothing either. The writer stops for good only when bytes may have reached the file in part (a failed append). After
//! an error ask [`LogSync::failure`]: a cause there is final, and none means that nothing was written. The kind of the error does not
//! tell.
//!
//! The file comes from `create_log`: an append into allocated space reaches the operating system before it returns, mostly without a
//! system call. `braidb-storage` (`real/mapped.rs`) describes what happens if the device fails afterwards.
//!
//! **Space.** Deletes free space only after they were written themselves, so puts leave the last `reserve_bytes` of the device alone.
//! The writer asks for the free space only when it allocates a chunk.

use super::batch::EncodedBatch;
use super::frame::{self, FOOTER_BYTES, HEADER_BYTES, Header, MAX_HEAD_BYTES, Numbers};
use super::places::ValuePlaces;
use super::sync::{LiveLog, LogSync};
use crate::base::error::{Error, Result};
use crate::base::ids::{FileId, SeqNo};
use braidb_storage::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Bytes by which a log's space grows once it has 1 MiB: one allocation for many frames.
const CHUNK_BYTES: u64 = 1 << 20;
/// Bytes by which a log's space grows below `CHUNK_BYTES`: many logs stay small.
const FIRST_CHUNK_BYTES: u64 = 256 << 10;
/// Bytes of waiting frames at which an append writes them to the operating system, even without `write_out`.
const BUFFER_BYTES: usize = 64 << 10;
/// Values of a batch of at least this many bytes are appended from the batch, without a copy into the buffer.
const DIRECT_BYTES: usize = 1 << 20;

/// Writes the log. The module's head describes its errors.
#[derive(Debug)]
pub struct LogWriter {
    shared: Arc<LogSync>,
    log: Arc<LiveLog>,
    /// The file of the current log; `None` once the log is sealed, so that the thread that syncs the log can close it.
    file: Option<Arc<dyn File>>,
    /// Frames at the end of the log that were not written to the operating system yet.
    buffer: Vec<u8>,
    /// The offset of the next frame, counting the buffer.
    end: u64,
    frames: u64,
    /// The end of the allocated space: room for at least a footer behind `end`.
    allocated: u64,
    /// Puts may write up to here: when this space was allocated, the device still had the reserve free.
    put_limit: u64,
    reserve_bytes: u64,
    /// Whether the current log's header says that it may hold records written back.
    written_back: bool,
    /// The length of the log before the current one; 0 for the first.
    previous_bytes: u64,
    /// Whether logs keep the places of their values, for flushes that may leave values in logs.
    tells_places: bool,
    /// Logs that were begun after the first.
    begun: u64,
    /// The places of the current log, unless no flush would use them.
    places: Option<ValuePlaces>,
    leftovers: Leftovers,
}

/// What the writer no longer needs. The drop frees memory, and unlinks and closes files, so it must come after the commit lock is released.
#[derive(Debug, Default)]
pub struct Leftovers {
    buffers: Vec<Vec<u8>>,
    places: Vec<ValuePlaces>,
    unused_logs: Vec<UnusedLog>,
    /// New logs that were not begun: sealing the old log, or writing the header of the new one, failed.
    failed_logs: Vec<NewLog>,
}

impl Leftovers {
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
            && self.places.is_empty()
            && self.unused_logs.is_empty()
            && self.failed_logs.is_empty()
    }
}

/// A log that never got a byte, because the device had no room for it. The drop unlinks it. If the removal fails, recovery finds an empty
/// log and ignores it.
#[derive(Debug)]
struct UnusedLog {
    shared: Arc<LogSync>,
    log: Arc<LiveLog>,
    _file: Arc<dyn File>,
}

impl Drop for UnusedLog {
    fn drop(&mut self) {
        let _ = self.shared.fs().unlink(&self.log.path);
    }
}

/// Why there is no new log, and the file that was created for it.
struct NoNewLog {
    error: Error,
    unused: Option<UnusedLog>,
}

impl LogWriter {
    /// Starts the first log after the database was opened. `previous` is where recovery cut the earlier logs. All their bytes up to there
    /// must be stable before the first sync of this log, because later frames say that they are.
    pub fn create(
        shared: Arc<LogSync>,
        id: FileId,
        previous: Option<(FileId, u64)>,
        reserve_bytes: u64,
    ) -> Result<LogWriter> {
        shared.check()?;
        let NewLog { log, file, allocated } = allocate_new(&shared, id).map_err(|none| none.error)?;
        let header =
            Header { previous, written_back: false, covers_earlier_opens: true, is_first_of_open: true };
        start(&shared, &log, &*file, header)?;
        Ok(LogWriter {
            shared,
            log,
            file: Some(file),
            buffer: Vec::new(),
            end: HEADER_BYTES,
            frames: 0,
            allocated,
            put_limit: 0,
            reserve_bytes,
            written_back: false,
            previous_bytes: 0,
            tells_places: false,
            begun: 0,
            places: None,
            leftovers: Leftovers::default(),
        })
    }

    /// Makes logs keep the places of their values, for [`LogSync::closed`], as long as flushes may use the places. Called before the first
    /// append.
    pub fn tell_places(&mut self) {
        assert_eq!(self.frames, 0, "a log keeps the places of all its frames");
        self.tells_places = true;
        self.places = Some(ValuePlaces::default());
    }

    /// Sets the bytes on the device that puts leave alone from now on.
    pub fn set_reserve_bytes(&mut self, bytes: u64) {
        self.reserve_bytes = bytes;
    }

    /// The log that is being written.
    pub fn id(&self) -> FileId {
        self.log.id
    }

    /// The offset of the next frame. The bytes written to the operating system may end earlier.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The final length of the log that [`LogWriter::rotate`] closed last.
    pub fn previous_bytes(&self) -> u64 {
        self.previous_bytes
    }

    /// Appends one frame for each batch and returns the end of the last frame. The first entry of a batch gets the sequence number with
    /// which `group` pairs the batch. No batch may be empty. After an error no batch counts. If the writer has failed for good, any of them
    /// may have reached the log.
    ///
    /// With `write_out`, all frames up to here are written to the operating system when this returns. Without it, they may wait in
    /// memory for a later call.
    pub fn append(&mut self, group: &[(&EncodedBatch, SeqNo)], write_out: bool) -> Result<u64> {
        self.check()?;
        let bytes: u64 = group.iter().map(|(batch, _)| MAX_HEAD_BYTES + batch.bytes() as u64).sum();
        let has_puts = group.iter().any(|(batch, _)| batch.has_puts());
        self.allocate(self.end + bytes + FOOTER_BYTES, has_puts)?;
        for &(batch, base) in group {
            self.put_frame(batch, Numbers::From(base))?;
        }
        if write_out || self.buffer.len() >= BUFFER_BYTES {
            self.write_out()?;
        }
        Ok(self.end)
    }

    /// Appends a frame of records written back, and writes it to the operating system. Families that replay from `replay_from` or a
    /// later log need the records. Errors are as in [`LogWriter::append`].
    pub fn append_written_back(&mut self, batch: &EncodedBatch, replay_from: FileId) -> Result<u64> {
        self.check()?;
        assert!(self.written_back, "the header of the log must announce records written back");
        let bytes = MAX_HEAD_BYTES + batch.bytes() as u64;
        self.allocate(self.end + bytes + FOOTER_BYTES, true)?;
        let before = self.end;
        self.put_frame(batch, Numbers::Own { replay_from })?;
        self.write_out()?;
        self.shared.counters().written_back_bytes.add(self.end - before);
        Ok(self.end)
    }

    fn put_frame(&mut self, batch: &EncodedBatch, numbers: Numbers) -> Result<()> {
        assert!(batch.count() > 0, "an empty batch has no frame");
        let before = self.buffer.len();
        frame::put_batch(&mut self.buffer, self.log.id, self.end, self.log.mark(), numbers, batch);
        self.end += (self.buffer.len() - before) as u64;
        if let Some(places) = &mut self.places {
            places.add(batch, numbers, self.end);
            if !places.are_of_use(self.end) {
                self.leftovers.places.extend(self.places.take());
            }
        }
        self.end += batch.values().len() as u64;
        self.frames += 1;
        if batch.values().len() < DIRECT_BYTES {
            self.buffer.extend_from_slice(batch.values());
            return Ok(());
        }
        self.write_out_with(batch.values())
    }

    /// Writes the frames that wait in memory to the operating system.
    pub fn write_out(&mut self) -> Result<()> {
        match self.buffer.is_empty() {
            true => Ok(()),
            false => self.write_out_with(&[]),
        }
    }

    /// Writes the frames that wait in memory, and then `values`, which end the last frame.
    fn write_out_with(&mut self, values: &[u8]) -> Result<()> {
        self.shared.check()?;
        append(&self.shared, &self.log, self.file(), &[&self.buffer, values])?;
        self.buffer.clear();
        if self.buffer.capacity() > 4 * BUFFER_BYTES {
            // One large group has made the buffer grow. Its memory is freed after the commit lock is released.
            self.leftovers.buffers.push(std::mem::take(&mut self.buffer));
        }
        Ok(())
    }

    fn file(&self) -> &dyn File {
        &**self.file.as_ref().expect("nothing follows a footer")
    }

    fn check(&self) -> Result<()> {
        self.shared.check()?;
        assert!(!self.log.is_sealed(), "nothing follows a footer");
        Ok(())
    }

    /// Makes sure that the log can grow to `needed_end` without meeting a full disk. Allocates a whole chunk, or only the needed bytes
    /// if there is no room for a chunk.
    fn allocate(&mut self, needed_end: u64, has_puts: bool) -> Result<()> {
        let limit = if has_puts { self.put_limit } else { self.allocated };
        if needed_end <= limit {
            return Ok(());
        }
        let path = &self.log.path;
        let (free_bytes, kept_bytes) = match has_puts {
            true => (self.shared.free_space(path)?, self.reserve_bytes),
            false => (u64::MAX, 0),
        };
        let least = needed_end.max(self.allocated);
        let chunk_bytes = if least < CHUNK_BYTES { FIRST_CHUNK_BYTES } else { CHUNK_BYTES };
        for end in [least.next_multiple_of(chunk_bytes), least] {
            let fits = (end - self.allocated).saturating_add(kept_bytes) <= free_bytes;
            if fits && (end == self.allocated || preallocate(&self.log, self.file(), end)?) {
                self.allocated = end;
                if has_puts {
                    self.put_limit = end;
                }
                return Ok(());
            }
        }
        Err(full(&self.shared, path, (least - self.allocated).saturating_add(kept_bytes)))
    }

    /// Seals the current log and starts log `new_id`, a fresh number even after a failed try. The module's head explains the order of
    /// the steps. With `written_back`, the new log may get records written back.
    pub fn rotate(&mut self, new_id: FileId, written_back: bool) -> Result<()> {
        self.check()?;
        assert!(new_id > self.log.id, "numbers of logs ascend");
        let next = allocate_new(&self.shared, new_id).map_err(|none| {
            self.leftovers.unused_logs.extend(none.unused);
            none.error
        })?;
        if let Err(error) = self.seal_and_start(&next, written_back) {
            self.leftovers.failed_logs.push(next);
            return Err(error);
        }
        let NewLog { log: next, file, allocated } = next;
        self.shared.counters().logs_rotated.add(1);
        (self.log, self.file) = (next, Some(file));
        self.previous_bytes = self.end;
        self.end = HEADER_BYTES;
        self.frames = 0;
        self.allocated = allocated;
        self.put_limit = 0;
        self.written_back = written_back;
        self.begun += 1;
        let tells = self.tells_places && self.shared.is_worth_telling(self.begun);
        self.places = tells.then(ValuePlaces::default);
        Ok(())
    }

    fn seal_and_start(&mut self, next: &NewLog, written_back: bool) -> Result<()> {
        self.seal()?;
        let header = Header {
            previous: Some((self.log.id, self.end)),
            written_back,
            covers_earlier_opens: true,
            is_first_of_open: false,
        };
        start(&self.shared, &next.log, &*next.file, header)
    }

    /// Takes what the writer no longer needs, for the holder of the commit lock to drop after it.
    #[must_use = "the leftovers are dropped after the commit lock"]
    pub fn take_leftovers(&mut self) -> Leftovers {
        std::mem::take(&mut self.leftovers)
    }

    /// Whether [`LogWriter::take_leftovers`] gives anything.
    #[inline]
    pub fn has_leftovers(&self) -> bool {
        !self.leftovers.is_empty()
    }

    /// Writes all waiting frames, then the footer into the space that was kept for it. The next sync of the log gives the rest of the
    /// space back. Nothing may be appended afterwards.
    ///
    /// To close a database, sync through [`LogWriter::end`] both before and after the seal. The footer then carries a mark over the
    /// whole log, and any later damage to the log is recognized.
    pub fn seal(&mut self) -> Result<()> {
        self.check()?;
        frame::put_footer(&mut self.buffer, self.log.id, self.end, self.log.mark(), self.frames);
        self.end += FOOTER_BYTES;
        self.write_out()?;
        // Dropped before the log counts as sealed: the thread that syncs closes the file, so it must be the last owner.
        self.file = None;
        self.log.set_sealed(self.places.take());
        Ok(())
    }
}

/// A log without bytes.
#[derive(Debug)]
struct NewLog {
    log: Arc<LiveLog>,
    file: Arc<dyn File>,
    /// The space that the file has.
    allocated: u64,
}

/// Creates the file of log `id` with its first space allocated and no bytes. After an error the caller drops the file.
fn allocate_new(shared: &Arc<LogSync>, id: FileId) -> std::result::Result<NewLog, NoNewLog> {
    let path = shared.path(id);
    let file = shared.fs().create_log(&path).map_err(|error| {
        let error = match error.kind() {
            io::ErrorKind::StorageFull => full(shared, &path, FIRST_CHUNK_BYTES),
            _ => Error::io("create", &path, error),
        };
        NoNewLog { error, unused: None }
    })?;
    let log = Arc::new(LiveLog::new(id, path.clone(), file.clone()));
    let mut error = None;
    for allocated in [FIRST_CHUNK_BYTES, HEADER_BYTES + FOOTER_BYTES] {
        match preallocate(&log, &*file, allocated) {
            Ok(true) => return Ok(NewLog { log, file, allocated }),
            Ok(false) => {}
            Err(other) => {
                error = Some(other);
                break;
            }
        }
    }
    let error = error.unwrap_or_else(|| full(shared, &path, HEADER_BYTES + FOOTER_BYTES));
    Err(NoNewLog { error, unused: Some(UnusedLog { shared: shared.clone(), log, _file: file }) })
}

/// Allocates the first `end` bytes of a log; `false` when the disk has no room for them.
fn preallocate(log: &LiveLog, file: &dyn File, end: u64) -> Result<bool> {
    match file.preallocate(end) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(false),
        Err(error) => Err(Error::io("allocate space for", &log.path, error)),
    }
}

/// Writes the header of a new log and makes it the current one.
fn start(shared: &LogSync, log: &Arc<LiveLog>, file: &dyn File, header: Header) -> Result<()> {
    append(shared, log, file, &[&header.encode(log.id)])?;
    shared.register(log.clone());
    Ok(())
}

/// Appends `parts`, which end with a whole frame, and only then adds their bytes to `written_bytes`. A sync between two parts could otherwise
/// put the mark inside the frame, and a torn frame would count as damaged.
fn append(shared: &LogSync, log: &LiveLog, file: &dyn File, parts: &[&[u8]]) -> Result<()> {
    let mapped_before = file.mapped_bytes();
    let mut bytes = 0;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        file.append(part).map_err(|error| shared.fail("append to", &log.path, error))?;
        bytes += part.len() as u64;
        shared.counters().log_bytes.add(part.len() as u64);
    }
    shared.counters().log_mapped_bytes.add(file.mapped_bytes() - mapped_before);
    log.add_written(bytes);
    Ok(())
}

fn full(shared: &LogSync, path: &Path, needed_bytes: u64) -> Error {
    // Only for the message: the write is refused whatever the answer.
    let free_bytes = shared.free_space(path).unwrap_or(0);
    Error::Full { path: path.to_owned(), free_bytes, needed_bytes }
}
