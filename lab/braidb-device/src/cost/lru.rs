//! Che's approximation of a cache that keeps what was used last (LRU).
//!
//! A unit stays in the cache for a fixed number `T` of reads after its own last use ("Hierarchical Web Caching Systems", IEEE JSAC 2002).
//! A unit that a read asks for with probability `p` is then found with probability `1 - exp(-p T)`. `T` is the number for which
//! the expected contents fill the cache.

/// The `T` for which `held(T)`, the expected contents of the cache, fill `capacity`. `held` must not fall as `T` grows. A cache
/// that holds everything has a `T` beyond all reads.
pub(super) fn stay_reads(held: impl Fn(f64) -> f64, capacity: f64) -> f64 {
    /// More reads than any store serves.
    const FOREVER_READS: f64 = 1e30;
    let mut above = 1.0;
    while held(above) < capacity {
        above *= 2.0;
        if above > FOREVER_READS {
            return above;
        }
    }
    // Each halving of the interval adds a bit of precision. An `f64` has 53 bits, so 60 halvings are enough.
    let mut below = 0.0;
    for _ in 0..60 {
        let middle = (below + above) / 2.0;
        *(if held(middle) < capacity { &mut below } else { &mut above }) = middle;
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_stays_until_the_cache_is_full() {
        // 1,000 units, each asked for by a thousandth of the reads.
        let held = |reads: f64| 1_000.0 * (1.0 - libm::exp(-reads / 1_000.0));
        let stay = stay_reads(held, 250.0);
        assert!((held(stay) - 250.0).abs() < 1e-6, "{stay}");
        assert!(stay_reads(held, 0.0) < 1e-9);
        assert!(stay_reads(held, 1_001.0) > 1e29);
    }
}
