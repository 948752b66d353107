//! Opens after a crash, and logs that look damaged or torn.

use super::*;

/// An open that crashes after it made its log leaves a log without a footer. A family that needs nothing of this log must not
/// make it look cut off.
#[test]
fn a_crash_while_opening_is_not_taken_for_damage_later() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    db.create_column_family("empty").unwrap();
    db.put("k", "v").unwrap();
    let fs = fs.crash_image(Crash::Process, 1);
    // The image is taken before the second append to the new manifest, the edit.
    let image = image_when(&fs, 2, |op| is_kind(op, OpKind::Append, "manifest"));
    drop(reopen(&fs).unwrap());
    let fs = image.try_recv().unwrap();
    for open in 1..=4 {
        let db = reopen(&fs).unwrap_or_else(|error| panic!("open {open}: {error}"));
        assert_eq!(db.get("k").unwrap().unwrap(), b"v");
        db.close().unwrap();
        let (env, _) = env_over(Arc::new(fs.clone()), 3);
        let report = small(env).verify(DIR).unwrap();
        assert!(report.damages.is_empty(), "open {open}: {report:?}");
    }
}

/// The manifest names a log from which a family replays only after the header of the log was synced. So a damaged header there was not torn
/// by a crash.
#[test]
fn a_damaged_header_of_the_oldest_log_is_no_torn_one() {
    let (env, fs, runtime) = sim_env(1);
    let db = Options::new().tuning(|tuning| tuning.log_bytes(4 << 10)).env(env).open(DIR).unwrap();
    let (second, third) =
        (db.create_column_family("second").unwrap(), db.create_column_family("third").unwrap());
    // Logs over their bound switch the memtable of the first family, then of the second. The third has a record in the log
    // between.
    db.put("k", [0; 5000]).unwrap();
    let oldest = newest(&fs, "log");
    let mut batch = WriteBatch::new();
    batch.put_in(&second, "k", "v").put_in(&third, "k", "v");
    db.write(batch).unwrap();
    assert!(runtime.help(), "the first flush");
    second.put("large", [0; 5000]).unwrap();
    assert!(runtime.help(), "the second flush; the third waits");
    let fs = fs.crash_image(Crash::Process, 1);
    fs.flip_bit(&oldest, 100).unwrap();
    match reopen(&fs) {
        Err(error) => assert!(error.is_corruption(), "{error}"),
        Ok(db) => assert!(db.column_family("third").unwrap().get("k").unwrap().is_some(), "silently lost"),
    }
}

/// A misspelt name creates no family. Creating an existing family opens it.
#[test]
fn a_missing_family_is_named_and_not_created() {
    let (env, fs, _) = sim_env(1);
    let db = small(env).open(DIR).unwrap();
    db.create_column_family("users").unwrap().put("k", "v").unwrap();
    let ops = fs.ops();
    let error = db.column_family("usres").unwrap_err();
    let Error::MissingFamily { name, known } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), known.join(" ").as_str()), ("usres", "default users"));
    assert!(error.to_string().contains("; create it first; the database has default, users"), "{error}");
    assert_eq!(db.column_families(), ["default", "users"]);
    for family in [db.column_family("users"), db.create_column_family("users")] {
        assert_eq!(family.unwrap().get("k").unwrap().unwrap(), b"v");
    }
    assert_eq!(fs.ops(), ops, "opening a family writes nothing");
    assert!(matches!(db.column_family(""), Err(Error::InvalidName { .. })));
}
