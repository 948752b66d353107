//! The busy times of the device: one arm, one queue, in virtual time.
//!
//! Requests do not arrive in the order of their times. A job runs on the caller's thread, and may have begun long
//! before the caller's now. So the device is a list of intervals. A request takes the first moment, from its own time
//! on, at which the device is not inside another request:
//!
//! - a gap that is long enough, or the end of the list;
//! - else, the place between two intervals of which the second has not begun for any waiting actor. The second interval
//!   and all later ones move back.
//!
//! The second rule makes the queue fair. Suppose that a job of 10 s of transfers runs at once, on the caller's thread,
//! and books 10 s of the device ahead. Without the rule, a read of the foreground 1 ms later would wait for 10 s. With
//! the rule, the read waits for one request of the job, as on a device that serves requests in the order of arrival.
//! Two actors that each keep one request in the queue alternate.
//!
//! An inserted request moves the arm. If the interval behind it continued the one before, this interval then pays for a
//! seek back.

use std::collections::VecDeque;

use crate::profile::Profile;

/// A request of an actor to the device.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The first page.
    pub page: u64,
    /// The number of pages; at least 1.
    pub pages: u64,
    /// The file of the request.
    pub file: u64,
    pub is_write: bool,
    /// Whether the arm seeks even if the last access ended at `page`: a barrier waits for the medium.
    pub is_barrier: bool,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The id of the interval, for [`Timeline::end_of`].
    pub id: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Number of seeks: 0, 1, or 2 with the seek back.
    pub seeks: u64,
    /// The time that the device is busy with the request, including the seek back.
    pub busy_ns: u64,
    /// The time by which intervals that began at `moved_from_ns` or later were moved back.
    pub shift_ns: u64,
    /// The begin, before the move, of the interval behind this request; `u64::MAX` if there is none.
    pub moved_from_ns: u64,
}

#[derive(Debug)]
struct Interval {
    id: u64,
    /// When the actor sent the request.
    asked_ns: u64,
    start_ns: u64,
    end_ns: u64,
    first_page: u64,
    end_page: u64,
    /// The part of the interval that is spent on positioning.
    positioning_ns: u64,
    file: u64,
    written_pages: u64,
}

/// The intervals, in order, without overlaps.
#[derive(Debug)]
pub struct Timeline {
    profile: Profile,
    device_pages: u64,
    intervals: VecDeque<Interval>,
    /// The page of the arm and the time at the end of the last forgotten interval.
    forgotten: (u64, u64),
    next_id: u64,
}

impl Timeline {
    pub fn new(profile: Profile, device_pages: u64) -> Timeline {
        Timeline { profile, device_pages, intervals: VecDeque::new(), forgotten: (0, 0), next_id: 1 }
    }

    /// Serves a request that an actor sends at `asked_ns`, at `at_ns` or later. May move back intervals that begin at
    /// `movable_ns` or later.
    pub fn serve(&mut self, request: Request, asked_ns: u64, at_ns: u64, movable_ns: u64) -> Served {
        let transfer_ns = self.profile.transfer_ns(request.pages);
        let mut index = self.intervals.partition_point(|interval| interval.end_ns <= at_ns);
        loop {
            let (arm, free_ns) = match index.checked_sub(1) {
                Some(before) => (self.intervals[before].end_page, self.intervals[before].end_ns),
                None => self.forgotten,
            };
            let start_ns = at_ns.max(free_ns);
            let positioning_ns = match arm == request.page && !request.is_barrier {
                true => 0,
                false => self.profile.positioning_ns(arm, request.page, self.device_pages),
            };
            let end_ns = start_ns + positioning_ns + transfer_ns;
            let way_back_ns = self.intervals.get(index).map_or(0, |next| self.way_back_ns(request, next));
            let next_ns = self.intervals.get(index).map_or(u64::MAX, |next| next.start_ns);
            let is_movable = next_ns >= movable_ns.max(start_ns);
            if end_ns + way_back_ns > next_ns && !is_movable {
                index += 1;
                continue;
            }
            let shift_ns = (end_ns + way_back_ns).saturating_sub(next_ns);
            let mut seeks = u64::from(positioning_ns > 0);
            for later in self.intervals.range_mut(index..) {
                later.start_ns += shift_ns;
                later.end_ns += shift_ns;
                // A request is sent later if its actor was moved back. If it was sent before `next_ns`, it only waits
                // longer.
                if later.asked_ns > next_ns {
                    later.asked_ns += shift_ns;
                }
            }
            if let Some(next) = self.intervals.get_mut(index) {
                seeks += u64::from(way_back_ns > 0 && next.positioning_ns == 0);
                next.start_ns -= way_back_ns;
                next.positioning_ns += way_back_ns;
            }
            let id = self.next_id;
            self.next_id += 1;
            self.intervals.insert(
                index,
                Interval {
                    id,
                    asked_ns,
                    start_ns,
                    end_ns,
                    first_page: request.page,
                    end_page: request.page + request.pages,
                    positioning_ns,
                    file: request.file,
                    written_pages: if request.is_write { request.pages } else { 0 },
                },
            );
            let busy_ns = end_ns - start_ns + way_back_ns;
            return Served { id, start_ns, end_ns, seeks, busy_ns, shift_ns, moved_from_ns: next_ns };
        }
    }

