//! Cells that move between tiers on simulated devices: which ones leave the fast tier and which return to it, what a get reads, and that no
//! record is lost. The slow device also fails, fills up and is emptied.

mod evacuation;
mod failing;

use braidb::storage::Env;
use braidb::storage::inline::{Inline, SeededRandom, StepClock};
use braidb::{Db, Error, Options};
use braidb_storage::sim::{OpKind, SimFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";
/// The devices of slow tiers, and the directories of the tiers.
const DEVICES: [&str; 2] = ["/slow-1", "/slow-2"];
const SLOW: [&str; 2] = ["/slow-1/tier", "/slow-2/tier"];
/// The second family; the first is the default one.
const OTHER: &str = "other";

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// A machine with a fast and two slow devices.
fn machine() -> SimFs {
    let fs = SimFs::new();
    DEVICES.iter().for_each(|device| fs.add_device(path(device)).unwrap());
    fs
}

/// Cells of a few KiB, no cache and no value files.
fn options(share: u32) -> Options {
    Options::new().memtable_bytes(8 << 10).block_cache_bytes(0).fast_share(share).tuning(|tuning| {
        tuning
            .table_bytes(4 << 10)
            .block_bytes(512)
            .separation_threshold(None)
            .log_table_percent(0)
            .hot_keys_percent(0)
    })
}

/// Values of 200 bytes and more lie in value files.
fn separated(share: u32) -> Options {
    options(share).tuning(|tuning| tuning.separation_threshold(Some(200)))
}

/// Makes the options for a share of the fast tier, in percent.
type MakeOptions = fn(u32) -> Options;

/// With one slow tier.
fn one(options: Options) -> Options {
    options.slow_path(SLOW[0])
}

/// Opens the database on one stepped thread.
fn open(fs: &SimFs, options: Options) -> Result<Db, Error> {
    let clock = Arc::new(StepClock::new());
    let runtime = Arc::new(Inline::new(clock.clone()));
    let random = Arc::new(SeededRandom::new(fs.ops()));
    options.env(Env { fs: Arc::new(fs.clone()), clock, random, runtime }).open(DIR)
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// What the database must hold: by family, key and value.
#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<(&'static str, Vec<u8>), Vec<u8>>);

impl Model {
    fn put(&mut self, db: &Db, family: &'static str, number: u32, value: Vec<u8>) {
        db.create_column_family(family).unwrap().put(key(number), &value).unwrap();
        self.0.insert((family, key(number)), value);
    }

    fn delete(&mut self, db: &Db, family: &'static str, number: u32) {
        db.column_family(family).unwrap().delete(key(number)).unwrap();
        self.0.remove(&(family, key(number)));
    }

    /// Writes `numbers` of the default family with values of `len` bytes.
    fn fill(&mut self, db: &Db, numbers: impl Iterator<Item = u32>, len: usize, round: u8) {
        numbers.for_each(|number| self.put(db, "default", number, vec![round ^ number as u8; len]));
    }

    /// Reads everything by key and by scan in both directions.
    #[track_caller]
    fn check(&self, db: &Db) {
        for ((family, key), value) in &self.0 {
            let found = db.column_family(family).unwrap().get(key).unwrap();
            assert_eq!(found.as_deref(), Some(value.as_slice()), "{family} {}", String::from_utf8_lossy(key));
        }
        for family in db.column_families() {
            let of_family = self.0.iter().filter(|((name, _), _)| *name == family);
            let expected: Vec<_> = of_family.map(|((_, key), value)| (key.clone(), value.clone())).collect();
            let opened = db.column_family(&family).unwrap();
            let entry = |entry: braidb::Result<(Vec<u8>, braidb::Value)>| {
                let (key, value) = entry.unwrap();
                (key, value.to_vec())
            };
            assert!(opened.iter().map(entry).eq(expected.iter().cloned()), "{family} forward");
            assert!(opened.iter().rev().map(entry).eq(expected.into_iter().rev()), "{family} backward");
        }
    }

    /// Checks the database as it is, after a close, and after a verification.
    #[track_caller]
    fn check_reopened(&self, fs: &SimFs, db: Db, options: Options) -> Db {
        self.check(&db);
        db.close().unwrap();
        let db = open(fs, options).unwrap();
        self.check(&db);
        assert_eq!(db.verify().unwrap().damages, []);
        db
    }
}

/// The bytes on each tier, the fast one first.
fn bytes(db: &Db) -> Vec<u64> {
    db.stats().tiers.iter().map(|tier| tier.bytes).collect()
}

/// The share of the fast tier, in percent, without L0. L0 stays fast: only merges into deeper levels make its records movable.
fn fast_percent(db: &Db) -> u64 {
    let bytes = bytes(db);
    let l0 = &db.tree()[0].levels[0].cells;
    let l0_slices = l0.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.slices);
    let l0_bytes: u64 = l0_slices.map(|slice| slice.bytes).sum();
    (bytes[0] - l0_bytes) * 100 / bytes.iter().sum::<u64>().max(1)
}

/// Bytes that the fast tier may take within its share, negative if it has more; and the bytes of each cell on slow tiers. As the planner
/// counts them.
fn room_and_slow_cells(db: &Db, share: u32) -> (i64, Vec<i64>) {
    let trees = db.tree();
    let levels = trees.iter().flat_map(|tree| &tree.levels);
    let (mut fast, mut slow_cells) = (0, Vec::new());
    for cell in levels.flat_map(|level| &level.cells) {
        let slices = || cell.runs.iter().flat_map(|run| &run.slices);
        let slow: u64 = slices().map(|slice| slice.slow_bytes).sum();
        fast += slices().map(|slice| slice.bytes).sum::<u64>() - slow;
        slow_cells.extend((slow > 0).then_some(slow as i64));
    }
    let all = fast as i64 + slow_cells.iter().sum::<i64>();
    (all * i64::from(share) / 100 - fast as i64, slow_cells)
}

/// Whether a slow cell has room on the fast tier.
fn does_one_fit((room, slow_cells): &(i64, Vec<i64>)) -> bool {
    slow_cells.iter().any(|slow| slow <= room)
}

/// Bytes that moved from the fast tier to a slow one, and bytes that moved back.
fn moved(db: &Db) -> (u64, u64) {
    let counts = db.stats().counts;
    (counts.tier_out_bytes, counts.tier_in_bytes)
}

/// Reads of the slow devices, each with its file, while `work` runs.
fn slow_reads(fs: &SimFs, work: impl FnOnce()) -> usize {
    fs.record_ops();
    work();
    let is_slow = |path: &Path| DEVICES.iter().any(|device| path.starts_with(device));
    let ops = fs.take_recorded_ops();
    ops.iter().filter(|op| op.kind == OpKind::Read && is_slow(&op.path)).count()
}

/// The keys of the slices that are on slow tiers with their tables or values: one key of each.
fn slow_keys(db: &Db) -> Vec<Vec<u8>> {
    let trees = db.tree();
    let cells = trees[0].levels.iter().flat_map(|level| &level.cells);
    let slices = cells.flat_map(|cell| &cell.runs).flat_map(|run| &run.slices);
    slices.filter(|slice| slice.slow_bytes > 0).map(|slice| slice.low.clone()).collect()
}

/// A database of 800 records that is at rest, with its model.
fn at_rest(fs: &SimFs, options: Options, len: usize) -> (Db, Model) {
    let db = open(fs, one(options)).unwrap();
    let mut model = Model::default();
    // Keys in an order without runs: sequential writes would make cells that nothing ever merges.
    model.fill(&db, (0..800).map(|number| number * 333 % 800), len, 1);
    db.compact().unwrap();
    db.settle().unwrap();
    (db, model)
}

#[test]
fn cells_leave_until_the_share_holds() {
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        for share in [0, 30, 50, 80] {
            let fs = machine();
            let (db, model) = at_rest(&fs, options(share), len);
            let (out, back) = moved(&db);
            assert!(out > 0 && back == 0, "{share}%: {out} bytes left, {back} came back");
            // Tables of cells with values apart stay, whatever the share is.
            if len == 120 {
                let percent = fast_percent(&db);
                assert!(percent <= u64::from(share), "{percent}% are fast, and {share}% may be");
                // There are about 20 cells. At most one more of them could have stayed.
                assert!(percent + 15 >= u64::from(share), "{percent}% are fast, and {share}% may be");
            }
            let db = model.check_reopened(&fs, db, options(share));
            let before = room_and_slow_cells(&db, share);
            db.settle().unwrap();
            // `check_reopened` read all keys, so every cell is equally hot, and readers waited for each slow cell longer than its move
            // takes. So no cell leaves to make room for another one. A slow cell returns if the fast tier has room for it. Which layout
            // leaves such room depends on the order of flushes and merges.
            let after = room_and_slow_cells(&db, share);
            let (out, back) = moved(&db);
            assert_eq!((out, back > 0), (0, does_one_fit(&before)), "{back} came back: {before:?}");
            let came = before.1.iter().sum::<i64>() - after.1.iter().sum::<i64>();
            assert!(came <= before.0.max(0), "{came} of {before:?}");
            assert!(!does_one_fit(&after), "{after:?}");
        }
    }
}

