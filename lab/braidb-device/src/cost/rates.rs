//! How many reads memory and each device serve: equations 1, 4, 5 and 6 of LogStore (section IV-A).

/// How often each record is read.
///
/// ```
/// use braidb_device::cost::Popularity;
///
/// let popularity = Popularity::zipf(10_000, 1.0);
/// let hottest_hundredth = popularity.share_of_hottest(100);
/// assert!((hottest_hundredth - 0.53).abs() < 0.001); // LogStore III-C
/// ```
#[derive(Clone, Debug)]
pub struct Popularity {
    records: u64,
    exponent: f64,
    /// The sums over the first 0, 1, 2, … ranks, up to [`EXACT_RANKS`].
    first_sums: Vec<f64>,
    /// The sum over all ranks.
    total: f64,
}

/// Ranks whose terms are added up one by one. Sums over more ranks are the sum over 1,024 ranks and a formula for the rest,
/// whose error is below 10^-9 of the sum.
const EXACT_RANKS: u64 = 1024;

impl Popularity {
    /// Zipf's law: a read asks for the record of rank `r`, from 1 on, in proportion to `1 / r^exponent`. Exponent 0 reads
    /// each record equally often.
    pub fn zipf(records: u64, exponent: f64) -> Popularity {
        let mut first_sums = vec![0.0];
        for rank in 1..=records.min(EXACT_RANKS) {
            first_sums.push(first_sums[rank as usize - 1] + libm::pow(rank as f64, -exponent));
        }
        let mut popularity = Popularity { records, exponent, first_sums, total: 1.0 };
        popularity.total = popularity.sum(records);
        popularity
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The fraction of equation 4: the share of reads that ask for one of the `ranks` hottest records.
    pub fn share_of_hottest(&self, ranks: u64) -> f64 {
        self.sum(ranks.min(self.records)) / self.total
    }

    /// The number of records in a share of all records.
    pub(super) fn ranks_in(&self, share: f64) -> u64 {
        libm::round(share * self.records as f64) as u64
    }

    /// The sum of `1 / n^exponent` for `n` from 1 to `ranks`.
    fn sum(&self, ranks: u64) -> f64 {
        if ranks <= EXACT_RANKS {
            return self.first_sums[ranks as usize];
        }
        let (from, to, exponent) = (EXACT_RANKS as f64, ranks as f64, self.exponent);
        let term = |rank: f64| libm::pow(rank, -exponent);
        let integral = match (1.0 - exponent).abs() < 1e-9 {
            true => libm::log(to / from),
            false => (libm::pow(to, 1.0 - exponent) - libm::pow(from, 1.0 - exponent)) / (1.0 - exponent),
        };
        // The formula of Euler and Maclaurin, up to the first derivative.
        let ends = (term(to) - term(from)) / 2.0;
        let slopes = exponent / 12.0 * (term(from) / from - term(to) / to);
        self.first_sums[EXACT_RANKS as usize] + integral + ends + slopes
    }
}

/// The shares of reads that are served by memory, by the fast device and by the slow device. They add up to 1.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// `R_RAM` of the paper.
    pub memory: f64,
    /// `R_SSD` of the paper.
    pub fast: f64,
    /// `R_HDD` of the paper.
    pub slow: f64,
}

impl Rates {
    /// Equation 1: all records are read equally often. Memory has `memory_share` of the records of each device.
    ///
    /// ```
    /// use braidb_device::cost::Rates;
    ///
    /// let rates = Rates::uniform(0.01, 0.5);
    /// assert!((rates.slow - 0.495).abs() < 1e-12);
    /// ```
    pub fn uniform(memory_share: f64, fast_share: f64) -> Rates {
        let missed = 1.0 - memory_share;
        Rates { memory: memory_share, fast: missed * fast_share, slow: missed * (1.0 - fast_share) }
    }

