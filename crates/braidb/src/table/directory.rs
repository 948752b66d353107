//! The directory of a data block: eight bytes of each key, in one array in memory. A search in a block that readers search often reads this
//! array instead of the entries.
//!
//! Entries are compressed against each other, and values lie between them. A search that decodes entries touches a cache line for each one.
//! The directory takes a few lines, and says which entry to decode. Nothing of it is on disk. The second search of a block builds it
//! ([`Block::search_aid`]), because most blocks of a large database are searched once.
//!
//! ```text
//! word 0     the number of prefixes (32 bits); 1 if the directory is dense, 0 if it is sparse (32 bits)
//! word 1     where the first key begins in the payload (32 bits); how many leading bytes all keys share (32 bits)
//! prefixes   for each entry (dense) or each restart point (sparse): the eight bytes of its key behind the shared ones
//! positions  dense only, two in a word: where each entry begins in the payload
//! ```
//!
//! A *dense* directory has all entries. A *sparse* one has the restart points alone: where entries are small, a dense one would take more than
//! a sixth of the block. A malformed block has no directory, and the plain search reports its flaw.

use super::block::{Payload, RESTART_INTERVAL};
use crate::base::key::{common_prefix, prefix_u64};
use crate::cache::Block;

/// Words before the prefixes.
const HEAD_WORDS: usize = 2;
/// A dense directory takes at most the entries' bytes divided by this. The cache counts a directory with its block, so the cache keeps
/// fewer blocks.
const DENSE_SHARE: usize = 6;

/// A directory. Without words, it is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Directory<'a> {
    words: &'a [u64],
}

/// Where a search for a key begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Among the restart points `from..to`: all before `from` have smaller keys, and `to` and those behind it have larger keys.
    Restarts { from: usize, to: usize },
    /// At the entry in this position. The entry before it is smaller than the key, and shares `matched` bytes with it.
    Entry { position: usize, matched: usize },
    /// All keys of the block are smaller.
    End,
}

/// The most bytes that the directory of a block takes; 0 if the block is malformed.
pub fn most_bytes(payload: &[u8]) -> usize {
    Payload::parse(payload).map_or(0, |payload| 8 * most_words(&payload).1)
}

/// Whether the directory is dense, and the most words that it has.
fn most_words(payload: &Payload<'_>) -> (bool, usize) {
    let restarts = payload.restart_count();
    let most_entries = restarts.saturating_mul(RESTART_INTERVAL);
    let dense_words = HEAD_WORDS + most_entries + most_entries / 2;
    let is_dense = 8 * dense_words <= payload.entry_bytes() / DENSE_SHARE;
    (is_dense, if is_dense { dense_words } else { HEAD_WORDS + restarts })
}

/// The directory of a block, as words; none if the block is malformed.
fn build(payload: &[u8]) -> Option<Box<[u64]>> {
    let payload = Payload::parse(payload).ok()?;
    let (mut first, mut last, mut entries) = (0..0, Vec::new(), 0usize);
    payload.walk(|_, place, key| {
        if entries == 0 {
            first = place;
        }
        key.clone_into(&mut last);
        entries += 1;
    })?;
    let first_key = &payload.entries()[first.clone()];
    let shared = &first_key[..common_prefix(first_key, &last)];
    let (is_dense, most_words) = most_words(&payload);
    let step = if is_dense { 1 } else { RESTART_INTERVAL };
    let count = entries.div_ceil(step);
    let mut words = Vec::with_capacity(most_words);
    words.push(count as u64 | u64::from(is_dense) << 32);
    words.push(first.start as u64 | (shared.len() as u64) << 32);
    let (mut number, mut positions) = (0, Vec::new());
    payload.walk(|position, _, key| {
        if number % step == 0 {
            // Keys out of order may not begin with the shared bytes. Then words are missing.
            words.extend(key.strip_prefix(shared).map(prefix_u64));
        }
        if is_dense {
            positions.push(position as u64);
        }
        number += 1;
    })?;
    if words.len() != HEAD_WORDS + count {
        return None;
    }
    let positions = positions.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 32);
    words.extend(positions);
    debug_assert!(words.len() <= most_words);
    words[HEAD_WORDS..HEAD_WORDS + count].is_sorted().then(|| words.into_boxed_slice())
}