#[test]
fn a_share_of_all_moves_nothing_and_a_share_that_falls_moves() {
    let fs = machine();
    let (db, model) = at_rest(&fs, options(100), 120);
    assert_eq!((bytes(&db)[1], moved(&db)), (0, (0, 0)));
    let db = model.check_reopened(&fs, db, options(0));
    db.compact().unwrap();
    db.settle().unwrap();
    assert_eq!(bytes(&db)[0], 0, "all is slow");
    let db = model.check_reopened(&fs, db, options(0).fast_bytes(Some(20 << 10)));
    db.settle().unwrap();
    // The check above read all cells, and there is room.
    let fast_bytes = bytes(&db)[0];
    assert!(fast_bytes > 10 << 10 && fast_bytes <= 20 << 10, "{fast_bytes}");
}

#[test]
fn the_cells_that_readers_come_to_come_back() {
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        let fs = machine();
        let share = if len == 120 { 50 } else { 60 };
        let (db, model) = at_rest(&fs, options(share), len);
        let hot = slow_keys(&db);
        let hot = &hot[..hot.len() / 4];
        assert!(!hot.is_empty());
        // Cells that lie on the fast tier were never read.
        for _ in 0..1_500 {
            hot.iter().for_each(|key| assert!(db.get(key).unwrap().is_some()));
        }
        db.settle().unwrap();
        let (_, back) = moved(&db);
        assert!(back > 0, "hot cells come back");
        if len == 120 {
            assert!(fast_percent(&db) <= u64::from(share), "cold cells left for them: {:?}", bytes(&db));
        }
        let reads = slow_reads(&fs, || hot.iter().for_each(|key| assert!(db.get(key).unwrap().is_some())));
        assert_eq!(reads, 0, "of {} hot keys, {back} bytes came back", hot.len());
        model.check_reopened(&fs, db, options(share));
    }
}