    /// The additional positioning time of `next` if `request` is served before it.
    fn way_back_ns(&self, request: Request, next: &Interval) -> u64 {
        let end_page = request.page + request.pages;
        if end_page == next.first_page {
            return 0;
        }
        let needed_ns = self.profile.positioning_ns(end_page, next.first_page, self.device_pages);
        needed_ns.saturating_sub(next.positioning_ns)
    }

    /// The end of interval `id`; 0 if the interval was forgotten or was requested after `at_ns`.
    pub fn end_of(&self, id: u64, at_ns: u64) -> u64 {
        let found = self.intervals.iter().rev().find(|interval| interval.id == id);
        found.filter(|interval| interval.asked_ns <= at_ns).map_or(0, |interval| interval.end_ns)
    }

    /// The end of the last write of `file` that was requested by `at_ns`; 0 if the list has none.
    pub fn end_of_writes(&self, file: u64, at_ns: u64) -> u64 {
        let is_its_write = |interval: &&Interval| {
            interval.file == file && interval.written_pages > 0 && interval.asked_ns <= at_ns
        };
        self.intervals.iter().rev().find(is_its_write).map_or(0, |interval| interval.end_ns)
    }

    /// The number of pages that are being written at `at_ns` or wait to be, and the end of the first of these writes.
    /// Writes that a job which ran ahead requests after `at_ns` do not count.
    pub fn writing_at(&self, at_ns: u64) -> (u64, u64) {
        let first = self.intervals.partition_point(|interval| interval.end_ns <= at_ns);
        let is_write = |interval: &&Interval| interval.written_pages > 0 && interval.asked_ns <= at_ns;
        let mut writes = self.intervals.range(first..).filter(is_write).peekable();
        let first_end_ns = writes.peek().map_or(at_ns, |interval| interval.end_ns);
        (writes.map(|interval| interval.written_pages).sum(), first_end_ns)
    }

    /// Forgets intervals that ended by `horizon_ns`. From then on, no request may be made for an earlier time.
    pub fn forget(&mut self, horizon_ns: u64) {
        while let Some(first) = self.intervals.front().filter(|first| first.end_ns <= horizon_ns) {
            self.forgotten = (first.end_page, first.end_ns);
            self.intervals.pop_front();
        }
    }

    /// The end of the last interval.
    pub fn end_ns(&self) -> u64 {
        self.intervals.back().map_or(self.forgotten.1, |last| last.end_ns)
    }

    /// The number of remembered intervals.
    pub fn len(&self) -> usize {
        self.intervals.len()
    }
}

#[cfg(test)]
mod tests {
    use braidb_storage::inline::SeededRandom;

    use super::*;

    const SEEK_NS: u64 = 16_666_666;

    fn timeline() -> Timeline {
        Timeline::new(Profile::HDD, 1 << 20)
    }

    fn read(page: u64, pages: u64) -> Request {
        Request { page, pages, file: 1, is_write: false, is_barrier: false }
    }

    /// Serves a request that is sent at `at_ns`.
    fn serve(timeline: &mut Timeline, request: Request, at_ns: u64, movable_ns: u64) -> Served {
        timeline.serve(request, at_ns, at_ns, movable_ns)
    }

    fn ms(count: u64) -> u64 {
        count * 1_000_000
    }

    #[test]
    fn a_continuation_does_not_seek() {
        let mut timeline = timeline();
        let one = serve(&mut timeline, read(100, 10), 0, u64::MAX);
        let two = serve(&mut timeline, read(110, 10), 0, u64::MAX);
        assert_eq!((one.seeks, one.end_ns), (1, SEEK_NS + 273_067));
        assert_eq!((two.seeks, two.start_ns, two.end_ns), (0, one.end_ns, one.end_ns + 273_067));
        let barrier = serve(&mut timeline, Request { is_barrier: true, ..read(120, 1) }, 0, u64::MAX);
        assert_eq!((barrier.seeks, barrier.busy_ns), (1, SEEK_NS + 27_307));
    }

