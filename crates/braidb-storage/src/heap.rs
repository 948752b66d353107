//! Memory that a growing cache will need soon, taken from the kernel in one piece.
//!
//! A cache that fills allocates one block after the other, each of about a page. The allocator of glibc grows the heap of a thread by one
//! system call for each of these blocks, and the first write to each new page is a page fault. Both cost more than reading the block from
//! the page cache. [`grow`] allocates a piece of about 26 blocks, has the kernel populate its pages in one call, and frees it. The allocator
//! hands out the freed piece to the blocks that come next. With an allocator that gives freed memory back to the kernel at once, the call
//! is wasted, but harmless.
//!
//! # Why the unsafe code is sound
//!
//! `MADV_POPULATE_WRITE` makes pages present as a write would, and changes no byte. The range lies inside an allocation that this file owns
//! for the duration of the call. A kernel that does not know the advice (before Linux 5.14) refuses it.

use rustix::mm::{Advice, madvise};

/// Bytes that [`grow`] takes: 112 KiB. From 128 KiB on, glibc maps a piece of its own, and unmaps it when it is freed.
pub const PIECE_BYTES: usize = 112 << 10;
/// Bytes of the smallest page on all processors that Linux runs on.
const PAGE_BYTES: usize = 4096;

/// Takes [`PIECE_BYTES`] from the kernel and gives them to the allocator. Does nothing under Miri, which knows no page.
pub fn grow() {
    if cfg!(miri) {
        return;
    }
    let mut piece = Vec::<u8>::with_capacity(PIECE_BYTES);
    let spare = piece.spare_capacity_mut();
    let skipped = spare.as_ptr().align_offset(PAGE_BYTES);
    if let Some(whole) = spare.get_mut(skipped..) {
        let bytes = whole.len() / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: see the head of this file. A failure leaves the pages to later faults.
        let _ = unsafe { madvise(whole.as_mut_ptr().cast(), bytes, Advice::LinuxPopulateWrite) };
    }
    drop(std::hint::black_box(piece));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_use_keeps_its_bytes() {
        let kept: Vec<Vec<u8>> = (0..100).map(|byte| vec![byte; PAGE_BYTES]).collect();
        (0..10).for_each(|_| grow());
        let later = vec![0xff_u8; PIECE_BYTES];
        assert!(kept.iter().zip(0..).all(|(bytes, byte)| bytes.iter().all(|have| *have == byte)));
        assert!(later.iter().all(|byte| *byte == 0xff));
    }
}
