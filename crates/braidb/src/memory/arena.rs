//! The arena of a segment: memory in chunks that never move and are freed together.
//!
//! The owner of the [`Arena`] decides how long the memory lives; a [`Bump`] hands it out, piece after piece. They are two types
//! so that many readers share the arena while one writer has the bump to itself. An arena may have several bumps, each for pieces
//! that should lie close together.
//!
//! Chunks double from [`FIRST_CHUNK`] to [`LARGEST_CHUNK`]. So a small segment stays small and a large one calls the allocator
//! seldom. A piece that would waste much of a chunk gets its own chunk.

use crate::base::sync::{alloc, dealloc};
use braidb_storage::foreground;
use braidb_storage::locks::Mutex;
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// Alignment in bytes: all pieces start at a multiple of this.
pub const ALIGN: usize = 8;
// Bytes of the first chunk: 1 KiB. Each of thousands of families may have a segment with a few entries.
const FIRST_CHUNK: usize = 1 << 10;
// Bytes of the largest chunk: 256 KiB. The unused rest of the last chunk is lost until the arena is dropped, which is little of a
// segment of a few MiB.
const LARGEST_CHUNK: usize = 256 << 10;

/// Owns the chunks.
#[derive(Default)]
pub struct Arena {
    // Locked once for each new chunk, by the writer.
    chunks: Mutex<Vec<Chunk>>,
}

impl Arena {
    fn add_chunk(&self, bytes: usize) -> NonNull<u8> {
        let chunk = Chunk::new(bytes);
        let start = chunk.start;
        self.chunks.lock().push(chunk);
        start
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        foreground::check_free(self.chunks.get_mut().iter().map(|chunk| chunk.layout.size()).sum());
    }
}

struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a chunk is an allocation and nothing else; it may be freed on any thread.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new(bytes: usize) -> Chunk {
        assert!(bytes > 0);
        let layout = Layout::from_size_align(bytes, ALIGN).expect("keys and values are bounded");
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        Chunk { start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the chunk with this layout, and only this drop frees it. No thread reads it any more: the arena
        // is dropping. Every holder of a pointer into the arena holds or borrows its owner (part 1 of the proof in `memory`).
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Hands out the memory of one arena.
pub struct Bump {
    /// The free part of the chunk in use: `left` bytes from `next`.
    next: NonNull<u8>,
    left: usize,
    /// Bytes of all chunks that the bump asked for.
    reserved: usize,
}

// SAFETY: the free part of the chunk belongs to the bump alone, whichever thread it is on.
unsafe impl Send for Bump {}

impl Bump {
    pub fn new() -> Bump {
        Bump { next: NonNull::dangling(), left: 0, reserved: 0 }
    }

    /// Takes a chunk for exactly `bytes` bytes of pieces, each rounded up to [`ALIGN`].
    pub fn reserve(&mut self, arena: &Arena, bytes: usize) {
        debug_assert_eq!(bytes % ALIGN, 0);
        if bytes > 0 {
            self.next = arena.add_chunk(bytes);
            self.left = bytes;
            self.reserved += bytes;
        }
    }

    /// Bytes handed out, and bytes lost to alignment and at the ends of chunks.
    pub fn bytes_in_use(&self) -> usize {
        self.reserved - self.left
    }

    /// A fresh, uninitialised piece of `bytes` bytes, aligned to [`ALIGN`], that has no other user. It lives as long as `arena`,
    /// which must be the same one in every call.
    #[inline]
    pub fn allocate(&mut self, arena: &Arena, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(ALIGN);
        if bytes > self.left {
            return self.allocate_from_new_chunk(arena, bytes);
        }
        let piece = self.next;
        self.left -= bytes;
        // SAFETY: the step stays within the `left` bytes after `next`, which are one allocation.
        self.next = unsafe { piece.add(bytes) };
        piece
    }

    #[cold]
    fn allocate_from_new_chunk(&mut self, arena: &Arena, bytes: usize) -> NonNull<u8> {
        let chunk_bytes = self.reserved.clamp(FIRST_CHUNK, LARGEST_CHUNK);
        if bytes > chunk_bytes / 4 {
            self.reserved += bytes;
            return arena.add_chunk(bytes);
        }
        let piece = arena.add_chunk(chunk_bytes);
        self.reserved += chunk_bytes;
        self.left = chunk_bytes - bytes;
        // SAFETY: `bytes` is less than the size of the chunk.
        self.next = unsafe { piece.add(bytes) };
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_and_never_overlap() {
        let (arena, mut bump) = (Arena::default(), Bump::new());
        let sizes = [1, 24, 7, 100, 2000, 8, 5000, 33, 900, 900, 900, 3000, 64, 65];
        let mut pieces: Vec<(NonNull<u8>, usize)> = Vec::new();
        for (i, &bytes) in sizes.iter().cycle().take(10 * sizes.len()).enumerate() {
            let before = bump.bytes_in_use();
            let piece = bump.allocate(&arena, bytes);
            assert_eq!(piece.addr().get() % ALIGN, 0);
            assert!(bump.bytes_in_use() >= before + bytes);
            // SAFETY: the piece has `bytes` bytes that are ours.
            unsafe { piece.write_bytes(i as u8, bytes) };
            pieces.push((piece, bytes));
        }
        for (i, &(piece, bytes)) in pieces.iter().enumerate() {
            for at in 0..bytes {
                // SAFETY: written above; the arena lives.
                assert_eq!(unsafe { piece.add(at).read() }, i as u8);
            }
        }
    }

    #[test]
    fn a_small_arena_stays_small_and_large_pieces_waste_nothing() {
        let (arena, mut bump) = (Arena::default(), Bump::new());
        assert_eq!(bump.bytes_in_use(), 0);
        bump.allocate(&arena, 16);
        assert_eq!((bump.bytes_in_use(), bump.reserved), (16, FIRST_CHUNK));
        bump.allocate(&arena, 1 << 21);
        assert_eq!(bump.bytes_in_use(), 16 + (1 << 21));
        // The bump still allocates from the chunk in use.
        bump.allocate(&arena, 16);
        assert_eq!(bump.reserved, FIRST_CHUNK + (1 << 21));
        assert_eq!(arena.chunks.lock().len(), 2);
    }
}
