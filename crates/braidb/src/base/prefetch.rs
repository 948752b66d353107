//! Telling the processor what will be read soon. One of the few homes of `unsafe`.

/// Bytes that come from memory at once.
pub const LINE_BYTES: usize = 64;
/// Most lines of one thing that are asked for: who reads on behind them is foreseen by the processor itself.
const MOST_LINES: usize = 8;

/// What stands at this address will be read soon, if it is one.
#[inline]
pub fn line<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which reads nothing that the program could see, and may even be given for what is not there.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The beginning of these bytes will be read soon.
#[inline]
pub fn bytes(bytes: &[u8]) {
    let beginning = &bytes[..bytes.len().min(MOST_LINES * LINE_BYTES)];
    beginning.chunks(LINE_BYTES).for_each(|chunk| line(chunk.as_ptr()));
    // The chunks need not begin with a line, so there may be one more.
    if let Some(last) = beginning.last() {
        line(last);
    }
}

#[cfg(test)]
mod tests {
    /// Nothing can be seen of it but that it does no harm.
    #[test]
    fn whatever_there_is_may_be_asked_for() {
        super::line(std::ptr::null::<u64>());
        for len in [0, 1, 63, 64, 65, 511, 512, 513, 5000] {
            super::bytes(&vec![7; len]);
        }
    }
}
