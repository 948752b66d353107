//! The inputs of a policy besides the shape of the tree: the options, and the facts of the moment.

use crate::base::counters::LEVELS;
use crate::base::ids::{FileId, SeqNo, TierId};
use crate::base::key::{KeyRange, hash};
use crate::base::tier_dirs::Times;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Where the levels of the tree are cut into *cells*, which are merged one by one.
///
/// ```
/// use braidb::Options;
/// use braidb::tuning::Guards;
/// let options = Options::new().tuning(|tuning| tuning.guards(Guards::Sampled { top_level_bits: 27, bit_decrement: 2 }));
/// # drop(options);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guards {
    /// Not at all: a tree without guards has one cell a level.
    None,
    /// Guards are placed so that cells have about the same size.
    Balanced,
    /// Guards are keys whose hash ends in enough one bits: `top_level_bits` for L1, `bit_decrement` fewer for each deeper level
    /// (PebblesDB, section 4.5).
    Sampled {
        /// From 1 to 60. 27 suits 100 million keys; with too many, cells stay large.
        top_level_bits: u32,
        /// From 1 to 60. Each level has 2 to the power of this times as many guards as the level above.
        bit_decrement: u32,
    },
}

impl Guards {
    /// The topmost level that `key` may be a guard on, if it is sampled at all.
    pub fn sampled_level(&self, key: &[u8]) -> Option<usize> {
        let Guards::Sampled { top_level_bits, bit_decrement } = *self else { return None };
        let ones = hash(key).trailing_ones();
        (1..LEVELS).find(|&level| ones >= top_level_bits.saturating_sub(bit_decrement * (level as u32 - 1)))
    }
}

/// L0 goes down when it has this many tables, as in LevelDB. With fewer, merges would meet all of L1 more often. With more, a get would
/// search in more places.
const L0_TABLES: usize = 4;
/// In a leveled tree L0 waits for overlap up to this many tables: TRIAD's maximum (section 5.1). With more, a get would search in more
/// places, and merges would begin only when writes are slowed down.
const L0_WAITING_TABLES: usize = 6;
/// In a leveled tree L0 waits while newer tables of it hide fewer than this many thousandths of its keys: TRIAD's threshold (section 5.1).
pub(super) const OVERLAP_PERMILLE: u64 = 400;

/// The options of a tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Number of tables in L0 from which writes are slowed down.
    pub l0_slowdown_tables: usize,
    /// Number of tables in L0 at which writes wait. Making L0 smaller comes before all other merges.
    pub l0_stop_tables: usize,
    /// The least target of a level, in bytes.
    pub base_bytes: u64,
    /// How many times larger each level is than the one above.
    pub growth: u64,
    /// Tables are cut near this size, and so are cells.
    pub table_bytes: u64,
    /// How many runs make a cell due, level by level; 1 is a leveled tree. The number for L0 is not used.
    pub max_runs: [usize; LEVELS],
    pub guards: Guards,
    /// Whether samples tell how much the runs of a cell overlap.
    pub asks_overlap: bool,
    /// Whether readers buy merges.
    pub buys_merges: bool,
    /// Operations after which a tombstone goes down, and the rest of a nearly dead table is rewritten.
    pub cold_ops: u64,
}

/// Which tree the options ask for.
impl TreeOptions {
    /// Whether L0 is brought down by merges. Where cells of L1 hold several runs, trivial moves bring it down.
    pub fn merges_l0(&self) -> bool {
        self.max_runs[1] <= 1
    }

    /// Number of tables in L0 at which they go down, unless they wait for overlap.
    pub fn l0_due_tables(&self) -> usize {
        L0_TABLES.min(self.l0_slowdown_tables)
    }

    /// Whether L0 waits until its tables overlap enough to be merged (TRIAD-DISK). Moves as metadata do not wait. Without guards waiting
    /// wrote up to 1.08 times the bytes: a merge takes all of L1, which is smaller than six tables (docs/decisions/overlap.md).
    pub fn waits_for_overlap(&self) -> bool {
        self.asks_overlap && self.merges_l0() && self.guards != Guards::None
    }

    /// The numbers of tables in L0 with which it waits for overlap.
    pub fn l0_waiting_tables(&self) -> Range<usize> {
        let due = self.l0_due_tables();
        if self.waits_for_overlap() { due..L0_WAITING_TABLES.min(self.l0_slowdown_tables) } else { due..due }
    }

    /// Whether tables that are written to `level` need samples: L0 waits for overlap, or a cell on their way down may hold several runs.
    pub fn wants_sample(&self, level: usize) -> bool {
        let holds_several = || self.max_runs[level.max(1)..].iter().any(|&runs| runs > 1);
        self.asks_overlap && holds_several() || level == 0 && self.waits_for_overlap()
    }
}

