//! `bench steady DIR`: a mixed load at a fixed rate for minutes, as a service puts it on its database.
//!
//! Other workloads measure how fast the engine is. This one asks for less than the engine can do, and measures what the load costs: bytes
//! written, the longest calls, and memory. It needs batches, column families and snapshots, which the trait of other stores lacks.

mod client;
mod lane;
mod load;
mod report;
#[cfg(test)]
mod tests;

use super::start_empty;
use crate::failure::Outcome;
use crate::host::process;
use crate::progress::{Progress, Unit};
use crate::store::{BENCH_DB, open_with};
use crate::text;
use crate::verbs::print_text;
use braidb::Options;
use braidb::stats::Stats;
use braidb_bench::{Timer, WallTimer};
use client::{Client, End, Pace};
use lane::Lane;
use load::{Load, Sizes, THREADS};
use report::{Causes, Memory, Minute, Report};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Put a mixed load on a filled database at a fixed rate, and measure what it costs, minute by minute
///
/// The database is BraidDB's with its default options: the load needs column families, batches and snapshots. It is filled with KEYS keys
/// of 16 bytes with values of 100 bytes. Then four threads do RATE operations a second together. A late operation moves no other one, so
/// the load stays as it is when calls take long. 70 of 100 accesses go to 5 of 100 keys, which are spread over all keys.
///
/// Of 100 operations 38 put a key (one in 95 with a value of 4 KiB), 5 delete one, 37 get one, 3 seek one and read 20 entries, and 1 puts
/// 20 keys in a batch. 6 push to or pop from the thread's queue of 10,000 rows, in a column family of its own. A pop is the first row of a
/// range that begins behind the last popped row, and a delete. 10 put a point to the thread's series, in another family. When a series has
/// 202,000 points, the oldest 2,000 are found by a range and deleted in one batch: a sweep. A snapshot is held for two of three minutes.
///
/// Each read is checked against what its thread wrote. A wrong answer ends the load with exit status 3.
///
/// Latencies are those of calls, from their beginning. `latest` is the most by which an operation began late. A row tells the resident
/// memory of the process, and what the engine says that it holds. The lines `steady-NAME VALUE` at the end are for scripts. Bytes written
/// count from minute 3 on, if the load takes longer than two minutes; memory growth compares the last minute with minute 4.
#[derive(clap::Args, Debug)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// A directory for the benchmark: new, empty, or from an earlier benchmark
    dir: PathBuf,
    /// Keys that the database is filled with
    #[arg(long, visible_alias = "num", default_value_t = 10_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(THREADS..=1 << 32))]
    keys: u64,
    /// Seconds that the load takes, without the fill
    #[arg(long, default_value_t = 480, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Operations a second of all threads
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(THREADS..=100_000_000))]
    rate: u64,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The time between two looks at the memory of the process.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(100);

pub fn run(args: &Args) -> Outcome {
    let (dir, options) = (&args.dir, Options::new());
    start_empty(dir, &options)?;
    let db = open_with(&dir.join(BENCH_DB), options)?;
    let load = Load::new(db, Sizes::usual(args.keys, args.rate), args.seed)?;
    {
        let progress = Progress::new(Unit::Number("keys"), args.keys);
        load.fill(|keys| progress.show(keys, args.keys, "filled"))?;
    }
    let print = |text: &str| print_text(&format!("{text}\n"));
    print(&report::head())?;
    let timer = WallTimer::start();
    let pace = pace(&timer, args.rate, End::Seconds(args.seconds));
    let lanes = lanes();
    let mut clients = clients(&load, &pace, &lanes);
    let report = measure(&load, &pace, &lanes, &mut clients, print)?;
    drop(clients);
    print(&report.tables())?;
    print(report.lines().trim_end())?;
    Ok(load.db.close()?)
}

/// The schedule of a load that starts now.
fn pace(timer: &dyn Timer, rate: u64, end: End) -> Pace<'_> {
    Pace { timer, start_ns: timer.now_ns(), rate, end, is_over: AtomicBool::new(false) }
}

fn lanes() -> [Mutex<Lane>; THREADS as usize] {
    std::array::from_fn(|_| Mutex::default())
}

fn clients<'a>(load: &'a Load, pace: &'a Pace<'a>, lanes: &'a [Mutex<Lane>]) -> Vec<Client<'a>> {
    (0..).zip(lanes).map(|(thread, lane)| Client::new(load, pace, lane, thread)).collect()
}

/// Runs the clients, each on a thread, and gives each minute's row to `show`.
fn measure(
    load: &Load,
    pace: &Pace<'_>,
    lanes: &[Mutex<Lane>],
    clients: &mut [Client<'_>],
    show: impl Fn(&str) -> Outcome,
) -> Outcome<Report> {
    let before = load.db.stats();
    let mut report = Report {
        rate: pace.rate,
        user_bytes_before: before.counts.user_bytes,
        causes_before: Causes::of(&before),
        minutes: Vec::new(),
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = clients.iter_mut().map(|client| scope.spawn(|| client.run())).collect();
        let (mut memory, mut began_ns) = (Memory::default(), 0);
        let mut end_minute = |report: &mut Report, memory: &mut Memory, now_ns: u64| {
            let seconds = (now_ns - began_ns) as f64 / 1e9;
            began_ns = now_ns;
            report.minutes.push(minute(seconds, lanes, std::mem::take(memory), &load.db.stats()));
            show(&report.last_row())
        };
        while !running.iter().all(|thread| thread.is_finished()) {
            memory.sample(process::resident_memory_bytes());
            pace.timer.pause(BETWEEN_SAMPLES);
            let now_ns = pace.now_ns();
            // The last minute ends with the threads.
            let is_over = matches!(pace.end, End::Seconds(seconds) if now_ns / 1_000_000_000 >= seconds);
            if now_ns / 60_000_000_000 > report.minutes.len() as u64 && !is_over {
                end_minute(&mut report, &mut memory, now_ns).inspect_err(|_| pace.give_up())?;
            }
        }
        let ended = running.into_iter().map(|thread| thread.join().expect("a thread does not panic"));
        let ended_ns = ended.collect::<Outcome<Vec<u64>>>()?.into_iter().max();
        end_minute(&mut report, &mut memory, ended_ns.expect("there are threads"))?;
        Ok(report)
    })
}

/// The figures of the minute that ends now. Empties the lanes.
fn minute(seconds: f64, lanes: &[Mutex<Lane>], memory: Memory, stats: &Stats) -> Minute {
    let mut all = Lane::default();
    for lane in lanes {
        let mut next = Lane::default();
        std::mem::swap(&mut *lane.lock().expect("no thread panics with a lane"), &mut next);
        all.add(&next);
    }
    let engine_bytes =
        stats.memory_bytes + stats.memory_held_bytes + stats.cache_bytes + stats.table_memory_bytes;
    let user_bytes = stats.counts.user_bytes;
    Minute { seconds, lane: all, memory, engine_bytes, user_bytes, causes: Causes::of(stats) }
}
