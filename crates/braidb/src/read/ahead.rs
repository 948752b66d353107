//! Reads values ahead of a scan, out of value files.
//!
//! A scan that reads each value when the user asks for it goes back and forth between value files, and on a disk each step is a seek.
//! So a scan that meets a value in a value file walks on, collects the handles of the next entries, and reads each file in the order of
//! its offsets, neighbours together. (KT-Store, section 3.3, for ranges whose end is not known.)
//!
//! The first window has one value. The second window ends where most scans of the column family end (`read/lengths.rs`). Each later window
//! has one entry more than all windows before it, up to [`MOST_BYTES`]. So a short scan reads little in vain. The bounds of the scan end a
//! window early. The scan also measures how long it takes to read one place of a file. The *place bytes* are those that a disk transfers in
//! half of this time:
//!
//! - The next window has at least the place bytes times the places of the last window. So a scan on a disk reads full windows at once.
//! - A read takes in the gap between two values if it has at most the place bytes: that takes less time than one more place.
//! - A file is read ahead behind the last value, into the page cache, so that the next window finds its values there. It is read ahead by
//!   at most the place bytes, and by no more than the bytes of values that the scan has read of it. This is for scans in key order, whose
//!   offsets mostly ascend.
//!
//! In a trie (`ValueLayout::Trie`) a scan reads as the papers do: each table at one place, or value by value out of the one log.
//!
//! An entry that was read ahead waits here with its value, or with the error of its value. The user gets the error when the scan comes to
//! the entry, and never for an entry that the scan does not reach.

use super::scan::{Entry, Found, ScanContext};
use crate::base::body::Handle;
use crate::base::error::{Error, Result};
use crate::base::ids::FileId;
use crate::base::value::Value;
use crate::plan::values::ValueLayout;
use crate::plan::values::gathering::Vain;
use crate::visible::{Fetched, InBody, LazyValue, RawValues, Reach};
use braidb_storage::Clock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most bytes of entries that one end of a scan holds ahead of its user: 8 MiB, or one larger entry. A disk reads them in about the time of
/// five seeks.
pub const MOST_BYTES: u64 = 8 << 20;
/// Bytes that an entry takes beside its key and value: 128, about what its places in lists and its allocations take. Without them a window
/// over tiny values would hold millions of entries.
const ENTRY_BYTES: u64 = 128;

/// A file is read ahead only if the place bytes are at least 128 KiB: a kernel reads as much ahead by itself.
const LEAST_AHEAD_BYTES: u64 = 128 << 10;
/// Bytes that a disk transfers in a microsecond: 150 MB/s. Faster devices need so little time for a place that the place bytes do not
/// matter.
const BYTES_OF_US: u64 = 150;

/// Bytes that an entry with this key and a value of `value_bytes` takes in a window.
fn bytes_of(key: &[u8], value_bytes: u64) -> u64 {
    key.len() as u64 + value_bytes + ENTRY_BYTES
}

/// The entries that a scan has read and its user has not asked for yet.
pub struct Ahead {
    clock: Arc<dyn Clock>,
    layout: ValueLayout,
    /// Whether the scan goes in key order.
    is_forward: bool,
    ready: VecDeque<Result<(Vec<u8>, Slot)>>,
    /// Values of `ready` that were read, and not yet checked and copied. This is done when the user takes an entry, because many scans end
    /// before the last entry of a window.
    raw: RawValues,
    /// Bytes of entries that the next window collects; 0 for a window of one entry.
    window_bytes: u64,
    /// Bytes that most scans of the column family do not exceed.
    usual_bytes: u64,
    /// Bytes of all windows so far.
    read_bytes: u64,
    /// What the scan has read out of value files.
    spent: Spent,
}

/// What a scan has read out of value files.
#[derive(Debug, Default)]
struct Spent {
    us: u64,
    places: u64,
    /// The largest mean time of a place in one window, less a quarter for each window since. So it falls slowly while windows find their
    /// values in the page cache, because a file was read ahead.
    place_us: u64,
    /// Windows that read a place. If values lay in key order, each window would have read one place.
    windows: u64,
    by_file: BTreeMap<FileId, OfFile>,
}

/// What a scan has read of one file.
#[derive(Debug, Default)]
struct OfFile {
    value_bytes: u64,
    /// The offset at which the latest read-ahead ended.
    end: u64,
}

