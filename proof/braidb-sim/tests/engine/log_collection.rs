//! Log collection frees logs without a flush: it writes their live records back. Recovery must find the records after every crash.

use braidb::tuning::MemoryPolicy;
use braidb::{ColumnFamily, Db, Error, Options};
use braidb_sim::{env_over, sim_env};
use braidb_storage::sim::{Crash, Fault, Lasting, OpKind, SimFs};
use braidb_storage::{Env, FileSystem, Runtime};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const DIR: &str = "/db";

/// Memory that never fills up, and logs of 16 KiB each.
fn options(env: Env) -> Options {
    Options::new()
        .memtable_bytes(1 << 20)
        .tuning(|tuning| tuning.memory_policy(MemoryPolicy::Eager).active_percent(1).log_bytes(64 << 10))
        .env(env)
}

fn reopen(fs: &SimFs) -> Result<Db, Error> {
    options(env_over(Arc::new(fs.clone()), 2).0).open(DIR)
}

const COLD: usize = 20;
const HOT: usize = 5;

/// Keys that are written once, one that is deleted, and 5 that are written all the time, in two families.
struct Load {
    db: Db,
    other: ColumnFamily,
    round: usize,
}

impl Load {
    fn on(db: Db) -> Load {
        let other = db.create_column_family("other").unwrap();
        Load { db, other, round: 0 }
    }

    fn cold(&self) {
        self.db.put("gone", "old").unwrap();
        self.db.flush().unwrap();
        for key in 0..COLD {
            self.db.put(format!("cold{key:02}"), format!("{key}")).unwrap();
            self.other.put(format!("cold{key:02}"), format!("other {key}")).unwrap();
        }
        self.db.delete("gone").unwrap();
    }

    fn hot(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.round += 1;
            for key in 0..HOT {
                self.db.put(format!("hot{key}"), format!("{:050}", self.round)).unwrap();
            }
            // On one thread, background work runs only here.
            if self.round.is_multiple_of(4) {
                self.db.settle().unwrap();
            }
        }
    }
}

fn check(db: &Db, rounds: std::ops::RangeInclusive<usize>) {
    let other = db.create_column_family("other").unwrap();
    for key in 0..COLD {
        let name = format!("cold{key:02}");
        assert_eq!(db.get(&name).unwrap().as_deref(), Some(format!("{key}").as_bytes()), "{name}");
        assert_eq!(other.get(&name).unwrap().as_deref(), Some(format!("other {key}").as_bytes()), "{name}");
    }
    assert_eq!(db.get("gone").unwrap(), None);
    for key in 0..HOT {
        let value = db.get(format!("hot{key}")).unwrap().expect("it was written");
        let round: usize = std::str::from_utf8(&value).unwrap().parse().unwrap();
        assert!(rounds.contains(&round), "hot{key} is of round {round}");
    }
    assert_eq!(db.iter().count(), COLD + HOT);
}

fn logs(fs: &SimFs) -> Vec<PathBuf> {
    fs.files().into_iter().filter(|path| path.extension().is_some_and(|found| found == "log")).collect()
}

#[test]
fn logs_of_superseded_records_go_without_a_flush() {
    let (env, fs, _) = sim_env(1);
    let mut load = Load::on(options(env).open(DIR).unwrap());
    load.cold();
    let flushes = load.db.stats().counts.flushes;
    for _ in 0..20 {
        load.hot(100);
        load.db.settle().unwrap();
        let stats = load.db.stats();
        assert!(stats.log_bytes_live <= 64 << 10, "{:?}", stats.logs);
        let live: u64 = stats.logs.iter().map(|log| log.live_entries).sum();
        assert!(live >= (2 * COLD + HOT + 1) as u64, "{:?}", stats.logs);
    }
    let counts = load.db.stats().counts;
    assert_eq!(counts.flushes, flushes, "nothing was flushed");
    assert!(counts.logs_collected > 20, "{counts:?}");
    // The cold records and the tombstone are written back many times, but far fewer records than all.
    assert!(
        counts.written_back > (2 * COLD) as u64 && counts.written_back < counts.user_ops / 4,
        "{counts:?}"
    );
    assert!(counts.written_back_bytes > 0 && counts.written_back_bytes < counts.log_bytes / 4);

    // Each life ends in a kill, so that later lives write back records that are copies already.
    let mut image = fs.crash_image(Crash::Process, 1);
    for life in 0..3 {
        let db = reopen(&image).unwrap();
        let rounds = load.round + life * 300;
        check(&db, rounds..=rounds);
        assert!(db.verify().unwrap().damages.is_empty());
        let mut next = Load { round: rounds, ..Load::on(db) };
        next.hot(300);
        next.db.settle().unwrap();
        image = image.crash_image(Crash::Process, 1);
    }
}

