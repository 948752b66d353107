//! Segments in all layouts against an ordered map, and one under a reader and a writer at once.

use super::cursor::SegmentCursor;
use super::immutable::ImmutableCursor;
use super::*;
use crate::base::ids::{MAX_SEQ, SeqNo};
use crate::base::key::hash;
use crate::visible::rule::{DropProof, RetentionFilter};
use crate::visible::snapshots::Snapshots;
use crate::visible::{Cursor, EntryKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Versions in the order of cursors.
type Model = BTreeMap<(Vec<u8>, Reverse<SeqNo>), (EntryKind, Vec<u8>)>;
type Row = (Vec<u8>, SeqNo, EntryKind, Vec<u8>);

/// A SplitMix64 sequence.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A key of few letters and of a length around the eight bytes of the prefix. So keys are prefixes of each other, share their
    /// first eight bytes, and differ only in trailing zeros.
    fn key(&mut self) -> Vec<u8> {
        let start = [&b""[..], b"pre", b"prefix", b"prefix\0\0"][self.below(4) as usize];
        let tail = (0..self.below(5)).map(|_| b"\0a\xff"[self.below(3) as usize]);
        start.iter().copied().chain(tail).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let len = [0, 1, 3, 8, 130, 3000][self.below(6) as usize];
        vec![self.below(256) as u8; len]
    }
}

fn row(cursor: &impl Cursor) -> Row {
    assert_eq!(cursor.pin_value(), cursor.value());
    (cursor.key().to_vec(), cursor.seq(), cursor.kind(), cursor.value().to_vec())
}

fn rows<C: Cursor>(cursor: &mut C, go: fn(&mut C)) -> Vec<Row> {
    let mut rows = Vec::new();
    while cursor.valid() {
        rows.push(row(cursor));
        go(cursor);
    }
    rows
}

fn rows_of(model: &Model) -> Vec<Row> {
    model.iter().map(|((key, seq), (kind, value))| (key.clone(), seq.0, *kind, value.clone())).collect()
}

fn check(segment: &Arc<Segment>, model: &Model, dice: &mut Dice) {
    let expected = rows_of(model);
    let seqs = || expected.iter().map(|row| row.1);
    assert_eq!(segment.entries(), expected.len() as u64);
    assert_eq!(segment.seq_range(), seqs().min().zip(seqs().max()));

    let mut cursor = segment.cursor();
    assert!(!cursor.valid());
    let next = |cursor: &mut SegmentCursor| cursor.next().unwrap();
    let prev = |cursor: &mut SegmentCursor| cursor.prev().unwrap();
    cursor.seek_to_first().unwrap();
    assert_eq!(rows(&mut cursor, next), expected);
    cursor.seek_to_last().unwrap();
    let mut backward = rows(&mut cursor, prev);
    backward.reverse();
    assert_eq!(backward, expected);

    for _ in 0..if cfg!(miri) { 4 } else { 30 } {
        let key = dice.key();
        let split = expected.partition_point(|row| row.0 < key);
        cursor.seek(&key).unwrap();
        assert_eq!(rows(&mut cursor, next), expected[split..]);
        cursor.seek_before(&key).unwrap();
        let mut backward = rows(&mut cursor, prev);
        backward.reverse();
        assert_eq!(backward, expected[..split]);

        let at = dice.below(expected.len() as u64 + 2);
        let wanted = expected[split..].iter().find(|row| row.0 == key && row.1 <= at);
        let found = segment.get(&key, hash(&key), at);
        assert_eq!(
            found.map(|found| (found.seq, found.kind, found.value.to_vec())),
            wanted.map(|row| (row.1, row.2, row.3.clone()))
        );
    }
}

