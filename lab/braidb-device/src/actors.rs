//! The foreground and the workers, each with a clock of its own in virtual time, and the jobs that wait.
//!
//! There are as many workers as in `braidb_storage::real::Threads`: one for flushes, one for memory compaction, and N
//! for merges. So, as on threads, no lane keeps another one waiting.
//!
//! A job runs on the caller's thread, but in the time of a worker. It begins when the worker is free and the job was
//! submitted, which may be long before the caller's now. The running actors form a stack, because a job may ask for
//! progress itself.

use std::collections::VecDeque;
use std::ops::Range;

use braidb_storage::{Job, Lane};

use crate::costs::JOB_NS;

/// The index of the actor that runs outside of jobs: the thread of the benchmark.
pub const FOREGROUND: usize = 0;

/// The most jobs in a row of one lane while another lane waits. A job that fails at once, and is submitted again at once, must not starve
/// other lanes.
const TURNS: u32 = 8;

/// An actor and its clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Actor {
    pub now_ns: u64,
    pub cpu_ns: u64,
    /// How many times the actor is on the stack.
    depth: u32,
}

struct Waiting {
    job: Job,
    submitted_ns: u64,
}

/// A lane: its jobs and its workers.
struct Queue {
    waiting: VecDeque<Waiting>,
    workers: Range<usize>,
    /// The usual time of the lane's jobs: the mean of the last job's time and the usual time before.
    usual_ns: u64,
}

/// A running job.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    lane: usize,
    worker: usize,
    start_ns: u64,
    caller: usize,
}

/// All actors and all jobs.
pub struct Actors {
    actors: Vec<Actor>,
    stack: Vec<usize>,
    lanes: [Queue; 3],
    /// The lane that ran the last job, and how many jobs in a row it has run.
    streak: (usize, u32),
    jobs_run: u64,
}

impl std::fmt::Debug for Actors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.lanes.each_ref().map(|lane| lane.waiting.len());
        f.debug_struct("Actors")
            .field("actors", &self.actors)
            .field("stack", &self.stack)
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}

impl Actors {
    /// The foreground, and workers for `merges` merges at once.
    pub fn new(merges: usize) -> Actors {
        assert!(merges >= 1, "workers must be at least 1");
        let lane = |workers| Queue { waiting: VecDeque::new(), workers, usual_ns: 0 };
        let memory = 2 + merges..3 + merges;
        Actors {
            actors: vec![Actor::default(); 3 + merges],
            stack: vec![FOREGROUND],
            lanes: [lane(1..2), lane(2..2 + merges), lane(memory)],
            streak: (0, 0),
            jobs_run: 0,
        }
    }

    /// The current actor: the last one on the stack.
    pub fn current(&self) -> usize {
        *self.stack.last().expect("the foreground stays on the stack")
    }

    /// The clock of the current actor.
    pub fn now_ns(&self) -> u64 {
        self.actors[self.current()].now_ns
    }

    pub fn foreground(&self) -> &Actor {
        &self.actors[FOREGROUND]
    }

    pub fn jobs_run(&self) -> u64 {
        self.jobs_run
    }

    pub fn background_cpu_ns(&self) -> u64 {
        self.actors[1..].iter().map(|actor| actor.cpu_ns).sum()
    }

    /// The latest of all clocks.
    pub fn latest_ns(&self) -> u64 {
        self.actors.iter().map(|actor| actor.now_ns).max().unwrap_or(0)
    }

    /// The current actor computes for `ns`, on a core of its own.
    pub fn charge(&mut self, ns: u64) {
        let current = self.current();
        self.actors[current].now_ns += ns;
        self.actors[current].cpu_ns += ns;
    }

    /// The current actor sleeps for `ns`.
    pub fn sleep(&mut self, ns: u64) {
        let current = self.current();
        self.actors[current].now_ns += ns;
    }

    /// The current actor waits until `ns`.
    pub fn wait_until(&mut self, ns: u64) {
        let current = self.current();
        let now_ns = &mut self.actors[current].now_ns;
        *now_ns = (*now_ns).max(ns);
    }

