//! Workloads: endless streams of operations, drawn from a seed.
//!
//! An operation is plain data and knows nothing of the database. So one stream drives the model test, the crash explorer and
//! the error test, and replays.
//!
//! A workload first draws its *character*: how many keys, how skewed, how large the values, how many deletes. The character
//! also says how often the workload flushes, reads and takes snapshots. Bugs hide in extremes that an even mixture never
//! visits. A run of increasing keys makes trivial moves. One key written for ever has a long chain of versions. Values larger
//! than the memtable flush at every write.
//!
//! Keys are few, so that they are overwritten, deleted and written again. Some keys are empty, prefixes of others, all 0xff or long. A new
//! feature of the engine adds its operation here.

use crate::model::show_bytes;
use crate::rng::Rng;
use braidb::Durability;
use braidb_storage::sim::Crash;
use std::ops::Bound;
use std::sync::Arc;

/// Column families that a workload uses; 0 is the default one.
pub const FAMILIES: [&str; 3] = ["default", "beta", "gamma \u{3b3}"];

/// The key in the default family under which each batch leaves its number. No other workload key equals it.
pub const COUNTER_KEY: &[u8] = b"\0op";

/// Every way to crash.
pub const CRASHES: [Crash; 3] = [Crash::Process, Crash::PowerAllLost, Crash::PowerTorn];

/// Bytes of a key or a value, shared between operation, model and history.
pub type Bytes = Arc<[u8]>;

/// A put, or a delete if `value` is `None`.
#[derive(Clone, Debug)]
pub struct Change {
    pub family: usize,
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// Which keys a scan visits.
#[derive(Clone, Debug)]
pub enum Span {
    All,
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
    Prefix(Vec<u8>),
}

impl Span {
    /// Whether some possible key lies in both spans.
    pub fn meets(&self, other: &Span) -> bool {
        let ends = [self, other].map(Span::half_open);
        let [Some((low, end)), Some((other_low, other_end))] = ends else { return false };
        let begins_in_time = |low: &Vec<u8>, end: &Option<Vec<u8>>| end.as_ref().is_none_or(|end| low < end);
        begins_in_time(&low, &other_end) && begins_in_time(&other_low, &end)
    }

    /// The first possible key, and the first one behind the span if there is one; `None` for a span without keys.
    fn half_open(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let behind = |key: &[u8]| [key, &[0]].concat();
        let (low, end) = match self {
            Span::All => (Vec::new(), None),
            Span::Prefix(prefix) => {
                let last = prefix.iter().rposition(|&byte| byte < u8::MAX);
                let end = last.map(|last| [&prefix[..last], &[prefix[last] + 1]].concat());
                (prefix.clone(), end)
            }
            Span::Range(low, high) => (
                match low {
                    Bound::Included(low) => low.clone(),
                    Bound::Excluded(low) => behind(low),
                    Bound::Unbounded => Vec::new(),
                },
                match high {
                    Bound::Included(high) => Some(behind(high)),
                    Bound::Excluded(high) => Some(high.clone()),
                    Bound::Unbounded => None,
                },
            ),
        };
        end.as_ref().is_none_or(|end| low < *end).then_some((low, end))
    }

    /// Whether the span contains `key`.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            Span::All => true,
            Span::Prefix(prefix) => key.starts_with(prefix),
            Span::Range(low, high) => {
                let above = match low {
                    Bound::Included(low) => key >= low.as_slice(),
                    Bound::Excluded(low) => key > low.as_slice(),
                    Bound::Unbounded => true,
                };
                let below = match high {
                    Bound::Included(high) => key <= high.as_slice(),
                    Bound::Excluded(high) => key < high.as_slice(),
                    Bound::Unbounded => true,
                };
                above && below
            }
        }
    }
}

