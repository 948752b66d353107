//! A prototype of another active segment. An arena holds records in arrival order, and a hash table leads to the newest version of each
//! key. The records are sorted only when a reader needs their order.
//!
//! The prototype is written for one thread and without `unsafe`. With concurrent readers its slots would be atomics, which cost nothing on
//! x86-64. When the table grows, the old table would have to stay alive for them. So the prototype is measured at its best.

use engine::key::{hash, prefix_u64};

/// One record: `older`, `seq`, `hash`, two lengths, the key, the value.
const HEAD: usize = 4 + 8 + 8 + 4 + 4;
/// The offset that stands for no older version. No record starts at this offset, which is the last that 32 bits reach.
const NONE: u32 = u32::MAX;

pub struct HashIndex {
    arena: Vec<u8>,
    /// The upper half of the key's hash, and the offset of its newest record. Collisions use linear probing.
    slots: Vec<Option<(u32, u32)>>,
    keys: usize,
}

/// An entry in order: its first bytes behind the prefix that all keys share, and the offset of its record.
pub type Sorted = Vec<(u64, u32)>;

impl HashIndex {
    /// An empty index that reserves room for `bytes` bytes of records and does not touch it.
    pub fn new(bytes: usize) -> HashIndex {
        HashIndex { arena: Vec::with_capacity(bytes), slots: vec![None; 1024], keys: 0 }
    }

    pub fn insert(&mut self, key: &[u8], seq: u64, value: &[u8]) {
        let hash = hash(key);
        let slot = self.slot(hash, key);
        let at = self.arena.len() as u32;
        let older = self.slots[slot].map_or(NONE, |(_, older)| older);
        self.arena.extend_from_slice(&older.to_le_bytes());
        self.arena.extend_from_slice(&seq.to_le_bytes());
        self.arena.extend_from_slice(&hash.to_le_bytes());
        self.arena.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.arena.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.arena.extend_from_slice(key);
        self.arena.extend_from_slice(value);
        self.slots[slot] = Some(((hash >> 32) as u32, at));
        if older == NONE {
            self.keys += 1;
            if self.keys * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let (_, at) = self.slots[self.slot(hash(key), key)]?;
        Some(self.value(at))
    }

    /// All versions in order, as flattening needs them.
    pub fn sorted_versions(&self) -> Sorted {
        let keys = self.sorted_keys();
        let mut sorted = Vec::with_capacity(keys.len());
        for (prefix, newest) in keys {
            let mut at = newest;
            while at != NONE {
                sorted.push((prefix, at));
                at = self.u32_at(at, 0);
            }
        }
        sorted
    }

    /// The newest version of each key in order, as a scan needs it.
    pub fn sorted_keys(&self) -> Sorted {
        let records = || self.slots.iter().flatten().map(|&(_, at)| at);
        let first = records().next().map_or(&[][..], |at| self.key(at));
        let shared = |other: &[u8], most: usize| {
            first[..most].iter().zip(other).take_while(|(one, another)| one == another).count()
        };
        let shared = records().fold(first.len(), |most, at| shared(self.key(at), most));
        let mut sorted: Sorted = records().map(|at| (prefix_u64(&self.key(at)[shared..]), at)).collect();
        sorted.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| self.key(one.1).cmp(self.key(other.1)))
        });
        sorted
    }

    pub fn key(&self, at: u32) -> &[u8] {
        &self.arena[at as usize + HEAD..][..self.u32_at(at, 20) as usize]
    }

    pub fn value(&self, at: u32) -> &[u8] {
        let start = at as usize + HEAD + self.u32_at(at, 20) as usize;
        &self.arena[start..][..self.u32_at(at, 24) as usize]
    }

    fn u32_at(&self, record: u32, offset: usize) -> u32 {
        let start = record as usize + offset;
        u32::from_le_bytes(self.arena[start..start + 4].try_into().expect("four bytes"))
    }

    /// The slot of a key, or the free slot that the key would get.
    fn slot(&self, hash: u64, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some((upper, at)) = self.slots[slot] {
            if upper == (hash >> 32) as u32 && self.key(at) == key {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let old = std::mem::replace(&mut self.slots, vec![None; mask + 1]);
        for (upper, at) in old.into_iter().flatten() {
            let lower = self.u32_at(at, 12);
            let mut slot = (u64::from(upper) << 32 | u64::from(lower)) as usize & mask;
            while self.slots[slot].is_some() {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = Some((upper, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_and_orders() {
        let mut index = HashIndex::new(1 << 20);
        for seq in 0..6000u64 {
            let key = format!("k{:04}", seq * 7 % 3000);
            index.insert(key.as_bytes(), seq, &seq.to_le_bytes());
        }
        for seq in 3000..6000u64 {
            let key = format!("k{:04}", seq * 7 % 3000);
            assert_eq!(index.get(key.as_bytes()), Some(&seq.to_le_bytes()[..]));
        }
        assert_eq!(index.get(b"k3000"), None);
        let keys = index.sorted_keys();
        assert_eq!(keys.len(), 3000);
        assert!(keys.is_sorted_by(|one, other| index.key(one.1) < index.key(other.1)));
        let versions = index.sorted_versions();
        assert_eq!(versions.len(), 6000);
        // Of one key, a newer version lies behind in the arena and comes first in order.
        let order = |at: u32| (index.key(at), std::cmp::Reverse(at));
        assert!(versions.is_sorted_by(|one, other| order(one.1) < order(other.1)));
    }
}
