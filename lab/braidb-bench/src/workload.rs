//! The workloads, as data: the start of each, the shares of its operations, and the draw of their keys.
//!
//! The workloads of YCSB follow its core package (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010). The variants
//! of LogStore follow its Table I. Inserted records lie between the records of the fill and are spread over all of them, as by YCSB's
//! hashed order of insertion.

use crate::draws::YCSB_EXPONENT;
use crate::settings::Distribution::{self, Latest, Zipfian};
use Action::{
    Append, Get, GetMissing, Insert, PushOrPop, Put, PutInOrder, PutShuffled, ReadModifyWrite, Seek,
    SeekLong, SeekRecent, SeekUpTo100, Slide,
};
use Count::{Keys, KeysAndWindow, LongSeeks, Operations, Reads, Seconds, Seeks, WindowAndOperations, Writes};
use Mix::{Only, Shares};
use Start::{Empty, Filled, Fills};

/// One workload.
#[derive(Debug)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// The number that makes the draws of this workload differ from other workloads. It never changes.
    pub salt: u64,
    pub start: Start,
    pub mix: Mix,
    /// How keys are drawn, unless the settings say otherwise.
    pub distribution: Distribution,
    /// How skewed Zipf's law is, unless the settings say otherwise.
    pub zipf_exponent: f64,
    pub count: Count,
    /// One more thread overwrites random keys while the workload runs.
    pub is_beside_writer: bool,
    /// Each drawn number is moved on by half of the number of keys, so that other keys are the hot ones.
    pub is_moved: bool,
}

/// The state of the store before and after a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// An empty store. Afterwards it holds every key, and other workloads can be measured on it.
    Fills,
    /// An empty store. Afterwards it holds something else.
    Empty,
    /// A store that holds every key. Afterwards it holds every key and the inserted ones.
    Filled,
}

/// The number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The number of keys.
    Keys,
    /// `--writes`.
    Writes,
    /// `--reads`, or the number of keys.
    Reads,
    /// `--reads`, or a tenth of the number of keys.
    Seeks,
    /// `--reads`, or a hundredth of the number of keys.
    LongSeeks,
    /// `--operations`.
    Operations,
    /// The number of keys, after a window of rows was written.
    KeysAndWindow,
    /// `--operations`, after a window of rows was written.
    WindowAndOperations,
    /// As many as end within `--seconds`.
    Seconds,
}

/// The kinds of operations and their shares.
#[derive(Clone, Copy, Debug)]
pub enum Mix {
    Only(Action),
    /// Gets and puts: `--read-percent` of a hundred are gets.
    ByReadPercent,
    /// Each action with its share of a hundred.
    Shares(&'static [(u64, Action)]),
    /// Puts for `seconds`, then gets for `seconds`, in turns.
    Turns {
        seconds: u64,
    },
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes the keys in their order, each once.
    PutInOrder,
    /// Writes the keys in random order, each once.
    PutShuffled,
    /// Writes a drawn key.
    Put,
    /// Gets a drawn key, which must be there.
    Get,
    /// Gets a key between the keys of a fill. The key must not be there.
    GetMissing,
    /// Moves to a drawn key and reads `--entries` entries.
    Seek,
    /// Moves to a drawn key and reads 1,000 entries.
    SeekLong,
    /// Moves to a drawn key and reads 1 to 100 entries. Each number is equally likely.
    SeekUpTo100,
    /// Gets a drawn key and writes it again.
    ReadModifyWrite,
    /// Writes a new key.
    Insert,
    /// Writes the next row of a queue, and deletes the row that is a window older.
    Slide,
    /// Writes the next row of a queue. After a window of rows, every second operation reads the smallest key and deletes it.
    PushOrPop,
    /// Writes a key in about the order of time: each block of 64 keys comes in random order.
    Append,
    /// Reads the last 100 entries before one of the last 1,000 keys.
    SeekRecent,
}

impl Action {
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Action::Get
                | Action::GetMissing
                | Action::Seek
                | Action::SeekLong
                | Action::SeekUpTo100
                | Action::SeekRecent
        )
    }

    pub fn reads(self) -> bool {
        !self.writes() || matches!(self, Action::ReadModifyWrite | Action::PushOrPop)
    }
}

impl Workload {
    /// Whether the workload begins with an empty store.
    pub fn starts_empty(&self) -> bool {
        self.start != Start::Filled
    }

    /// Whether the workload leaves every key behind, so that other workloads can be measured on the store.
    pub fn fills(&self) -> bool {
        self.start == Start::Fills
    }

