//! How many reads memory serves, and how many accesses reach each device, in BraidDB.
//!
//! Equations 4 to 6 of LogStore keep the hottest records in memory. BraidDB has two caches instead, one behind the other:
//!
//! - The *block cache* keeps blocks of tables, and single values. Once it is full, it keeps what is offered to it twice (a doorkeeper). A
//!   cache whose doorkeeper forgets is an LRU cache behind a smaller one: Martina, Garetto and Leonardi, "A unified approach to the
//!   performance analysis of caching systems" (INFOCOM 2014), section on k-LRU.
//! - The *page cache* keeps pages of 4 KiB, each with the neighbours of what was read. Only what the block cache lacks is read from it.
//!
//! A get asks for a block of a table first. A value of [`SEPARATED_BYTES`] or more lies apart in a value file, and is asked for after its
//! block. Filters spare the get all other tables. The tables of separated values stay on the fast device.

use super::lru::stay_reads;
use super::{Popularity, Rates};
use crate::profile::PAGE_BYTES;

/// Bytes of a value from which on it lies apart from its key: BraidDB's default.
const SEPARATED_BYTES: u64 = 1024;
/// Bytes of a block of a table: BraidDB's default.
const BLOCK_BYTES: f64 = 4096.0;
/// Bytes behind a block: its type and checksum.
const TRAILER_BYTES: f64 = 5.0;
/// Bytes of a table's entry that leads to a value, with two bytes of its key: docs/formats.md, "Data blocks". Each 16th entry also has its
/// whole key and 4 bytes of a list of such entries.
const HANDLE_ENTRY_BYTES: f64 = 20.0;
/// Bytes before a value in a value file: docs/formats.md, "Value files".
const RECORD_HEAD_BYTES: f64 = 20.0;
/// Bytes of a table's entry besides its key and value.
const ENTRY_BYTES: f64 = 9.0;
/// Bytes of memory that the block cache takes for each block or value, in addition to its bytes.
const CACHED_BYTES: f64 = 128.0;
/// How many offers the doorkeeper remembers for each 4 KiB of the block cache.
const MARKS_PER_BLOCK: u64 = 4;
/// Ranks before a group divided by the ranks in it. Within a group popularity then differs by about 1/50.
const GROUP_SHARE: u64 = 50;

/// Where records of like popularity lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Records of like popularity lie next to each other. A page holds records of nearly equal popularity, and the fast device has the
    /// hottest ones.
    ByHeat,
    /// Records lie anywhere, whatever their popularity. A page holds records of any popularity, all large parts of the data are equally
    /// hot, and the fast device has any of them.
    Scattered,
}

/// The two caches.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes of the block cache.
    pub block_bytes: u64,
    /// Bytes of the page cache.
    pub page_bytes: u64,
}

/// Accesses to devices.
#[derive(Clone, Copy, Debug)]
pub struct Accesses {
    /// The shares of gets whose record is served by memory, by the fast device and by the slow device. They add up to 1.
    pub rates: Rates,
    /// Accesses to tables on the fast device that only tell where the value lies, a get.
    pub of_tables: f64,
    /// Bytes of the pages that an access to a record transfers.
    pub record_transfer_bytes: f64,
    /// Bytes of the pages that an access to such a table transfers.
    pub table_transfer_bytes: f64,
}

/// What a get asks for.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// How many records share the piece.
    records: f64,
    /// Bytes on the device.
    stored_bytes: f64,
    /// Bytes in the block cache.
    cached_bytes: f64,
}

impl Piece {
    /// Pages that an access touches: the first byte may lie anywhere in a page.
    fn pages(&self) -> f64 {
        1.0 + (self.stored_bytes - 1.0) / PAGE_BYTES as f64
    }

    fn pieces_per_page(&self) -> f64 {
        PAGE_BYTES as f64 / self.stored_bytes
    }

    /// The probability that all pages are cached, if each is with probability `cached`.
    fn found(&self, cached: f64) -> f64 {
        let whole = libm::floor(self.pages());
        let rest = self.pages() - whole;
        libm::pow(cached, whole) * (1.0 - rest + rest * cached)
    }
}

/// Pieces of a kind with nearly equal popularity.
#[derive(Clone, Copy, Debug)]
struct Group {
    piece: Piece,
    /// Whether the piece is a block that only tells where the value lies.
    is_table: bool,
    units: f64,
    /// The share of gets that ask for any of the units.
    requests: f64,
    is_fast: bool,
}