/// A scan. `snapshot` chooses among the open snapshots, modulo their number. `None` reads the present state.
#[derive(Clone, Debug)]
pub struct Scan {
    pub family: usize,
    pub span: Span,
    pub snapshot: Option<u64>,
    /// One bit per step: 1 takes from the back. All zeros scan forward, all ones backward.
    pub directions: u64,
    pub steps: usize,
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// A batch. The runner adds the number of the write under [`COUNTER_KEY`].
    Write(Vec<Change>, Option<Durability>),
    /// One put or delete by the single-key calls, without the number.
    Plain(Change),
    Get {
        family: usize,
        key: Bytes,
        snapshot: Option<u64>,
    },
    Scan(Scan),
    /// Opens an iterator that stays open while the database changes.
    OpenIter(Scan),
    /// Takes some entries from an open iterator.
    StepIter {
        which: u64,
        directions: u64,
        steps: usize,
    },
    DropIter(u64),
    /// Looks at the first living entries of a family, or the last ones, and deletes them: one by one, or all at once.
    Pop {
        family: usize,
        from_back: bool,
        entries: usize,
        at_once: bool,
    },
    /// Takes all entries out of ranges of a family. None of the ranges has [`COUNTER_KEY`] in the default family.
    Excise {
        family: usize,
        spans: Vec<Span>,
    },
    CompactRange {
        family: usize,
        span: Span,
    },
    TakeSnapshot,
    DropSnapshot(u64),
    Persist(Durability),
    Flush,
    Compact,
    Settle,
    /// Runs this many background jobs.
    Step(usize),
    CreateFamily(usize),
    Verify,
    Reopen {
        /// Whether the database is closed first, or only dropped.
        close: bool,
    },
    Crash(Crash),
}

impl Op {
    /// The name of the operation in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Write(..) => "batch",
            Op::Plain(_) => "plain write",
            Op::Get { .. } => "get",
            Op::Scan(_) => "scan",
            Op::OpenIter(_) => "iterator",
            Op::StepIter { .. } => "iterator steps",
            Op::DropIter(_) => "iterator drop",
            Op::Pop { .. } => "pop",
            Op::Excise { .. } => "excise",
            Op::CompactRange { .. } => "compact of a range",
            Op::TakeSnapshot => "snapshot",
            Op::DropSnapshot(_) => "snapshot drop",
            Op::Persist(_) => "persist",
            Op::Flush => "flush",
            Op::Compact => "compact",
            Op::Settle => "settle",
            Op::Step(_) => "job steps",
            Op::CreateFamily(_) => "family",
            Op::Verify => "verify",
            Op::Reopen { .. } => "reopen",
            Op::Crash(_) => "crash",
        }
    }

    /// The whole operation as text, with keys and values shortened.
    pub fn brief(&self) -> String {
        let change = |change: &Change| {
            let value = change.value.as_ref().map_or("deleted".to_owned(), |value| show_bytes(value));
            format!("{}/{} = {value}", change.family, show_bytes(&change.key))
        };
        match self {
            Op::Write(changes, durability) => {
                let changes: Vec<String> = changes.iter().map(change).collect();
                format!("batch {durability:?} [{}]", changes.join(", "))
            }
            Op::Plain(plain) => format!("plain write {}", change(plain)),
            Op::Get { family, key, snapshot } => {
                format!("get {family}/{} of snapshot {snapshot:?}", show_bytes(key))
            }
            Op::Scan(scan) => format!("{scan:?}"),
            other => format!("{other:?}"),
        }
    }
}

/// How large values are.
#[derive(Clone, Copy, Debug)]
enum Sizes {
    Small,
    Mixed,
    Large,
}

/// The distribution of keys.
#[derive(Clone, Copy, Debug)]
enum Order {
    Uniform,
    Skewed,
    Increasing,
}

/// The kinds of operation, to draw by weight.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Write,
    Plain,
    Get,
    Scan,
    Iter,
    Snapshot,
    Persist,
    Flush,
    Compact,
    Settle,
    Step,
    CreateFamily,
    Verify,
    Reopen,
    Crash,
}

/// The limits of a workload that its judge sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whether the workload contains crashes.
    pub crashes: bool,
    /// The largest value, in bytes.
    pub value_bytes: usize,
}

/// A stream of operations.
#[derive(Clone, Debug)]
pub struct Workload {
    rng: Rng,
    keys: Vec<Bytes>,
    families: usize,
    order: Order,
    sizes: Sizes,
    limits: Limits,
    /// Deletes per 100 changes.
    deletes: u64,
    batch_entries: u64,
    weights: Vec<(u64, Kind)>,
    drawn: u64,
    /// Draws pops. A generator of their own, so that the other draws of older seeds stay unchanged.
    pops: Rng,
    /// One operation in this many is a pop.
    pop_every: u64,
    /// Draws excises and compacts of ranges, as `pops` draws pops.
    ranges: Rng,
    /// One operation in this many is an excise, or a compact of a range.
    range_every: u64,
}