    #[test]
    fn what_began_earlier_takes_the_first_gap_that_is_long_enough() {
        let mut timeline = timeline();
        for at_ms in [0, 30, 90] {
            serve(&mut timeline, read(1000 * at_ms + 7, 1), ms(at_ms), u64::MAX);
        }
        // A seek does not fit between 16.7 ms and 30 ms.
        let found = serve(&mut timeline, read(500, 1), ms(5), u64::MAX);
        assert_eq!((found.start_ns, found.shift_ns), (ms(30) + SEEK_NS + 27_307, 0));
        let next = serve(&mut timeline, read(501, 1), ms(5), u64::MAX);
        assert_eq!((next.start_ns, next.seeks), (found.end_ns, 0));
    }

    #[test]
    fn a_read_waits_for_one_request_of_a_job_and_moves_the_rest_back() {
        let mut timeline = timeline();
        let job: Vec<Served> =
            (0..4).map(|part| serve(&mut timeline, read(part * 256, 256), 0, u64::MAX)).collect();
        let read = serve(&mut timeline, read(9000, 1), ms(1), ms(1));
        assert_eq!(read.start_ns, job[0].end_ns);
        assert_eq!(read.seeks, 2, "a seek there and a seek back");
        assert_eq!(read.shift_ns, 2 * SEEK_NS + 27_307);
        assert_eq!(timeline.end_of(job[0].id, ms(900)), job[0].end_ns);
        assert_eq!(timeline.end_of(job[3].id, ms(900)), job[3].end_ns + read.shift_ns);
    }

    #[test]
    fn what_has_begun_for_a_waiting_actor_does_not_move() {
        let mut timeline = timeline();
        let job: Vec<Served> =
            (0..4).map(|part| serve(&mut timeline, read(part * 256, 256), 0, u64::MAX)).collect();
        let found = serve(&mut timeline, read(9000, 1), ms(1), job[2].start_ns);
        assert_eq!(found.start_ns, job[1].end_ns);
    }

    #[test]
    fn writes_are_found_until_they_are_forgotten() {
        let mut timeline = timeline();
        let write = |page, file| Request { page, pages: 10, file, is_write: true, is_barrier: false };
        let one = serve(&mut timeline, write(0, 7), 0, u64::MAX);
        let two = serve(&mut timeline, write(100, 8), 0, u64::MAX);
        serve(&mut timeline, write(900, 9), ms(900), u64::MAX);
        assert_eq!(timeline.writing_at(0), (20, one.end_ns));
        assert_eq!(timeline.writing_at(one.end_ns), (10, two.end_ns));
        assert_eq!((timeline.end_of_writes(7, 0), timeline.end_of_writes(8, 0)), (one.end_ns, two.end_ns));
        assert_eq!((timeline.end_of_writes(9, ms(899)), timeline.end_of_writes(9, ms(900)) > 0), (0, true));
        timeline.forget(one.end_ns);
        assert_eq!(
            (timeline.len(), timeline.end_of_writes(7, 0), timeline.end_of(one.id, ms(900))),
            (2, 0, 0)
        );
        assert_eq!(timeline.writing_at(ms(900)).0, 10);
    }

    #[test]
    fn intervals_never_overlap_and_no_time_is_lost() {
        let (random, mut timeline) = (SeededRandom::new(5), timeline());
        let mut busy_ns = 0;
        for _ in 0..3_000 {
            let request = read(random.below(50) * 16, 1 + random.below(16));
            let at_ns = random.below(ms(20_000));
            let movable_ns = if random.below(2) == 0 { at_ns } else { u64::MAX };
            let served = serve(&mut timeline, request, at_ns, movable_ns);
            assert!(served.start_ns >= at_ns);
            busy_ns += served.busy_ns;
            assert!(busy_ns > 0);
        }
        let mut end_ns = 0;
        for interval in &timeline.intervals {
            assert!(
                interval.start_ns >= end_ns,
                "an interval begins at {}, before {end_ns}",
                interval.start_ns
            );
            end_ns = interval.end_ns;
        }
        let held_ns: u64 =
            timeline.intervals.iter().map(|interval| interval.end_ns - interval.start_ns).sum();
        assert_eq!(held_ns, busy_ns);
    }
}
