//! The first and the last entry, of the default family, another family, and a snapshot.

use super::*;

/// What `first` and `last` return.
type End = Result<Option<(Vec<u8>, braidb::Value)>, Error>;

/// The keys of four ends.
fn keys(ends: [End; 4]) -> [Option<String>; 4] {
    ends.map(|end| end.unwrap().map(|(key, _)| String::from_utf8(key).unwrap()))
}

/// The ends of memory and tables together, under deletes, and of a snapshot from before the deletes.
#[test]
fn the_first_and_the_last_entry_are_those_of_a_scan() {
    let db = small(sim_env(1).0).open(DIR).unwrap();
    let other = db.create_column_family("other").unwrap();
    assert_eq!(keys([db.first(), db.last(), other.first(), other.last()]), [const { None }; 4]);
    let some = |key: &str| Some(key.to_owned());
    for (number, key) in ["m", "b", "x", "c"].iter().enumerate() {
        db.put(key, "v").unwrap();
        other.put(format!("o{key}"), "v").unwrap();
        if number == 1 {
            db.flush().unwrap();
        }
    }
    let before = db.snapshot();
    for key in ["b", "x"] {
        db.delete(key).unwrap();
        other.delete(format!("o{key}")).unwrap();
    }
    for is_flushed in [false, true] {
        if is_flushed {
            db.compact().unwrap();
        }
        let now = keys([db.first(), db.last(), other.first(), other.last()]);
        assert_eq!(now, [some("c"), some("m"), some("oc"), some("om")], "{is_flushed}");
        let then = keys([before.first(), before.last(), before.first_in(&other), before.last_in(&other)]);
        assert_eq!(then, [some("b"), some("x"), some("ob"), some("ox")], "{is_flushed}");
    }
    let foreign = small(sim_env(1).0).open(DIR).unwrap();
    let foreign = foreign.create_column_family("other").unwrap();
    for end in [before.first_in(&foreign), before.last_in(&foreign)] {
        assert!(matches!(end, Err(Error::ForeignFamily { .. })));
    }
    db.close().unwrap();
    for end in [db.first(), other.last(), before.first(), before.last_in(&other)] {
        assert!(matches!(end, Err(Error::Closed)));
    }
}
