//! Flipped bits, cuts, tails, wrong footers. Damage is corruption where the log was known to be synced, and a torn tail elsewhere. A
//! bad frame is never visited.

use super::*;
use crate::base::codec::put_varint;

/// Calls [`read`] on a log that holds `data`.
fn read_data(data: &[u8], known_end: Option<u64>) -> (Result<Scan>, Vec<Read>) {
    read(&disk_with(ID, data), ID, known_end)
}

/// The end of the last byte that is not zero.
fn written(data: &[u8]) -> u64 {
    data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
}

/// Offset and length of each damage in a log that holds `data`.
fn damages(data: &[u8], known_end: Option<u64>) -> Vec<(u64, u64)> {
    let fs = disk_with(ID, data);
    let damages = verify(&fs, &path(ID), ID, known_end).unwrap();
    damages.iter().map(|damage| (damage.offset, damage.bytes)).collect()
}

/// A log in which every frame was synced before the next, and the offsets of its frames. The log is closed, or its process was killed.
fn synced_log(closed: bool) -> (Vec<u8>, Vec<u64>) {
    let mut bench = Bench::new();
    let mut starts = Vec::new();
    for bytes in [3, 0, 20] {
        starts.push(bench.writer.end());
        bench.put(bytes).unwrap();
        bench.sync();
    }
    if closed {
        starts.push(bench.writer.end());
        bench.close();
    }
    (bench.data(ID), starts)
}

/// Bytes of each frame of [`unsynced_log`].
const UNSYNCED_BYTES: u64 = 35;

/// A log of five frames that were never synced, and their offsets.
fn unsynced_log() -> (Vec<u8>, Vec<u64>) {
    let mut bench = Bench::new();
    let starts = (0..5).map(|_| bench.put(9).unwrap() - UNSYNCED_BYTES).collect();
    (bench.data(ID), starts)
}

#[test]
fn every_flip_of_a_synced_log_is_corruption_or_harmless_or_costs_the_last_frame() {
    for closed in [false, true] {
        let (data, starts) = synced_log(closed);
        let whole = read_data(&data, None).1;
        let last = *starts.last().unwrap();
        for bit in 0..data.len() * 8 {
            let mut flipped = data.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let at = (bit / 8) as u64;
            match read_data(&flipped, None) {
                (Ok(scan), entries) => {
                    assert!(at >= last, "bit {bit} was swallowed: {scan:?}");
                    let bytes = written(&flipped) - last;
                    assert_eq!(scan.end, End::Torn { offset: last, bytes, whole_frames_behind: 0 });
                    assert_eq!(entries, whole[..whole.len() - usize::from(!closed)]);
                }
                (Err(Error::Corruption { offset, .. }), _) => {
                    assert!(at < last, "bit {bit}");
                    assert!(offset == 0 || starts.contains(&offset));
                }
                (Err(error), _) => panic!("bit {bit}: {error}"),
            }
            let (scan, _) = read_data(&flipped, Some(data.len() as u64));
            assert!(scan.unwrap_err().is_corruption(), "bit {bit}: the end is known");
            assert_eq!(damages(&flipped, Some(data.len() as u64)).len(), 1, "bit {bit}");
        }
        assert_eq!(damages(&data, Some(data.len() as u64)), []);
    }
}

#[test]
fn every_cut_leaves_whole_frames_and_is_corruption_if_the_end_was_known() {
    for closed in [false, true] {
        let (data, starts) = synced_log(closed);
        for len in 0..data.len() {
            let cut = len as u64;
            let (scan, entries) = read_data(&data[..len], None);
            let scan = scan.unwrap();
            let whole = starts[1..].iter().filter(|&&end| end <= cut).count();
            assert_eq!(entries.len(), whole, "cut at {len}");
            let ends = [0, HEADER_BYTES].into_iter().chain(starts.clone());
            let start = ends.filter(|&at| at <= cut).max().unwrap();
            let torn = |bytes| End::Torn { offset: start, bytes, whole_frames_behind: 0 };
            let torn = torn(written(&data[..len]).saturating_sub(start));
            assert_eq!(scan.end, if start == cut { End::Open { offset: cut } } else { torn }, "cut at {len}");
            assert_eq!(scan.header.is_some(), cut >= HEADER_BYTES);
            let (scan, _) = read_data(&data[..len], Some(data.len() as u64));
            assert!(scan.unwrap_err().is_corruption(), "cut at {len}");
            assert_ne!(damages(&data[..len], Some(data.len() as u64)), []);
            assert_eq!(damages(&data[..len], None), [], "a crash may leave a cut");
        }
    }
}