impl Workload {
    /// The workload of the seed `seed`.
    pub fn new(seed: u64, limits: Limits) -> Workload {
        let mut rng = Rng::new(seed);
        let count = rng.pick(&[6, 30, 120, 120, 400]);
        let keys = draw_keys(count, &mut rng);
        let order = rng.pick(&[Order::Uniform, Order::Skewed, Order::Skewed, Order::Increasing]);
        let sizes = rng.pick(&[Sizes::Small, Sizes::Mixed, Sizes::Mixed, Sizes::Large]);
        let deletes = rng.pick(&[2, 15, 30, 60]);
        let families = rng.between(1, FAMILIES.len() as u64) as usize;
        let batch_entries = rng.pick(&[1, 3, 8]);
        let reads = rng.pick(&[4, 15]);
        let lazy = rng.one_in(3); // Flushes and merges are rare: memory, L0 and logs grow.
        let weights = vec![
            (60, Kind::Write),
            (6, Kind::Plain),
            (reads, Kind::Get),
            (reads, Kind::Scan),
            (reads, Kind::Iter),
            (6, Kind::Snapshot),
            (2, Kind::Persist),
            (if lazy { 0 } else { 2 }, Kind::Flush),
            (u64::from(!lazy), Kind::Compact),
            (u64::from(!lazy), Kind::Settle),
            (if lazy { 1 } else { 12 }, Kind::Step),
            (1, Kind::CreateFamily),
            (1, Kind::Verify),
            (1, Kind::Reopen),
            (u64::from(limits.crashes), Kind::Crash),
        ];
        let mut pops = rng.clone().fork();
        let pop_every = pops.pick(&[5, 20, 100]);
        let mut ranges = pops.clone().fork();
        let range_every = ranges.pick(&[15, 60, 300, 3_000]);
        Workload {
            pops,
            pop_every,
            ranges,
            range_every,
            rng,
            keys,
            families,
            order,
            sizes,
            limits,
            deletes,
            batch_entries,
            weights,
            drawn: 0,
        }
    }

    /// Every key that the workload can write.
    pub fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    /// The next operation.
    pub fn next_op(&mut self) -> Op {
        if self.pops.one_in(self.pop_every) {
            return Op::Pop {
                family: self.pops.below(self.families as u64) as usize,
                from_back: self.pops.one_in(2),
                entries: self.pops.between(1, 12) as usize,
                at_once: self.pops.one_in(3),
            };
        }
        if self.ranges.one_in(self.range_every) {
            return self.draw_range_op();
        }
        self.drawn += 1;
        match self.rng.weighted(&self.weights) {
            Kind::Write => {
                let entries = self.rng.between(1, self.batch_entries);
                let changes = (0..entries).map(|_| self.draw_change()).collect();
                Op::Write(changes, self.draw_durability())
            }
            Kind::Plain => Op::Plain(self.draw_change()),
            Kind::Get => {
                let snapshot = self.draw_snapshot();
                Op::Get { family: self.draw_family(), key: self.draw_probe().into(), snapshot }
            }
            Kind::Scan => Op::Scan(self.draw_scan()),
            Kind::Iter => match self.rng.below(4) {
                0 => Op::OpenIter(self.draw_scan()),
                1 => Op::DropIter(self.rng.bits()),
                _ => Op::StepIter {
                    which: self.rng.bits(),
                    directions: self.draw_directions(),
                    steps: self.rng.between(1, 20) as usize,
                },
            },
            Kind::Snapshot => match self.rng.one_in(2) {
                true => Op::TakeSnapshot,
                false => Op::DropSnapshot(self.rng.bits()),
            },
            Kind::Persist => {
                Op::Persist(self.rng.pick(&[Durability::None, Durability::Buffer, Durability::Sync]))
            }
            Kind::Flush => Op::Flush,
            // Full compactions and `settle` are rare. Frequent ones would leave no work that could go wrong.
            Kind::Compact => {
                if self.rng.one_in(4) {
                    Op::Compact
                } else {
                    Op::Step(2)
                }
            }
            Kind::Settle => {
                if self.rng.one_in(3) {
                    Op::Settle
                } else {
                    Op::Step(3)
                }
            }
            Kind::Step => Op::Step(self.rng.between(1, 3) as usize),
            Kind::CreateFamily => Op::CreateFamily(self.draw_family()),
            Kind::Verify => Op::Verify,
            Kind::Reopen => Op::Reopen { close: self.rng.one_in(2) },
            Kind::Crash => Op::Crash(self.rng.pick(&CRASHES)),
        }
    }

