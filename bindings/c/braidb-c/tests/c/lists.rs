//! Lists that must agree: the functions of the header, of the shared library and of the tests; codes and errors; options.

use crate::interface::{self, functions, header};
use crate::tools::{self, bindings, prefix, read};
use std::collections::BTreeSet;
use std::process::Command;

/// A source of the engine.
fn engine(path: &str) -> String {
    read(bindings().join("../../crates/braidb/src").join(path))
}

#[test]
fn the_library_exports_what_the_header_declares() {
    interface::compare_symbols();
    assert!(functions().len() > 90, "{:?}", functions());
}

#[test]
fn every_function_is_tested() {
    let files = ["closing", "database", "entries", "forks", "library", "staged", "threads", "tiers", "check"];
    let name = |file: &str| format!("{file}.{}", if file == "check" { "h" } else { "c" });
    let tests: String = files.iter().map(|file| read(bindings().join("tests").join(name(file)))).collect();
    let missing: Vec<String> =
        functions().into_iter().filter(|function| !tests.contains(&format!("{function}("))).collect();
    assert!(missing.is_empty(), "no test calls {missing:?}");
    let panics = read(bindings().join("tests/panics.c"));
    let is_planted = |function: &String| {
        ["PANICS", "IS_NEUTRAL", "FREES"].iter().any(|kind| panics.contains(&format!("{kind}({function},")))
    };
    let missing: Vec<String> = functions().into_iter().filter(|function| !is_planted(function)).collect();
    assert!(missing.is_empty(), "no panic is planted in {missing:?}");
}

