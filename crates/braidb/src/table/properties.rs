//! Statistics of a table: counted while the table is written, recounted when it is verified.
//!
//! ```text
//! per field  tag     varint  ascending
//!            length  varint
//!            bytes           numbers are varints; keys stand as they are
//! ```
//!
//! | tag | field |
//! |---|---|
//! | 1 | entries |
//! | 2 | tombstones among them |
//! | 3 | distinct keys |
//! | 4, 5 | smallest and largest key |
//! | 6, 7 | smallest and largest sequence number |
//! | 8, 9 | bytes of keys and of values, as given |
//! | 10 | block size that the writer aimed at |
//! | 11 | of each body: the id of the log, the bytes of the values that handles lead to, the length of the closed log |
//! | 12 | optional, of older builds: a sketch of the keys, which readers skip |
//! | 13 | optional: a sample of the keys ([`crate::base::sample`]) |
//! | 14 | of each body: its kind (0 a log, 1 a value file, 2 a trie table) plus 16 times its tier, then as in field 11; in place of field 11 if a body is a value file |
//! | 15 | optional: why the table was written ([`super::Reason`]), a number that readers may not know |
//!
//! All of these fields are required, except 11 and 14 (absent in a table without handles), 12, 13 and 15. Readers skip fields with
//! other tags. Facts that a reader must know are marked elsewhere: an unknown value location, or an unknown field of the
//! manifest.

use super::reason::Reason;
use super::section::Flaw;
use crate::base::codec::{Decoder, put_bytes, put_varint};
use crate::base::ids::SeqNo;
use crate::base::key::KeyRange;
use crate::base::sample::Sample;
use crate::value::{self, BodyUse};
use crate::visible::EntryKind;

/// The indices of the fields that may be missing.
const LOGS: usize = 10;
const SAMPLE: usize = 12;
const BODIES: usize = 13;
const REASON: usize = 14;
/// Number of fields.
const FIELDS: usize = REASON + 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    pub entries: u64,
    pub tombstones: u64,
    pub keys: u64,
    pub range: KeyRange,
    pub seqs: (SeqNo, SeqNo),
    pub key_bytes: u64,
    pub value_bytes: u64,
    pub block_bytes: u64,
    /// A sample of all keys of the table, if it has one.
    pub sample: Option<Sample>,
    /// The bodies that handles lead into; a handle names a body by its index here.
    pub bodies: Vec<BodyUse>,
    /// Why the table was written, if that is known.
    pub reason: Option<Reason>,
}

impl Properties {
    /// The properties of a table without entries.
    pub fn new(block_bytes: u64) -> Properties {
        Properties {
            entries: 0,
            tombstones: 0,
            keys: 0,
            range: KeyRange { low: Vec::new(), high: Vec::new() },
            seqs: (SeqNo::MAX, 0),
            key_bytes: 0,
            value_bytes: 0,
            block_bytes,
            sample: None,
            bodies: Vec::new(),
            reason: None,
        }
    }

    /// Counts the next entry in order; `is_new` if its key differs from the key before. The caller sets the largest key
    /// at the end.
    #[inline]
    pub fn count(&mut self, key: &[u8], is_new: bool, seq: SeqNo, kind: EntryKind, value_bytes: usize) {
        if self.entries == 0 {
            self.range.low.extend_from_slice(key);
        }
        self.entries += 1;
        self.tombstones += u64::from(kind == EntryKind::Delete);
        self.keys += u64::from(is_new);
        self.seqs = (self.seqs.0.min(seq), self.seqs.1.max(seq));
        self.key_bytes += key.len() as u64;
        self.value_bytes += value_bytes as u64;
    }

    /// Adds the properties of the following entries, which have other keys. The sample already covers the whole
    /// table and stays.
    pub fn append(&mut self, next: &Properties) {
        if self.entries == 0 {
            self.range.low.clone_from(&next.range.low);
        }
        self.range.high.clone_from(&next.range.high);
        self.entries += next.entries;
        self.tombstones += next.tombstones;
        self.keys += next.keys;
        self.seqs = (self.seqs.0.min(next.seqs.0), self.seqs.1.max(next.seqs.1));
        self.key_bytes += next.key_bytes;
        self.value_bytes += next.value_bytes;
    }