#[test]
fn zeros_are_the_end_and_garbage_is_torn() {
    let (data, _) = synced_log(false);
    let end = data.len() as u64;
    for zeros in [1, 4, 5, 60, 600_000] {
        let tail = [data.clone(), vec![0; zeros]].concat();
        assert_eq!(read_data(&tail, None).0.unwrap().end, End::Open { offset: end });
        assert_eq!(read_data(&tail, Some(end)).0.unwrap().end, End::Open { offset: end });
        assert_eq!(damages(&tail, None), []);
        assert!(read_data(&tail, Some(tail.len() as u64)).0.unwrap_err().is_corruption());
        // One byte behind the zeros.
        let tail = [tail, vec![1]].concat();
        let torn = End::Torn { offset: end, bytes: zeros as u64 + 1, whole_frames_behind: 0 };
        assert_eq!(read_data(&tail, None).0.unwrap().end, torn);
        assert_eq!(read_data(&tail, Some(end)).0.unwrap().end, End::Open { offset: end });
    }
    let mut dice = crash::Dice(1);
    for _ in 0..20 {
        let garbage: Vec<u8> = (0..1 + dice.below(100_000)).map(|_| dice.below(256) as u8).collect();
        let torn = End::Torn { offset: end, bytes: written(&garbage), whole_frames_behind: 0 };
        for zeros in [0, 1, 300_000] {
            let (scan, entries) = read_data(&[&data[..], &garbage, &vec![0; zeros]].concat(), None);
            assert_eq!((scan.unwrap().end, entries.len()), (torn, 3), "zeros are no loss");
        }
    }
    let (closed, _) = synced_log(true);
    let sealed = End::Sealed { length: closed.len() as u64 };
    let not_cut = [closed.clone(), vec![0; 50]].concat();
    assert_eq!(read_data(&not_cut, None).0.unwrap().end, sealed);
    assert_eq!(read_data(&not_cut, Some(closed.len() as u64)).0.unwrap().end, sealed);
    assert_eq!(damages(&not_cut, None), []);
    assert_eq!(read_data(&[closed, b"garbage".to_vec()].concat(), None).0.unwrap().end, sealed);
    let nothing = read_data(&[0; 300_000], None).0.unwrap();
    assert_eq!((nothing.header, nothing.end), (None, End::Open { offset: 0 }));
}

#[test]
fn what_was_never_synced_is_torn_and_whole_frames_behind_are_counted() {
    let (data, starts) = unsynced_log();
    let bytes = data.len() as u64;
    for (index, &start) in starts.iter().enumerate() {
        // In the checksum, in the list, in the value.
        for at in [0, 15, UNSYNCED_BYTES as usize - 1] {
            let mut bad = data.clone();
            bad[start as usize + at] ^= 0x40;
            let (scan, entries) = read_data(&bad, None);
            let torn =
                End::Torn { offset: start, bytes: bytes - start, whole_frames_behind: 4 - index as u64 };
            assert_eq!((scan.unwrap().end, entries.len()), (torn, index));
            assert_eq!(damages(&bad, None), [], "no mark covers the damage");
        }
    }
    // The first page never reached the disk, and no mark covers it.
    let mut bad = data;
    bad[..HEADER_BYTES as usize].fill(0);
    let scan = read_data(&bad, None).0.unwrap();
    assert_eq!(scan.end, End::Torn { offset: 0, bytes, whole_frames_behind: 5 });
    assert_eq!((scan.header, scan.frames, scan.max_mark), (None, 0, 0));
}

#[test]
fn verify_names_every_damaged_range() {
    let (mut data, starts) = unsynced_log();
    for index in [1, 3, 4] {
        data[starts[index] as usize + 20] ^= 1;
    }
    let end = data.len() as u64;
    let (second, last_two) = ((starts[1], UNSYNCED_BYTES), (starts[3], 2 * UNSYNCED_BYTES));
    assert_eq!(damages(&data, None), [], "no mark covers the damages");
    assert_eq!(damages(&data, Some(end)), [second, last_two]);
    data[3] ^= 1;
    assert_eq!(damages(&data, Some(end)), [(0, HEADER_BYTES), second, last_two]);
}

#[test]
fn a_footer_that_disagrees_is_corruption() {
    let mut bench = Bench::new();
    let start = bench.put(4).unwrap();
    bench.put(4).unwrap();
    // The second frame is cut off, and a footer that counts it takes its place.
    let mut data = bench.data(ID);
    data.truncate(start as usize);
    frame::put_footer(&mut data, ID, start, 0, 2);
    assert!(read_data(&data, None).0.unwrap_err().is_corruption());
    assert_eq!(damages(&data, None), [(start, FOOTER_BYTES)]);
}