#[test]
fn a_segment_is_an_ordered_map_of_versions() {
    for seed in 0..if cfg!(miri) { 2 } else { 20 } {
        let mut dice = Dice(seed);
        // Some segments have a filter that is far too small.
        let (segment, mut writer) =
            if seed % 4 < 2 { Segment::new(seed) } else { Segment::with_filter(seed, 4096) };
        let mut model = Model::new();
        // Half of the runs write in the order of the numbers, as the commit queue does; the others in any order.
        let count = if cfg!(miri) { 40 } else { 600 };
        let mut seqs: Vec<SeqNo> = (1..=count).collect();
        if seed % 2 == 1 {
            (1..seqs.len()).for_each(|i| seqs.swap(i, dice.below(i as u64 + 1) as usize));
        }
        check(&segment, &model, &mut dice);
        for (step, seq) in seqs.into_iter().enumerate() {
            let (key, kind) =
                (dice.key(), [EntryKind::Delete, EntryKind::Put][dice.below(4).min(1) as usize]);
            let value = if kind == EntryKind::Put { dice.value() } else { Vec::new() };
            let bytes = segment.bytes();
            writer.insert(&key, seq, kind, &value);
            assert!(segment.bytes() >= bytes + value.len() as u64);
            model.insert((key, Reverse(seq)), (kind, value));
            if step % 150 == 0 {
                check(&segment, &model, &mut dice);
            }
        }
        check(&segment, &model, &mut dice);
    }
}

#[test]
fn orders_that_take_the_short_way_give_the_same_list() {
    let count = if cfg!(miri) { 20 } else { 400u64 };
    let ascending: Vec<u64> = (0..count).collect();
    let descending: Vec<u64> = (0..count).rev().collect();
    // Two ascending runs that interleave: each key lies just behind one that was inserted a while ago.
    let two_runs: Vec<u64> = (0..count / 2).flat_map(|i| [i, i + count / 2]).collect();
    // Each run fills the gaps that the one before left.
    let gaps: Vec<u64> = (0..count).step_by(2).chain((1..count).step_by(2)).collect();
    // Each key twice in a row.
    let twice: Vec<u64> = (0..count / 2).flat_map(|i| [i, i]).collect();
    for order in [ascending, descending, two_runs, gaps, twice] {
        let (segment, mut writer) = Segment::new(3);
        let mut model = Model::new();
        for (seq, number) in (1..).zip(order) {
            let key = format!("key{number:09}").into_bytes();
            writer.insert(&key, seq, EntryKind::Put, &number.to_le_bytes());
            model.insert((key, Reverse(seq)), (EntryKind::Put, number.to_le_bytes().to_vec()));
        }
        check(&segment, &model, &mut Dice(7));
    }
}

#[test]
fn values_and_cursors_keep_the_segment_alive() {
    let (segment, mut writer) = Segment::new(0);
    writer.insert(b"", 5, EntryKind::Put, b"");
    writer.insert(b"k", 6, EntryKind::Put, b"a value");
    let value = segment.get(b"k", hash(b"k"), MAX_SEQ).unwrap().value;
    let mut cursor = segment.cursor();
    cursor.seek(b"a").unwrap();
    let weak = Arc::downgrade(&segment);
    drop((segment, writer));
    assert_eq!(value, b"a value");
    assert_eq!(row(&cursor), (b"k".to_vec(), 6, EntryKind::Put, b"a value".to_vec()));
    let pinned = cursor.pin_value();
    drop((cursor, value));
    assert_eq!(pinned, b"a value");
    drop(pinned);
    assert!(weak.upgrade().is_none());
}

#[test]
#[should_panic(expected = "each sequence number once")]
fn a_number_is_given_once_a_key() {
    let (_, mut writer) = Segment::new(0);
    for seq in [1, 2, 1] {
        writer.insert(b"k", seq, EntryKind::Put, b"");
    }
}

#[test]
#[should_panic(expected = "seek again before turning round")]
fn a_cursor_does_not_turn_round() {
    let (segment, mut writer) = Segment::new(0);
    writer.insert(b"k", 1, EntryKind::Put, b"");
    let mut cursor = segment.cursor();
    cursor.seek_to_last().unwrap();
    let _ = cursor.next();
}

/// Lists of about as many versions each, newest first, and their union. All keys begin with `shared`.
fn lists(dice: &mut Dice, shared: &[u8]) -> (Vec<Immutable>, Model) {
    let (mut lists, mut model, mut seq) = (Vec::new(), Model::new(), 0);
    for _ in 0..1 + dice.below(4) {
        let (segment, mut writer) = Segment::new(dice.below(9));
        for _ in 0..1 + dice.below(if cfg!(miri) { 12 } else { 200 }) {
            let key = [shared, &dice.key()].concat();
            let kind = [EntryKind::Delete, EntryKind::Put][dice.below(4).min(1) as usize];
            let value = if kind == EntryKind::Put { dice.value() } else { Vec::new() };
            seq += 1;
            writer.insert(&key, seq, kind, &value);
            model.insert((key, Reverse(seq)), (kind, value));
        }
        lists.insert(0, Immutable::List(segment));
    }
    (lists, model)
}