impl Memory {
    /// The accesses of a get to records with these bytes of key and value. The fast device has `fast_share` of the records.
    ///
    /// ```
    /// use braidb_device::cost::{Layout, Memory, Popularity, Rates};
    ///
    /// let popularity = Popularity::zipf(1_000_000, 0.9);
    /// let memory = Memory { block_bytes: 10 << 20, page_bytes: 10 << 20 };
    /// let found = memory.accesses(&popularity, (16, 1024), 0.5, Layout::ByHeat);
    /// let best = Rates::hottest_in_memory(&popularity, 0.02, 0.5);
    /// assert!(found.rates.memory < best.memory && found.rates.slow > 0.9 * best.slow);
    /// ```
    pub fn accesses(
        &self,
        popularity: &Popularity,
        (key_bytes, value_bytes): (u64, u64),
        fast_share: f64,
        layout: Layout,
    ) -> Accesses {
        let (record, table) = pieces(key_bytes as f64, value_bytes);
        let mut groups = groups(popularity, record, false, fast_share, layout);
        groups.extend(table.into_iter().flat_map(|table| self::groups(popularity, table, true, 1.0, layout)));
        let missed = self.missed_blocks(&groups);
        let reaching = self.missed_pages(&groups, &missed, layout);
        let (mut fast, mut slow, mut of_tables) = (0.0, 0.0, 0.0);
        for (group, share) in groups.iter().zip(reaching) {
            *(match (group.is_table, group.is_fast) {
                (true, _) => &mut of_tables,
                (false, true) => &mut fast,
                (false, false) => &mut slow,
            }) += share;
        }
        if layout == Layout::Scattered {
            (fast, slow) = ((fast + slow) * fast_share, (fast + slow) * (1.0 - fast_share));
        }
        let transfer_bytes = |piece: Piece| piece.pages() * PAGE_BYTES as f64;
        Accesses {
            rates: Rates { memory: 1.0 - fast - slow, fast, slow },
            of_tables,
            record_transfer_bytes: transfer_bytes(record),
            table_transfer_bytes: table.map_or(0.0, transfer_bytes),
        }
    }

    /// For each group, the share of gets that ask for one of its units and do not find it in the block cache.
    fn missed_blocks(&self, groups: &[Group]) -> Vec<f64> {
        /// Rounds after which admissions and misses agree to 10^-4.
        const ROUNDS: usize = 6;
        let blocks = self.block_bytes / BLOCK_BYTES as u64;
        let marks = (blocks * MARKS_PER_BLOCK).max(1).next_power_of_two() as f64;
        let mut missed: Vec<f64> = groups.iter().map(|group| group.requests).collect();
        for _ in 0..ROUNDS {
            // The doorkeeper has `marks` places. An offer of another block overwrites a given place with probability 1 / marks.
            let forgotten = missed.iter().sum::<f64>() / marks;
            let found = |group: &Group, stay: f64| {
                let rate = group.requests / group.units;
                let lost = libm::exp(-rate * stay);
                let admitted = (1.0 - lost) * rate / (rate + forgotten);
                if admitted > 0.0 { admitted / (lost + admitted) } else { 0.0 }
            };
            let held = |stay: f64| {
                groups.iter().map(|group| group.units * group.piece.cached_bytes * found(group, stay)).sum()
            };
            let stay = stay_reads(held, self.block_bytes as f64);
            missed = groups.iter().map(|group| group.requests * (1.0 - found(group, stay))).collect();
        }
        missed
    }

    /// For each group, the share of gets that ask a device for one of its units, where the share `missed` asks the page cache.
    fn missed_pages(&self, groups: &[Group], missed: &[f64], layout: Layout) -> Vec<f64> {
        // The probability that a piece was not asked for during `stay` reads of the store, for each of its pages.
        let unread = |group: &Group, missed: f64, stay: f64| {
            let rate = missed * group.piece.pages() / group.units;
            libm::exp(-rate * group.piece.pieces_per_page().min(1.0) * stay)
        };
        // The probability that a page was not asked for because of other pieces on it than a given one.
        let neighbours_unread = |group: &Group, own: f64, average: f64| {
            let neighbours = (group.piece.pieces_per_page() - 1.0).max(0.0);
            let each = if layout == Layout::Scattered && !group.is_table { average } else { own };
            libm::pow(each, neighbours)
        };
        let average = |stay: f64| {
            let records = || groups.iter().zip(missed).filter(|(group, _)| !group.is_table);
            let units: f64 = records().map(|(group, _)| group.units).sum();
            records().map(|(group, &missed)| group.units * unread(group, missed, stay)).sum::<f64>() / units
        };
        let cached = |group: &Group, missed: f64, stay: f64, average: f64| {
            let own = unread(group, missed, stay);
            1.0 - own * neighbours_unread(group, own, average)
        };
        let held = |stay: f64| {
            let average = average(stay);
            let pages_held = groups.iter().zip(missed).map(|(group, &missed)| {
                group.units / group.piece.pieces_per_page() * cached(group, missed, stay, average)
            });
            pages_held.sum()
        };
        let stay = stay_reads(held, (self.page_bytes / PAGE_BYTES) as f64);
        let average = average(stay);
        let reaching = groups
            .iter()
            .zip(missed)
            .map(|(group, &missed)| missed * (1.0 - group.piece.found(cached(group, missed, stay, average))));
        reaching.collect()
    }
}