    fn draw_range_op(&mut self) -> Op {
        let family = self.ranges.below(self.families as u64) as usize;
        if self.ranges.one_in(4) {
            return Op::CompactRange { family, span: self.draw_whole_range(0) };
        }
        let count = self.ranges.weighted(&[(6, 1), (2, 2), (1, 3)]);
        Op::Excise { family, spans: (0..count).map(|_| self.draw_whole_range(family)).collect() }
    }

    /// A range of a family behind [`COUNTER_KEY`], if the family has it. Some ranges have no keys.
    fn draw_whole_range(&mut self, family: usize) -> Span {
        let mut key = || {
            let index = self.ranges.below(self.keys.len() as u64) as usize;
            self.keys[index].to_vec()
        };
        let (mut low, mut high) = (key(), key());
        if low > high && !self.ranges.one_in(8) {
            std::mem::swap(&mut low, &mut high);
        }
        let low = match self.ranges.below(4) {
            _ if family == 0 && *low <= *COUNTER_KEY => Bound::Excluded(COUNTER_KEY.to_vec()),
            0 if family > 0 => Bound::Unbounded,
            0 | 1 => Bound::Excluded(low),
            _ => Bound::Included(low),
        };
        let high = match self.ranges.below(6) {
            0 => Bound::Unbounded,
            1..4 => Bound::Excluded(high),
            _ => Bound::Included(high),
        };
        Span::Range(low, high)
    }

    fn draw_family(&mut self) -> usize {
        self.rng.below(self.families as u64) as usize
    }

    fn draw_key(&mut self) -> Bytes {
        let count = self.keys.len() as u64;
        let index = match self.order {
            Order::Uniform => self.rng.below(count),
            Order::Skewed => {
                let below = self.rng.between(1, count);
                self.rng.below(below)
            }
            // A window of 16 neighbouring keys that moves on by one key every 8 operations and wraps around.
            Order::Increasing => (self.drawn / 8 + self.rng.below(16)) % count,
        };
        self.keys[index as usize].clone()
    }

    /// A key to look up: one that may exist, or a close neighbour of one.
    fn draw_probe(&mut self) -> Vec<u8> {
        let mut key = self.draw_key().to_vec();
        match self.rng.below(8) {
            0 => key.push(0),
            1 => drop(key.pop()),
            2 => key = COUNTER_KEY.to_vec(),
            _ => {}
        }
        key
    }

    fn draw_change(&mut self) -> Change {
        let family = self.draw_family();
        let key = self.draw_key();
        let value = (self.rng.below(100) >= self.deletes).then(|| self.draw_value());
        Change { family, key, value }
    }

    /// Draws a value. It starts with the operation's number, so that a wrong value shows its origin.
    fn draw_value(&mut self) -> Bytes {
        let bytes = match (self.sizes, self.rng.below(100)) {
            (_, 0..8) => 0,
            (Sizes::Small, _) | (Sizes::Mixed, 8..60) => self.rng.below(24),
            (Sizes::Mixed, 60..92) => self.rng.below(300),
            (Sizes::Mixed, _) => self.rng.below(5_000),
            (Sizes::Large, 8..90) => self.rng.below(1_000),
            (Sizes::Large, _) => self.rng.below(30_000),
        };
        let bytes = (bytes as usize).min(self.limits.value_bytes);
        let mut value = format!("{}/{}:", self.drawn, self.rng.below(1_000)).into_bytes();
        let dull = self.rng.one_in(3);
        while value.len() < bytes {
            value.extend(if dull { [0; 8] } else { self.rng.bits().to_le_bytes() });
        }
        value.truncate(bytes);
        value.into()
    }

