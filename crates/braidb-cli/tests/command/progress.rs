//! What a user sees on a terminal while a verb works: one line of whole numbers that fits in 80 columns, and nothing of it elsewhere.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::terminal::{lines, on_a_terminal, shows};
use crate::common::tiered::Tiered;
use crate::common::{BRAIDB, Place, braidb_with};

#[test]
fn bars_have_whole_numbers_and_fit() {
    let place = Place::new("progress");
    let db = &place.db();
    let rows: String = (0..5000).map(|row| format!("key {row:05}\tvalue {}\n", row * 7)).collect();
    let file = &place.file("rows.tsv", &rows);
    shows(BRAIDB, &["load", db, file], None, "░ 0 B of ");
    shows(BRAIDB, &["load", db], Some(file), " KiB, 1,000 rows");
    shows(BRAIDB, &["dump", db], None, " of 5,000 rows");
    shows(BRAIDB, &["verify", db], None, "iB of ");
    shows(BRAIDB, &["compact", db], None, "░ 0 B of ");
    // Rows and a bar would share the screen.
    let (shown, status) = on_a_terminal(BRAIDB, &["dump", db], None, true);
    assert!(status == 0 && shown.contains("5,000 rows dumped"), "{shown}");
    assert!(
        lines(&shown).contains(&"key 04999\tvalue 34993".to_owned()) && !shown.contains(['░', '█']),
        "{shown}"
    );
    // Elsewhere there is no bar.
    for verb in [&["load", db][..], &["dump", db], &["verify", db], &["compact", db]] {
        let run = braidb_with(verb, rows.as_bytes()).exits(0);
        assert!(!run.err.contains('░') && !run.err.contains('█'), "{run:?}");
    }
}

#[test]
fn a_tier_that_is_emptied_has_a_bar() {
    let tiered = Tiered::new("progress-tier");
    shows(BRAIDB, &["tier", "evacuate", &tiered.db(), &tiered.path("slow")], None, " KiB of ");
}