/// A slow slice counts each scan that begins there. If it counted one in 8, 400 scans of each cell would be too few.
#[test]
fn the_cells_that_are_only_scanned_come_back() {
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        let fs = machine();
        let (db, model) = at_rest(&fs, options(60), len);
        let hot = slow_keys(&db);
        let hot = &hot[..hot.len() / 4];
        assert!(!hot.is_empty());
        for round in 0..400 {
            for key in hot {
                let entry = match round % 2 {
                    0 => db.range(key.clone()..).next(),
                    _ => db.range(..=key.clone()).next_back(),
                };
                assert_eq!(entry.unwrap().unwrap().0, *key);
            }
        }
        db.settle().unwrap();
        let reads = slow_reads(&fs, || hot.iter().for_each(|key| assert!(db.get(key).unwrap().is_some())));
        assert_eq!(reads, 0, "of {} hot keys, {} bytes came back", hot.len(), moved(&db).1);
        model.check_reopened(&fs, db, options(60));
    }
}

/// If readers use every cell equally, no cell is hotter than chance explains, so none leaves to make room for another one. The test first
/// lets slow cells come back until none fits.
#[test]
fn uniform_reads_move_nothing() {
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        let fs = machine();
        let (db, model) = at_rest(&fs, options(50), len);
        model.check(&db);
        db.settle().unwrap();
        assert!(!does_one_fit(&room_and_slow_cells(&db, 50)));
        let before = (moved(&db), bytes(&db));
        let mut random = braidb_sim::rng::Rng::new(5);
        for _ in 0..20_000 {
            db.get(key(random.below(800) as u32)).unwrap().unwrap();
        }
        db.settle().unwrap();
        assert_eq!((moved(&db), bytes(&db)), before);
        model.check(&db);
    }
}

