//! A real device that loses written pages: write-back fails, the database is opened again, and then the page cache is dropped. The
//! power never fails. After a failed write-back Linux calls the pages clean, and reads serve them until they are evicted.
//!
//! `scripts/root/faults ext4` makes the device: ext4 on a loop device over a small tmpfs. While a file of another program fills the
//! tmpfs, ext4 has space and every write-back to a new block fails.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "these tests work on real files")]

use braidb::{Db, Durability, Error, Options};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable: a directory on the device.
const DEVICE: &str = "BRAIDB_FAILING_DEVICE";
/// Environment variable: the number that seeds all random choices.
const SEED: &str = "BRAIDB_SEED";
/// Environment variables with shell commands. `FAIL`: write-back of new blocks fails from now on. `MEND`: write-back works again.
/// `FORGET`: drops the device's page cache.
const FAIL: &str = "BRAIDB_FAIL_DEVICE";
const MEND: &str = "BRAIDB_MEND_DEVICE";
const FORGET: &str = "BRAIDB_FORGET_CACHE";
/// Writes with `Durability::Sync` after the reopening.
const SYNCED_PUTS: u64 = 50;
/// Openings that may be needed: each file may fail one of them by a write-back error that no descriptor has reported yet.
const OPENINGS: u32 = 3;

struct Dice(u64);