/// The version of a key that a reader at `at` sees.
fn seen(model: &Model, key: &[u8], at: SeqNo) -> Option<(SeqNo, EntryKind, Vec<u8>)> {
    let mut versions = model.range((key.to_vec(), Reverse(at))..=(key.to_vec(), Reverse(0)));
    versions.next().map(|((_, seq), (kind, value))| (seq.0, *kind, value.clone()))
}

fn check_flat(flat: &Immutable, model: &Model, shared: &[u8], dice: &mut Dice) {
    let expected = rows_of(model);
    assert_eq!(flat.entries(), expected.len() as u64);
    let next = |cursor: &mut ImmutableCursor| cursor.next().unwrap();
    let prev = |cursor: &mut ImmutableCursor| cursor.prev().unwrap();
    let mut cursor = flat.cursor();
    cursor.seek_to_first().unwrap();
    assert_eq!(rows(&mut cursor, next), expected);
    cursor.seek_to_last().unwrap();
    let mut backward = rows(&mut cursor, prev);
    backward.reverse();
    assert_eq!(backward, expected);
    for _ in 0..if cfg!(miri) { 4 } else { 30 } {
        // Also looks up keys that leave the shared bytes: before, behind, and in the middle.
        let mut key = [shared, &dice.key()].concat();
        match dice.below(6) {
            0 => key.truncate(dice.below(shared.len() as u64 + 1) as usize),
            1 if !shared.is_empty() => {
                let at = dice.below(shared.len() as u64) as usize;
                key[at] = [key[at].wrapping_sub(1), key[at].wrapping_add(1)][dice.below(2) as usize];
            }
            _ => {}
        }
        let split = expected.partition_point(|row| row.0 < key);
        cursor.seek(&key).unwrap();
        assert_eq!(rows(&mut cursor, next), expected[split..]);
        cursor.seek_before(&key).unwrap();
        let mut backward = rows(&mut cursor, prev);
        backward.reverse();
        assert_eq!(backward, expected[..split]);
        let at = dice.below(expected.len() as u64 + 2);
        let found = flat.get(&key, hash(&key), at).map(|found| (found.seq, found.kind, found.value.to_vec()));
        assert_eq!(found, seen(model, &key, at));
    }
}

#[test]
fn a_flat_segment_is_the_same_map_in_each_layout() {
    for seed in 0..if cfg!(miri) { 4 } else { 16 } {
        let mut dice = Dice(seed);
        let long = vec![b'x'; 1 + dice.below(if cfg!(miri) { 20 } else { 60_000 }) as usize];
        let shared = [&b""[..], b"\0", b"shared-by-all", &long][seed as usize % 4].to_vec();
        let (mut parts, model) = lists(&mut dice, &shared);
        let records = || [Records::Stay, Records::CopiedIfSparse, Records::Copied];
        // Some parts are flat before, in some layout.
        for part in &mut parts {
            let layout = records()[dice.below(3) as usize];
            if dice.below(2) == 0 {
                *part =
                    Immutable::Flat(merge(std::slice::from_ref(part), None, layout, || true).unwrap().flat);
            }
        }
        for layout in records() {
            let merged = merge(&parts, None, layout, || true).unwrap();
            let keys = model.keys().map(|(key, _)| key).collect::<std::collections::BTreeSet<_>>();
            let counts = (merged.entries, merged.keys, merged.dropped);
            assert_eq!(counts, (model.len() as u64, keys.len() as u64, 0));
            check_flat(&Immutable::Flat(merged.flat), &model, &shared, &mut dice);
        }
        // Only the records of the merged parts are left.
        let flat = merge(&parts, None, Records::Stay, || true).unwrap().flat;
        drop(parts);
        check_flat(&Immutable::Flat(flat), &model, &shared, &mut dice);
    }
}

