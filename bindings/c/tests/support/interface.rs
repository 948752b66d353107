//! The functions of a library, as its header, its sources and its shared library have them.

use crate::LIBRARY;
use crate::tools::{self, bindings, prefix, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// The text of the header.
pub fn header() -> String {
    read(bindings().join("include").join(LIBRARY.header))
}

/// The functions that the header declares.
pub fn functions() -> BTreeSet<String> {
    of_header(|c| c.to_owned()).into_keys().collect()
}

/// The functions that the shared library exports must be those that the header declares.
pub fn compare_symbols() {
    let library = prefix().join("lib").join(LIBRARY.file);
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() else {
        return tools::leave_out("symbols", "there is no `nm`");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let symbols = String::from_utf8(output.stdout).expect("names are UTF-8");
    let exported: BTreeSet<String> =
        symbols.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    assert_eq!(exported, functions(), "exported (left) and declared (right)");
}

/// A function: the types of its arguments, and of its result.
pub type Signature = (Vec<String>, String);

/// The text up to the parenthesis that closes the one before it, and the text behind.
fn closed(text: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return (&text[..at], &text[at + 1..]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    panic!("a parenthesis does not end: {text}")
}

/// The arguments in a text, without those that are empty.
pub fn arguments(text: &str) -> impl Iterator<Item = &str> {
    // A comma within brackets ends no argument.
    let mut depth = 0;
    let is_end = move |letter: char| {
        depth += i32::from(matches!(letter, '<' | '(')) - i32::from(matches!(letter, '>' | ')'));
        letter == ',' && depth == 0
    };
    text.split(is_end).map(str::trim).filter(|argument| !argument.is_empty())
}

/// Whether a letter may stand in a name of C.
pub fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The texts of the sources of the crate.
pub fn sources() -> impl Iterator<Item = String> {
    let files = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).expect("there are sources");
    files.map(|file| read(file.expect("a directory can be read").path()))
}

/// The functions in the sources of the crate. `c_type` names the type of C that a type of Rust stands for.
pub fn of_sources(c_type: impl Fn(&str) -> String) -> BTreeMap<String, Signature> {
    let mut functions = BTreeMap::new();
    for source in sources() {
        for function in source.split("pub extern \"C\" fn ").skip(1) {
            let (name, rest) = function.split_once('(').expect("a function has arguments");
            let (taken, rest) = closed(rest);
            let taken = arguments(taken).map(|argument| {
                let (_, rust) = argument.split_once(": ").expect("an argument has a type");
                c_type(rust)
            });
            let taken = taken.collect();
            let (result, _) = rest.split_once('{').expect("a function has a body");
            let result = result.trim().strip_prefix("-> ").map_or_else(|| "void".to_owned(), &c_type);
            functions.insert(name.to_owned(), (taken, result));
        }
    }
    functions
}

/// The functions in the header. `plain` gives types of C that have one form one name.
pub fn of_header(plain: impl Fn(&str) -> String) -> BTreeMap<String, Signature> {
    let header = header();
    let marker = format!("\n{} ", LIBRARY.marker);
    let declared = header.split(marker.as_str()).skip(1).map(|rest| {
        let (head, rest) = rest.split_once('(').expect("a function has arguments");
        let result = head.trim_end_matches(is_name);
        let taken = arguments(closed(rest).0).filter(|argument| *argument != "void");
        let taken = taken.map(|argument| match argument.split_once("(*") {
            // A pointer to a function stands on both sides of its name.
            Some((result, rest)) => {
                plain(&format!("{result}(*){}", rest.trim_start_matches(is_name).trim_start_matches(')')))
            }
            None => plain(argument.trim_end_matches(is_name)),
        });
        (head[result.len()..].to_owned(), (taken.collect(), plain(result)))
    });
    declared.collect()
}

/// The header declares the functions of the sources, with the types that they have there.
pub fn compare_signatures(plain: impl Fn(&str) -> String, c_type: impl Fn(&str) -> String) {
    let (sources, header) = (of_sources(c_type), of_header(plain));
    for (name, declared) in &header {
        assert_eq!(
            sources.get(name),
            Some(declared),
            "{name}: in the sources (left) and in the header (right)"
        );
    }
    assert_eq!(sources.len(), header.len());
}