/// Short logs have 256 KiB, and memory stays far below them. So logs follow memory, and stay below three quarters of `log_bytes`.
#[test]
fn logs_follow_memory_where_little_of_them_is_alive() {
    let longest = |log_rewrite_percent| {
        let (env, _, _) = sim_env(1);
        let options =
            options(env).tuning(|tuning| tuning.log_bytes(1 << 20).log_rewrite_percent(log_rewrite_percent));
        let mut load = Load::on(options.open(DIR).unwrap());
        load.cold();
        let mut longest_bytes = 0;
        for _ in 0..40 {
            load.hot(100);
            load.db.settle().unwrap();
            longest_bytes = longest_bytes.max(load.db.stats().log_bytes_live);
        }
        check(&load.db, load.round..=load.round);
        let counts = load.db.stats().counts;
        // At most 10 percent of collected logs are alive, so copies stay below an eighth of what writers append.
        assert!(counts.written_back_bytes < counts.log_bytes / 8, "{counts:?}");
        (longest_bytes, counts.logs_collected)
    };
    let ((left_bytes, none), (bytes, collected)) = (longest(0), longest(25));
    assert!(none == 0 && left_bytes > 768 << 10, "{left_bytes}");
    assert!(collected > 2 && bytes < 640 << 10, "{bytes} bytes, {collected} collected");
}

#[test]
fn left_out_it_leaves_the_logs_to_flushes() {
    let (env, _, _) = sim_env(1);
    let mut load = Load::on(options(env).tuning(|tuning| tuning.log_rewrite_percent(0)).open(DIR).unwrap());
    load.cold();
    load.hot(2000);
    load.db.settle().unwrap();
    let counts = load.db.stats().counts;
    assert!(counts.flushes > 5 && counts.logs_collected == 0 && counts.written_back == 0, "{counts:?}");
}

/// Power fails before each storage operation of a load that collects logs.
#[test]
fn power_may_fail_at_every_step() {
    for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn] {
        let (env, fs, _) = sim_env(1);
        let mut load = Load::on(options(env).open(DIR).unwrap());
        load.cold();
        load.hot(1);
        load.db.persist(braidb::Durability::Sync).unwrap();
        let images = Arc::new(Mutex::new(Vec::new()));
        let taken = images.clone();
        fs.set_hook(Some(Box::new(move |fs, op| {
            let is_step = op.kind.mutates();
            if is_step {
                let mut taken = taken.lock().unwrap();
                let seed = taken.len() as u64;
                // Appends of copies and of commits come in hundreds, so only every seventh is kept.
                if op.kind != OpKind::Append || seed.is_multiple_of(7) {
                    taken.push(fs.crash_image(crash, seed));
                }
            }
        })));
        load.hot(500);
        load.db.settle().unwrap();
        fs.set_hook(None);
        assert!(load.db.stats().counts.logs_collected > 5);
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() > 50, "{}", images.len());
        for image in images {
            check(&reopen(&image).unwrap(), 1..=load.round);
        }
    }
}

/// A failing log collection does not fail a flush, which frees the logs too.
#[test]
fn a_failing_log_collection_does_not_fail_a_flush() {
    let (env, fs, runtime) = sim_env(1);
    let db = options(env).tuning(|tuning| tuning.memory_policy(MemoryPolicy::None)).open(DIR).unwrap();
    while db.stats().counts.logs_rotated < 3 {
        db.put("hot", [b'h'; 500]).unwrap();
    }
    // Only this record is live, and it is not in the logs that the log collection frees.
    db.put("hot", "last").unwrap();
    // Runs the job that schedules, and the first step of the log collection. The second step stays queued, and will find nothing to copy.
    assert!(runtime.help() && runtime.help());
    let mut created = 0;
    fs.set_hook(Some(Box::new(move |fs, op| {
        if op.kind == OpKind::Create && op.path.extension().is_some_and(|found| found == "log") {
            created += 1;
            // The flush creates the first log, the log collection the second.
            if created == 2 {
                fs.fail_nth(1, Fault::Io, Lasting::Once, 1);
            }
        }
    })));
    db.flush().unwrap();
    assert_eq!(db.stats().counts.job_failures, 1, "the log collection failed");
}

/// Copies replace records that were synced long ago, so damage to copies is no torn tail.
#[test]
fn damaged_copies_are_corruption() {
    let (env, fs, _) = sim_env(1);
    let mut load = Load::on(options(env).open(DIR).unwrap());
    load.cold();
    while load.db.stats().counts.logs_collected == 0 {
        load.hot(10);
        load.db.settle().unwrap();
    }
    let image = fs.crash_image(Crash::PowerAllLost, 1);
    check(&reopen(&image).unwrap(), 1..=load.round);
    let holds_copies = |path: &PathBuf| {
        let content = read(&image, path);
        content.windows(7).any(|bytes| bytes == b"other 7")
    };
    let paths: Vec<_> = logs(&image).into_iter().filter(holds_copies).collect();
    assert_eq!(paths.len(), 1, "one copy of each is there");
    let content = read(&image, &paths[0]);
    let at = content.windows(7).position(|bytes| bytes == b"other 7").unwrap();
    for damaged in [flipped(&content, at), content[..at].to_vec()] {
        let image = fs.crash_image(Crash::PowerAllLost, 1);
        image.write_file(&paths[0], &damaged).unwrap();
        let refused = reopen(&image).map(|_| ()).unwrap_err();
        assert!(refused.is_corruption(), "{refused}");
        assert!(refused.to_string().contains(paths[0].to_str().unwrap()), "{refused}");
    }
}

fn read(fs: &SimFs, path: &Path) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn flipped(content: &[u8], at: usize) -> Vec<u8> {
    let mut content = content.to_vec();
    content[at] ^= 1;
    content
}
