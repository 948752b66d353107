//! Background work on real threads.
//!
//! One thread serves only [`Lane::Flush`], so jobs that free memory never wait behind a merge. One thread serves
//! [`Lane::Memory`], whose jobs never wait for a file. The other threads serve [`Lane::Merge`] at a lower priority, so
//! merges use the processor time that user threads leave. Each lane is a queue that starts its jobs in the order of
//! submission.
//!
//! The threads take no signals of the program (`signals.rs`).
//!
//! A panic ends only its job, and the thread takes the next job. The submitter of the job has to notice the panic.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::locks::{Condvar, Mutex};
use rustix::process::setpriority_process;

use super::{forks, memory, signals};
use crate::{Job, Lane, Process, Runtime};

/// Niceness of the merge threads: 5 instead of the normal 0, so user threads get the processor first.
const MERGE_NICENESS: i32 = 5;

/// A [`Runtime`] on threads of the operating system.
///
/// A drop discards the waiting jobs, waits for the running jobs, and joins the threads. If a job drops the runtime, the
/// job's own thread is not joined. So a running job must not wait for a queued job without noticing its drop.
///
/// A forked child has none of the threads. There a drop does nothing, and leaks.
///
/// ```
/// use braidb_storage::{Lane, Runtime, real::Threads};
/// let threads = Threads::new(1)?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// threads.submit(Lane::Merge, Box::new(move || sender.send(7).unwrap()));
/// assert_eq!(receiver.recv().unwrap(), 7);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Threads {
    flush: Arc<Queue>,
    merge: Arc<Queue>,
    memory: Arc<Queue>,
    workers: Vec<JoinHandle<()>>,
    process: Process,
}

impl Threads {
    /// Starts one thread for flushes, one for memory compaction, and `merge_threads`, at least one, for all other jobs.
    pub fn new(merge_threads: usize) -> io::Result<Threads> {
        assert!(merge_threads >= 1, "merge_threads must be at least 1");
        let mut threads = Threads {
            flush: Arc::new(Queue::default()),
            merge: Arc::new(Queue::default()),
            memory: Arc::new(Queue::default()),
            workers: Vec::with_capacity(merge_threads + 2),
            process: forks::process()?,
        };
        // On an error the drop of `threads` ends the threads that were started.
        let flush = Arc::clone(&threads.flush);
        threads.start("braidb-flush".to_owned(), move || flush.work())?;
        let memory = Arc::clone(&threads.memory);
        threads.start("braidb-memory".to_owned(), move || memory.work())?;
        for i in 0..merge_threads {
            let merge = Arc::clone(&threads.merge);
            threads.start(format!("braidb-merge-{i}"), move || {
                // `None` is the calling thread on Linux. If the kernel refuses, merges keep the normal priority.
                let _ = setpriority_process(None, MERGE_NICENESS);
                merge.work();
            })?;
        }
        Ok(threads)
    }

    fn start(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let worker = signals::blocked(|| thread::Builder::new().name(name).spawn(work))??;
        self.workers.push(worker);
        Ok(())
    }
}

impl Runtime for Threads {
    fn submit(&self, lane: Lane, job: Job) {
        match lane {
            Lane::Flush => self.flush.push(job),
            Lane::Merge => self.merge.push(job),
            Lane::Memory => self.memory.push(job),
        }
    }

    fn help(&self) -> bool {
        false
    }

    fn is_stepped(&self) -> bool {
        false
    }

    fn pause_us(&self, us: u64) {
        thread::sleep(Duration::from_micros(us));
    }

    fn is_forked(&self) -> bool {
        self.process.is_forked()
    }

    fn memory_bytes(&self) -> Option<u64> {
        memory::usable()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // Threads that are missing may have held the locks. The waiting jobs hold what belongs to the parent.
            let queues = [&self.flush, &self.merge, &self.memory].map(Arc::clone);
            mem::forget((queues, mem::take(&mut self.workers)));
            return;
        }
        self.flush.close();
        self.merge.close();
        self.memory.close();
        let me = thread::current().id();
        for worker in self.workers.drain(..) {
            if worker.thread().id() != me {
                // An error would be a panic outside of a job, which has no receiver.
                let _ = worker.join();
            }
        }
    }
}

