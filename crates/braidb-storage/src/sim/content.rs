//! The bytes of one file, cheap to copy.
//!
//! A file is a list of 4 KiB blocks and a length. Copies share blocks until one side writes (copy-on-write). The length is
//! separate, because a crash may keep one without the other. A block is a hole, or reserved, or holds data. Holes take no
//! space.

use std::sync::Arc;

/// Bytes of a block, the unit of space.
pub(super) const BLOCK_BYTES: u64 = 4096;

#[derive(Clone, Debug)]
enum Block {
    Hole,
    Reserved,
    Data(Arc<[u8; BLOCK_BYTES as usize]>),
}

/// Data, length and reserved space of a file. Data may lie beyond the length, where reads do not reach.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    len: u64,
    blocks: Arc<Vec<Block>>,
    /// Blocks below this index that `blocks` does not list are reserved. Unlisted blocks from this index on are holes.
    reserved_blocks: u64,
}

/// Splits the range `offset..offset + len` at block boundaries: for each part the block, and the range within it.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let end = offset + len;
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let block = at / BLOCK_BYTES;
            let piece_end = end.min((block + 1) * BLOCK_BYTES);
            let within = (at - block * BLOCK_BYTES) as usize..(piece_end - block * BLOCK_BYTES) as usize;
            at = piece_end;
            (block as usize, within)
        })
    })
}

impl Content {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Copies the bytes at `offset`, up to the file's length. Returns the number of bytes copied.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let wanted = (buf.len() as u64).min(self.len.saturating_sub(offset));
        let mut filled = 0;
        for (block, within) in pieces(offset, wanted) {
            let out = &mut buf[filled..filled + within.len()];
            filled += within.len();
            match self.blocks.get(block) {
                Some(Block::Data(data)) => out.copy_from_slice(&data[within]),
                _ => out.fill(0),
            }
        }
        filled
    }

    /// Sets the bytes at `offset`. The length stays.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut taken = 0;
        for (block, within) in pieces(offset, data.len() as u64) {
            let piece = &data[taken..taken + within.len()];
            taken += within.len();
            let slot = self.block_mut(block);
            if !matches!(slot, Block::Data(_)) {
                *slot = Block::Data(Arc::new([0; BLOCK_BYTES as usize]));
            }
            if let Block::Data(bytes) = slot {
                Arc::make_mut(bytes)[within].copy_from_slice(piece);
            }
        }
    }

    /// Makes the file at least `len` long. Data beyond the old length becomes visible.
    pub fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    /// Makes the file `len` long. Drops data and reserved space behind the new end.
    pub fn truncate(&mut self, len: u64) {
        let kept = len.div_ceil(BLOCK_BYTES);
        let blocks = Arc::make_mut(&mut self.blocks);
        blocks.truncate(kept as usize);
        self.reserved_blocks = self.reserved_blocks.min(kept);
        self.len = len;
        let within = (len % BLOCK_BYTES) as usize;
        // A partly kept last block is the last in the list, if the list reaches it.
        if within > 0
            && let Some(Block::Data(bytes)) = blocks.get_mut(kept as usize - 1)
        {
            Arc::make_mut(bytes)[within..].fill(0);
        }
    }

    /// Zeros a range. Whole blocks become holes.
    pub fn punch(&mut self, offset: u64, len: u64) {
        let reach = (self.blocks.len() as u64).max(self.reserved_blocks) * BLOCK_BYTES;
        let len = len.min(reach.saturating_sub(offset));
        for (block, within) in pieces(offset, len) {
            let slot = self.block_mut(block);
            if within.len() as u64 == BLOCK_BYTES {
                *slot = Block::Hole;
            } else if let Block::Data(bytes) = slot {
                Arc::make_mut(bytes)[within].fill(0);
            }
        }
    }

    /// Reserves the blocks of the first `len` bytes.
    pub fn reserve(&mut self, len: u64) {
        let reserved = len.div_ceil(BLOCK_BYTES);
        for block in Arc::make_mut(&mut self.blocks).iter_mut().take(reserved as usize) {
            if matches!(block, Block::Hole) {
                *block = Block::Reserved;
            }
        }
        self.reserved_blocks = self.reserved_blocks.max(reserved);
    }

    /// Blocks that the file takes on the device.
    pub fn taken_blocks(&self) -> u64 {
        let listed = self.blocks.iter().filter(|block| !matches!(block, Block::Hole)).count() as u64;
        listed + self.reserved_blocks.saturating_sub(self.blocks.len() as u64)
    }

    fn is_hole(&self, block: usize) -> bool {
        match self.blocks.get(block) {
            Some(known) => matches!(known, Block::Hole),
            None => block as u64 >= self.reserved_blocks,
        }
    }

    /// How many of the first `len` bytes lie in holes.
    pub fn hole_bytes(&self, len: u64) -> u64 {
        let parts = pieces(0, len.min(self.len)).filter(|(block, _)| self.is_hole(*block));
        parts.map(|(_, within)| within.len() as u64).sum()
    }

    /// How many of `len` bytes at `offset` can be written with `free_blocks` new blocks.
    pub fn fitting(&self, offset: u64, len: u64, mut free_blocks: u64) -> u64 {
        let mut fitting = 0;
        for (block, within) in pieces(offset, len) {
            if self.is_hole(block) {
                if free_blocks == 0 {
                    break;
                }
                free_blocks -= 1;
            }
            fitting += within.len() as u64;
        }
        fitting
    }

    fn block_mut(&mut self, block: usize) -> &mut Block {
        let blocks = Arc::make_mut(&mut self.blocks);
        while blocks.len() <= block {
            let is_reserved = (blocks.len() as u64) < self.reserved_blocks;
            blocks.push(if is_reserved { Block::Reserved } else { Block::Hole });
        }
        &mut blocks[block]
    }
}

