//! Real forks of a process whose four threads write, and whose fifth thread stages writes. Whatever the children do with the handles that
//! they inherit, the parent loses nothing, keeps its lock, and goes on. No child hangs. A child that outlives its parent does not keep the
//! database locked.
//!
//! Each round runs in a process of its own, the parent, which this program starts by running itself. `make test` makes 60 forks. The
//! load of 2,000 forks: `BRAIDB_FORKS=2000 cargo test -p braidb --test forks -- --nocapture`.
#![allow(
    clippy::disallowed_methods,
    reason = "it forks processes with threads, and tells them by files what to do"
)]

mod children;
mod process;

use braidb::{Db, Durability, Error, Options};
use children::{Held, LINGER, OTHERS, Staging};
use process::{Child, fork, wait};
use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Environment variable: the round that the started process plays.
const ROUND: &str = "BRAIDB_FORKS_ROUND";
/// Environment variable: forks over all rounds.
const FORKS: &str = "BRAIDB_FORKS";
const WRITERS: u64 = 4;
/// A wait of this test that takes longer means that something hangs.
const HANGS: Duration = Duration::from_secs(20);

/// How a database is opened, and how the parent ends.
#[derive(Clone, Copy, Debug)]
struct Round {
    durability: Durability,
    memtable_bytes: usize,
    is_killed: bool,
    forks: u64,
    seed: u64,
}

impl Round {
    fn to_text(self) -> String {
        let Round { durability, memtable_bytes, is_killed, forks, seed } = self;
        format!("{} {memtable_bytes} {} {forks} {seed}", durability as u64, u64::from(is_killed))
    }

    fn of_text(text: &str) -> Round {
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let durability = [Durability::None, Durability::Buffer, Durability::Sync];
        Round {
            durability: durability.into_iter().find(|known| *known as u64 == numbers[0]).unwrap(),
            memtable_bytes: numbers[1] as usize,
            is_killed: numbers[2] == 1,
            forks: numbers[3],
            seed: numbers[4],
        }
    }

    fn open(self, dir: &Path) -> Result<Db, Error> {
        Options::new().durability(self.durability).memtable_bytes(self.memtable_bytes).open(dir.join("db"))
    }
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    [&[writer as u8][..], &number.to_be_bytes()].concat()
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; (number % 300) as usize]
}

/// How many entries of each writer are in the file `name`: those that must be there after the end of the parent.
fn counts(dir: &Path, name: &str) -> [u64; WRITERS as usize] {
    let file = fs::File::open(dir.join(name)).unwrap();
    std::array::from_fn(|writer| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 8 * writer as u64).unwrap();
        u64::from_le_bytes(bytes)
    })
}

/// An empty directory.
fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("braidb-forks-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Waits for a file that another process makes.
fn await_file(path: &Path) {
    let mut waited = Duration::ZERO;
    while !path.exists() {
        assert!(waited < HANGS, "no process made {}", path.display());
        std::thread::sleep(Duration::from_millis(1));
        waited += Duration::from_millis(1);
    }
}

#[test]
fn children_do_no_harm() {
    let forks: u64 = std::env::var(FORKS).map_or(60, |forks| forks.parse().unwrap());
    let mut rounds = Vec::new();
    for durability in [Durability::Buffer, Durability::Sync, Durability::None] {
        for memtable_bytes in [16 << 10, 64 << 20] {
            for is_killed in [true, false] {
                let seed = rounds.len() as u64;
                rounds.push(Round { durability, memtable_bytes, is_killed, forks: forks.div_ceil(12), seed });
            }
        }
    }
    for round in rounds {
        play(round);
    }
}

/// Starts a parent, lets it fork, ends it, and looks for all that it wrote.
fn play(round: Round) {
    let dir = scratch(&format!("{}", round.seed));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "forks_children_under_load", "--nocapture"]);
    command.current_dir(&dir).env(ROUND, round.to_text()).stdout(Stdio::null());
    let mut parent = command.spawn().unwrap();
    if round.is_killed {
        while !dir.join("forked").exists() {
            assert!(parent.try_wait().unwrap().is_none(), "{round:?}: the parent failed");
            std::thread::sleep(Duration::from_millis(1));
        }
        parent.kill().unwrap();
    }
    let ended = parent.wait().unwrap();
    assert_eq!(ended.success(), !round.is_killed, "{round:?}: {ended}");
    let floor =
        if round.is_killed && round.durability == Durability::None { "persisted" } else { "acknowledged" };
    let floor = counts(&dir, floor);
    // A child of the killed parent still lives.
    let db = round.open(&dir).unwrap_or_else(|error| panic!("{round:?}: {error}"));
    for writer in 0..WRITERS {
        let mut stored = 0;
        for entry in db.prefix([writer as u8]) {
            let (found, read) = entry.unwrap();
            assert_eq!((found, read.to_vec()), (key(writer, stored), value(stored)), "{round:?}");
            stored += 1;
        }
        let least = floor[writer as usize];
        assert!(stored >= least, "{round:?}: {stored} of {least} writes of thread {writer} are left");
        assert!(stored <= counts(&dir, "acknowledged")[writer as usize] + 1, "{round:?}");
    }
    assert!(db.verify().unwrap().damages.is_empty(), "{round:?}");
    db.close().unwrap();
    if round.is_killed {
        fs::write(dir.join("go"), "").unwrap();
        await_file(&dir.join("done"));
    }
    let outcome = fs::read_to_string(dir.join("done")).unwrap();
    assert_eq!(outcome, "well", "{round:?}: the child that lived on opened the database");
    let db = round.open(&dir).unwrap();
    assert_eq!(db.get("child").unwrap().unwrap(), b"lives on");
    drop(db);
    fs::remove_dir_all(&dir).unwrap();
}