    /// Equations 4, 5 and 6: the fast device has the share `fast_share` of the records, the hottest ones. Memory has the
    /// hottest `memory_share`.
    pub fn hottest_in_memory(popularity: &Popularity, memory_share: f64, fast_share: f64) -> Rates {
        let reads_of = |share| popularity.share_of_hottest(popularity.ranks_in(share));
        let memory = reads_of(memory_share);
        let fast = (reads_of(fast_share) - memory).max(0.0);
        Rates { memory, fast, slow: (1.0 - fast - memory).max(0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() < tolerance, "{found} and not {expected}");
    }

    #[test]
    fn sums_are_those_of_their_terms() {
        for exponent in [0.0, 0.5, 0.9, 1.0, 1.0 + 1e-10, 1.3, 2.0] {
            let popularity = Popularity::zipf(1_000_000, exponent);
            let (mut sum, mut at) = (0.0, 0);
            for ranks in [1, 1_024, 1_025, 2_000, 1_000_000] {
                while at < ranks {
                    at += 1;
                    sum += libm::pow(at as f64, -exponent);
                }
                is_near(popularity.sum(ranks) / sum, 1.0, 1e-9);
            }
        }
        is_near(Popularity::zipf(10, 0.0).share_of_hottest(3), 0.3, 1e-12);
        assert_eq!(Popularity::zipf(10, 0.9).share_of_hottest(11), 1.0);
        assert_eq!(Popularity::zipf(1 << 50, 0.9).share_of_hottest(0), 0.0);
    }

    #[test]
    fn rates_are_those_of_section_iii_c() {
        // "The 1% most accessed records get approximately accessed in 53% of the cases", the top half 93%: the SSD sees 40%,
        // the disk 7%.
        let popularity = Popularity::zipf(10_000, 1.0);
        let rates = Rates::hottest_in_memory(&popularity, 0.01, 0.5);
        is_near(rates.memory, 0.53, 0.005);
        is_near(rates.fast, 0.40, 0.005);
        is_near(rates.slow, 0.07, 0.005);
        // "A performance improvement by a factor of approximately 6.5 over an HDD-only storage layout".
        is_near((1.0 - rates.memory) / rates.slow, 6.5, 0.2);
        // For a uniform distribution "a throughput, which is approximately twice as high".
        let rates = Rates::uniform(0.01, 0.5);
        is_near(rates.memory + rates.fast + rates.slow, 1.0, 1e-12);
        is_near((1.0 - rates.memory) / rates.slow, 2.0, 1e-12);
    }

    #[test]
    fn half_of_the_data_gets_the_reads_of_section_vi_a() {
        // "The first two levels of LS-NH receive 92% of the accesses, with the remaining 8% going to the last level".
        let popularity = Popularity::zipf(100_000_000, 0.9);
        is_near(popularity.share_of_hottest(50_000_000), 0.92, 0.002);
        // Section VI-A3 takes R_RAM = 0.7 for 8 GB of RAM and 100 GB of data. Equation 4 gives 0.74 for all of the 8 GB.
        is_near(Rates::hottest_in_memory(&popularity, 0.08, 0.5).memory, 0.738, 0.001);
        is_near(Rates::hottest_in_memory(&popularity, 0.053, 0.5).memory, 0.7, 0.001);
    }

    #[test]
    fn memory_larger_than_the_fast_device_leaves_it_nothing() {
        // The second case of equation 5: memory has more of the hottest records than the fast device.
        let popularity = Popularity::zipf(1_000, 0.9);
        let rates = Rates::hottest_in_memory(&popularity, 0.5, 0.2);
        assert_eq!(rates.fast, 0.0);
        is_near(rates.memory + rates.slow, 1.0, 1e-12);
        let rates = Rates::hottest_in_memory(&popularity, 1.0, 1.0);
        assert_eq!((rates.memory, rates.fast, rates.slow), (1.0, 0.0, 0.0));
    }
}