impl<'a> Directory<'a> {
    /// The directory of a block, once the block is searched for the second time.
    #[inline]
    pub fn of(block: &'a Block) -> Directory<'a> {
        Directory { words: block.search_aid(|payload| build(payload).unwrap_or_default()) }
    }

    /// Where the search for `key` begins; `None` without a directory.
    #[inline]
    pub fn start(&self, entries: &[u8], key: &[u8]) -> Option<Start> {
        let (&head, &shared) = (self.words.first()?, self.words.get(1)?);
        let (count, is_dense) = (head as u32 as usize, head >> 32 == 1);
        let (first, shared) = (shared as u32 as usize, (shared >> 32) as usize);
        let (prefixes, positions) = self.words[HEAD_WORDS..].split_at(count);
        let shared = &entries[first..first + shared];
        let (low, matched) = match key.strip_prefix(shared) {
            None if key < shared => (0, 0),
            None => (count, 0),
            Some(rest) => {
                let prefix = prefix_u64(rest);
                let low = prefixes.partition_point(|&other| other < prefix);
                let is_equal = |at: usize| prefixes.get(at) == Some(&prefix);
                if !is_dense || is_equal(low + RESTART_INTERVAL) {
                    // Among equal prefixes, the keys at restart points decide.
                    let high = low + prefixes[low..].partition_point(|&other| other == prefix);
                    let step = if is_dense { RESTART_INTERVAL } else { 1 };
                    return Some(Start::Restarts { from: low.div_ceil(step), to: high.div_ceil(step) });
                }
                // The prefixes differ in a byte that the key has, because the key's is the larger one.
                let before = low.checked_sub(1).map(|before| prefixes[before] ^ prefix);
                (low, before.map_or(0, |differing| shared.len() + differing.leading_zeros() as usize / 8))
            }
        };
        Some(match positions.get(low / 2) {
            _ if !is_dense => Start::Restarts { from: low, to: low },
            Some(pair) if low < count => {
                Start::Entry { position: (pair >> (32 * (low % 2))) as u32 as usize, matched }
            }
            _ => Start::End,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{BlockWriter, NewValue, Pointer};
    use super::*;
    use crate::base::ids::SeqNo;
    use crate::base::key;
    use crate::value::Handle;
    use crate::visible::EntryKind;

    type Row = (Vec<u8>, SeqNo);

    fn block(rows: &[Row], value_bytes: usize) -> Block {
        let (mut writer, mut out, mut before) = (BlockWriter::default(), Vec::new(), Vec::new());
        let value = vec![b'v'; value_bytes];
        for (key, seq) in rows {
            let shared = common_prefix(&before, key);
            let handle = Handle { offset: *seq, bytes: 9, crc: 7 };
            let (kind, value) = match seq % 5 {
                0 => (EntryKind::Delete, NewValue::Inline(b"")),
                1 => (EntryKind::Put, NewValue::InBody(Pointer { body: 0, handle })),
                _ => (EntryKind::Put, NewValue::Inline(&value)),
            };
            writer.add(&mut out, shared, key, *seq, kind, value);
            before = key.clone();
        }
        writer.close(&mut out);
        let aid_bytes = most_bytes(&out);
        Block::of_table(out, aid_bytes)
    }

    /// A block whose directory is built.
    fn searched(block: &Block) -> Payload<'_> {
        Payload::searched(block).unwrap();
        Payload::searched(block).unwrap()
    }

    fn is_dense(block: &Block) -> bool {
        Directory::of(block).words[0] >> 32 == 1
    }

    /// Sorted rows: keys that end early, go on with zeros, share long beginnings, and have many versions.
    fn rows(state: &mut u64, fronts: &[&str], count: u64) -> Vec<Row> {
        let mut random = |below: u64| {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            key::hash(&state.to_le_bytes()) % below
        };
        let mut rows: Vec<Row> = Vec::new();
        for seq in 1..=count {
            let mut key = fronts[random(fronts.len() as u64) as usize].as_bytes().to_vec();
            for _ in 0..random(12) {
                key.push([0, 1, b'k', 0xff][random(4) as usize]);
            }
            for version in 0..[1, 1, 1, 40][random(4) as usize].min(seq) {
                rows.push((key.clone(), seq * 100 + version));
            }
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        rows.dedup();
        rows
    }

    #[test]
    fn a_search_with_a_directory_finds_what_a_plain_one_finds() {
        let mut state = 1;
        let fronts: [&[&str]; 4] = [
            &[""],
            &["a common beginning/"],
            &["a", "the long beginning of most keys/", "the long beginning of most keys0"],
            &["user"],
        ];
        let (mut dense, mut sparse) = (0, 0);
        for round in 0..400 {
            let rows = rows(&mut state, fronts[round % 4], 1 + (round as u64 * 7) % 60);
            let block = block(&rows, [0, 3, 200][round % 3]);
            let (plain, payload) = (Payload::parse(&block).unwrap(), searched(&block));
            *if is_dense(&block) { &mut dense } else { &mut sparse } += 1;
            let neighbours = rows.iter().flat_map(|(key, _)| {
                let shorter = key[..key.len().saturating_sub(1)].to_vec();
                [key.clone(), [key, &b"\0"[..]].concat(), [key, &b"\xff"[..]].concat(), shorter]
            });
            for probe in neighbours.chain([b"".to_vec(), b"zzz".to_vec(), b"\xff\xff".to_vec()]) {
                let (expected, found) = (plain.seek(&probe).unwrap(), payload.seek(&probe).unwrap());
                assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{probe:?}, round {round}");
                for at in [0, 150, 3_000, SeqNo::MAX >> 8] {
                    assert_eq!(payload.find(&probe, at).unwrap(), plain.find(&probe, at).unwrap());
                }
            }
        }
        assert!(dense > 50 && sparse > 50, "{dense} dense and {sparse} sparse ones");
    }

    #[test]
    fn the_second_search_builds_what_the_cache_counted() {
        let rows: Vec<Row> = (0..28).map(|n| (format!("user{n:012}").into_bytes(), n + 2)).collect();
        let of_typical = block(&rows, 128);
        assert!(Directory::of(&of_typical).words.is_empty());
        assert!(!Directory::of(&of_typical).words.is_empty() && is_dense(&of_typical));
        assert_eq!(Directory::of(&of_typical).words.len(), 2 + 28 + 14);
        assert_eq!(most_bytes(&of_typical), 8 * (2 + 32 + 16));
        assert!(most_bytes(&of_typical) * DENSE_SHARE <= of_typical.len());
        // Blocks that the cache does not keep get none.
        let lent = Block::new(of_typical.to_vec());
        (0..3).for_each(|_| assert!(Directory::of(&lent).words.is_empty()));
    }

    #[test]
    fn a_malformed_block_has_no_directory_and_no_panic() {
        let rows: Vec<Row> = (0..40).map(|n| (format!("key{:04}", n * 3).into_bytes(), n + 2)).collect();
        for value_bytes in [0, 100, 300] {
            let whole = block(&rows, value_bytes);
            for bit in 0..whole.len() * 8 {
                let mut bent = whole.to_vec();
                bent[bit / 8] ^= 1 << (bit % 8);
                let aid_bytes = most_bytes(&bent);
                let bent = Block::of_table(bent, aid_bytes);
                search_in_vain(&bent);
            }
        }
    }

    /// Searches a malformed block for keys all over it.
    fn search_in_vain(block: &Block) {
        for _ in 0..3 {
            let Ok(payload) = Payload::searched(block) else { break };
            for probe in [&b""[..], b"a", b"aaaab", b"key", b"key0060", b"key0061", b"kez", b"\xff"] {
                _ = payload.find(probe, 100);
            }
        }
    }

    #[test]
    fn keys_out_of_order_have_no_directory() {
        let keys: [&[&str]; 2] = [&["aaaa", "a", "aaab"], &["aaaa", "b", "aaab"]];
        for keys in keys {
            let rows: Vec<Row> = keys.iter().map(|key| (key.as_bytes().to_vec(), 2)).collect();
            for value_bytes in [3, 300] {
                let block = block(&rows, value_bytes);
                search_in_vain(&block);
                assert!(Directory::of(&block).words.is_empty() || !is_dense(&block));
            }
        }
    }
}
