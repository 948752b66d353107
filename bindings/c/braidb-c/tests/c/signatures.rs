//! Functions, callbacks and structures have in Rust the types that the header declares. The header is written by hand, and no compiler
//! compares the two.

use crate::interface::{self, Signature, arguments, header, is_name, sources};
use std::collections::BTreeMap;

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
        ("&", ""),
        ("Option<Box<", ">>"),
        ("Out<'_, ", ">"),
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
        "Hole" => "braidb_hole_t",
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
        "c_int" => "int",
        "c_char" => "char",
        "u8" | "c_void" => "void",
        _ => panic!("signatures.rs does not know which type of C {rust} is"),
    };
    name.to_owned()
}

#[test]
fn functions_have_the_types_that_the_header_declares() {
    interface::compare_signatures(plain, c_type);
}

/// The callbacks of the sources, by their names in C.
fn callbacks_of_sources() -> BTreeMap<String, Signature> {
    let mut callbacks = BTreeMap::new();
    for source in sources() {
        for callback in source.split("type On").skip(1) {
            let (name, rest) =
                callback.split_once(" = Option<extern \"C-unwind\" fn(").expect("a callback may unwind");
            let (taken, rest) = rest.split_once(')').expect("arguments end");
            let (result, _) = rest.split_once(">;").expect("a type ends");
            let result = result.strip_prefix(" -> ").map_or_else(|| "void".to_owned(), c_type);
            callbacks.insert(c_type(&format!("On{name}")), (arguments(taken).map(c_type).collect(), result));
        }
    }
    callbacks
}

#[test]
fn callbacks_have_the_types_that_the_header_declares() {
    let header = header();
    let declared = header.lines().filter_map(|line| {
        let (result, rest) = line.strip_prefix("typedef ")?.split_once(" (*")?;
        let (name, rest) = rest.split_once(")(").expect("a callback has arguments");
        let (taken, _) = rest.split_once(')').expect("they end");
        let taken = arguments(taken).map(|argument| plain(argument.trim_end_matches(is_name)));
        Some((name.to_owned(), (taken.collect(), plain(result))))
    });
    let declared: BTreeMap<String, Signature> = declared.collect();
    assert_eq!(declared.len(), 5, "{declared:?}");
    assert_eq!(callbacks_of_sources(), declared, "in the sources (left) and in the header (right)");
}

/// The structures of the sources that C sees, by their names in C: the types and the names of their fields.
fn structures_of_sources() -> BTreeMap<String, Vec<(String, String)>> {
    let mut structures = BTreeMap::new();
    for source in sources() {
        for rest in source.split("#[repr(C)]").skip(1) {
            let (_, rest) = rest.split_once("pub struct ").expect("a structure has a name");
            let (name, rest) = rest.split_once(" {\n").expect("it has fields");
            let (fields, _) = rest.split_once("\n}").expect("they end");
            let fields = fields.lines().map(|line| {
                let (name, rust) =
                    line.trim().trim_end_matches(',').split_once(": ").expect("a field has a type");
                (c_type(rust), name.to_owned())
            });
            structures.insert(c_type(name), fields.collect());
        }
    }
    structures
}

#[test]
fn structures_have_the_fields_that_the_header_declares() {
    let header = header();
    let declared = header.split("\ntypedef struct {\n").skip(1).map(|rest| {
        let (fields, rest) = rest.split_once("\n} ").expect("a structure ends");
        let (name, _) = rest.split_once(';').expect("it has a name");
        let fields = fields.lines().map(|line| {
            let (field, _) = line.trim().split_once(';').expect("a field ends");
            let c = field.trim_end_matches(is_name);
            (plain(c), field[c.len()..].to_owned())
        });
        (name.to_owned(), fields.collect())
    });
    let declared: BTreeMap<String, Vec<(String, String)>> = declared.collect();
    assert_eq!(declared.len(), 5, "{declared:?}");
    assert_eq!(structures_of_sources(), declared, "in the sources (left) and in the header (right)");
}
