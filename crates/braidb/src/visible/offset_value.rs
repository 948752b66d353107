//! Offset-value codes: numbers that stand for keys while cursors are merged.
//!
//! A key is read as a row of symbols of four bytes each. A code is computed against a *base*, a key that comes before the key in
//! the direction of the walk. The code says at which symbol the key first differs from the base, and what the key has there:
//!
//! ```text
//! 0                                                                  the key is equal to its base
//! symbol's index, complemented, 29 bits │ its bytes, 32 bits │ how many of them the key has, 3 bits
//! all ones                                                           no key
//! ```
//!
//! Of two keys with the same base, the key that agrees with the base for longer comes first. If both leave the base at the same
//! symbol, this symbol decides. So the smaller code has the key that comes first. The number of bytes tells a key that ends from
//! a key that goes on with zeros. In a walk against the order of keys, bytes and number are complemented.
//!
//! The key with the larger code has the same code against the key with the smaller code. Up to the symbol that the larger code
//! names, both keys agree with the base. Equal codes say only that the keys agree up to and including the named symbol.

use crate::base::MAX_KEY_BYTES;

const SYMBOL_BYTES: usize = 4;
const SYMBOL_BITS: u32 = 35;
const MAX_SYMBOL: u64 = (u32::MAX as u64) << 3 | SYMBOL_BYTES as u64;
const MAX_INDEX: u64 = u64::MAX >> SYMBOL_BITS;
const _: () = assert!(MAX_KEY_BYTES / SYMBOL_BYTES < MAX_INDEX as usize);

/// Where a key leaves its base, and by what. The smaller code comes first in the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Code(u64);

impl Code {
    /// The code of the base itself.
    pub const EQUAL: Code = Code(0);
    /// Comes after the codes of all keys.
    pub const NO_KEY: Code = Code(u64::MAX);

    /// The code against a base that comes before every key and shares nothing with it.
    pub fn first(key: &[u8], backward: bool) -> Code {
        Code::at(key, 0, backward)
    }

    /// The code of `key` against `base`.
    #[inline]
    pub fn new(base: &[u8], key: &[u8], backward: bool) -> Code {
        match first_difference(base, key, 0) {
            Some(index) => Code::at(key, index, backward),
            None => Code::EQUAL,
        }
    }

    /// For two keys that both have this code: codes that tell which key comes first, or are equal if the keys are. The larger one
    /// is its key's code against the other key.
    pub fn settle(self, a: &[u8], b: &[u8], backward: bool) -> (Code, Code) {
        if self == Code::EQUAL {
            return (Code::EQUAL, Code::EQUAL);
        }
        let index = (MAX_INDEX - (self.0 >> SYMBOL_BITS)) as usize;
        match first_difference(a, b, index) {
            Some(index) => (Code::at(a, index, backward), Code::at(b, index, backward)),
            None => (Code::EQUAL, Code::EQUAL),
        }
    }

    /// Names the symbol of `key` at `index`.
    #[inline]
    fn at(key: &[u8], index: usize, backward: bool) -> Code {
        let rest = &key[SYMBOL_BYTES * index..];
        let symbol = match rest.first_chunk() {
            Some(bytes) => symbol(*bytes, SYMBOL_BYTES),
            None => {
                let mut bytes = [0; SYMBOL_BYTES];
                bytes[..rest.len()].copy_from_slice(rest);
                symbol(bytes, rest.len())
            }
        };
        let symbol = if backward { MAX_SYMBOL - symbol } else { symbol };
        Code((MAX_INDEX - index as u64) << SYMBOL_BITS | symbol)
    }
}

#[inline]
fn symbol(bytes: [u8; SYMBOL_BYTES], count: usize) -> u64 {
    u64::from(u32::from_be_bytes(bytes)) << 3 | count as u64
}

/// The index of the first symbol at which two keys differ that agree in all before `index`.
#[inline]
fn first_difference(a: &[u8], b: &[u8], index: usize) -> Option<usize> {
    let (mut x, mut y) = (&a[SYMBOL_BYTES * index..], &b[SYMBOL_BYTES * index..]);
    while let (Some((p, x_rest)), Some((q, y_rest))) = (x.split_first_chunk(), y.split_first_chunk()) {
        let differing = u64::from_le_bytes(*p) ^ u64::from_le_bytes(*q);
        if differing != 0 {
            let shared = a.len() - x.len() + (differing.trailing_zeros() / 8) as usize;
            return Some(shared / SYMBOL_BYTES);
        }
        (x, y) = (x_rest, y_rest);
    }
    if x == y {
        return None;
    }
    let shared = x.iter().zip(y).take_while(|(p, q)| p == q).count();
    Some((a.len() - x.len() + shared) / SYMBOL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    /// Keys that end, go on with zeros and differ at every place of a symbol; in order.
    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![vec![]];
        for part in
            [&b"\0"[..], b"\0\0\0\0", b"ab", b"abcd", b"abcd\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff"]
        {
            for front in [&b""[..], b"a", b"shared by all", b"shared by most"] {
                for end in [&b""[..], b"\0", b"x", b"\xff\xff\xff"] {
                    keys.push([front, part, end].concat());
                }
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// How two codes with the same base, or else the keys, order two keys. Also returns the later key's code against the other
    /// key.
    fn order(a: (Code, &[u8]), b: (Code, &[u8]), backward: bool) -> (Ordering, Code) {
        let (x, y) = if a.0 == b.0 { a.0.settle(a.1, b.1, backward) } else { (a.0, b.0) };
        (x.cmp(&y), x.max(y))
    }

    #[test]
    fn codes_order_keys_and_stay_right_for_the_loser() {
        for backward in [false, true] {
            let mut keys = keys();
            if backward {
                keys.reverse();
            }
            for (i, base) in keys.iter().enumerate() {
                for (j, a) in keys.iter().enumerate().skip(i) {
                    for (k, b) in keys.iter().enumerate().skip(i) {
                        let code = |key: &[u8]| Code::new(base, key, backward);
                        let (found, of_loser) = order((code(a), a), (code(b), b), backward);
                        assert_eq!(found, j.cmp(&k), "{base:?}: {a:?} {b:?}, backward {backward}");
                        let (winner, loser) = if j < k { (a, b) } else { (b, a) };
                        assert_eq!(of_loser, Code::new(winner, loser, backward));
                        assert!(code(a) < Code::NO_KEY && (code(a) == Code::EQUAL) == (i == j));
                    }
                }
            }
            for pair in keys.windows(2) {
                let code = |key: &[u8]| Code::first(key, backward);
                let (found, of_loser) =
                    order((code(&pair[0]), &pair[0]), (code(&pair[1]), &pair[1]), backward);
                assert_eq!((found, of_loser), (Ordering::Less, Code::new(&pair[0], &pair[1], backward)));
            }
        }
    }
}
