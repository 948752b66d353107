//! `braidb-lab device` on the device of the temporary directory.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Place, lab, names};

/// The profiles that the verb knows.
const PROFILES: [&str; 4] = ["hdd", "ssd", "nvme", "disk7200"];

#[test]
fn a_device_is_measured_and_keeps_nothing_of_it() {
    let place = Place::new("device");
    let dir = place.path("");
    std::fs::write(place.path("other"), "stays").unwrap();
    // A measurement that died left its file.
    std::fs::write(place.path("braidb.measure"), "left over").unwrap();
    let dir = dir.to_str().unwrap();
    let run = lab(&["device", dir]).exits(0);
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines.len(), 5, "{run:?}");
    assert!(lines[0].starts_with("the device of ") && lines[0].contains(dir), "{run:?}");
    for (line, name) in lines[1..].iter().zip(["seek ", "read ", "write ", "nearest profile "]) {
        assert!(line.starts_with(name), "{run:?}");
    }
    assert_eq!(names(dir.as_ref()), ["other"]);

    let run = lab(&["device", dir, "--json"]).exits(0);
    let json: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
    for name in ["seek_ns", "read_bytes_per_second", "write_bytes_per_second"] {
        assert!(json[name].as_u64() > Some(0), "{json:#}");
    }
    assert!(PROFILES.contains(&json["nearest_profile"].as_str().unwrap()), "{json:#}");
    assert_eq!(names(dir.as_ref()), ["other"]);
}

#[test]
fn a_database_is_none_the_worse_for_it() {
    let place = Place::new("device-db");
    let db = &place.db();
    let open = || braidb::Db::open(db).unwrap();
    open().put("plum", "blue").unwrap();
    let before = place.db_files();
    lab(&["device", db]).exits(0);
    assert_eq!(place.db_files(), before);
    assert_eq!(&*open().get("plum").unwrap().unwrap(), b"blue");
}

#[test]
fn only_a_directory_that_exists_is_measured() {
    let place = Place::new("device-none");
    let missing = place.path("missing");
    lab(&["device", missing.to_str().unwrap()]).exits(2).tells("name a directory that exists");
    assert!(!missing.exists());
    let file = place.file("file", "text");
    lab(&["device", &file]).exits(2).tells("is a file: name a directory");
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
    lab(&["device"]).exits(2);
}