#[test]
fn a_log_that_ends_before_or_behind_what_is_known_of_it() {
    let (data, starts) = synced_log(true);
    let end = data.len() as u64;
    assert_eq!(read_data(&data, Some(end)).0.unwrap().end, End::Sealed { length: end });
    let (scan, entries) = read_data(&data, Some(starts[2]));
    assert_eq!(
        (scan.unwrap().end, entries.len()),
        (End::Open { offset: starts[2] }, 2),
        "cut by the manifest"
    );
    assert_eq!(damages(&data, Some(starts[2])), []);
    for wrong in [1, HEADER_BYTES - 1, starts[1] + 1, end - 1, end + 1] {
        assert!(read_data(&data, Some(wrong)).0.unwrap_err().is_corruption(), "{wrong}");
        assert_eq!(damages(&data, Some(wrong)).len(), 1, "{wrong}");
    }
}

/// Power failed after the seal and before the sync: the footer is there, and a frame before it is missing.
#[test]
fn a_footer_behind_what_a_crash_took_is_no_damage() {
    let mut bench = Bench::new();
    bench.put(9).unwrap();
    bench.put(9).unwrap();
    bench.writer.seal().unwrap();
    let mut data = bench.data(ID);
    let hole = HEADER_BYTES as usize..HEADER_BYTES as usize + 30;
    data[hole].fill(0);
    assert!(matches!(read_data(&data, None).0.unwrap().end, End::Torn { whole_frames_behind: 1, .. }));
    assert_eq!(damages(&data, None), []);
}

#[cfg(feature = "mutants")]
#[test]
fn the_mutant_that_does_not_check_a_seal_takes_a_short_log() {
    let (data, _) = synced_log(true);
    let cut = &data[..data.len() - FOOTER_BYTES as usize];
    crate::base::mutant::activate(Some("seal_not_checked"));
    let scan = read_data(cut, Some(data.len() as u64)).0;
    crate::base::mutant::activate(None);
    assert!(scan.is_ok());
}

#[test]
fn a_log_under_another_name_holds_nothing_and_a_missing_one_is_an_error() {
    let (data, _) = synced_log(false);
    let fs = disk_with(FileId(2), &data);
    let (scan, entries) = read(&fs, FileId(2), None);
    assert!(matches!(scan.unwrap().end, End::Torn { offset: 0, whole_frames_behind: 0, .. }));
    assert_eq!(entries, []);
    assert!(matches!(read(&fs, FileId(3), None).0, Err(Error::Io { .. })));
}

#[test]
fn an_error_of_the_visitor_ends_the_scan() {
    let (data, _) = synced_log(false);
    let fs = disk_with(ID, &data);
    let result = scan(&fs, &path(ID), ID, None, &mut |_| Err(Error::Closed));
    assert!(matches!(result, Err(Error::Closed)));
}

/// Bytes in which the key of every entry holds a head, and the bytes behind each head are a fitting list. Only the checksums are wrong.
fn bait(heads: u64) -> Vec<u8> {
    let (mut parts, mut bytes) = (Vec::new(), 0);
    for count in 0..heads {
        let mut head = vec![9, 9, 9, 9, frame::KIND_BATCH];
        [bytes, 0, count, 0, 1].into_iter().for_each(|field| put_varint(&mut head, field));
        let part = [&[EntryKind::Delete as u8, 0, head.len() as u8], head.as_slice()].concat();
        bytes += part.len() as u64;
        parts.push(part);
    }
    parts.reverse();
    parts.concat()
}

#[test]
fn bytes_that_look_like_frames_everywhere_do_not_hold_up_recovery() {
    let (data, _) = synced_log(false);
    let few = [data.clone(), bait(1000)].concat();
    assert!(matches!(read_data(&few, None).0.unwrap().end, End::Torn { whole_frames_behind: 0, .. }));
    let many = [data, bait(30_000)].concat();
    let refused = read_data(&many, None).0.unwrap_err();
    assert!(refused.is_corruption() && refused.to_string().contains("looks like frames"), "{refused}");
}

/// A verification beside writers may read a log while its seal cuts off the zeros at its end.
#[test]
fn a_log_may_lose_its_zeros_while_it_is_read() {
    let (data, starts) = synced_log(true);
    let end = data.len() as u64;
    let fs = disk_with(ID, &[data.clone(), vec![0; 1 << 20]].concat());
    let mut reader = crate::log::reader::Reader::open(&fs, &path(ID), ID, None).unwrap();
    fs.write_file(&path(ID), &data).unwrap();
    assert!(matches!(reader.at(starts[0]).unwrap(), crate::log::reader::At::Batch(_)));
    assert!(reader.is_zero_from(end).unwrap());
    assert_eq!(reader.zeros_from(end).unwrap(), end);
    assert!(!reader.is_zero_from(starts[1]).unwrap());
}