    /// The current actor's request delayed a device's requests after `from_ns` by `by_ns`. Delays the other actors that are beyond
    /// `from_ns` and depend on the device, as `depends` says.
    pub fn shift(&mut self, from_ns: u64, by_ns: u64, depends: impl Fn(usize) -> bool) {
        let current = self.current();
        for (index, actor) in self.actors.iter_mut().enumerate() {
            if actor.now_ns > from_ns && index != current && depends(index) {
                actor.now_ns += by_ns;
            }
        }
    }

    /// The number of actors, the foreground included.
    pub fn count(&self) -> usize {
        self.actors.len()
    }

    /// The earliest time at which any actor can still send the device a request.
    pub fn horizon_ns(&self) -> u64 {
        let running = self.stack.iter().map(|actor| self.actors[*actor].now_ns);
        let waiting = self.lanes.iter().flat_map(|lane| {
            let free_ns = lane.workers.clone().map(|worker| self.actors[worker].now_ns).min().unwrap_or(0);
            lane.waiting.iter().map(move |waiting| waiting.submitted_ns.max(free_ns))
        });
        running.chain(waiting).min().unwrap_or(0)
    }

    pub fn submit(&mut self, lane: Lane, job: Job) {
        let submitted_ns = self.now_ns();
        self.lanes[lane as usize].waiting.push_back(Waiting { job, submitted_ns });
    }

    /// Takes the job with the earliest expected end; a job is expected to take the usual time of its lane. With
    /// `limit_ns`, takes a job only if its expected end is not later. The caller runs the job, and then calls
    /// [`Actors::end`].
    ///
    /// Without a limit the caller waits for the end, and flushes always go first. Otherwise a merge that looked short
    /// could hold up a writer that waits for memory. A writer that waits for a merge loses at most the time of a flush.
    pub fn begin(&mut self, limit_ns: Option<u64>) -> Option<(Job, Turn)> {
        let (tired, turns) = self.streak;
        let candidates = (0..self.lanes.len()).filter_map(|lane| self.next_of(lane));
        let candidates =
            candidates.filter(|(end_ns, ..)| limit_ns.is_none_or(|limit_ns| *end_ns <= limit_ns));
        let (_, lane, worker, start_ns) = candidates.min_by_key(|(end_ns, lane, ..)| {
            let is_tired = turns >= TURNS && *lane == tired;
            let is_first = limit_ns.is_none() && *lane == Lane::Flush as usize;
            (is_tired, !is_first, *end_ns, *lane)
        })?;
        self.streak = if lane == tired { (lane, turns + 1) } else { (lane, 1) };
        let waiting = self.lanes[lane].waiting.pop_front().expect("a candidate is a waiting job");
        let turn = Turn { lane, worker, start_ns, caller: self.current() };
        self.actors[worker].now_ns = start_ns;
        self.actors[worker].depth += 1;
        self.stack.push(worker);
        self.jobs_run += 1;
        self.charge(JOB_NS);
        Some((waiting.job, turn))
    }

    /// The expected end of the next job of a lane, with the lane, the worker and the start.
    fn next_of(&self, lane: usize) -> Option<(u64, usize, usize, u64)> {
        let queue = &self.lanes[lane];
        let waiting = queue.waiting.front()?;
        // If all workers are on the stack, the job runs on a worker that waits inside another job.
        let worker = queue.workers.clone().min_by_key(|worker| {
            let actor = &self.actors[*worker];
            (actor.depth > 0, actor.now_ns, *worker)
        })?;
        let start_ns = self.actors[worker].now_ns.max(waiting.submitted_ns);
        Some((start_ns + queue.usual_ns, lane, worker, start_ns))
    }

