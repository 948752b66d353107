//! How many reads a page cache serves that keeps the pages that were read last, and how many reach each device.
//!
//! Equations 4 to 6 of LogStore keep the hottest records in memory. A page cache knows no heat: each read of a cold record
//! takes the place of a warmer one, and a page also holds the neighbours of the record that was read.
//!
//! The approximation is Che's ("Hierarchical Web Caching Systems", IEEE JSAC 2002). A page stays in an LRU cache for a fixed
//! number of reads `T` after its own last read. A page with the share `p` of all reads is then found with probability
//! `1 - exp(-p T)`. `T` is the number for which the expected size of the cache is its real size.

use super::{Popularity, Rates};

/// Where records of like popularity lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Beside each other. A page holds records of nearly equal popularity, and the fast device has the hottest ones.
    ByHeat,
    /// Anywhere. A page holds records of any popularity, all large parts of the data are equally hot, and the fast device
    /// has any of them.
    Scattered,
}

/// A page cache with exact LRU order.
///
/// ```
/// use braidb_device::cost::{Layout, PageCache, Popularity, Rates};
///
/// let popularity = Popularity::zipf(1_000_000, 0.9);
/// let cache = PageCache { share: 0.02, records_per_page: 4, layout: Layout::ByHeat };
/// let rates = cache.rates(&popularity, 0.5);
/// let best = Rates::hottest_in_memory(&popularity, 0.02, 0.5);
/// assert!(rates.memory < best.memory && rates.slow > 0.8 * best.slow);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageCache {
    /// The size of the cache as a share of the data, from 0 to 1.
    pub share: f64,
    /// Records in a page; 1 for records that fill a page or several.
    pub records_per_page: u64,
    /// Where records lie.
    pub layout: Layout,
}

/// Units of the cache with nearly equal popularity.
#[derive(Clone, Copy, Debug)]
struct Group {
    units: f64,
    /// The share of reads that ask for any of the units.
    reads: f64,
    is_fast: bool,
}

/// Ranks before a group divided by the ranks in it. Within a group popularity then differs by about 1/200.
const GROUP_SHARE: u64 = 200;

impl PageCache {
    /// The rates of reads, if the fast device has `fast_share` of the records.
    pub fn rates(&self, popularity: &Popularity, fast_share: f64) -> Rates {
        if self.share >= 1.0 {
            return Rates { memory: 1.0, fast: 0.0, slow: 0.0 };
        }
        let groups = self.groups(popularity, fast_share);
        let stay_reads = self.stay_reads(&groups);
        // A page of scattered records is not cached if neither the record nor its neighbours were read.
        let neighbours_missed = libm::pow(missed_units(&groups, stay_reads), self.companions() - 1.0);
        let (mut fast, mut slow) = (0.0, 0.0);
        for group in groups {
            let missed = group.reads * libm::exp(-group.reads / group.units * stay_reads) * neighbours_missed;
            *(if group.is_fast { &mut fast } else { &mut slow }) += missed;
        }
        if self.layout == Layout::Scattered {
            (fast, slow) = ((fast + slow) * fast_share, (fast + slow) * (1.0 - fast_share));
        }
        Rates { memory: 1.0 - fast - slow, fast, slow }
    }

    /// The groups from the hottest to the coldest. A unit is a page of neighbours, or one of the scattered records.
    fn groups(&self, popularity: &Popularity, fast_share: f64) -> Vec<Group> {
        let records = popularity.records();
        let unit = if self.layout == Layout::ByHeat { self.records_per_page } else { 1 };
        let fast_end = popularity.ranks_in(fast_share);
        let (mut groups, mut from) = (Vec::new(), 0);
        while from < records {
            let end = (from + unit * (from / unit / GROUP_SHARE).max(1)).min(records);
            let to = if from < fast_end { end.min(fast_end) } else { end };
            groups.push(Group {
                units: (to - from) as f64 / unit as f64,
                reads: popularity.share_of_hottest(to) - popularity.share_of_hottest(from),
                is_fast: to <= fast_end,
            });
            from = to;
        }
        groups
    }

    /// Units that enter and leave the cache together.
    fn companions(&self) -> f64 {
        if self.layout == Layout::Scattered { self.records_per_page as f64 } else { 1.0 }
    }

    /// The number of reads for which a page stays in the cache after its last read.
    fn stay_reads(&self, groups: &[Group]) -> f64 {
        let is_too_small =
            |reads: f64| 1.0 - libm::pow(missed_units(groups, reads), self.companions()) < self.share;
        let mut above = 1.0;
        while is_too_small(above) {
            above *= 2.0;
        }
        // Each halving adds a bit: 60 are more than a number has.
        let mut below = 0.0;
        for _ in 0..60 {
            let middle = (below + above) / 2.0;
            *(if is_too_small(middle) { &mut below } else { &mut above }) = middle;
        }
        below
    }
}