/// The piece with a record, and the block that tells where the record lies if this is another piece.
fn pieces(key_bytes: f64, value_bytes: u64) -> (Piece, Option<Piece>) {
    let value = value_bytes as f64;
    let block = |entry_bytes: f64| {
        let records = libm::floor(BLOCK_BYTES / entry_bytes).max(1.0);
        let bytes = BLOCK_BYTES.max(entry_bytes);
        Piece { records, stored_bytes: bytes + TRAILER_BYTES, cached_bytes: bytes + CACHED_BYTES }
    };
    if value_bytes < SEPARATED_BYTES {
        return (block(key_bytes + value + ENTRY_BYTES), None);
    }
    let stored_bytes = value + RECORD_HEAD_BYTES;
    let record = Piece { records: 1.0, stored_bytes, cached_bytes: value + CACHED_BYTES };
    (record, Some(block(HANDLE_ENTRY_BYTES + (key_bytes + 4.0) / 16.0)))
}

/// The pieces of one kind in groups, from the hottest to the coldest.
fn groups(
    popularity: &Popularity,
    piece: Piece,
    is_table: bool,
    fast_share: f64,
    layout: Layout,
) -> Vec<Group> {
    let records_each = piece.records as u64;
    // The hottest records of a scattered store lie in a block each. All other records are spread evenly.
    let is_spread = layout == Layout::Scattered && records_each > 1;
    let (ranks, unit) = match is_spread {
        true => (popularity.records().div_ceil(records_each), 1),
        false => (popularity.records(), records_each),
    };
    let spread_each = (1.0 - popularity.share_of_hottest(ranks)) / ranks as f64;
    let fast_end = popularity.ranks_in(fast_share);
    let (mut groups, mut from) = (Vec::new(), 0);
    while from < ranks {
        let end = (from + unit * (from / unit / GROUP_SHARE).max(1)).min(ranks);
        let to = if from < fast_end { end.min(fast_end) } else { end };
        let of_ranks = popularity.share_of_hottest(to) - popularity.share_of_hottest(from);
        groups.push(Group {
            piece,
            is_table,
            units: (to - from) as f64 / unit as f64,
            requests: of_ranks + (to - from) as f64 * spread_each,
            is_fast: to <= fast_end,
        });
        from = to;
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use braidb_storage::inline::SeededRandom;

    use super::*;

    /// A cache by bytes, in exact LRU order.
    #[derive(Default)]
    struct Lru {
        capacity: u64,
        held: u64,
        uses: u64,
        by_use: BTreeMap<u64, (u64, u64)>,
        last_uses: BTreeMap<u64, u64>,
    }

    impl Lru {
        fn of(capacity: u64) -> Lru {
            Lru { capacity, ..Lru::default() }
        }

        /// Whether the cache has the thing called `name`, which then becomes the most recently used one.
        fn finds(&mut self, name: u64) -> bool {
            self.uses += 1;
            let Some(last) = self.last_uses.get_mut(&name) else { return false };
            let thing = self.by_use.remove(last).expect("each use is known");
            self.by_use.insert(self.uses, thing);
            *last = self.uses;
            true
        }

        fn insert(&mut self, name: u64, bytes: u64) {
            self.held += bytes;
            self.by_use.insert(self.uses, (name, bytes));
            self.last_uses.insert(name, self.uses);
            while self.held > self.capacity {
                let (_, (name, bytes)) = self.by_use.pop_first().expect("the cache is not empty");
                self.last_uses.remove(&name);
                self.held -= bytes;
            }
        }
    }

    /// The caches themselves, and what reached the devices.
    struct Machine {
        blocks: Lru,
        pages: Lru,
        marks: Vec<u64>,
        random: SeededRandom,
    }

    impl Machine {
        /// Whether a read of the piece that lies at this place reaches a device.
        fn reaches_device(&mut self, piece: Piece, kind: u64, place: u64) -> bool {
            let name = kind << 40 | place;
            if self.blocks.finds(name) {
                return false;
            }
            let mark = (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.marks.len();
            if std::mem::replace(&mut self.marks[mark], name) == name {
                self.blocks.insert(name, piece.cached_bytes as u64);
            }
            let from = place * piece.stored_bytes as u64;
            let pages = from / PAGE_BYTES..=(from + piece.stored_bytes as u64 - 1) / PAGE_BYTES;
            let mut reaches = false;
            for page in pages {
                let page = kind << 40 | page;
                if !self.pages.finds(page) {
                    self.pages.insert(page, PAGE_BYTES);
                    reaches = true;
                }
            }
            reaches
        }
    }

    /// The accesses that the caches really let through for 150,000 gets, after 50,000 gets that fill them: of tables, of
    /// records on the fast device, and of records on the slow one.
    fn simulated(memory: &Memory, popularity: &Popularity, value_bytes: u64, layout: Layout) -> [f64; 3] {
        const GETS: u64 = 150_000;
        const FILLING_GETS: u64 = 50_000;
        let records = popularity.records();
        let marks = (memory.block_bytes / 4096 * MARKS_PER_BLOCK).next_power_of_two() as usize;
        let mut machine = Machine {
            blocks: Lru::of(memory.block_bytes),
            pages: Lru::of(memory.page_bytes),
            marks: vec![u64::MAX; marks],
            random: SeededRandom::new(5),
        };
        let mut places: Vec<u64> = (0..records).collect();
        if layout == Layout::Scattered {
            (1..records).for_each(|at| places.swap(at as usize, machine.random.below(at + 1) as usize));
        }
        let shares: Vec<f64> = (0..=records).map(|ranks| popularity.share_of_hottest(ranks)).collect();
        let (record, table) = pieces(16.0, value_bytes);
        let mut reached = [0.0; 3];
        for get in 0..FILLING_GETS + GETS {
            let drawn = machine.random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
            let place = places[shares.partition_point(|&share| share <= drawn) - 1];
            let of_table =
                table.is_some_and(|table| machine.reaches_device(table, 1, place / table.records as u64));
            let of_record = machine.reaches_device(record, 2, place / record.records as u64);
            if get >= FILLING_GETS {
                reached[0] += f64::from(u8::from(of_table)) / GETS as f64;
                let device = if place < popularity.ranks_in(0.5) { 1 } else { 2 };
                reached[device] += f64::from(u8::from(of_record)) / GETS as f64;
            }
        }
        reached
    }

    #[test]
    fn accesses_are_those_of_the_caches_themselves() {
        for exponent in [0.0, 0.9, 1.2] {
            let popularity = Popularity::zipf(8_000, exponent);
            for (value_bytes, layout) in
                [(1024, Layout::ByHeat), (1024, Layout::Scattered), (100, Layout::ByHeat)]
            {
                for (block_share, page_share) in [(0.02, 0.02), (0.0, 0.1), (0.2, 0.05)] {
                    let data_bytes = (8_000 * (16 + value_bytes)) as f64;
                    let memory = Memory {
                        block_bytes: (block_share * data_bytes) as u64,
                        page_bytes: (page_share * data_bytes) as u64,
                    };
                    let found = memory.accesses(&popularity, (16, value_bytes), 0.5, layout);
                    let found = [found.of_tables, found.rates.fast, found.rates.slow];
                    let real = simulated(&memory, &popularity, value_bytes, layout);
                    let worst = found.iter().zip(real).map(|(found, real)| (found - real).abs());
                    let worst = worst.fold(0.0, f64::max);
                    assert!(
                        worst < 0.035,
                        "{exponent} {value_bytes} {layout:?} {memory:?}: {found:?} and not {real:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn caches_serve_all_or_nothing_at_their_ends() {
        let popularity = Popularity::zipf(100_000, 0.9);
        for layout in [Layout::ByHeat, Layout::Scattered] {
            let of = |block_bytes, page_bytes| {
                Memory { block_bytes, page_bytes }.accesses(&popularity, (16, 1024), 0.5, layout)
            };
            for whole in [of(1 << 30, 0), of(0, 1 << 30)] {
                assert!(whole.rates.memory > 1.0 - 1e-9 && whole.of_tables < 1e-9, "{whole:?}");
            }
            let nothing = of(0, 0);
            assert!(nothing.rates.memory < 1e-9 && nothing.of_tables > 1.0 - 1e-9, "{nothing:?}");
        }
    }

    #[test]
    fn a_separated_value_is_asked_for_after_its_table() {
        let (record, table) = pieces(16.0, 1024);
        assert_eq!(record.stored_bytes, 1044.0);
        assert!((record.pages() - 1.25).abs() < 0.01, "{}", record.pages());
        let table = table.expect("1,024 bytes lie apart");
        assert_eq!(table.records, 192.0);
        let (record, table) = pieces(16.0, 1023);
        assert!(table.is_none());
        assert_eq!((record.records, record.stored_bytes), (3.0, 4101.0));
    }
}