    /// Ends a job. If the caller `waits`, its clock is then not before the job's end.
    pub fn end(&mut self, turn: Turn, waits: bool) {
        let worker = self.stack.pop();
        assert_eq!(worker, Some(turn.worker), "jobs end in the reverse order of their begin");
        let actor = &mut self.actors[turn.worker];
        actor.depth -= 1;
        let end_ns = actor.now_ns;
        let (took_ns, usual_ns) = (end_ns - turn.start_ns, &mut self.lanes[turn.lane].usual_ns);
        *usual_ns = if *usual_ns == 0 { took_ns } else { (*usual_ns + took_ns) / 2 };
        assert_eq!(self.current(), turn.caller, "the caller of a job runs again after it");
        if waits {
            self.wait_until(end_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Job {
        Box::new(|| {})
    }

    fn run(actors: &mut Actors, limit_ns: Option<u64>, takes_ns: u64, waits: bool) -> Option<(usize, u64)> {
        let (_, turn) = actors.begin(limit_ns)?;
        actors.charge(takes_ns - JOB_NS);
        actors.end(turn, waits);
        Some((turn.lane, turn.start_ns))
    }

    #[test]
    fn a_job_begins_when_it_was_submitted_and_its_worker_is_free() {
        let mut actors = Actors::new(2);
        actors.charge(1_000);
        (0..3).for_each(|_| actors.submit(Lane::Merge, nothing()));
        actors.charge(9_000);
        let starts = [1; 3].map(|_| run(&mut actors, None, 50_000, false).unwrap().1);
        assert_eq!(starts, [1_000, 1_000, 51_000]);
        assert_eq!(actors.now_ns(), 10_000, "the caller did not wait");
        actors.submit(Lane::Merge, nothing());
        assert_eq!(run(&mut actors, None, 60_000, true), Some((1, 51_000)));
        assert_eq!(actors.now_ns(), 111_000);
        assert_eq!(actors.background_cpu_ns(), 210_000);
    }

    #[test]
    fn the_job_that_should_be_over_first_runs_first() {
        let mut actors = Actors::new(1);
        actors.submit(Lane::Merge, nothing());
        run(&mut actors, None, 1_000_000, false);
        actors.submit(Lane::Flush, nothing());
        run(&mut actors, None, 400_000, false);
        actors.submit(Lane::Merge, nothing());
        actors.submit(Lane::Flush, nothing());
        assert_eq!(run(&mut actors, Some(799_999), 400_000, false), None);
        assert_eq!(run(&mut actors, Some(800_000), 400_000, false), Some((0, 400_000)));
        assert_eq!(run(&mut actors, None, 1_000_000, true), Some((1, 1_000_000)));
    }

    #[test]
    fn a_caller_that_waits_has_flushes_run_first() {
        let mut actors = Actors::new(1);
        actors.submit(Lane::Flush, nothing());
        run(&mut actors, None, 600_000, true);
        let now_ns = actors.now_ns();
        for lane in [Lane::Merge, Lane::Flush, Lane::Merge] {
            actors.submit(lane, nothing());
        }
        assert_eq!(run(&mut actors, Some(now_ns), 10_000, false), Some((1, now_ns)));
        assert_eq!(run(&mut actors, None, 300_000, false), Some((0, now_ns)));
        assert_eq!(run(&mut actors, None, 20_000, false), Some((1, now_ns + 10_000)));
        actors.submit(Lane::Flush, nothing());
        assert_eq!(run(&mut actors, Some(now_ns + 749_999), 1, false), None, "300 us, and 450 us");
        assert_eq!(run(&mut actors, Some(now_ns + 750_000), 1_000_000, false), Some((0, now_ns + 300_000)));
    }

    #[test]
    fn no_lane_starves_another() {
        let mut actors = Actors::new(1);
        actors.submit(Lane::Merge, nothing());
        run(&mut actors, None, 1_000_000, false);
        actors.submit(Lane::Merge, nothing());
        let turns = (0..).take_while(|_| {
            actors.submit(Lane::Flush, nothing());
            run(&mut actors, None, JOB_NS, false).unwrap().0 == Lane::Flush as usize
        });
        assert_eq!(turns.count(), TURNS as usize);
    }

    #[test]
    fn nothing_can_be_asked_for_before_the_horizon() {
        let mut actors = Actors::new(1);
        actors.charge(5_000);
        assert_eq!(actors.horizon_ns(), 5_000);
        actors.submit(Lane::Flush, nothing());
        actors.charge(5_000);
        assert_eq!(actors.horizon_ns(), 5_000);
        let (_, turn) = actors.begin(None).unwrap();
        actors.charge(10_000);
        assert_eq!(actors.horizon_ns(), 10_000);
        actors.end(turn, true);
        assert_eq!(actors.horizon_ns(), 20_000);
    }
}
