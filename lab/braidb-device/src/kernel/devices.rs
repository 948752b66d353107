//! The devices of the machine: the timeline, the space and the journal of each, and the requests of the actors to them.

use std::io;
use std::path::Path;

use super::{COMMIT_NS, JOURNAL_PAGES, MOST_PAGES, State, Wait};
use crate::figures::DeviceFigures;
use crate::profile::{PAGE_BYTES, Profile};
use crate::space::Space;
use crate::timeline::{Request, Served, Timeline};

/// The index of the device that holds all files outside of other devices' directories.
pub const FIRST: usize = 0;
/// The file id of the requests of all journals.
const JOURNAL: u64 = u64::MAX;

/// A device.
#[derive(Debug)]
pub struct Device {
    pub(super) profile: Profile,
    pub(super) space: Space,
    pub(super) timeline: Timeline,
    /// Whether the device holds copies of pages only, and no files.
    is_flash: bool,
    /// The number of intervals at which the timeline forgets its past.
    forget_at: usize,
    journal_pages: u64,
    journal_next: u64,
    /// The time of the first change that the journal has not written.
    changed_ns: Option<u64>,
    /// For each actor, when the device ends the writes for which the actor does not wait.
    queued_ns: Vec<u64>,
    /// For each actor, the latest end of a request of this device for which the actor waited.
    waited_ns: Vec<u64>,
    pub(super) figures: DeviceFigures,
}

impl Device {
    /// An empty device of `bytes`, for `actors` actors.
    ///
    /// # Panics
    ///
    /// If the size is not between 256 KiB and 16 TiB.
    pub fn new(profile: Profile, bytes: u64, actors: usize) -> Device {
        let pages = bytes / PAGE_BYTES;
        assert!((64..MOST_PAGES).contains(&pages), "device_bytes must be 256 KiB to 16 TiB");
        let journal_pages = (pages / 64).clamp(1, JOURNAL_PAGES);
        Device {
            profile,
            space: Space::new(journal_pages, pages),
            timeline: Timeline::new(profile, pages),
            is_flash: false,
            forget_at: 64,
            journal_pages,
            journal_next: 0,
            changed_ns: None,
            queued_ns: vec![0; actors],
            waited_ns: vec![0; actors],
            figures: DeviceFigures::default(),
        }
    }

    /// A device for the flash cache.
    pub fn flash(profile: Profile, bytes: u64, actors: usize) -> Device {
        Device { is_flash: true, ..Device::new(profile, bytes, actors) }
    }

    fn count(&mut self, request: Request, served: Served) {
        let figures = &mut self.figures;
        let (requests, bytes) = match request.is_write {
            true => (&mut figures.writes, &mut figures.written_bytes),
            false => (&mut figures.reads, &mut figures.read_bytes),
        };
        *requests += 1;
        *bytes += request.pages * PAGE_BYTES;
        figures.seeks += served.seeks;
        figures.busy_ns += served.busy_ns;
    }
}

impl State {
    pub fn profile(&self, device: usize) -> Profile {
        self.devices[device].profile
    }

    /// The bytes that may still be written to the device of `path`.
    pub fn free_space(&self, path: &Path) -> io::Result<u64> {
        let device = self.names.device_at(path)?;
        Ok(self.devices[device].space.available_pages() * PAGE_BYTES)
    }

    pub fn device_figures(&self, device: usize) -> DeviceFigures {
        self.devices[device].figures
    }

    /// Makes a device serve a request for the current actor.
    pub(super) fn serve(&mut self, device: usize, request: Request, wait: Wait) -> Served {
        self.serve_from(device, request, wait, 0)
    }

