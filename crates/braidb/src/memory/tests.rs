//! A segment against an ordered map, and under a reader and a writer at once.

use super::cursor::SegmentCursor;
use super::*;
use crate::base::ids::{MAX_SEQ, SeqNo};
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

    /// Few letters and many lengths, around the eight bytes of the prefix, so that keys are prefixes of each other,
    /// share their first eight bytes, and differ only in trailing zeros.
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

fn row(cursor: &SegmentCursor) -> Row {
    assert_eq!(cursor.pin_value(), cursor.value());
    (cursor.key().to_vec(), cursor.seq(), cursor.kind(), cursor.value().to_vec())
}

fn rows(cursor: &mut SegmentCursor, go: fn(&mut SegmentCursor)) -> Vec<Row> {
    let mut rows = Vec::new();
    while cursor.valid() {
        rows.push(row(cursor));
        go(cursor);
    }
    rows
}

fn check(segment: &Arc<Segment>, model: &Model, dice: &mut Dice) {
    let expected: Vec<Row> =
        model.iter().map(|((key, seq), (kind, value))| (key.clone(), seq.0, *kind, value.clone())).collect();
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
        let found = segment.get(&key, at);
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
        let (segment, mut writer) = Segment::new(seed);
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
    let value = segment.get(b"k", MAX_SEQ).unwrap().value;
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

/// Which key the write `seq` of the two-thread test goes to; its value says its number.
fn key_of(seq: SeqNo) -> [u8; 12] {
    let mut key = *b"key-00000000";
    key[4..].copy_from_slice(&(Dice(seq).below(50) << 8).to_be_bytes());
    key
}

fn check_what_is_published(segment: &Arc<Segment>, at: SeqNo, dice: &mut Dice) {
    for _ in 0..8 {
        let key = key_of(1 + dice.below(1000));
        let wanted = (1..=at).rev().find(|&seq| key_of(seq) == key);
        let found = segment.get(&key, at);
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
    let (segment, mut writer) = Segment::new(11);
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