#[cfg(test)]
mod tests {
    use crate::Random;
    use crate::inline::SeededRandom;

    use super::*;

    /// Compares `content` with a plain vector after the same operations.
    #[test]
    fn behaves_like_a_vector_of_bytes() {
        let random = SeededRandom::new(11);
        let mut content = Content::default();
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..2_000 {
            let offset = random.below(3 * BLOCK_BYTES);
            let len = random.below(2 * BLOCK_BYTES);
            let copy = content.clone();
            let shown = model.clone();
            match random.below(5) {
                0 | 1 => {
                    let byte = random.next_u64() as u8 | 1;
                    let end = model.len() as u64;
                    content.write(end, &vec![byte; len as usize]);
                    content.grow(end + len);
                    model.resize(model.len() + len as usize, byte);
                }
                2 => {
                    content.truncate(offset);
                    model.resize(offset as usize, 0);
                }
                3 => {
                    content.punch(offset, len);
                    let end = (offset + len).min(model.len() as u64);
                    for at in offset..end.max(offset) {
                        model[at as usize] = 0;
                    }
                }
                _ => content.reserve(offset),
            }
            assert_eq!(all_of(&content), model);
            assert_eq!(all_of(&copy), shown, "a copy does not change with its origin");
        }
    }

    fn all_of(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0xaa; content.len() as usize + 10];
        let read = content.read(0, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    #[test]
    fn blocks_are_counted() {
        let mut content = Content::default();
        content.reserve(3 * BLOCK_BYTES);
        assert_eq!(content.taken_blocks(), 3);
        assert_eq!(content.fitting(0, 10 * BLOCK_BYTES, 2), 5 * BLOCK_BYTES);
        content.write(BLOCK_BYTES, &[1; 10]);
        content.grow(BLOCK_BYTES + 10);
        assert_eq!(content.taken_blocks(), 3, "data goes where space was reserved");
        content.punch(0, BLOCK_BYTES);
        assert_eq!(content.taken_blocks(), 2);
        content.truncate(BLOCK_BYTES + 5);
        assert_eq!(content.taken_blocks(), 1, "space behind the end goes with a truncation");
        content.truncate(10 * BLOCK_BYTES);
        assert_eq!(content.taken_blocks(), 1, "growing makes holes");
        content.write(9 * BLOCK_BYTES + 4000, &[1; 200]);
        assert_eq!(content.taken_blocks(), 3);
    }

    #[test]
    fn data_beyond_the_length_is_unseen_until_the_file_grows_over_it() {
        let mut content = Content::default();
        content.write(0, b"abcdef");
        assert_eq!(all_of(&content), b"");
        content.grow(3);
        assert_eq!(all_of(&content), b"abc");
        content.truncate(3);
        content.grow(6);
        assert_eq!(all_of(&content), b"abc\0\0\0");
    }
}