impl OfFile {
    /// Counts the values that the next window reads, at ascending offsets. Returns the bytes to be read ahead behind them. They are 0 while
    /// the values lie in what was read ahead before: otherwise each window would read a little more ahead.
    fn ahead_bytes(&mut self, handles: &[Handle], most_bytes: u64) -> u64 {
        self.value_bytes += handles.iter().map(|handle| u64::from(handle.bytes)).sum::<u64>();
        let last = handles.last().map_or(0, |last| last.offset.saturating_add(last.bytes.into()));
        if last <= self.end {
            return 0;
        }
        let ahead_bytes = most_bytes.min(self.value_bytes);
        self.end = last.saturating_add(ahead_bytes);
        ahead_bytes
    }
}

impl Spent {
    /// The time that went into places beyond the first of each window.
    fn vain(&self) -> Vain {
        let places = self.places.saturating_sub(self.windows);
        let us = u128::from(self.us) * u128::from(places) / u128::from(self.places.max(1));
        Vain { us: us as u64, place_us: self.place_us }
    }

    /// Bytes that a disk transfers in half of the time that a place takes. At most half of the largest window, in case a read was held up
    /// for long.
    fn place_bytes(&self) -> u64 {
        (self.place_us.saturating_mul(BYTES_OF_US) / 2).min(MOST_BYTES / 2)
    }

    /// Counts a window that took `us` for `places`.
    fn count_window(&mut self, us: u64, places: u64) {
        self.us += us;
        if let Some(place_us) = us.checked_div(places) {
            self.windows += 1;
            self.place_us = place_us.max(self.place_us / 4 * 3);
        }
    }
}

impl Ahead {
    pub fn new(of: ScanContext, is_forward: bool) -> Ahead {
        let ScanContext { clock, layout, usual_bytes, .. } = of;
        let (ready, raw, spent) = (VecDeque::new(), RawValues::default(), Spent::default());
        Ahead { clock, layout, is_forward, ready, raw, window_bytes: 0, usual_bytes, read_bytes: 0, spent }
    }

    /// Takes the next entry that was read ahead, if there is one.
    #[inline]
    pub fn take_first(&mut self) -> Option<Result<Entry>> {
        self.ready.pop_front().map(|entry| self.taken(entry))
    }

    /// To be called when a cursor leaves an entry that was read ahead. If its user did not ask for the value, the next window is as small as that
    /// of a new scan.
    #[inline]
    pub fn leave(&mut self, left: &Waiting) {
        if left.slot.is_some() {
            (self.window_bytes, self.usual_bytes, self.read_bytes) = (0, 0, 0);
        }
    }

    /// Takes the next entry that was read ahead, if there is one, for a cursor. Its value waits until the user asks for it.
    #[inline]
    pub fn take_key(&mut self) -> Option<Result<Waiting>> {
        let entry = self.ready.pop_front()?;
        Some(entry.map(|(key, slot)| Waiting { key, slot: Some(slot), value: None, place: None }))
    }

    /// Reads ahead from `first`, on which a cursor stands and whose value lies in a value file. `walk` finds the entries behind it.
    pub fn read_onward(
        &mut self,
        first: (Vec<u8>, InBody),
        walk: impl FnMut() -> Result<Option<Found>>,
    ) -> Waiting {
        self.read_window(first, walk);
        let entry = self.take_key().expect("the window begins with the entry");
        entry.expect("the walk did not fail at the entry")
    }

    /// Reads the value of an entry, and more values ahead if it lies in a value file. `walk` finds the entries behind it, one a call.
    #[inline]
    pub fn read(&mut self, found: Found, walk: impl FnMut() -> Result<Option<Found>>) -> Result<Entry> {
        match found {
            (key, LazyValue::Pinned(value)) => Ok((key, value)),
            (key, LazyValue::InBody(value)) if value.body.is_read_ahead() => {
                self.read_window((key, value), walk);
                self.take_first().expect("the window begins with the entry")
            }
            (key, value) => Ok((key, value.get()?)),
        }
    }

    /// What the scan would have saved if the values lay in key order.
    pub fn vain(&self) -> Vain {
        self.spent.vain()
    }

    /// The bytes of entries that the user took, if the scan went on behind its first window.
    pub fn length_bytes(&self) -> Option<u64> {
        let entry_bytes = |entry: &Result<(Vec<u8>, Slot)>| match entry {
            Ok((key, slot)) => bytes_of(key, slot.bytes()),
            Err(_) => 0,
        };
        let waiting_bytes: u64 = self.ready.iter().map(entry_bytes).sum();
        (self.spent.windows > 1).then(|| self.read_bytes.saturating_sub(waiting_bytes))
    }

