//! Each function takes and returns in Rust what the header declares. The header is written by hand, and no compiler compares the two.

use crate::interface;

/// A type of C without qualifiers and spaces.
fn plain(c: &str) -> String {
    c.replace("const ", "").split_whitespace().collect()
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
        "Database" => "leveldb_t",
        "OptionsHandle" => "leveldb_options_t",
        "ReadOptions" => "leveldb_readoptions_t",
        "WriteOptions" => "leveldb_writeoptions_t",
        "Batch" => "leveldb_writebatch_t",
        "IteratorHandle" => "leveldb_iterator_t",
        "Snapshot" => "leveldb_snapshot_t",
        "Cache" => "leveldb_cache_t",
        "Comparator" => "leveldb_comparator_t",
        "FilterPolicy" => "leveldb_filterpolicy_t",
        "Environment" => "leveldb_env_t",
        "Logger" => "leveldb_logger_t",
        "ErrorOut<'_>" => "char**",
        "Text" => "char*",
        "Destructor" => "void(*)(void*)",
        "Compare" => "int(*)(void*,char*,size_t,char*,size_t)",
        "Name" => "char*(*)(void*)",
        "CreateFilter" => "char*(*)(void*,char**,size_t*,int,size_t*)",
        "KeyMayMatch" => "uint8_t(*)(void*,char*,size_t,char*,size_t)",
        "OnPut" => "void(*)(void*,char*,size_t,char*,size_t)",
        "OnDelete" => "void(*)(void*,char*,size_t)",
        "c_char" => "char",
        "c_int" => "int",
        "c_void" => "void",
        "u8" => "uint8_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        _ => panic!("signatures.rs does not know which type of C {rust} is"),
    };
    name.to_owned()
}

/// An exception of a callback would otherwise end at the call, where the compiler expects none.
#[test]
fn callbacks_may_unwind() {
    let source: String = interface::sources().collect();
    let callbacks = source.split("Option<").filter(|rest| rest.trim_start().starts_with("extern"));
    let (unwinding, others): (Vec<_>, Vec<_>) =
        callbacks.partition(|rest| rest.trim_start().starts_with("extern \"C-unwind\" fn("));
    assert_eq!((unwinding.len(), others.len()), (8, 0), "{others:?}");
}

#[test]
fn functions_have_the_types_that_the_header_declares() {
    interface::compare_signatures(plain, c_type);
}