#[test]
fn a_search_finds_its_place_among_many_entries() {
    // Enough entries for several roots. There are keys with different beginnings. There are groups that share the beginning and
    // go beyond a fence.
    let (count, step) = if cfg!(miri) { (150, 13) } else { (3000, 1) };
    let key = |number: usize| {
        let start = if (number / 70).is_multiple_of(2) { number / 70 * 70 } else { number };
        [&(start as u64).to_be_bytes()[..], &(number as u32 * 2).to_be_bytes()].concat()
    };
    let (segment, mut writer) = Segment::with_filter(5, 64 << 10);
    for number in (0..count).rev() {
        writer.insert(&key(number), 1 + number as u64, EntryKind::Put, &number.to_le_bytes());
    }
    drop(writer);
    let flat = merge(&[Immutable::List(segment)], None, Records::Stay, || true).unwrap().flat;
    let mut cursor = flat.cursor();
    for number in (0..count).step_by(step) {
        let wanted = key(number);
        let found = flat.get(&wanted, hash(&wanted), MAX_SEQ).unwrap();
        assert_eq!(found.value, number.to_le_bytes());
        cursor.seek(&wanted).unwrap();
        assert_eq!(cursor.key(), wanted);
        cursor.seek_before(&wanted).unwrap();
        assert_eq!(cursor.valid().then(|| cursor.key().to_vec()), number.checked_sub(1).map(key));
        let behind = [&wanted[..], b"\0"].concat();
        assert!(flat.get(&behind, hash(&behind), MAX_SEQ).is_none());
        cursor.seek(&behind).unwrap();
        assert_eq!(
            cursor.valid().then(|| cursor.key().to_vec()),
            (number + 1 < count).then(|| key(number + 1))
        );
    }
}

#[test]
fn filters_stop_gets_before_they_search() {
    let count = if cfg!(miri) { 20 } else { 1000u64 };
    let segments = [Segment::new(1), Segment::with_filter(1, 200 * count)].map(|(segment, mut writer)| {
        for number in 0..count {
            writer.insert(&number.to_be_bytes(), 1 + number, EntryKind::Put, b"");
        }
        Immutable::List(segment)
    });
    let flat = Immutable::Flat(merge(&segments[1..], None, Records::Stay, || true).unwrap().flat);
    // Under the hash of another key a get finds nothing where a filter is asked.
    let found = |segment: &Immutable, hash: fn(&[u8]) -> u64| {
        let keys = (0..count).map(u64::to_be_bytes);
        keys.filter(|key| segment.get(key, hash(key), MAX_SEQ).is_some()).count() as u64
    };
    for (segment, is_filtered) in [(&segments[0], false), (&segments[1], true), (&flat, true)] {
        assert_eq!(found(segment, hash), count);
        let strangers = found(segment, |key| hash(&[key, b"?"].concat()));
        assert!(if is_filtered { strangers <= count / 20 } else { strangers == count }, "{strangers}");
    }
}

#[test]
fn what_a_reader_may_see_survives_every_step() {
    for seed in 0..if cfg!(miri) { 3 } else { 10 } {
        let mut dice = Dice(seed);
        let (mut parts, model) = lists(&mut dice, b"");
        let last = model.keys().map(|(_, seq)| seq.0).max().unwrap();
        let snapshots: Vec<SeqNo> = (0..dice.below(4)).map(|_| 1 + dice.below(last)).collect();
        // A reader that registers while a step runs registers at or above its horizon.
        let horizon = last - dice.below(last / 2 + 1);
        while parts.len() > 1 || parts[0].is_list() || dice.below(2) == 0 {
            let start = dice.below(parts.len() as u64) as usize;
            let end = start + 1 + dice.below((parts.len() - start) as u64) as usize;
            let proof = DropProof::new(snapshots.clone(), horizon);
            let retention = (dice.below(3) > 0).then(|| RetentionFilter::new(proof));
            let layout = [Records::Stay, Records::CopiedIfSparse, Records::Copied][dice.below(3) as usize];
            let merged = merge(&parts[start..end], retention, layout, || true).unwrap();
            assert_eq!(merged.flat.entries(), merged.entries - merged.dropped);
            parts.splice(start..end, [Immutable::Flat(merged.flat)]);
            for (key, _) in model.keys() {
                for at in snapshots.iter().copied().chain(horizon..=last) {
                    let found = parts.iter().find_map(|part| part.get(key, hash(key), at));
                    let found = found.map(|found| (found.seq, found.kind, found.value.to_vec()));
                    assert_eq!(found, seen(&model, key, at), "seed {seed}: {key:?} at {at}");
                }
                if cfg!(miri) && dice.below(4) > 0 {
                    break;
                }
            }
        }
    }
}

