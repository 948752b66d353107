//! Prefetches memory into the processor's cache. One of the few modules with `unsafe`.

/// Bytes of a cache line, which memory delivers at once.
pub const LINE_BYTES: usize = 64;
/// Most cache lines that are prefetched for one slice of bytes: 8. By then the processor's own prefetcher has recognized a
/// sequential read.
const MOST_LINES: usize = 8;

/// Prefetches the cache line at an address, which need not be valid.
#[inline]
pub fn line<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint. It changes nothing that the program can observe, and any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Prefetches the first `MOST_LINES` cache lines of `bytes`.
#[inline]
pub fn bytes(bytes: &[u8]) {
    let beginning = &bytes[..bytes.len().min(MOST_LINES * LINE_BYTES)];
    beginning.chunks(LINE_BYTES).for_each(|chunk| line(chunk.as_ptr()));
    // The bytes need not begin at a line's start, so they may reach into one more line.
    if let Some(last) = beginning.last() {
        line(last);
    }
}

/// Prefetches the first two and the last cache line of `bytes`.
#[inline]
pub fn ends(bytes: &[u8]) {
    if let (Some(first), Some(last)) = (bytes.first(), bytes.last()) {
        line(first);
        line(std::ptr::from_ref(first).wrapping_add(LINE_BYTES));
        line(last);
    }
}

#[cfg(test)]
mod tests {
    /// A prefetch has no visible effect, so the test only shows that it does no harm.
    #[test]
    fn whatever_there_is_may_be_asked_for() {
        super::line(std::ptr::null::<u64>());
        for len in [0, 1, 63, 64, 65, 511, 512, 513, 5000] {
            super::bytes(&vec![7; len]);
        }
    }
}