/// The share of units that were not read during `reads` reads.
fn missed_units(groups: &[Group], reads: f64) -> f64 {
    let (mut missed, mut units) = (0.0, 0.0);
    for group in groups {
        missed += group.units * libm::exp(-group.reads / group.units * reads);
        units += group.units;
    }
    missed / units
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use braidb_storage::inline::SeededRandom;

    use super::*;

    /// The rates that an LRU cache really has for 200,000 reads, after 50,000 reads that fill it.
    fn simulated(cache: &PageCache, popularity: &Popularity, fast_share: f64) -> Rates {
        const READS: u64 = 200_000;
        const FILLING_READS: u64 = 50_000;
        let (random, records) = (SeededRandom::new(5), popularity.records());
        let pages = (cache.share * records as f64 / cache.records_per_page as f64) as usize;
        let mut places: Vec<u64> = (0..records).collect();
        if cache.layout == Layout::Scattered {
            (1..records).for_each(|at| places.swap(at as usize, random.below(at + 1) as usize));
        }
        let shares: Vec<f64> = (0..=records).map(|ranks| popularity.share_of_hottest(ranks)).collect();
        let (mut page_by_time, mut time_by_page) = (BTreeMap::new(), BTreeMap::new());
        let (mut memory, mut fast, mut slow) = (0, 0, 0);
        for time in 0..FILLING_READS + READS {
            let drawn = random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
            let place = places[shares.partition_point(|&share| share <= drawn) - 1];
            let page = place / cache.records_per_page;
            let known = time_by_page.insert(page, time);
            page_by_time.insert(time, page);
            match known {
                Some(earlier) => {
                    page_by_time.remove(&earlier);
                }
                None if page_by_time.len() > pages => {
                    let (_, oldest) = page_by_time.pop_first().expect("the cache is not empty");
                    time_by_page.remove(&oldest);
                }
                None => {}
            }
            if time >= FILLING_READS {
                let is_fast = place < popularity.ranks_in(fast_share);
                *(match known {
                    Some(_) => &mut memory,
                    None if is_fast => &mut fast,
                    None => &mut slow,
                }) += 1;
            }
        }
        let [memory, fast, slow] = [memory, fast, slow].map(|count| f64::from(count) / READS as f64);
        Rates { memory, fast, slow }
    }

    #[test]
    fn rates_are_those_of_a_simulated_cache() {
        for exponent in [0.0, 0.9, 1.2] {
            let popularity = Popularity::zipf(8_000, exponent);
            for (layout, records_per_page) in
                [(Layout::ByHeat, 1), (Layout::ByHeat, 4), (Layout::Scattered, 1), (Layout::Scattered, 4)]
            {
                for (share, fast_share) in [(0.02, 0.5), (0.3, 0.1)] {
                    let cache = PageCache { share, records_per_page, layout };
                    let found = cache.rates(&popularity, fast_share);
                    let real = simulated(&cache, &popularity, fast_share);
                    let worst = [found.memory - real.memory, found.fast - real.fast, found.slow - real.slow]
                        .into_iter()
                        .fold(0.0, |worst: f64, difference| worst.max(difference.abs()));
                    assert!(worst < 0.006, "{exponent} {cache:?}: {found:?} and not {real:?}");
                }
            }
        }
    }

    #[test]
    fn a_cache_serves_all_or_nothing_at_its_ends() {
        let popularity = Popularity::zipf(1_000_000, 0.9);
        for layout in [Layout::ByHeat, Layout::Scattered] {
            let rates = |share| PageCache { share, records_per_page: 4, layout }.rates(&popularity, 0.5);
            let whole = rates(1.0);
            assert_eq!((whole.memory, whole.fast, whole.slow), (1.0, 0.0, 0.0));
            assert!(rates(0.0).memory.abs() < 1e-9);
            let nearly_all = rates(0.999_999);
            assert!(nearly_all.memory > 0.9999, "{nearly_all:?}");
        }
    }

    #[test]
    fn even_reads_find_the_share_of_the_cache() {
        let popularity = Popularity::zipf(1 << 40, 0.0);
        let rates =
            PageCache { share: 0.25, records_per_page: 1, layout: Layout::ByHeat }.rates(&popularity, 0.5);
        assert!((rates.memory - 0.25).abs() < 1e-6, "{rates:?}");
        assert!((rates.fast - rates.slow).abs() < 1e-6, "{rates:?}");
    }
}
