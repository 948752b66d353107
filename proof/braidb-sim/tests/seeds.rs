//! Cases that once found a bug. They are never removed.

use braidb_sim::draw::Preset;
use braidb_sim::judge::{Case, Judge};

/// A case, and the bug that it found.
type Seed = (Judge, u64, Preset, u64, u64, &'static str);

/// Judge, seed, preset, operations, stride (one storage operation in this many is tried), and the bug that the seed found.
const SEEDS: &[Seed] = &[
    (
        Judge::Errors,
        1,
        Preset::Default,
        60,
        1,
        "closing a poisoned database succeeded, though writes in None were lost",
    ),
    (
        Judge::Errors,
        1,
        Preset::TinyFiles,
        60,
        7,
        "the tables of an edit whose sync failed were deleted, and the edit held",
    ),
    (
        Judge::Crash,
        4,
        Preset::TinyFiles,
        200,
        1,
        "a flush relied on a log whose end a recovery cut short had not recorded",
    ),
    (
        Judge::Crash,
        200,
        Preset::Default,
        200,
        1,
        "a directory that a killed process had made was used and never synced",
    ),
    (
        Judge::Flips,
        966_731_917_045,
        Preset::TinyFiles,
        70,
        21,
        "a truncated manifest went unnoticed, and writes with it",
    ),
    (
        Judge::Errors,
        694_648_751_064,
        Preset::TinyFiles,
        90,
        8,
        "a poisoned compaction said that the database was closed",
    ),
    (
        Judge::Errors,
        611_428_009_369,
        Preset::Random,
        130,
        14,
        "a flush that failed for ever kept merges waiting for ever, where one thread does everything",
    ),
    (
        Judge::Model,
        2,
        Preset::Guards,
        600,
        1,
        "a scan read a trie table by the length that the table of its first value knew",
    ),
    (
        Judge::Model,
        5279,
        Preset::Random,
        5_000,
        1,
        "a full trie table was unlinked before the edit that named it",
    ),
    (Judge::Model, 5062, Preset::TinyFiles, 4_000, 1, "a guard was raised to L1 and taken from L2 at once"),
    (Judge::Model, 5006, Preset::Random, 4_000, 1, "a cell was cut by a guard that was gone"),
    (Judge::Model, 3019, Preset::Guards, 2_000, 1, "a cell that could not be cut was cut for ever"),
    (Judge::Model, 4004, Preset::TinyFiles, 2_500, 1, "a cell of two keys in one block was cut for ever"),
    (
        Judge::Model,
        862_795_993_884,
        Preset::Random,
        300,
        1,
        "a run that joined another of its cell passed one that had come meanwhile",
    ),
    (
        Judge::Crash,
        789_837_847_557,
        Preset::SmallMemory,
        400,
        1,
        "a log with hot keys that no number of its own told of went with them",
    ),
    (Judge::Errors, 25_516_381_893, Preset::Random, 60, 7, "a version stood in memory and in a table"),
    (Judge::Model, 990_001, Preset::Random, 5_000, 1, "an empty segment was flattened for ever"),
    (
        Judge::Model,
        100923,
        Preset::TinyFiles,
        700,
        1,
        "readers paid for the oldest of several runs over a gap of the next level, and nothing could be bought",
    ),
    (
        Judge::Model,
        100298,
        Preset::ShortLogs,
        700,
        1,
        "readers paid for the oldest of several runs over a gap of the next level, and nothing could be bought",
    ),
    (
        Judge::Model,
        101383,
        Preset::ShortLogs,
        700,
        1,
        "readers paid for the oldest of several runs over a gap of the next level, and nothing could be bought",
    ),
    (
        Judge::Model,
        200519,
        Preset::Guards,
        700,
        1,
        "readers paid for the oldest of several runs over a gap of the next level, and nothing could be bought",
    ),
];

/// Runs every second case, so that two test threads share them.
fn every_second_bug_stays_dead(first: usize) {
    for &(judge, seed, preset, ops, stride, bug) in SEEDS.iter().skip(first).step_by(2) {
        let case = Case { ops, stride, ..Case::new(judge, seed, preset) };
        if let Err(failure) = case.run() {
            panic!("{bug}: the bug is back: {failure}");
        }
    }
}

#[test]
fn bugs_stay_dead() {
    every_second_bug_stays_dead(0);
}

#[test]
fn bugs_stay_dead_of_the_second_half() {
    every_second_bug_stays_dead(1);
}