    /// Takes the entry that was read ahead farthest: the next one of a scan from the other end that has come here.
    pub fn take_last(&mut self) -> Option<Result<Entry>> {
        self.ready.pop_back().map(|entry| self.taken(entry))
    }

    /// An entry for the user.
    fn taken(&self, entry: Result<(Vec<u8>, Slot)>) -> Result<Entry> {
        let (key, slot) = entry?;
        Ok((key, slot.take(&self.raw)?))
    }

    /// Reads a window that begins with `first`, whose value lies in a value file.
    #[inline(never)]
    fn read_window(&mut self, first: (Vec<u8>, InBody), mut walk: impl FnMut() -> Result<Option<Found>>) {
        let mut window = Window::default();
        let mut bytes = bytes_of(&first.0, first.1.handle.bytes.into());
        window.push(first.0, LazyValue::InBody(first.1));
        let mut failed = None;
        let is_log = self.layout == ValueLayout::Trie { levels: 0 };
        while bytes < self.window_bytes && !is_log {
            match walk() {
                Ok(Some((key, value))) => {
                    bytes += bytes_of(&key, value.bytes());
                    window.push(key, value);
                }
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let (begun_us, begun_places) = (self.clock.now_us(), self.spent.places);
        if window.entries.len() == 1 {
            self.spent.places += 1;
            window.read_only();
        } else {
            let place_bytes = self.spent.place_bytes();
            let gap_bytes = if self.layout == ValueLayout::Ordered { place_bytes } else { u64::MAX };
            self.raw.clear();
            window.read(&mut self.spent, gap_bytes, self.is_forward, &mut self.raw);
        }
        self.ready = window.entries.into_iter().map(Ok).collect();
        self.ready.extend(failed.map(Err));
        self.read_bytes += bytes;
        let places = self.spent.places - begun_places;
        self.spent.count_window(self.clock.now_us().saturating_sub(begun_us), places);
        let next_bytes = self.usual_bytes.saturating_sub(self.read_bytes).max(self.read_bytes + 1);
        self.window_bytes = next_bytes.max(places.saturating_mul(self.spent.place_bytes())).min(MOST_BYTES);
    }
}

/// Entries of one window, in the order of the scan.
#[derive(Default)]
struct Window {
    entries: Vec<(Vec<u8>, Slot)>,
    /// The entries whose values lie in each value file.
    by_file: BTreeMap<FileId, Vec<usize>>,
}

/// An entry that was read ahead, on which a cursor stands.
pub struct Waiting {
    pub key: Vec<u8>,
    /// The value until the user asks for it.
    slot: Option<Slot>,
    value: Option<Result<Value>>,
    /// Where the value is read again after it could not be read.
    place: Option<InBody>,
}

impl Waiting {
    /// The key and the value. The value is checked at the first call. After an error, the next call reads it again.
    pub fn entry(&mut self, ahead: &Ahead) -> Result<(&[u8], &[u8])> {
        if let Some(slot) = self.slot.take() {
            self.place = slot.place().cloned();
            self.value = Some(slot.take(&ahead.raw));
        } else if let (Some(Err(_)), Some(InBody { body, handle })) = (&self.value, &self.place) {
            self.value = Some(body.read(handle));
        }
        match self.value.as_ref().expect("the slot was taken for it") {
            Ok(value) => Ok((&self.key, value)),
            Err(error) => Err(error.clone()),
        }
    }
}

/// The value of an entry.
enum Slot {
    Read(Result<Value>),
    /// The value could not be read.
    Failed(InBody, Error),
    Wanted(InBody),
    /// The value lies in the raw values, from here on.
    Raw(InBody, usize),
}

impl Slot {
    /// Where the value lies, if it was not read.
    fn place(&self) -> Option<&InBody> {
        match self {
            Slot::Read(_) => None,
            Slot::Failed(place, _) | Slot::Wanted(place) | Slot::Raw(place, _) => Some(place),
        }
    }

    /// What a read of the value at `place` returned.
    fn of(read: Result<Value>, place: InBody) -> Slot {
        match read {
            Ok(value) => Slot::Read(Ok(value)),
            Err(error) => Slot::Failed(place, error),
        }
    }

    /// Bytes of the value.
    fn bytes(&self) -> u64 {
        match self {
            Slot::Read(value) => value.as_ref().map_or(0, |value| value.len() as u64),
            Slot::Failed(value, _) | Slot::Wanted(value) | Slot::Raw(value, _) => value.handle.bytes.into(),
        }
    }

    /// The value for the user.
    fn take(self, raw: &RawValues) -> Result<Value> {
        match self {
            Slot::Read(value) => value,
            Slot::Failed(_, error) => Err(error),
            Slot::Wanted(InBody { body, handle }) => body.read(&handle),
            Slot::Raw(InBody { body, handle }, start) => {
                body.take(&handle, raw.get(start, handle.bytes as usize))
            }
        }
    }
}

impl Window {
    fn push(&mut self, key: Vec<u8>, value: LazyValue) {
        let slot = match value {
            LazyValue::InBody(value) if value.body.is_read_ahead() => {
                self.by_file.entry(value.body.id()).or_default().push(self.entries.len());
                Slot::Wanted(value)
            }
            LazyValue::InBody(place) => Slot::of(place.body.read(&place.handle), place),
            value => Slot::Read(value.get()),
        };
        self.entries.push((key, slot));
    }

    /// Reads the value of a window of one entry as a get does, through the cache.
    fn read_only(&mut self) {
        let (key, slot) = self.entries.pop().expect("there is one");
        let place = slot.place().expect("it is wanted").clone();
        self.entries.push((key, Slot::of(slot.take(&RawValues::default()), place)));
    }

    /// Reads all values, file by file and each file by ascending offsets.
    fn read(&mut self, spent: &mut Spent, gap_bytes: u64, is_forward: bool, raw: &mut RawValues) {
        let place_bytes = spent.place_bytes();
        for (id, mut wanted) in std::mem::take(&mut self.by_file) {
            wanted.sort_unstable_by_key(|&at| self.wanted(at).handle.offset);
            let handles: Vec<_> = wanted.iter().map(|&at| self.wanted(at).handle).collect();
            // Sorted tables may know one trie table with different lengths, because several jobs append to it. The body of the last value
            // is long enough for all values.
            let last = *wanted.last().expect("a file is listed with a value");
            let body = self.wanted(last).body.clone();
            // A kernel reads up to [`LEAST_AHEAD_BYTES`] ahead by itself.
            let is_worth = is_forward && place_bytes >= LEAST_AHEAD_BYTES;
            let most_bytes = if is_worth { place_bytes } else { 0 };
            let ahead_bytes = spent.by_file.entry(id).or_default().ahead_bytes(&handles, most_bytes);
            let together = body.read_together(&handles, Reach { gap_bytes, ahead_bytes }, raw);
            assert_eq!(together.values.len(), wanted.len(), "each handle has a value or an error");
            spent.places += together.places;
            for ((at, value), handle) in wanted.into_iter().zip(together.values).zip(handles) {
                let place = InBody { body: body.clone(), handle };
                self.entries[at].1 = match value {
                    Fetched::Value(value) => Slot::of(value, place),
                    Fetched::Raw(start) => Slot::Raw(place, start),
                };
            }
        }
        raw.trim();
    }

    fn wanted(&self, at: usize) -> &InBody {
        match &self.entries[at].1 {
            Slot::Wanted(value) => value,
            _ => unreachable!("the values of all files were read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visible::{Together, ValueBody};
    use braidb_storage::Clock;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    impl Ahead {
        /// The next entry of a scan, as [`super::super::scan::Scan::step`] takes it.
        fn step(&mut self, mut walk: impl FnMut() -> Result<Option<Found>>) -> Result<Option<Entry>> {
            match self.take_first() {
                Some(entry) => entry.map(Some),
                None => walk()?.map(|found| self.read(found, walk)).transpose(),
            }
        }
    }

    /// A clock that a read moves on.
    #[derive(Debug, Default)]
    struct Watch(AtomicU64);

    impl Clock for Watch {
        fn now_us(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// A file in which the value at each offset is the offset as text. Offset 13 is damaged.
    struct Numbers {
        id: FileId,
        /// The offsets of each call.
        calls: Mutex<Vec<Vec<u64>>>,
        reaches: Mutex<Vec<Reach>>,
        watch: Arc<Watch>,
        /// What each call takes.
        call_us: u64,
    }

    impl Numbers {
        fn called(&self, handles: &[Handle]) {
            self.calls.lock().unwrap().push(handles.iter().map(|handle| handle.offset).collect());
            self.watch.0.fetch_add(self.call_us, Ordering::Relaxed);
        }
    }

    fn value(handle: &Handle) -> Result<Value> {
        match handle.offset {
            13 => Err(Error::Closed),
            offset => Ok(Value::copied(offset.to_string().as_bytes())),
        }
    }

    impl ValueBody for Numbers {
        fn id(&self) -> FileId {
            self.id
        }

        fn is_read_ahead(&self) -> bool {
            true
        }

        fn read(&self, handle: &Handle) -> Result<Value> {
            self.called(&[*handle]);
            value(handle)
        }

        fn read_together(&self, handles: &[Handle], reach: Reach, _: &mut RawValues) -> Together {
            self.called(handles);
            self.reaches.lock().unwrap().push(reach);
            let values = handles.iter().map(|handle| Fetched::Value(value(handle))).collect();
            Together { values, places: 1 }
        }

        fn take(&self, handle: &Handle, _: &[u8]) -> Result<Value> {
            value(handle)
        }
    }

    /// Entries at these places: the number of a file, and the offset in it. Each value has 1 MiB, as far as handles tell.
    fn entries(files: &[Arc<Numbers>], places: &[(usize, u64)]) -> std::vec::IntoIter<Found> {
        let found = |(number, &(file, offset)): (usize, &(usize, u64))| {
            let handle = Handle { offset, bytes: 1 << 20, crc: 0 };
            let body: Arc<dyn ValueBody> = files[file].clone();
            (vec![number as u8], LazyValue::InBody(InBody { body, handle }))
        };
        places.iter().enumerate().map(found).collect::<Vec<_>>().into_iter()
    }

    /// Two files in which each call takes `call_us`, and their clock.
    fn slow_files(call_us: u64) -> ([Arc<Numbers>; 2], Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        let file = |id| {
            let (calls, reaches, watch) = (Mutex::default(), Mutex::default(), watch.clone());
            Arc::new(Numbers { id: FileId(id), calls, reaches, watch, call_us })
        };
        ([1, 2].map(file), watch)
    }

    fn files() -> [Arc<Numbers>; 2] {
        slow_files(0).0
    }

    fn of(clock: Arc<Watch>, usual_bytes: u64) -> ScanContext {
        let layout = ValueLayout::Ordered;
        ScanContext {
            weight: 0,
            is_heat_counted: false,
            snapshots: Arc::default(),
            gaps: None,
            clock,
            layout,
            usual_bytes,
        }
    }

    fn ahead() -> Ahead {
        Ahead::new(of(Arc::default(), 0), true)
    }

    #[test]
    fn slow_places_make_large_windows_and_reach_far() {
        let (files, watch) = slow_files(100_000);
        let mut places: Vec<(usize, u64)> = (20..40).map(|offset| (0, offset)).collect();
        places.push((1, 1));
        let (mut walk, mut ahead) = (entries(&files, &places), Ahead::new(of(watch, 0), true));
        for &(_, offset) in &places {
            let (_, value) = ahead.step(|| Ok(walk.next())).unwrap().unwrap();
            assert_eq!(value, offset.to_string().as_bytes());
        }
        // A disk transfers 15 MB in 100 ms. A window has at most 8 MiB, and a place counts for at most half of them.
        let calls: Vec<usize> = files[0].calls.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(calls, [1, 4, 6, 8, 1]);
        let reaches = files[0].reaches.lock().unwrap().clone();
        let half = MOST_BYTES / 2;
        assert_eq!(reaches[0], Reach { gap_bytes: half, ahead_bytes: half });
        assert_eq!(files[1].reaches.lock().unwrap()[0], Reach { gap_bytes: half, ahead_bytes: 1 << 20 });
    }

    #[test]
    fn a_backward_scan_reads_nothing_ahead_in_a_file() {
        let (files, watch) = slow_files(100_000);
        let places = [(0, 3), (0, 2), (0, 1)];
        let (mut walk, mut ahead) = (entries(&files, &places), Ahead::new(of(watch, 0), false));
        while ahead.step(|| Ok(walk.next())).unwrap().is_some() {}
        assert_eq!(files[0].reaches.lock().unwrap()[0].ahead_bytes, 0);
    }

    #[test]
    fn windows_double_and_read_each_file_by_ascending_offsets() {
        let files = files();
        let places = [(0, 9), (1, 5), (0, 3), (1, 8), (0, 7), (0, 1), (1, 2), (0, 4), (1, 6)];
        let (mut walk, mut ahead) = (entries(&files, &places), ahead());
        for &(_, offset) in &places {
            let (_, value) = ahead.step(|| Ok(walk.next())).unwrap().unwrap();
            assert_eq!(value, offset.to_string().as_bytes());
        }
        assert!(ahead.step(|| Ok(walk.next())).unwrap().is_none());
        let calls = |file: usize| files[file].calls.lock().unwrap().clone();
        // Windows of 1, 2 and 4 entries, and of the last 2.
        assert_eq!(calls(0), [vec![9], vec![3], vec![1, 7], vec![4]]);
        assert_eq!(calls(1), [vec![5], vec![2, 8], vec![6]]);
    }

    #[test]
    fn the_second_window_ends_where_scans_usually_end() {
        let files = files();
        let places: Vec<(usize, u64)> = (20..40).map(|offset| (0, offset)).collect();
        let entry_bytes = bytes_of(&[0], 1 << 20);
        let mut walk = entries(&files, &places);
        let mut ahead = Ahead::new(of(Arc::default(), 5 * entry_bytes), true);
        assert_eq!(ahead.length_bytes(), None);
        for _ in 0..6 {
            ahead.step(|| Ok(walk.next())).unwrap().unwrap();
        }
        let calls: Vec<usize> = files[0].calls.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(calls, [1, 4, 6]);
        // The values of this test are shorter than their handles tell.
        let waiting_bytes = 5 * bytes_of(&[0], 2);
        assert_eq!(ahead.length_bytes(), Some(11 * entry_bytes - waiting_bytes));
    }

    #[test]
    fn a_trie_is_read_table_by_table_and_a_log_value_by_value() {
        let calls = |levels: usize| {
            let files = files();
            let mut walk = entries(&files, &[(0, 9), (0, 1), (0, 5), (0, 2)]);
            let of = ScanContext { layout: ValueLayout::Trie { levels }, ..of(Arc::default(), 0) };
            let mut ahead = Ahead::new(of, true);
            while ahead.step(|| Ok(walk.next())).unwrap().is_some() {}
            let reaches = files[0].reaches.lock().unwrap().clone();
            assert!(reaches.iter().all(|reach| reach.gap_bytes == u64::MAX));
            files[0].calls.lock().unwrap().clone()
        };
        assert_eq!(calls(1), [vec![9], vec![1, 5], vec![2]]);
        assert_eq!(calls(0), [vec![9], vec![1], vec![5], vec![2]]);
    }

    #[test]
    fn an_error_waits_for_its_entry() {
        let files = files();
        let (mut walk, mut ahead) = (entries(&files, &[(0, 1), (0, 2), (0, 13), (0, 3)]), ahead());
        let mut step = || ahead.step(|| Ok(walk.next())).map(|entry| entry.map(|(_, value)| value.to_vec()));
        assert_eq!(step().unwrap().unwrap(), b"1");
        assert_eq!(step().unwrap().unwrap(), b"2");
        assert!(step().is_err());
    }

    #[test]
    fn an_error_of_the_walk_comes_behind_what_was_found() {
        let files = files();
        let (mut walk, mut ahead) = (entries(&files, &[(0, 1), (0, 2)]), ahead());
        let mut step = || ahead.step(|| walk.next().map_or(Err(Error::Closed), |found| Ok(Some(found))));
        assert!(step().unwrap().is_some() && step().unwrap().is_some());
        assert!(step().is_err());
    }

    #[test]
    fn a_scan_from_the_other_end_takes_the_farthest_entry_first() {
        let files = files();
        let (mut walk, mut ahead) = (entries(&files, &[(0, 1), (0, 2), (0, 3), (0, 4)]), ahead());
        let mut step = |ahead: &mut Ahead| ahead.step(|| Ok(walk.next())).unwrap().unwrap().1.to_vec();
        assert_eq!([step(&mut ahead), step(&mut ahead)], [b"1", b"2"]);
        assert_eq!(ahead.take_last().unwrap().unwrap().1, b"3");
        assert!(ahead.take_last().is_none());
        assert_eq!(step(&mut ahead), b"4");
    }

    #[test]
    fn tiny_entries_fill_a_window_too() {
        let files = files();
        let mut walked = 0_u64;
        let mut walk = || {
            walked += 1;
            let handle = Handle { offset: walked, bytes: if walked == 1 { 4 << 20 } else { 1 }, crc: 0 };
            let body: Arc<dyn ValueBody> = files[0].clone();
            Ok(Some((vec![7; 100], LazyValue::InBody(InBody { body, handle }))))
        };
        let mut ahead = ahead();
        ahead.step(&mut walk).unwrap();
        ahead.step(&mut walk).unwrap();
        assert!(walked <= 2 + MOST_BYTES / (100 + ENTRY_BYTES), "{walked} entries were read ahead");
    }
}
