//! The driver of `braidb-lab pair` (lab/rivals/adapter) must know every option of the engine. It is built only for a comparison, so this
//! test checks that no new option is missing there.
#![allow(clippy::disallowed_methods, reason = "reads sources")]

use std::fs;
use std::path::Path;

/// Setters that the driver does not need. Each run creates its store, on one device of the real file system, with one limit of runs for all
/// levels. `tuning` is no option itself: the driver knows the setters of `Tuning` by their own names.
const LEFT_OUT: [&str; 10] = [
    "create_if_missing",
    "create_new",
    "env",
    "fast_bytes",
    "fast_share",
    "max_runs_per_guard_at",
    "open_damaged",
    "slow_path",
    "tuning",
    "wait_for_lock",
];

/// An option that every commit has, so no `cfg` guards it.
const ALWAYS_THERE: &str = "durability";

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_option_of_the_engine_can_be_set() {
    let engine = read("crates/braidb/src/db/options.rs") + &read("crates/braidb/src/db/tuning.rs");
    let setters: Vec<&str> = engine
        .split("pub fn ")
        .skip(1)
        .filter_map(|function| function.split_once("(mut self").map(|(name, _)| name))
        .filter(|name| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'))
        .filter(|name| !LEFT_OUT.contains(name))
        .collect();
    assert!(setters.len() > 20, "{setters:?}");
    let options = read("lab/rivals/adapter/options.rs");
    let mut unguarded = Vec::new();
    for name in setters {
        let is_set = options.contains(&format!("\"{name}\" =>"));
        assert!(is_set, "lab/rivals/adapter/options.rs cannot set {name}: add a line to `set`");
        let is_guarded = options.contains(&format!("        has_{name} \""));
        if !is_guarded {
            unguarded.push(name);
        }
    }
    assert_eq!(
        unguarded,
        [ALWAYS_THERE],
        "an option that old commits lack needs a cfg in lab/rivals/adapter/options.rs"
    );
}

/// The driver's build script looks where the engine declares the call. If the engine declared the call elsewhere, the script would take
/// this commit for an old one.
#[test]
fn the_driver_finds_how_families_are_created() {
    let build = read("lab/rivals/adapter/build.rs");
    let call = "pub fn create_column_family(";
    assert!(build.contains(r#""src/db/mod.rs""#) && build.contains(call));
    assert!(read("crates/braidb/src/db/mod.rs").contains(call));
}