    /// All fields in the order of their tags, which count from 1; `None` for a missing field.
    fn fields(&self) -> [(&'static str, Option<Vec<u8>>); FIELDS] {
        let bytes = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            encode(&mut bytes);
            Some(bytes)
        };
        let number = |value| bytes(&|out| put_varint(out, value));
        let are_logs = value::are_logs(&self.bodies);
        let bodies = |is_this_form: bool| match is_this_form && !self.bodies.is_empty() {
            true => bytes(&|out| value::encode_bodies(&self.bodies, out)),
            false => None,
        };
        [
            ("entries", number(self.entries)),
            ("tombstones", number(self.tombstones)),
            ("distinct keys", number(self.keys)),
            ("smallest key", Some(self.range.low.clone())),
            ("largest key", Some(self.range.high.clone())),
            ("smallest sequence number", number(self.seqs.0)),
            ("largest sequence number", number(self.seqs.1)),
            ("bytes of keys", number(self.key_bytes)),
            ("bytes of values", number(self.value_bytes)),
            ("block size", number(self.block_bytes)),
            ("logs of values", bodies(are_logs)),
            ("sketch of the keys", None),
            ("sample of the keys", self.sample.as_ref().and_then(|sample| bytes(&|out| sample.encode(out)))),
            ("bodies", bodies(!are_logs)),
            ("reason", self.reason.and_then(|reason| number(reason.code()))),
        ]
    }