/// The waiting jobs of one lane.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Queue").field("waiting", &state.jobs.len()).field("closed", &state.closed).finish()
    }
}

impl Queue {
    fn push(&self, job: Job) {
        self.state.lock().jobs.push_back(job);
        self.changed.notify_one();
    }

    /// Drops the waiting jobs, and ends each worker after its running job.
    fn close(&self) {
        let dropped = {
            let mut state = self.state.lock();
            state.closed = true;
            mem::take(&mut state.jobs)
        };
        self.changed.notify_all();
        // Outside the lock: the drop of a job may run any code.
        drop(dropped);
    }

    /// Runs job after job until the queue is closed.
    fn work(&self) {
        while let Some(job) = self.next() {
            // `AssertUnwindSafe` holds: jobs guard the data that they share. The engine marks a failed job from a drop
            // guard.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            match state.jobs.pop_front() {
                Some(job) => return Some(job),
                None => self.changed.wait(&mut state),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_of_a_lane_start_in_order() {
        let threads = Threads::new(1).unwrap();
        let (sender, receiver) = mpsc::channel();
        for i in 0..100 {
            let sender = sender.clone();
            threads.submit(Lane::Merge, Box::new(move || sender.send(i).unwrap()));
        }
        let order: Vec<i32> = receiver.iter().take(100).collect();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_flush_does_not_wait_behind_merges() {
        let threads = Threads::new(2).unwrap();
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        for _ in 0..4 {
            let blocked = Arc::clone(&blocked);
            threads.submit(Lane::Merge, Box::new(move || blocked.lock().recv().unwrap_or_default()));
        }
        let (sender, receiver) = mpsc::channel();
        threads.submit(Lane::Flush, Box::new(move || sender.send(()).unwrap()));
        receiver.recv().unwrap();
        drop(release);
    }

    #[test]
    fn a_panic_does_not_end_the_worker() {
        let threads = Threads::new(1).unwrap();
        for lane in [Lane::Flush, Lane::Merge, Lane::Memory] {
            // `resume_unwind` panics without the message on standard error.
            threads.submit(lane, Box::new(|| std::panic::resume_unwind(Box::new("planned"))));
            let (sender, receiver) = mpsc::channel();
            threads.submit(
                lane,
                Box::new(move || sender.send(thread::current().name().map(str::to_owned)).unwrap()),
            );
            let name = receiver.recv().unwrap().unwrap();
            assert!(name.starts_with("braidb-"), "{name}");
        }
    }

    #[test]
    fn dropping_drops_what_waits_and_joins_what_runs() {
        let threads = Threads::new(1).unwrap();
        let (started, has_started) = mpsc::channel();
        let (release, blocked) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel();
        threads.submit(
            Lane::Merge,
            Box::new(move || {
                started.send(()).unwrap();
                let _ = blocked.recv();
                done.send("running").unwrap();
            }),
        );
        let (waiting, never_sent) = mpsc::channel();
        // The waiting job must not send. Its drop releases the running job, which also proves the order.
        threads.submit(
            Lane::Merge,
            Box::new(move || {
                let _release = release;
                waiting.send(()).unwrap();
            }),
        );
        has_started.recv().unwrap();
        drop(threads);
        assert_eq!(is_done.try_recv(), Ok("running"));
        assert!(never_sent.recv().is_err(), "the waiting job was dropped, not run");
    }

    #[test]
    fn the_last_owner_may_be_a_job() {
        let threads = Arc::new(Threads::new(2).unwrap());
        let (release, go) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel();
        let last = Arc::clone(&threads);
        threads.submit(
            Lane::Merge,
            Box::new(move || {
                go.recv().unwrap();
                drop(last);
                done.send(()).unwrap();
            }),
        );
        drop(threads);
        release.send(()).unwrap();
        is_done.recv().unwrap();
    }
}