/// A range of keys in which scans read more garbage than a rewrite costs.
#[derive(Clone, Debug)]
pub struct Garbage {
    pub range: KeyRange,
    /// The newest sequence number to be cleaned.
    pub upto: SeqNo,
}

/// What a move of a cell between tiers takes.
#[derive(Clone, Copy, Debug)]
pub struct MoveTimes {
    /// Nanoseconds that the slow device takes for one read at another place.
    pub seek_ns: u64,
    /// Picoseconds for a byte that is read from the slow device and written to the fast one.
    pub byte_ps: u64,
}

/// What a disk takes, for devices that were not measured: 10 ms to a place, 150 MB a second read there, and 500 MB a second written to
/// flash.
impl Default for MoveTimes {
    fn default() -> MoveTimes {
        MoveTimes { seek_ns: 10_000_000, byte_ps: byte_ps(150_000_000) + byte_ps(500_000_000) }
    }
}

/// Picoseconds for a byte at a rate above 0.
fn byte_ps(bytes_per_second: u64) -> u64 {
    1_000_000_000_000 / bytes_per_second
}

impl MoveTimes {
    /// What a move between two devices takes by their times. Nothing is counted for a fast device that was not measured; if the slow one
    /// was not, the times are those of a disk.
    pub fn of(times: &Times) -> MoveTimes {
        let Some(slow) = times.slow else { return MoveTimes::default() };
        let fast_ps = times.fast.map_or(0, |fast| byte_ps(fast.write_bytes_per_second));
        MoveTimes { seek_ns: slow.seek_ns, byte_ps: byte_ps(slow.read_bytes_per_second) + fast_ps }
    }

    /// Nanoseconds to move `bytes` out of `files`: equation 10 of LogStore for one table that returns to the fast tier.
    pub fn move_ns(&self, bytes: u64, files: u64) -> u128 {
        u128::from(files) * u128::from(self.seek_ns) + u128::from(bytes) * u128::from(self.byte_ps) / 1_000
    }
}

/// The tiers of a database with a slow one.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Bytes on the fast tier, and how many may be there. Logs and memory do not count.
    pub fast_bytes: u64,
    pub fast_bound_bytes: u64,
    /// The slow tiers that take cells, and the bytes that each may take. Those that the caller of the open named come first, then those
    /// with the most room.
    pub targets: Vec<(TierId, u64)>,
    /// A tier that the user gives up: its cells leave it.
    pub given_up: Option<TierId>,
    /// Whether cells of `given_up` leave before all other work: after each merge that moved no cell.
    pub is_their_turn: bool,
    /// Whether a cell is on its way to another tier.
    pub is_moving: bool,
    /// Whether readers have just turned to other keys (`version/usage/heat.rs`).
    pub is_settling: bool,
    pub times: MoveTimes,
    /// Value files that cannot be read now.
    pub unreadable: BTreeSet<FileId>,
}

impl Tiers {
    /// The slow tier that takes `bytes`, unless none has room.
    pub fn target_of(&self, bytes: u64) -> Option<TierId> {
        self.targets.iter().find(|(_, room_bytes)| bytes <= *room_bytes).map(|&(tier, _)| tier)
    }
}

/// The facts of the moment at which a policy is asked.
#[derive(Clone, Copy, Debug)]
pub struct Now<'a> {
    /// The watermark: every present and future reader is at or above this number.
    pub watermark: SeqNo,
    /// The newest number that readers see.
    pub visible: SeqNo,
    /// Of 1,000 puts that merges lately brought to oldest runs of last-level cells, how many hid an older entry. 1,000 before the first
    /// merge.
    pub shadowed_permille: u64,
    /// Whether a merge may be bought by what readers paid: not while another one runs.
    pub may_buy: bool,
    /// Ranges in which scans lost most of their time to garbage.
    pub garbage_hints: &'a [Garbage],
    /// Low keys of last-level cells whose scans have lost as much time to values in many places as a merge costs that gathers them
    /// (`plan/values/gathering.rs`).
    pub to_gather: &'a BTreeSet<Vec<u8>>,
    /// Tables whose handles are to be removed, so that the logs and value files which they point into can be deleted.
    pub to_rewrite: &'a BTreeSet<FileId>,
    /// The tiers, if there is a slow one.
    pub tiers: Option<&'a Tiers>,
    /// Sampled keys that flushes have met, with their top levels, and that are not guards on all of these levels yet.
    pub sampled: &'a BTreeMap<Vec<u8>, usize>,
}
