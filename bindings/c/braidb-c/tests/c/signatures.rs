//! Each function takes and returns in Rust what the header declares. The header is written by hand, and no compiler compares the two.

use crate::tools::{bindings, read};
use std::collections::BTreeMap;
use std::fs;

/// A function: the types of its arguments, and of its result.
type Signature = (Vec<String>, String);

/// Types of C that have one form, as one name. Qualifiers and spaces are left out.
fn plain(c: &str) -> String {
    let mut plain = c.replace("const ", "").replace(' ', "");
    for (alias, name) in
        [("braidb_durability_t", "int32_t"), ("braidb_code_t", "int32_t"), ("uint8_t", "void")]
    {
        if plain.trim_end_matches('*') == alias {
            plain = plain.replace(alias, name);
        }
    }
    plain
}

/// The type of C that a type in the sources stands for.
fn c_type(rust: &str) -> String {
    let pointers = [
        ("Option<&mut ", ">"),
        ("Option<&", ">"),
        ("Option<Box<", ">>"),
        ("Out<'_, ", ">"),
        ("*mut MaybeUninit<", ">"),
        ("*mut ", ""),
        ("*const ", ""),
    ];
    for (before, behind) in pointers {
        if let Some(inner) = rust.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind)) {
            return plain(&format!("{}*", c_type(inner)));
        }
    }
    let name = match rust {
        "Database" => "braidb_t",
        "OptionsHandle" => "braidb_options_t",
        "Family" => "braidb_family_t",
        "Batch" => "braidb_batch_t",
        "Snapshot" => "braidb_snapshot_t",
        "Cursor" => "braidb_cursor_t",
        "ValueHandle" => "braidb_value_t",
        "Transaction" => "braidb_txn_t",
        "Overlay" => "braidb_overlay_t",
        "ErrorHandle" => "braidb_error_t",
        "ErrorOut<'_>" => "braidb_error_t**",
        "Slice" => "braidb_slice_t",
        "Range" => "braidb_range_t",
        "Estimate" => "braidb_estimate_t",
        "TierCopy" => "braidb_tier_copy_t",
        "OnPut" => "braidb_put_callback",
        "OnDelete" => "braidb_delete_callback",
        "OnEntry" => "braidb_entry_callback",
        "OnHole" => "braidb_hole_callback",
        "OnProgress" => "braidb_progress_callback",
        "Text" => "char*",
        "Code" | "i32" => "int32_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        "f64" => "double",
        "c_char" => "char",
        "u8" | "c_void" => "void",
        _ => panic!("signatures.rs does not know which type of C {rust} is"),
    };
    name.to_owned()
}

/// The arguments between two parentheses, without those that are empty.
fn arguments(text: &str) -> impl Iterator<Item = &str> {
    // A comma within angle brackets is no end: the only such type is `Out<'_, T>`.
    let mut depth = 0;
    let is_end = move |letter: char| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        letter == ',' && depth == 0
    };
    text.split(is_end).map(str::trim).filter(|argument| !argument.is_empty())
}

fn of_sources() -> BTreeMap<String, Signature> {
    let mut functions = BTreeMap::new();
    let files = fs::read_dir(bindings().join("braidb-c/src")).expect("there are sources");
    for file in files {
        let source = read(file.expect("a directory can be read").path());
        for function in source.split("pub extern \"C\" fn ").skip(1) {
            let (name, rest) = function.split_once('(').expect("a function has arguments");
            let (taken, rest) = rest.split_once(')').expect("they end");
            let taken = arguments(taken).map(|argument| {
                let (_, rust) = argument.split_once(": ").expect("an argument has a type");
                c_type(rust)
            });
            let (result, _) = rest.split_once('{').expect("a function has a body");
            let result = result.trim().strip_prefix("-> ").map_or_else(|| "void".to_owned(), c_type);
            functions.insert(name.to_owned(), (taken.collect(), result));
        }
    }
    functions
}

fn of_header() -> BTreeMap<String, Signature> {
    let header = read(bindings().join("include/braidb.h"));
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let declared = header.split("\nBRAIDB_API ").skip(1).map(|rest| {
        let (head, rest) = rest.split_once('(').expect("a function has arguments");
        let (taken, _) = rest.split_once(')').expect("they end");
        let result = head.trim_end_matches(is_name);
        let taken = arguments(taken).filter(|argument| *argument != "void");
        let taken = taken.map(|argument| plain(argument.trim_end_matches(is_name)));
        (head[result.len()..].to_owned(), (taken.collect(), plain(result)))
    });
    declared.collect()
}

#[test]
fn functions_have_the_types_that_the_header_declares() {
    let (sources, header) = (of_sources(), of_header());
    assert!(sources.len() > 90, "{sources:?}");
    for (name, declared) in &header {
        assert_eq!(
            sources.get(name),
            Some(declared),
            "{name}: in the sources (left) and in the header (right)"
        );
    }
    assert_eq!(sources.len(), header.len());
}
