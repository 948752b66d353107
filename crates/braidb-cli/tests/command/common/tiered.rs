//! A database with a slow tier, for the tests of the command.

use super::{Place, braidb, braidb_with, names};
use serde_json::Value;
use std::fs;

/// A database whose data lies on the slow tier `slow`, closed, and its rows.
pub struct Tiered {
    pub place: Place,
    pub rows: String,
}

impl Tiered {
    pub fn new(test: &str) -> Tiered {
        Tiered::at(Place::new(test))
    }

    /// The directory `slow` of the place may exist, and may be a device of its own.
    pub fn at(place: Place) -> Tiered {
        let rows: String = (0..2000).map(|row| format!("key {row:05}\tvalue {}\n", row * 7)).collect();
        let tiered = Tiered { place, rows };
        braidb_with(&["load", &tiered.db()], tiered.rows.as_bytes()).exits(0);
        braidb(&["compact", &tiered.db()]).exits(0);
        let added =
            braidb(&["tier", "add", &tiered.db(), &tiered.path("slow"), "--fast-share", "0"]).exits(0);
        assert!(
            added.text().contains("is now tier 1 of") && added.text().contains("remembers it"),
            "{added:?}"
        );
        assert!(!added.text().contains("stays"), "{added:?}");
        assert!(tiered.bytes_on(1) > 0 && tiered.bytes_on(0) == 0, "{:#}", tiered.tiers());
        tiered
    }

    pub fn db(&self) -> String {
        self.place.db()
    }

    pub fn path(&self, name: &str) -> String {
        self.place.path(name).into_os_string().into_string().unwrap()
    }

    pub fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Copies the files of a directory to a new one.
    pub fn copy(&self, from: &str, to: &str) {
        fs::create_dir(self.path(to)).unwrap();
        for name in names(&self.place.path(from)) {
            fs::copy(self.place.path(from).join(&name), self.place.path(to).join(&name)).unwrap();
        }
    }

    pub fn tiers(&self) -> Value {
        let run = braidb(&["tier", "list", &self.db(), "--json"]).exits(0);
        serde_json::from_slice(&run.out).unwrap()
    }

    pub fn bytes_on(&self, tier: usize) -> u64 {
        self.tiers()[tier]["bytes"].as_u64().unwrap()
    }

    /// Fails unless the database opens without flags and has the rows.
    #[track_caller]
    pub fn is_whole(&self) {
        assert!(braidb(&["dump", &self.db()]).exits(0).text() == self.rows, "rows are missing or wrong");
        braidb(&["verify", &self.db()]).exits(0);
    }

    /// Fails unless each verb, with `flags`, is refused with `parts` in the message, and changes no file.
    #[track_caller]
    pub fn is_refused(&self, flags: &[&str], parts: &[&str]) {
        self.fails(2, flags, parts);
    }

    /// Fails unless each verb, with `flags`, ends with the exit status `status` and `parts` in the message, and changes no file.
    #[track_caller]
    pub fn fails(&self, status: i32, flags: &[&str], parts: &[&str]) {
        let files = || [self.place.db_files(), names(&self.place.path(""))];
        let before = files();
        let (db, other) = (self.db(), self.path("other"));
        for verb in [
            &["get", &db, "key 00001"][..],
            &["put", &db, "k", "v"],
            &["delete", &db, "key 00001"],
            &["scan", &db],
            &["dump", &db],
            &["load", &db],
            &["compact", &db],
            &["verify", &db],
            &["stats", &db, "--tiers"],
            &["tier", "list", &db],
            &["tier", "add", &db, &other],
            &["tier", "evacuate", &db, &self.path("slow")],
        ] {
            let run = braidb(&[verb, flags].concat()).exits(status);
            assert!(parts.iter().all(|part| run.err.contains(part)), "{parts:?}: {verb:?}: {run:?}");
        }
        assert_eq!(files(), before);
    }
}
