//! Power failures at any moment: recovery finds a prefix of the commits, with all synced ones.

use super::*;
use braidb_storage::sim::Crash;

/// A small pseudo-random number generator.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Recovers as the head of `scan` describes: the entries of the longest good prefix of the chain of logs.
fn recover(fs: &SimFs, ids: &[FileId]) -> Result<Vec<Read>> {
    let mut all = Vec::new();
    for (index, &id) in ids.iter().enumerate() {
        let later = || ids[index + 1..].iter().filter_map(|&id| read(fs, id, None).0.ok());
        let mut complete = false;
        if fs.file_len(&path(id)).is_ok() {
            let (scan, entries) = read(fs, id, None);
            all.extend(entries);
            if let End::Sealed { length } = scan?.end {
                let told = Some((id, length));
                complete = later().filter_map(|scan| scan.header).any(|header| header.previous == told);
            }
        }
        if !complete {
            if later().any(|scan| scan.max_mark >= 1) {
                return Err(Error::corruption(&path(id), 0, "it was sealed and synced"));
            }
            break;
        }
    }
    Ok(all)
}

/// Runs a random history with a few crashes at every step. Returns whether recovery always found a prefix of the commits that has all
/// synced commits.
fn survives_crashes(seed: u64) -> bool {
    let mut dice = Dice(seed);
    let mut bench = Bench::new();
    let mut ids = vec![ID];
    let mut synced = 0;
    for _ in 0..60 {
        match dice.below(8) {
            0 => {
                ids.push(FileId(ids.last().unwrap().0 + 1 + dice.below(2)));
                bench.writer.rotate(*ids.last().unwrap(), false).unwrap();
            }
            1 | 2 => {
                bench.writer.write_out().unwrap();
                bench.sync();
                synced = bench.seq - 1;
            }
            _ => {
                let mut batch = put(&bench.seq.to_be_bytes(), &vec![7; dice.below(40) as usize]);
                (0..dice.below(3)).for_each(|_| batch.push_delete(FamilyId(3), b"more"));
                let write_out = dice.below(2) == 0;
                bench.append(&[batch, delete(b"gone")], write_out).unwrap();
            }
        }
        for _ in 0..4 {
            let image = bench.fs.crash_image(Crash::PowerTorn, dice.below(1 << 30));
            let holds = recover(&image, &ids).is_ok_and(|entries| {
                entries.len() as u64 >= synced && entries.iter().zip(1..).all(|(entry, seq)| entry.0 == seq)
            });
            if !holds {
                return false;
            }
        }
    }
    true
}

#[test]
fn crashes_cost_no_more_than_the_unsynced_end() {
    for seed in 0..40 {
        assert!(survives_crashes(seed), "seed {seed}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn crashes_catch_skipped_syncs() {
    for name in ["skip_log_sync", "skip_log_dir_sync"] {
        crate::base::mutant::activate(Some(name));
        let caught = (0..40).any(|seed| !survives_crashes(seed));
        crate::base::mutant::activate(None);
        assert!(caught, "{name} went unnoticed");
    }
}

#[test]
fn a_synced_log_that_is_lost_or_shortened_is_proved_by_its_successor() {
    let mut bench = Bench::new();
    bench.put(10).unwrap();
    bench.writer.rotate(FileId(2), false).unwrap();
    bench.put(10).unwrap();
    bench.sync();
    let ids = [ID, FileId(2)];
    let data = bench.data(ID);
    let shorter = &data[..data.len() - FOOTER_BYTES as usize];
    bench.fs.write_file(&path(ID), shorter).unwrap();
    assert_eq!(recover(&bench.fs, &ids).unwrap().len(), 1, "no frame with a mark was written yet");
    bench.put(10).unwrap();
    assert!(recover(&bench.fs, &ids).unwrap_err().is_corruption());
    bench.fs.unlink(&path(ID)).unwrap();
    assert!(recover(&bench.fs, &ids).unwrap_err().is_corruption());
    bench.fs.write_file(&path(ID), &data).unwrap();
    assert_eq!(recover(&bench.fs, &ids).unwrap().len(), 3);
}

#[test]
fn writers_and_syncers_run_side_by_side() {
    let mut bench = Bench::new();
    let sync = bench.sync.clone();
    let (send, receive) = std::sync::mpsc::channel::<(FileId, u64)>();
    std::thread::scope(|scope| {
        let syncer = scope.spawn(move || {
            for (id, offset) in receive {
                sync.sync_through(id, offset).unwrap();
            }
        });
        for step in 1..=300 {
            let end = bench.put(step % 50).unwrap();
            send.send((bench.writer.id(), end)).unwrap();
            if step % 25 == 0 {
                bench.writer.rotate(FileId(1 + step as u64), false).unwrap();
            }
        }
        drop(send);
        syncer.join().unwrap();
    });
    bench.close();
    let ids: Vec<_> = (0..=12).map(|turn| FileId(1 + turn * 25)).collect();
    assert_eq!(recover(&bench.fs, &ids).unwrap().len(), 300);
    let stable = bench.fs.crash_image(Crash::PowerAllLost, 0);
    for id in ids {
        assert!(stable.read_file(&path(id)).unwrap().starts_with(&bench.data(id)), "{id}");
    }
}