    /// [`State::serve`] of a request that the device does not begin before `earliest_ns`.
    pub(super) fn serve_from(
        &mut self,
        device: usize,
        request: Request,
        wait: Wait,
        earliest_ns: u64,
    ) -> Served {
        let (now_ns, current) = (self.actors.now_ns(), self.actors.current());
        let is_alone = self.devices.len() == 1;
        let found = &mut self.devices[device];
        // A write for which the actor does not wait follows earlier ones. A read-ahead does not: its reader will wait
        // for it.
        let is_patient = wait == Wait::No && request.is_write;
        let at_ns = if is_patient { now_ns.max(found.queued_ns[current]) } else { now_ns }.max(earliest_ns);
        // Intervals in the foreground's past do not move.
        let movable_ns = at_ns.max(self.actors.foreground().now_ns);
        let served = found.timeline.serve(request, now_ns, at_ns, movable_ns);
        found.count(request, served);
        if served.shift_ns > 0 {
            let (from_ns, by_ns) = (served.moved_from_ns, served.shift_ns);
            let waited_ns = &found.waited_ns;
            self.actors.shift(from_ns, by_ns, |actor| is_alone || waited_ns[actor] > from_ns);
            let times_ns = found.queued_ns.iter_mut().chain(&mut found.waited_ns);
            times_ns.filter(|time_ns| **time_ns > from_ns).for_each(|time_ns| *time_ns += by_ns);
        }
        if is_patient {
            found.queued_ns[current] = served.end_ns;
        } else if wait == Wait::Yes {
            self.wait_for(device, served.end_ns);
        }
        let found = &mut self.devices[device];
        if found.timeline.len() >= found.forget_at {
            found.timeline.forget(self.actors.horizon_ns());
            found.forget_at = 64.max(2 * found.timeline.len());
        }
        served
    }

    /// The current actor waits until a device has ended requests at `end_ns`.
    pub(super) fn wait_for(&mut self, device: usize, end_ns: u64) {
        let waited_ns = &mut self.devices[device].waited_ns[self.actors.current()];
        *waited_ns = end_ns.max(*waited_ns);
        self.actors.wait_until(end_ns);
    }

    /// The number of pages of files that devices write at `at_ns` or have queued then. Also the first end of such a
    /// write, with its device.
    pub(super) fn writing_at(&self, at_ns: u64) -> (u64, Option<(u64, usize)>) {
        let writing = self.devices.iter().enumerate().filter(|(_, device)| !device.is_flash);
        let writing = writing.map(|(index, device)| (index, device.timeline.writing_at(at_ns)));
        let writing: Vec<_> = writing.filter(|(_, (pages, _))| *pages > 0).collect();
        let first = writing.iter().map(|(index, (_, end_ns))| (*end_ns, *index)).min();
        (writing.iter().map(|(_, (pages, _))| pages).sum(), first)
    }

    /// A device's journal writes the changes, and the device's own cache is flushed to the medium.
    pub(super) fn commit(&mut self, device: usize, wait: Wait) {
        let found = &mut self.devices[device];
        found.changed_ns = None;
        found.figures.journal_writes += 1;
        let page = found.journal_next;
        found.journal_next = (page + 1) % found.journal_pages;
        let request = Request { page, pages: 1, file: JOURNAL, is_write: true, is_barrier: true };
        self.serve(device, request, wait);
    }

    /// Writes the journals whose first unwritten change is [`COMMIT_NS`] old.
    pub(super) fn commit_old_changes(&mut self) {
        let now_ns = self.actors.now_ns();
        for device in 0..self.devices.len() {
            let changed_ns = self.devices[device].changed_ns;
            if changed_ns.is_some_and(|since_ns| now_ns >= since_ns + COMMIT_NS) {
                self.commit(device, Wait::No);
            }
        }
    }

    /// Notes a change of names or blocks on a device. The device's journal writes it with the next sync, or after
    /// [`COMMIT_NS`].
    pub(super) fn changed(&mut self, device: usize) {
        let now_ns = self.actors.now_ns();
        self.devices[device].changed_ns.get_or_insert(now_ns);
    }
}