    /// Whether the workload starts with every key, and leaves these keys and no other.
    pub fn keeps_the_keys(&self) -> bool {
        self.start == Start::Filled && !self.inserts()
    }

    pub fn writes(&self) -> bool {
        self.is_beside_writer || self.has(Action::writes)
    }

    pub fn reads(&self) -> bool {
        self.has(Action::reads)
    }

    /// Whether the workload keeps the latencies of reads and of writes apart.
    pub fn is_mixed(&self) -> bool {
        !matches!(self.mix, Mix::Only(_))
    }

    /// Whether the workload needs a window of rows, in one family, with one thread.
    pub fn has_a_window(&self) -> bool {
        self.has(|action| matches!(action, Action::Slide | Action::PushOrPop))
    }

    /// Whether the workload inserts keys that a fill does not write.
    pub fn inserts(&self) -> bool {
        self.has(|action| action == Action::Insert)
    }

    fn has(&self, is: impl Fn(Action) -> bool) -> bool {
        match self.mix {
            Mix::Only(action) => is(action),
            Mix::ByReadPercent | Mix::Turns { .. } => is(Action::Get) || is(Action::Put),
            Mix::Shares(shares) => shares.iter().any(|(_, action)| is(*action)),
        }
    }

    /// The workload with this name.
    pub fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// A parser of names for a command line, with their help.
    pub fn parser() -> impl clap::builder::TypedValueParser<Value = &'static Workload> {
        use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
        let names = WORKLOADS.iter().map(|workload| PossibleValue::new(workload.name).help(workload.about));
        PossibleValuesParser::new(names)
            .map(|name| Workload::named(&name).expect("the parser takes no other names"))
    }
}

/// The exponent of LogStore's workloads (section VI).
const LOGSTORE_EXPONENT: f64 = 0.9;

const fn workload(name: &'static str, salt: u64, start: Start, mix: Mix, count: Count) -> Workload {
    let distribution = Distribution::Uniform;
    let zipf_exponent = YCSB_EXPONENT;
    Workload {
        name,
        about: "",
        salt,
        start,
        mix,
        distribution,
        zipf_exponent,
        count,
        is_beside_writer: false,
        is_moved: false,
    }
}

impl Workload {
    const fn about(self, about: &'static str) -> Workload {
        Workload { about, ..self }
    }

    const fn drawn(self, distribution: Distribution) -> Workload {
        Workload { distribution, ..self }
    }

    /// Draws as LogStore's evaluation does (section VI).
    const fn drawn_as_by_logstore(self) -> Workload {
        Workload { distribution: Distribution::Zipfian, zipf_exponent: LOGSTORE_EXPONENT, ..self }
    }

    const fn beside_writer(self) -> Workload {
        Workload { is_beside_writer: true, ..self }
    }

    const fn moved(self) -> Workload {
        Workload { is_moved: true, ..self }
    }
}

/// The workload of the thread that writes beside readers: overwrite.
pub static BESIDE_READERS: &Workload = &WORKLOADS[2];

/// Gets and read-modify-writes, half of each: YCSB's F, and LogStore's A-RMW with an exponent of its own.
const HALF_MODIFIES: Mix = Shares(&[(50, Get), (50, ReadModifyWrite)]);