    fn draw_durability(&mut self) -> Option<Durability> {
        self.rng.weighted(&[
            (70, None),
            (10, Some(Durability::None)),
            (10, Some(Durability::Buffer)),
            (10, Some(Durability::Sync)),
        ])
    }

    fn draw_snapshot(&mut self) -> Option<u64> {
        self.rng.one_in(3).then(|| self.rng.bits())
    }

    fn draw_directions(&mut self) -> u64 {
        match self.rng.below(3) {
            0 => 0,
            1 => u64::MAX,
            _ => self.rng.bits(),
        }
    }

    fn draw_scan(&mut self) -> Scan {
        let span = match self.rng.below(4) {
            0 => Span::All,
            1 => {
                let mut prefix = self.draw_probe();
                prefix.truncate(self.rng.below(4) as usize);
                Span::Prefix(prefix)
            }
            _ => Span::Range(self.draw_bound(), self.draw_bound()),
        };
        let steps = if self.rng.one_in(3) { usize::MAX } else { self.rng.below(30) as usize };
        let snapshot = self.draw_snapshot();
        Scan { family: self.draw_family(), span, snapshot, directions: self.draw_directions(), steps }
    }

    fn draw_bound(&mut self) -> Bound<Vec<u8>> {
        match self.rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(self.draw_probe()),
            _ => Bound::Excluded(self.draw_probe()),
        }
    }
}

/// Draws `count` different keys, in key order.
fn draw_keys(count: u64, rng: &mut Rng) -> Vec<Bytes> {
    let mut keys = std::collections::BTreeSet::new();
    for awkward in [&b""[..], b"\0", b"\0\0", b"\xff", b"\xff\xff", b"a", b"ab", b"abcdefgh", b"abcdefghi"] {
        if rng.one_in(2) {
            keys.insert(awkward.to_vec());
        }
    }
    while (keys.len() as u64) < count {
        let mut key = rng.pick(&[&b""[..], b"a", b"user/", b"user/1/", b"\xff\xff", b"abcdefghij"]).to_vec();
        key.extend(format!("{:03}", rng.below(3 * count)).bytes());
        if rng.one_in(40) {
            key.resize(rng.between(20, 600) as usize, b'x');
        }
        keys.insert(key);
    }
    keys.remove(COUNTER_KEY);
    keys.into_iter().map(Bytes::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_replays() {
        let limits = Limits { crashes: true, value_bytes: 1_000 };
        let ops = |seed| {
            let mut workload = Workload::new(seed, limits);
            (0..200).map(|_| format!("{:?}", workload.next_op())).collect::<Vec<String>>()
        };
        assert_eq!(ops(3), ops(3));
        assert_ne!(ops(3), ops(4));
    }

    #[test]
    fn spans_meet_where_a_key_lies_in_both() {
        let range =
            |low: &str, high: &str| Span::Range(Bound::Included(low.into()), Bound::Excluded(high.into()));
        let prefix = |prefix: &[u8]| Span::Prefix(prefix.to_vec());
        assert!(range("a", "c").meets(&range("b", "d")) && !range("a", "b").meets(&range("b", "d")));
        assert!(prefix(b"b").meets(&range("bz", "d")) && !prefix(b"b").meets(&range("c", "d")));
        assert!(prefix(b"\xff\xff").meets(&Span::All) && !prefix(b"b").meets(&range("d", "a")));
        assert!(Span::All.meets(&range("a", "b")) && !Span::All.meets(&range("b", "b")));
    }

    #[test]
    fn spans_agree_with_bounds() {
        let span = Span::Range(Bound::Excluded(b"b".to_vec()), Bound::Included(b"d".to_vec()));
        let inside: Vec<&str> =
            ["a", "b", "ba", "d", "da"].into_iter().filter(|k| span.contains(k.as_bytes())).collect();
        assert_eq!(inside, ["ba", "d"]);
        let upside_down = Span::Range(Bound::Included(b"d".to_vec()), Bound::Included(b"b".to_vec()));
        assert!(!upside_down.contains(b"c"));
    }
}