#[test]
fn a_get_reads_the_slow_device_once_at_most() {
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        let fs = machine();
        let (db, mut model) = at_rest(&fs, options(20), len);
        let mut most = 0;
        for round in 0..3_u8 {
            // The first get opens tables.
            model.check(&db);
            for number in (0..1_000).step_by(3) {
                let reads = slow_reads(&fs, || drop(db.get(key(number)).unwrap()));
                assert!(reads <= 1, "round {round}, key {number}: {reads} reads of the slow device");
                most = most.max(reads);
            }
            // The flush puts newer versions above the slow cells; in round 1 `settle` lets merges take them down.
            model.fill(&db, (0..800).step_by(5 + usize::from(round)), len, round + 2);
            db.flush().unwrap();
            if round == 1 {
                db.settle().unwrap();
            }
        }
        assert_eq!(most, 1, "some gets read it");
    }
}

#[test]
fn slow_cells_are_written_over_deleted_and_compacted() {
    for (options, len) in [(options as MakeOptions, 120), (separated, 300)] {
        let fs = machine();
        let (mut db, mut model) = at_rest(&fs, options(25), len);
        let mut random = braidb_sim::rng::Rng::new(9);
        for round in 0..6_u8 {
            let held = (db.snapshot(), model.clone());
            for _ in 0..200 {
                let number = random.below(900) as u32;
                match random.below(4) {
                    0 => model.delete(&db, "default", number),
                    1 => model.put(&db, "default", number, vec![round; 20]),
                    _ => model.put(&db, "default", number, vec![round; len]),
                }
            }
            match round % 3 {
                0 => db.flush().unwrap(),
                1 => db.compact().unwrap(),
                _ => db.settle().unwrap(),
            }
            let seen = held.0.iter().map(|entry| entry.unwrap()).map(|(key, value)| (key, value.to_vec()));
            assert!(seen.eq(held.1.0.into_iter().map(|((_, key), value)| (key, value))), "the snapshot");
            drop(held.0);
            db = model.check_reopened(&fs, db, options(25));
        }
        // Nothing is left of what was deleted.
        (0..900).for_each(|number| model.delete(&db, "default", number));
        db.compact().unwrap();
        db.settle().unwrap();
        assert_eq!(bytes(&db), [0, 0]);
        model.check_reopened(&fs, db, options(25));
    }
}

#[test]
fn cells_of_all_families_leave() {
    let fs = machine();
    let db = open(&fs, one(options(10))).unwrap();
    let mut model = Model::default();
    for number in (0..600).map(|number| number * 77 % 600) {
        model.put(&db, "default", number, vec![1; 100]);
        model.put(&db, OTHER, number, vec![2; 100]);
    }
    db.flush().unwrap();
    db.settle().unwrap();
    assert!(fast_percent(&db) <= 10);
    for family in db.tree() {
        let cells = family.levels.iter().flat_map(|level| &level.cells);
        let slices = cells.flat_map(|cell| &cell.runs).flat_map(|run| &run.slices);
        assert!(slices.map(|slice| slice.slow_bytes).sum::<u64>() > 0, "{}", family.name);
    }
    model.check_reopened(&fs, db, options(10));
}

/// Bytes of a family on slow tiers, and of all its slices.
fn slow_and_all_bytes(db: &Db, family: &str) -> (u64, u64) {
    let trees = db.tree();
    let tree = trees.iter().find(|tree| tree.name == family).unwrap();
    let cells = tree.levels.iter().flat_map(|level| &level.cells);
    let slices = cells.flat_map(|cell| &cell.runs).flat_map(|run| &run.slices);
    slices.fold((0, 0), |(slow, all), slice| (slow + slice.slow_bytes, all + slice.bytes))
}

