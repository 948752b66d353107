//! `verify` of an open database: with writers, with waiting flushes, and with logs that a recovery cut.

use super::*;

/// `verify` reads every log of an open database, and logs that are still needed to their ends.
#[test]
fn verify_reads_the_logs_of_waiting_flushes() {
    for at_end in [false, true] {
        let (env, fs, _) = sim_env(1);
        let db = small(env).open(DIR).unwrap();
        let first = newest(&fs, "log");
        while newest(&fs, "log") == first {
            db.put("k", [0; 1000]).unwrap();
        }
        db.put("k", "v").unwrap();
        assert!(db.verify().unwrap().damages.is_empty());
        let log = if at_end { first } else { newest(&fs, "log") };
        let bytes = fs.written_len(&log).unwrap();
        fs.flip_bit(&log, 8 * bytes - 4).unwrap();
        assert!(!db.verify().unwrap().damages.is_empty(), "in the last byte of {}", log.display());
    }
}

/// Logs behind a cut are never read again, so `verify` reports no damage in them.
#[test]
fn verify_leaves_out_what_was_set_aside() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    let first = newest(&fs, "log");
    while newest(&fs, "log") == first {
        db.put("k", [0; 1000]).unwrap();
    }
    (0..5).for_each(|_| db.put("k", "v").unwrap());
    // No sync has cut the log yet, so zeros stand behind its footer.
    let end = fs.written_len(&first).unwrap() as usize;
    let fs = fs.crash_image(Crash::Process, 1);
    let bytes = fs.read_file(&first).unwrap();
    fs.write_file(&first, &bytes[..end - 40]).unwrap();
    fs.flip_bit(&newest(&fs, "log"), 8 * 60).unwrap();
    let db = Options::new().env(env_over(Arc::new(fs.clone()), 1).0).open(DIR).unwrap();
    assert_eq!(db.recovery().set_aside.len(), 1);
    let report = db.verify().unwrap();
    assert!(report.damages.is_empty(), "{report:?}");
}

/// `verify` finds no damage while writers make the manifest roll over.
#[test]
fn verify_bears_a_manifest_that_rolls_over() {
    let (env, _, _) = sim_env(1);
    let db = small(env).tuning(|tuning| tuning.manifest_bytes(1 << 10)).open(DIR).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..300u32 {
                db.put(number.to_be_bytes(), "v").unwrap();
                db.flush().unwrap();
            }
            ends.store(true, Ordering::Release);
        });
        while !ends.load(Ordering::Acquire) {
            let report = db.verify().unwrap();
            assert!(report.damages.is_empty(), "{report:?}");
        }
    });
}

/// Verifies the closed database of `fs`.
fn verified(fs: &SimFs) -> braidb::stats::VerifyReport {
    small(env_over(Arc::new(fs.clone()), 3).0).verify(DIR).unwrap()
}

/// `verify` notes the end of a log that the next open leaves out, with the bytes that this open then reports.
#[test]
fn verify_notes_what_an_open_would_cut() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    for number in 0..5 {
        db.put("k", [number; 100]).unwrap();
    }
    let fs = fs.crash_image(Crash::Process, 1);
    assert_eq!(verified(&fs).notes, [], "a killed process leaves whole frames");
    let log = newest(&fs, "log");
    let bytes = fs.read_file(&log).unwrap();
    let written = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    fs.write_file(&log, &bytes[..written - 40]).unwrap();
    let report = verified(&fs);
    assert_eq!(report.damages, []);
    let [note] = &report.notes[..] else { panic!("{report:?}") };
    let db = reopen(&fs).unwrap();
    let cut = db.recovery().cut.as_ref().unwrap();
    assert_eq!((&note.path, note.offset, note.bytes), (&cut.path, cut.offset, cut.bytes));
    assert!(note.bytes > 0 && note.path == log);
}

/// `verify` notes bytes behind the end of a closed log and of a value file.
#[test]
fn verify_notes_bytes_behind_the_end_of_a_file() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).tuning(|tuning| tuning.separation_threshold(Some(500)).log_table_percent(0));
    let db = db.open(DIR).unwrap();
    for number in 0..5u8 {
        db.put([number], [number; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    assert_eq!(verified(&fs).notes, []);
    for extension in ["log", "values"] {
        let path = newest(&fs, extension);
        let bytes = fs.read_file(&path).unwrap();
        fs.write_file(&path, &[&bytes[..], b"more", &[0; 5000]].concat()).unwrap();
        let report = verified(&fs);
        assert_eq!(report.damages, [], "{extension}");
        let [note] = &report.notes[..] else { panic!("{extension}: {report:?}") };
        assert_eq!((&note.path, note.offset), (&path, bytes.len() as u64));
        assert_eq!(note.bytes, if extension == "log" { 4 } else { 5004 });
        fs.write_file(&path, &bytes).unwrap();
    }
}