/// All workloads.
pub static WORKLOADS: [Workload; 27] = [
    workload("fillseq", 0, Fills, Only(PutInOrder), Keys)
        .about("Write every key once, in order, to an empty database"),
    workload("fillrandom", 1, Fills, Only(PutShuffled), Keys)
        .about("Write every key once, in random order, to an empty database"),
    workload("overwrite", 2, Filled, Only(Put), Writes).about("Write random keys again"),
    workload("queue", 3, Empty, Only(Slide), KeysAndWindow)
        .about("Append rows at one end of an empty database and delete them at the other"),
    workload("readrandom", 4, Filled, Only(Get), Reads).about("Get random keys"),
    workload("readmissing", 5, Filled, Only(GetMissing), Reads).about("Get keys that are not there"),
    workload("seekrandom", 6, Filled, Only(Seek), Seeks)
        .about("Move to a random key and read ENTRIES entries"),
    workload("updaterandom", 7, Empty, Only(Put), Writes).about("Write random keys to an empty database"),
    workload("getwhilewriting", 8, Filled, Only(Get), Reads)
        .about("Get random keys while one more thread does what overwrite does")
        .beside_writer(),
    workload("seekwhilewriting", 9, Filled, Only(Seek), Seeks)
        .about(
            "Move to a random key and read ENTRIES entries, while one more thread does what overwrite does",
        )
        .beside_writer(),
    workload("mixed", 10, Filled, Mix::ByReadPercent, Operations)
        .about("Get random keys and write random keys again, in a given proportion"),
    workload("ycsb-load", 11, Fills, Only(PutShuffled), Keys)
        .about("YCSB's load phase: write every key once, in hashed order"),
    workload("ycsb-a", 12, Filled, Shares(&[(50, Get), (50, Put)]), Operations)
        .about("YCSB A: half gets, half updates, Zipfian")
        .drawn(Zipfian),
    workload("ycsb-b", 13, Filled, Shares(&[(95, Get), (5, Put)]), Operations)
        .about("YCSB B: 95% gets, 5% updates, Zipfian")
        .drawn(Zipfian),
    workload("ycsb-c", 14, Filled, Only(Get), Operations).about("YCSB C: gets, Zipfian").drawn(Zipfian),
    workload("ycsb-d", 15, Filled, Shares(&[(95, Get), (5, Insert)]), Operations)
        .about("YCSB D: 95% gets of keys that came last, 5% inserts")
        .drawn(Latest),
    workload("ycsb-e", 16, Filled, Shares(&[(95, SeekUpTo100), (5, Insert)]), Operations)
        .about("YCSB E: 95% scans of 1 to 100 entries, 5% inserts, Zipfian")
        .drawn(Zipfian),
    workload("ycsb-f", 17, Filled, HALF_MODIFIES, Operations)
        .about("YCSB F: half gets, half read-modify-writes, Zipfian")
        .drawn(Zipfian),
    workload("logstore-b90", 18, Filled, Shares(&[(90, Get), (10, Put)]), Operations)
        .about("LogStore's B-90: 90% gets, 10% updates, Zipfian")
        .drawn_as_by_logstore(),
    workload("logstore-b10", 19, Filled, Shares(&[(10, Get), (90, Put)]), Operations)
        .about("LogStore's B-10: 10% gets, 90% updates, Zipfian")
        .drawn_as_by_logstore(),
    workload("logstore-write", 20, Filled, Only(Put), Operations)
        .about("LogStore's Write-Only: updates, Zipfian")
        .drawn_as_by_logstore(),
    workload("timeline", 21, Empty, Shares(&[(95, Append), (5, SeekRecent)]), Keys)
        .about("Append keys in about the order of time to an empty database, and scan the newest"),
    workload("pushpop", 22, Empty, Only(PushOrPop), WindowAndOperations)
        .about("A queue: push a row, then read the smallest key and delete it"),
    workload("bursts", 23, Filled, Mix::Turns { seconds: 10 }, Seconds)
        .about("Overwrite random keys for 10 seconds, then get random keys for 10 seconds, in turns"),
    workload("logstore-rmw", 25, Filled, HALF_MODIFIES, Operations)
        .about("LogStore's A-RMW: half gets, half read-modify-writes, Zipfian")
        .drawn_as_by_logstore(),
    workload("seeklong", 24, Filled, Only(SeekLong), LongSeeks)
        .about("Move to a random key and read 1,000 entries"),
    workload("readmoved", 26, Filled, Only(Get), Reads)
        .about("Get random keys, of which others are hot than in readrandom")
        .moved(),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_salts_are_their_own_and_shares_make_a_hundred() {
        let names: BTreeSet<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        let salts: BTreeSet<u64> = WORKLOADS.iter().map(|workload| workload.salt).collect();
        assert_eq!((names.len(), salts.len()), (WORKLOADS.len(), WORKLOADS.len()));
        for workload in &WORKLOADS {
            assert!(!workload.about.is_empty(), "{}", workload.name);
            if let Mix::Shares(shares) = workload.mix {
                assert_eq!(shares.iter().map(|(share, _)| share).sum::<u64>(), 100, "{}", workload.name);
            }
        }
        assert_eq!(BESIDE_READERS.name, "overwrite");
    }

    #[test]
    fn what_a_workload_is_follows_from_its_mix() {
        let of = |name| Workload::named(name).unwrap();
        assert!(of("fillseq").writes() && !of("fillseq").reads() && of("fillseq").fills());
        assert!(of("ycsb-f").writes() && of("ycsb-f").reads() && of("ycsb-f").is_mixed());
        assert!(!of("ycsb-c").writes() && of("ycsb-c").reads() && !of("ycsb-c").is_mixed());
        assert!(of("getwhilewriting").writes() && of("getwhilewriting").reads());
        assert!(of("pushpop").has_a_window() && !of("timeline").has_a_window());
        assert!(of("ycsb-d").inserts() && !of("ycsb-a").inserts());
        assert!(Workload::named("novel").is_none());
    }
}