/// A parent. It works in its own directory.
#[test]
#[ignore = "plays one round: the test above runs it, by cargo test -p braidb --test forks"]
fn forks_children_under_load() {
    let round = Round::of_text(&std::env::var(ROUND).expect("started by the other test"));
    let dir = std::env::current_dir().unwrap();
    // The only handle that the children know: the threads that write borrow it.
    let db = ManuallyDrop::new(round.open(&dir).unwrap());
    let staging = Staging { overlay: db.overlay(), transaction: db.transaction().unwrap() };
    let staging = ManuallyDrop::new(staging);
    let acknowledged = fs::File::create(dir.join("acknowledged")).unwrap();
    let is_over = AtomicBool::new(false);
    let lingers = std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, acknowledged, is_over) = (&db, &acknowledged, &is_over);
            scope.spawn(move || write(db, writer, acknowledged, is_over));
        }
        let (staged, until) = (&staging, &is_over);
        scope.spawn(move || stage(staged, until));
        // A panic ends the threads too.
        let _over = Over(&is_over);
        let lingers = make_forks(round, &dir, &db, &staging, &acknowledged);
        if round.is_killed {
            // This process goes on writing until it is killed.
            fs::write(dir.join("forked"), "").unwrap();
            std::thread::sleep(HANGS);
        }
        lingers
    });
    assert_eq!(db.stats().poisoned, None);
    db.close().unwrap();
    fs::write(dir.join("go"), "").unwrap();
    let (code, _) = wait(lingers, HANGS).expect("the child that lived on hangs");
    assert_eq!(code, 0);
}

/// Ends the threads that write.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes, reads a little, and notes what was acknowledged.
fn write(db: &Db, writer: u64, acknowledged: &fs::File, is_over: &AtomicBool) {
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        db.put(key(writer, number), value(number)).unwrap();
        acknowledged.write_all_at(&(number + 1).to_le_bytes(), 8 * writer).unwrap();
        if number % 64 == writer {
            let snapshot = db.snapshot();
            assert_eq!(snapshot.get(key(writer, number)).unwrap().unwrap(), value(number));
            assert!(db.prefix([writer as u8]).rev().take(20).all(|entry| entry.is_ok()));
        }
    }
}

/// Stages writes and drops them, and reads in a transaction, so that forks meet both half changed.
fn stage(staging: &Staging, is_over: &AtomicBool) {
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let staged = key(WRITERS, number % 1_000);
        staging.overlay.put(&staged, value(number)).unwrap();
        staging.transaction.put(&staged, value(number)).unwrap();
        assert!(!staging.transaction.contains_key(key(WRITERS + 1, number % 1_000)).unwrap());
        if number % 500 == 0 {
            staging.overlay.clear();
        }
    }
}

/// Makes the forks of a round, one after the other. Returns the child that lives on.
fn make_forks(
    round: Round,
    dir: &Path,
    db: &ManuallyDrop<Db>,
    staging: &ManuallyDrop<Staging>,
    acknowledged: &fs::File,
) -> Child {
    let (mut longest, mut longest_of_calls) = (Duration::ZERO, Duration::ZERO);
    for number in 0..round.forks {
        while acknowledged.metadata().unwrap().len() < 8 * WRITERS {
            std::thread::sleep(Duration::from_millis(1));
        }
        let kind = (round.seed + number) as usize % OTHERS.len();
        let (name, act) = OTHERS[kind];
        let held = Held::new(db, staging);
        let child = fork(|| act(held, dir));
        let (code, waited) = wait(child, HANGS).unwrap_or_else(|| panic!("{round:?}: a child hangs: {name}"));
        assert_eq!(code, 0, "{round:?}: {name}");
        longest = longest.max(waited);
        if !name.contains("another") {
            longest_of_calls = longest_of_calls.max(waited);
        }
        // The lock is the parent's still, and the parent writes.
        assert!(matches!(round.open(dir), Err(Error::Locked { .. })), "{round:?}: {name}");
        db.write_with(braidb::WriteBatch::new().put("parent", name), Durability::Sync).unwrap();
    }
    if std::env::var_os(FORKS).is_some() {
        eprintln!(
            "{round:?}: {longest_of_calls:?} at most, and {longest:?} if a child opens another database"
        );
    }
    let held = Held::new(db, staging);
    let lingers = fork(|| LINGER(held, dir));
    // A child has its copy of the lock until it runs for the first time.
    await_file(&dir.join("lives"));
    let counts = counts(dir, "acknowledged");
    db.persist(Durability::Sync).unwrap();
    let bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    fs::write(dir.join("persisted"), bytes).unwrap();
    lingers
}