#[test]
fn values_and_cursors_keep_the_records_of_a_flat_segment_alive() {
    for layout in [Records::Stay, Records::Copied] {
        let (segment, mut writer) = Segment::new(0);
        writer.insert(b"", 5, EntryKind::Put, b"");
        writer.insert(b"k", 6, EntryKind::Put, b"a value");
        drop(writer);
        let records = Arc::downgrade(segment.versions());
        let flat = Immutable::Flat(merge(&[Immutable::List(segment)], None, layout, || true).unwrap().flat);
        assert_eq!(records.upgrade().is_some(), layout == Records::Stay);
        let value = flat.get(b"k", hash(b"k"), MAX_SEQ).unwrap().value;
        let mut cursor = flat.cursor();
        cursor.seek(b"a").unwrap();
        drop(flat);
        assert_eq!(value, b"a value");
        assert_eq!(row(&cursor), (b"k".to_vec(), 6, EntryKind::Put, b"a value".to_vec()));
        let pinned = cursor.pin_value();
        drop((cursor, value));
        assert_eq!(pinned, b"a value");
        drop(pinned);
        assert!(records.upgrade().is_none());
    }
}

/// The key of the write `seq` of the two-thread test; its value tells its number.
fn key_of(seq: SeqNo) -> [u8; 12] {
    let mut key = *b"key-00000000";
    key[4..].copy_from_slice(&(Dice(seq).below(50) << 8).to_be_bytes());
    key
}

fn check_what_is_published(segment: &Arc<Segment>, at: SeqNo, dice: &mut Dice) {
    for _ in 0..8 {
        let key = key_of(1 + dice.below(1000));
        let wanted = (1..=at).rev().find(|&seq| key_of(seq) == key);
        let found = segment.get(&key, hash(&key), at);
        assert_eq!(found.as_ref().map(|found| found.seq), wanted);
        if let Some(found) = found {
            assert_eq!(found.value, found.seq.to_le_bytes().repeat(5));
        }
    }
    let is_backward = dice.below(2) == 1;
    let mut cursor = segment.cursor();
    if is_backward { cursor.seek_to_last() } else { cursor.seek_to_first() }.unwrap();
    let (mut seen, mut last) = (0, None);
    while cursor.valid() {
        assert_eq!(cursor.key(), key_of(cursor.seq()));
        assert_eq!(cursor.value(), cursor.seq().to_le_bytes().repeat(5));
        let place = (cursor.key().to_vec(), Reverse(cursor.seq()));
        if let Some(last) = &last {
            assert!(if is_backward { place < *last } else { place > *last });
        }
        last = Some(place);
        seen += u64::from(cursor.seq() <= at);
        if is_backward { cursor.prev() } else { cursor.next() }.unwrap();
    }
    assert_eq!(seen, at, "every published write is met, once");
}

#[test]
fn readers_see_all_that_is_published_while_the_writer_writes() {
    let count = if cfg!(miri) { 50 } else { 3000 };
    let (segment, mut writer) = Segment::with_filter(11, 64 << 10);
    let published = Snapshots::new(0);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (segment, published) = (&segment, &published);
            scope.spawn(move || {
                let mut dice = Dice(reader);
                loop {
                    let at = published.visible();
                    check_what_is_published(segment, at, &mut dice);
                    if at == count {
                        break;
                    }
                }
            });
        }
        for seq in 1..=count {
            writer.insert(&key_of(seq), seq, EntryKind::Put, &seq.to_le_bytes().repeat(5));
            published.publish(seq);
            if seq % 16 == 0 {
                std::thread::yield_now();
            }
        }
    });
}

/// The figures of docs/decisions/memory-pipeline.md.
#[test]
#[cfg(not(miri))]
fn bytes_a_key_are_what_the_document_says() {
    let mut found = Vec::new();
    for (key_bytes, value_bytes) in [(16, 128), (8, 8)] {
        let (segment, mut writer) = Segment::new(1);
        let entries = 20_000u64;
        for seq in 1..=entries {
            let key = crate::base::key::hash(&seq.to_le_bytes()).to_be_bytes().repeat(key_bytes / 8);
            writer.insert(&key, seq, EntryKind::Put, &vec![7; value_bytes]);
        }
        drop(writer);
        let list = [Immutable::List(segment.clone())];
        let flat = |records| merge(&list, None, records, || true).unwrap().flat.bytes();
        let bytes = [segment.bytes(), flat(Records::Stay), flat(Records::Copied)];
        found.push(bytes.map(|bytes| bytes / entries));
    }
    assert_eq!(found, [[218, 185, 177], [82, 57, 49]]);
}