#[test]
fn the_coldest_cells_of_all_families_leave() {
    for (hot, cold) in [("default", OTHER), (OTHER, "default")] {
        let fs = machine();
        let db = open(&fs, one(options(50))).unwrap();
        let mut model = Model::default();
        db.create_column_family(OTHER).unwrap();
        let mut fill = |family| {
            (0..600).for_each(|number| model.put(&db, family, number * 77 % 600, vec![1; 100]));
            db.flush().unwrap();
            db.settle().unwrap();
            slow_and_all_bytes(&db, family)
        };
        let (slow_before, _) = fill(hot);
        assert!(slow_before > 0);
        let family = db.column_family(hot).unwrap();
        for round in 0..20_000 {
            family.get(key(round * 77 % 600)).unwrap().unwrap();
        }
        // Half of the hot cells are slow. So half of the cold ones leave, and of the hot ones no more than chance moves.
        let (slow, all) = fill(cold);
        assert!(slow * 10 > all * 4, "{slow} of {all} cold bytes left");
        let (slow, all) = slow_and_all_bytes(&db, hot);
        assert!(slow <= slow_before + all / 10, "{slow} of {all} hot bytes are slow, and {slow_before} were");
        model.check_reopened(&fs, db, options(50));
    }
}

#[test]
fn of_two_slow_tiers_the_one_with_more_room_takes_cells() {
    let fs = machine();
    // `at_rest` names the other device last, so it has tier 2.
    fs.set_capacity_of(path(DEVICES[1]), Some(120 << 10));
    fs.set_capacity_of(path(DEVICES[0]), Some(160 << 10));
    let (db, mut model) = at_rest(&fs, options(100).slow_path(SLOW[1]), 120);
    let db = model.check_reopened(&fs, db, options(0));
    db.settle().unwrap();
    let of_tiers = bytes(&db);
    assert!(of_tiers[1] > 0 && of_tiers[2] > of_tiers[1], "{of_tiers:?}");
    let free: Vec<u64> = db.stats().tiers[1..].iter().map(|tier| tier.free_bytes).collect();
    assert!(free[0].abs_diff(free[1]) <= 24 << 10, "{free:?}");
    // These records are more than both slow devices hold, so the rest must stay on the fast tier.
    let mut refused = 0;
    for number in (800..3_000).map(|number| 800 + number * 333 % 2_200) {
        match db.put(key(number), vec![2; 120]) {
            Ok(()) => drop(model.0.insert(("default", key(number)), vec![2; 120])),
            // A waiting writer may get the error of a merge into a slow cell whose device is full.
            Err(error) => {
                assert!(error.to_string().contains("/slow-"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused <= 2, "{refused}");
    db.flush().unwrap();
    let _ = db.settle();
    assert!(bytes(&db)[0] > 100 << 10, "{:?}", bytes(&db));
    model.check_reopened(&fs, db, options(0));
}

#[test]
fn devices_are_seldom_asked_for_their_room_and_room_is_found() {
    let fs = machine();
    let (db, mut model) = at_rest(&fs, options(100), 120);
    let db = model.check_reopened(&fs, db, options(0));
    fs.set_capacity_of(path(DEVICES[0]), Some(fs.taken_bytes_of(path(DEVICES[0]))));
    fs.record_ops();
    for round in 0..200 {
        model.put(&db, "default", round * 7 % 800, vec![round as u8; 120]);
        db.flush().unwrap();
    }
    let ops = fs.take_recorded_ops();
    let is_asked = |path: &Path| path.starts_with(DEVICES[0]);
    let asked = ops.iter().filter(|op| op.kind == OpKind::FreeSpace && is_asked(&op.path)).count();
    assert!((1..=50).contains(&asked), "200 flushes asked {asked} times");
    db.settle().unwrap();
    assert_eq!(bytes(&db)[1], 0);
    // The device gets room without a merge, as if another program had deleted files there.
    fs.set_capacity_of(path(DEVICES[0]), None);
    db.settle().unwrap();
    assert!(bytes(&db)[1] > 0);
    model.check_reopened(&fs, db, options(0));
}

/// A database that grows gets new levels. Slow cells are then no longer in the last one.
#[test]
fn levels_grow_beneath_slow_cells() {
    let fs = machine();
    let mut db = open(&fs, one(options(10))).unwrap();
    let mut model = Model::default();
    let mut last_levels = Vec::new();
    for round in 0..5_u8 {
        let numbers = 0..(200_u32 << round);
        let all = numbers.end;
        model.fill(&db, numbers.map(|number| number * 333 % all), 100, round);
        db.flush().unwrap();
        db.settle().unwrap();
        let levels = &db.tree()[0].levels;
        let is_used =
            |level: &&braidb::stats::LevelTree| level.cells.iter().any(|cell| !cell.runs.is_empty());
        last_levels.push(levels.iter().filter(is_used).map(|level| level.level).max().unwrap());
        assert!(bytes(&db)[1] > 0 && fast_percent(&db) <= 10, "{:?}", bytes(&db));
        db = model.check_reopened(&fs, db, options(10));
    }
    assert!(last_levels.first() < last_levels.last(), "{last_levels:?}");
}

/// Bytes that `work` appends to files of slow devices.
fn slow_written(fs: &SimFs, work: impl FnOnce()) -> u64 {
    fs.record_ops();
    work();
    let is_slow = |path: &Path| DEVICES.iter().any(|device| path.starts_with(device));
    let ops = fs.take_recorded_ops();
    ops.iter().filter(|op| op.kind == OpKind::Append && is_slow(&op.path)).map(|op| op.bytes).sum()
}

/// The cold half of the cells gets few of the writes. A slow cell must not be rewritten for each few of them.
#[test]
fn what_is_to_go_to_slow_cells_waits_until_it_is_enough() {
    let fs = machine();
    let db = open(&fs, one(options(50))).unwrap();
    let mut model = Model::default();
    let mut random = braidb_sim::rng::Rng::new(1);
    model.fill(&db, (0..4_000).map(|number| number * 333 % 4_000), 120, 1);
    db.settle().unwrap();
    let written = slow_written(&fs, || {
        // Each key is the least of three draws. So the lowest quarter of the keys gets 58% of the writes, and the highest quarter 2%.
        for round in 0..60_u8 {
            let skewed = (0..100).map(|_| (0..3).map(|_| random.below(4_000) as u32).min().unwrap());
            let numbers: Vec<u32> = skewed.collect();
            model.fill(&db, numbers.into_iter(), 120, round);
            db.settle().unwrap();
        }
    });
    let put_bytes = 60 * 100 * 130;
    assert!(written > 0 && written < 2 * put_bytes, "{written} bytes for {put_bytes}");
    model.check_reopened(&fs, db, options(50));
}

/// A merge that writes a slow cell again takes it to the fast tier while the fast tier has room.
#[test]
fn cells_that_are_written_again_come_to_the_fast_tier_while_there_is_room() {
    let fs = machine();
    let (db, mut model) = at_rest(&fs, options(30), 120);
    let slow = slow_keys(&db).len();
    let db = model.check_reopened(&fs, db, options(100));
    assert_eq!(slow_keys(&db).len(), slow);
    let written = slow_written(&fs, || {
        model.fill(&db, (0..800).map(|number| number * 333 % 800), 120, 2);
        db.compact().unwrap();
        db.settle().unwrap();
    });
    assert_eq!((written, bytes(&db)[1]), (0, 0));
    model.check_reopened(&fs, db, options(100));
}

/// The share of the fast tier has room, but its device is full. So a merge that rewrites slow cells leaves them on the slow tier.
#[test]
fn a_full_fast_device_takes_no_slow_cells() {
    let fs = machine();
    let (db, mut model) = at_rest(&fs, options(30), 120);
    let db = model.check_reopened(&fs, db, options(100).memtable_bytes(1 << 20));
    model.fill(&db, (0..800).map(|number| number * 333 % 800), 120, 2);
    db.flush().unwrap();
    // Room for merges of all records, but less than what memory and merges keep free.
    fs.set_capacity_of(path(DIR), Some(fs.taken_bytes_of(path(DIR)) + (512 << 10)));
    assert!(slow_written(&fs, || db.compact().unwrap()) > 0, "slow cells took nothing");
    fs.set_capacity_of(path(DIR), None);
    model.check_reopened(&fs, db, options(100));
}