    /// The names of the fields in which the two differ.
    pub fn differences(&self, other: &Properties) -> Vec<&'static str> {
        let pairs = self.fields().into_iter().zip(other.fields());
        pairs.filter(|(mine, theirs)| mine.1 != theirs.1).map(|(mine, _)| mine.0).collect()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        for (tag, (_, bytes)) in (1..).zip(self.fields()) {
            if let Some(bytes) = bytes {
                put_varint(out, tag);
                put_bytes(out, &bytes);
            }
        }
    }

    pub fn decode(payload: &[u8]) -> Result<Properties, Flaw> {
        Properties::parse(payload).ok_or(Flaw::Malformed("the properties are malformed"))
    }

    fn parse(payload: &[u8]) -> Option<Properties> {
        let mut known: [Option<&[u8]>; FIELDS] = [None; FIELDS];
        let mut decoder = Decoder::new(payload);
        let mut last_tag = 0;
        while !decoder.is_empty() {
            let (tag, bytes) = (decoder.varint()?, decoder.bytes()?);
            if tag <= last_tag {
                return None;
            }
            last_tag = tag;
            if let Some(field) = usize::try_from(tag - 1).ok().and_then(|i| known.get_mut(i)) {
                *field = Some(bytes);
            }
        }
        let number = |tag: usize| {
            let mut decoder = Decoder::new(known[tag - 1]?);
            decoder.varint().filter(|_| decoder.is_empty())
        };
        let (low, high) = (known[3]?.to_vec(), known[4]?.to_vec());
        (low <= high).then_some(())?;
        Some(Properties {
            entries: number(1)?,
            tombstones: number(2)?,
            keys: number(3)?,
            range: KeyRange { low, high },
            seqs: (number(6)?, number(7)?),
            key_bytes: number(8)?,
            value_bytes: number(9)?,
            block_bytes: number(10)?,
            sample: match known[SAMPLE] {
                Some(bytes) => Some(Sample::decode(bytes)?),
                None => None,
            },
            bodies: match (known[LOGS], known[BODIES]) {
                (None, None) => Vec::new(),
                (Some(logs), None) => value::decode_logs(&mut Decoder::new(logs))?,
                (None, Some(bodies)) => value::decode_bodies(&mut Decoder::new(bodies))?,
                (Some(_), Some(_)) => return None,
            },
            reason: match known[REASON] {
                Some(_) => Reason::of_code(number(REASON + 1)?),
                None => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{FileId, TierId};
    use crate::value::{BodyFile, BodyKind};

    fn sample() -> Properties {
        let mut properties = Properties::new(4096);
        properties.count(b"a", true, 300, EntryKind::Put, 1000);
        properties.count(b"a", false, 200, EntryKind::Delete, 0);
        properties.count(b"bb", true, 500, EntryKind::Put, 7);
        properties.range.high = b"bb".to_vec();
        properties
    }

    #[test]
    fn they_count_and_come_back() {
        let properties = sample();
        assert_eq!((properties.entries, properties.tombstones, properties.keys), (3, 1, 2));
        assert_eq!((properties.seqs, properties.key_bytes, properties.value_bytes), ((200, 500), 4, 1007));
        let mut payload = Vec::new();
        properties.encode(&mut payload);
        assert_eq!(Properties::decode(&payload).unwrap(), properties);
        for len in 0..payload.len() {
            assert!(Properties::decode(&payload[..len]).is_err(), "cut to {len}");
        }
    }

    /// Older builds wrote a sketch of the keys as field 12.
    #[test]
    fn a_sketch_of_an_older_build_is_skipped() {
        let mut payload = Vec::new();
        sample().encode(&mut payload);
        put_varint(&mut payload, 12);
        put_bytes(&mut payload, &[7; 4096]);
        assert_eq!(Properties::decode(&payload).unwrap(), sample());
    }

    #[test]
    fn a_sample_comes_back_or_is_missing() {
        let mut keys = Sample::default();
        ["a", "b", "bb"].iter().for_each(|key| keys.push(key.as_bytes()));
        let mut properties = sample();
        let (mut without, mut with) = (Vec::new(), Vec::new());
        properties.encode(&mut without);
        properties.sample = Some(keys);
        properties.encode(&mut with);
        assert!(with.starts_with(&without), "to a reader that does not know it, an unknown field");
        assert_eq!(Properties::decode(&with).unwrap(), properties);
        assert_eq!(Properties::decode(&without).unwrap().sample, None);
        for len in without.len() + 1..with.len() {
            assert!(Properties::decode(&with[..len]).is_err(), "cut to {len}");
        }
        let other = Properties { sample: Some(Sample::default()), ..properties.clone() };
        assert_eq!(properties.differences(&other), ["sample of the keys"]);
        put_varint(&mut without, 13);
        put_bytes(&mut without, &[1, b'b', 1, b'a']);
        assert!(Properties::decode(&without).is_err(), "an impossible sample");
    }

    #[test]
    fn bodies_come_back_where_there_are_any() {
        let mut properties = sample();
        let body = |kind, id, live_bytes| {
            let file = BodyFile { kind, tier: TierId::FAST, id: FileId(id), bytes: 1 << 40 };
            BodyUse { file, live_bytes }
        };
        let mut without = Vec::new();
        sample().encode(&mut without);
        let kinds =
            [(BodyKind::Log, "logs of values"), (BodyKind::Values, "bodies"), (BodyKind::Trie, "bodies")];
        for (second, field) in kinds {
            properties.bodies = vec![body(BodyKind::Log, 7, 300), body(second, 6, 1 << 33)];
            let mut payload = Vec::new();
            properties.encode(&mut payload);
            assert_eq!(Properties::decode(&payload).unwrap(), properties);
            assert_eq!(properties.differences(&sample()), [field]);
            assert!(payload.starts_with(&without));
        }
        let of_kind = |kind: u8| [&[14, 4][..], &[kind, 7, 3, 9]].concat();
        assert!(Properties::decode(&[&without[..], &of_kind(1)].concat()).is_ok());
        let both = [&[11, 3, 7, 3, 9][..], &of_kind(1)].concat();
        let (log, unknown) = (of_kind(0), of_kind(3));
        let bad: [&[u8]; 7] =
            [&[11, 0], &[11, 2, 7, 3], &[11, 4, 7, 3, 9, 1], &[14, 0], &log, &unknown, &both];
        for empty in bad {
            assert!(Properties::decode(&[&without, empty].concat()).is_err(), "{empty:?}");
        }
    }

    #[test]
    fn unknown_fields_are_skipped_and_repeated_ones_refused() {
        let mut payload = Vec::new();
        sample().encode(&mut payload);
        let known = payload.len();
        put_varint(&mut payload, 77);
        put_bytes(&mut payload, b"from the future");
        assert_eq!(Properties::decode(&payload).unwrap(), sample());
        payload.truncate(known);
        put_varint(&mut payload, 10);
        put_bytes(&mut payload, &[1]);
        assert!(Properties::decode(&payload).is_err());
    }

    #[test]
    fn differences_are_named() {
        let mut other = sample();
        assert_eq!(other.differences(&sample()), Vec::<&str>::new());
        other.tombstones = 2;
        other.range.high = b"c".to_vec();
        assert_eq!(other.differences(&sample()), ["tombstones", "largest key"]);
    }
}