/// The lines `NAME = NUMBER,` of a text, with names that begin with `prefix`, which is left out.
fn numbers(text: &str, prefix: &str) -> BTreeSet<(String, i32)> {
    let lines = text.lines().filter_map(|line| {
        let (name, rest) = line.trim().strip_prefix(prefix)?.split_once(" = ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let is_name = name
            .chars()
            .all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
        is_name.then_some((name.to_owned(), digits.parse().ok()?))
    });
    lines.collect()
}

#[test]
fn codes_are_those_of_the_header() {
    let codes = numbers(&read(bindings().join("../common/src/code.rs")), "");
    assert!(codes.len() > 20, "{codes:?}");
    let mut declared = numbers(&header(), "BRAIDB_");
    declared.retain(|(name, _)| !name.starts_with("DURABILITY_"));
    assert_eq!(codes, declared, "in code.rs (left) and in the header (right)");
}

#[test]
fn durabilities_are_those_of_the_header() {
    let source = read(bindings().join("braidb-c/src/database.rs"));
    let arms = source.lines().filter_map(|line| {
        let (number, durability) = line.trim().strip_suffix(",")?.split_once(" => Ok(")?;
        let name =
            durability.strip_prefix("Some(Durability::").map_or("DEFAULT", |name| name.trim_end_matches(')'));
        Some((name.to_uppercase(), number.parse().ok()?))
    });
    let arms: BTreeSet<(String, i32)> = arms.collect();
    assert_eq!(arms.len(), 4, "{arms:?}");
    assert_eq!(
        arms,
        numbers(&header(), "BRAIDB_DURABILITY_"),
        "in database.rs (left) and in the header (right)"
    );
}

/// The version of the functions stands in the header, in the library, and in the name of the shared library.
#[test]
fn versions_of_the_library_agree() {
    let header = header();
    let version = header.lines().find_map(|line| line.strip_prefix("#define BRAIDB_ABI_VERSION "));
    let version = version.expect("the header has a version");
    let library = read(bindings().join("braidb-c/src/library.rs"));
    assert!(
        library.contains(&format!("const ABI_VERSION: u32 = {version};")),
        "library.rs has another version"
    );
    for file in ["braidb-c/build.rs", "braidb-c/Cargo.toml", "../../scripts/install", "../../docs/c.md"] {
        let text = read(bindings().join(file));
        let mut names = text.split("libbraidb.so.").skip(1).peekable();
        assert!(names.peek().is_some(), "{file} does not name the library");
        for rest in names {
            let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
            assert_eq!(number, version, "{file}");
        }
    }
}

/// What the linker noted in the shared library: its name, and that it stays loaded.
#[test]
fn the_library_has_its_name_and_stays_loaded() {
    let library = prefix().join("lib/libbraidb.so");
    let Ok(output) = Command::new("readelf").arg("-d").arg(&library).output() else {
        return tools::leave_out("dynamic section", "there is no `readelf`");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let section = String::from_utf8_lossy(&output.stdout);
    let file = library.read_link().expect("it is a link").display().to_string();
    assert!(section.contains(&format!("soname: [{file}]")), "{section}");
    assert!(section.contains("NODELETE"), "{section}");
}

#[test]
fn every_error_has_a_code() {
    let source = engine("base/error.rs");
    let variants = source.split("pub enum Error {").nth(1).expect("the enum is there");
    let variants = variants.split("\n}").next().expect("the enum ends");
    let variants: Vec<String> = variants
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(|line| line.chars().take_while(|letter| letter.is_alphanumeric()).collect())
        .collect();
    assert!(variants.len() > 15, "{variants:?}");
    let codes = read(bindings().join("../common/src/code.rs"));
    for variant in variants {
        let has_arm =
            [" {", " =>"].iter().any(|after| codes.contains(&format!("            Error::{variant}{after}")));
        assert!(has_arm, "Code::of in bindings/common/src/code.rs has no arm for Error::{variant}");
    }
}

/// Setters that are no options with a value: `env` takes the seams of the engine, and `tuning` the setters of `Tuning`.
const NO_OPTIONS: [&str; 2] = ["env", "tuning"];

#[test]
fn every_option_of_the_engine_has_a_name() {
    let sources = engine("db/options.rs") + &engine("db/tuning.rs");
    let setters: BTreeSet<&str> = sources
        .split("pub fn ")
        .skip(1)
        .filter_map(|function| function.split_once("(mut self").map(|(name, _)| name))
        .filter(|name| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'))
        .filter(|name| !NO_OPTIONS.contains(name))
        .collect();
    assert!(setters.len() > 30, "{setters:?}");
    let settings = read(bindings().join("../common/src/settings.rs"));
    let names: BTreeSet<&str> = settings
        .lines()
        .filter_map(|line| line.strip_prefix("    \"")?.split_once("\" => |options, value|"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, setters, "in settings.rs (left) and in the engine (right)");
    let tests = read(bindings().join("tests/library.c")) + &read(bindings().join("tests/tiers.c"));
    for name in names {
        assert!(tests.contains(&format!("\"{name}\"")), "bindings/c/tests/library.c does not set {name}");
    }
}

/// Functions whose first argument is a handle of an open database, and that work after its close.
const WORK_CLOSED: [&str; 1] = ["braidb_close"];

#[test]
fn every_call_of_a_closed_database_is_tested() {
    let header = header();
    let handles =
        ["braidb_t *db", "braidb_txn_t *txn", "braidb_overlay_t *overlay", "braidb_cursor_t *cursor"];
    let calls: Vec<&str> = header
        .split("\nBRAIDB_API braidb_code_t ")
        .skip(1)
        .filter_map(|rest| rest.split_once('('))
        .filter(|(_, arguments)| {
            let first = arguments.split(',').next().expect("split gives one part");
            handles.iter().any(|handle| first.ends_with(handle))
        })
        .map(|(name, _)| name)
        .filter(|name| !WORK_CLOSED.contains(name))
        .collect();
    assert!(calls.len() > 50, "{calls:?}");
    let tests = read(bindings().join("tests/closing.c")) + &read(bindings().join("tests/tiers.c"));
    for name in calls {
        let is_tested = ["CLOSED(", "EXPECT(BRAIDB_CLOSED, "]
            .iter()
            .any(|test| tests.contains(&format!("{test}{name}(")));
        assert!(is_tested, "bindings/c/tests/closing.c does not call {name} of a closed database");
    }
}