impl Dice {
    fn new() -> Dice {
        let seed: u64 = variable(SEED).parse().expect("a number");
        Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// The choices of one round, drawn from the seed.
struct Round {
    dir: PathBuf,
    memtable_bytes: usize,
    /// Puts before the device fails.
    before: u64,
    /// Most puts after the device fails.
    after: u64,
    /// Each put asks for a sync with a chance of one in `sync_one_in`.
    sync_one_in: u64,
    /// The process dies after `after` puts, none of which asks for a sync, and never meets the failure itself.
    is_killed: bool,
    /// Before the process dies or ends, `sync` makes the kernel try to write everything out.
    is_written_out: bool,
    /// The database is opened once more while the device still fails.
    is_opened_early: bool,
    /// The process that opened the database again dies instead of closing it.
    dies_after_opening: bool,
    dice: Dice,
}

impl Round {
    fn new() -> Round {
        let mut dice = Dice::new();
        Round {
            dir: Path::new(&variable(DEVICE)).join("db"),
            memtable_bytes: [256 << 10, 4 << 20, 64 << 20][dice.below(3) as usize],
            before: dice.below(20_000),
            after: 1 + dice.below(5_000),
            sync_one_in: 1 + dice.below(400),
            is_killed: dice.is(2),
            is_written_out: !dice.is(4),
            is_opened_early: dice.is(3),
            dies_after_opening: dice.is(2),
            dice,
        }
    }

    fn open(&self) -> Result<Db, Error> {
        Options::new().memtable_bytes(self.memtable_bytes).open(&self.dir)
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run scripts/root/faults ext4"))
}

fn run(command: &str) {
    let script = variable(command);
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success(), "{command}: {script}");
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8 | 1; 60 + (number * 37 % 200) as usize]
}

/// Sends one line to the parent, in one call, so that the parent reads a whole line or none.
fn tell(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Runs another test of this file in a process of its own. Returns the number of writes that the process reported as synced, its other
/// lines, and whether it ended by itself.
fn in_a_process(test: &str) -> (u64, Vec<String>, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    let ended = child.wait().unwrap().success();
    let (synced, others): (Vec<_>, Vec<_>) =
        told.lines().map(str::to_owned).partition(|line| line.starts_with("synced "));
    let last = synced.last().map_or(0, |line| line["synced ".len()..].parse().unwrap());
    (last, others, ended)
}

/// The number of keys in the database. They must be all keys from the first on, with their values.
fn count(db: &Db) -> u64 {
    let mut end = 0;
    for entry in db.iter() {
        let (found, bytes) = entry.unwrap();
        assert_eq!(found, key(end), "keys are missing before this one");
        assert!(bytes == value(end), "the value of key {end} is wrong");
        end += 1;
    }
    end
}

#[test]
#[ignore = "needs a device that it can break and forget: scripts/root/faults ext4 makes one and runs it"]
fn what_was_synced_outlives_the_page_cache() {
    let round = Round::new();
    let (synced, told, ended) = in_a_process("writes_until_the_device_fails");
    let how = told.last().cloned().unwrap_or_default();
    assert!(ended || round.is_killed, "{told:#?}");
    let early = match round.is_opened_early.then(|| round.open().map(drop)) {
        None => "",
        Some(Ok(())) => ", an opening before the device worked",
        Some(Err(error)) if !error.is_corruption() => ", no opening before the device worked",
        Some(Err(error)) => panic!("after {how}, refused before the device worked: {error}"),
    };
    let how = format!("{how}{early}");
    run(MEND);
    let (synced_again, told, ended) = in_a_process("opens_again_and_writes");
    assert!(ended || round.dies_after_opening, "after {how}: {told:#?}");
    assert!(
        synced_again >= synced + SYNCED_PUTS,
        "after {how}: {synced} writes were synced before, then {told:#?}"
    );
    run(FORGET);
    let db = round.open().unwrap_or_else(|error| panic!("after {how}, refused: {error}"));
    assert_eq!(count(&db), synced_again, "after {how}: the synced writes are there, and no others");
    assert!(db.verify().unwrap().damages.is_empty());
    db.close().unwrap();
    drop(db);
    fs::remove_dir_all(&round.dir).unwrap();
    println!("figure: {how}; {synced_again} writes found");
}

#[test]
#[ignore = "a part of what_was_synced_outlives_the_page_cache, which runs it in a process of its own: scripts/root/faults ext4"]
fn writes_until_the_device_fails() {
    let mut round = Round::new();
    let db = round.open().unwrap();
    // The names of the first files are stable before the device fails.
    db.persist(Durability::Sync).unwrap();
    for number in 0.. {
        if number == round.before {
            run(FAIL);
        }
        let has_failed = number >= round.before;
        if number == round.before + round.after {
            if round.is_written_out {
                let _ = Command::new("sync").status();
            }
            if round.is_killed {
                tell(&format!("a death at write {number}, {} after the device failed", round.after));
                std::process::abort();
            }
        }
        let asks = round.dice.is(round.sync_one_in);
        let is_synced = asks && !(has_failed && round.is_killed)
            || !round.is_killed && number == round.before + round.after;
        let mut batch = braidb::WriteBatch::new();
        batch.put(key(number), value(number));
        match db.write_with(batch, if is_synced { Durability::Sync } else { Durability::Buffer }) {
            Ok(()) if is_synced => tell(&format!("synced {}", number + 1)),
            Ok(()) => {}
            Err(error) => {
                assert!(has_failed, "the device works: {error}");
                return tell(&format!(
                    "an error at write {number}, {} after the device failed",
                    number - round.before
                ));
            }
        }
        if number > round.before + 20_000 {
            return tell("no error: the device does not fail");
        }
    }
}

#[test]
#[ignore = "a part of what_was_synced_outlives_the_page_cache, which runs it in a process of its own: scripts/root/faults ext4"]
fn opens_again_and_writes() {
    let round = Round::new();
    let db = (1..).find_map(|opening| match round.open() {
        Ok(db) => Some(db),
        Err(error @ Error::Io { .. }) if opening < OPENINGS => {
            tell(&format!("opening {opening} failed: {error}"));
            None
        }
        Err(error) => panic!("opening {opening} was refused: {error}"),
    });
    let db = db.expect("the last error is a panic");
    let found = count(&db);
    tell(&format!("found {found}"));
    for number in found..found + SYNCED_PUTS {
        let mut batch = braidb::WriteBatch::new();
        batch.put(key(number), value(number));
        db.write_with(batch, Durability::Sync).unwrap();
    }
    db.persist(Durability::Sync).unwrap();
    tell(&format!("synced {}", found + SYNCED_PUTS));
    if round.dies_after_opening {
        std::process::abort();
    }
    db.close().unwrap();
}
