//! Tells the adapter which options the linked engine has. It sets `has_NAME` for each setter of `Options` or `Tuning`, `has_tuning` if
//! `Tuning` exists, and `has_tuning_module` if the module `tuning` does. It sets `families_create_themselves` if `Db::column_family`
//! creates a missing family, and `has_no_lending_cursor` if there is no `Cursor::entry`.

use std::path::{Path, PathBuf};

/// The sources that name each option of the engine which some commit lacks, by a `cfg`.
const SETTERS: &str = include_str!("options.rs");

fn main() {
    println!("cargo:rerun-if-env-changed=BRAIDB_ENGINE");
    println!("cargo:rerun-if-env-changed=BRAIDB_ENGINE_NAME");
    let engine = std::env::var_os("BRAIDB_ENGINE")
        .expect("braidb-lab pair sets BRAIDB_ENGINE to the crate of the engine");
    let engine = PathBuf::from(engine);
    let mut options = read(&engine.join("src/db/options.rs"));
    println!("cargo:rustc-check-cfg=cfg(has_tuning)");
    if options.contains("pub fn tuning(mut self") {
        println!("cargo:rustc-cfg=has_tuning");
        options.push_str(&read(&engine.join("src/db/tuning.rs")));
    }
    println!("cargo:rustc-check-cfg=cfg(has_tuning_module)");
    if read(&engine.join("src/lib.rs")).contains("pub mod tuning") {
        println!("cargo:rustc-cfg=has_tuning_module");
    }
    let words = SETTERS.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    for name in words.filter_map(|word| word.strip_prefix("has_")) {
        println!("cargo:rustc-check-cfg=cfg(has_{name})");
        if options.contains(&format!("pub fn {name}(mut self")) {
            println!("cargo:rustc-cfg=has_{name}");
        }
    }
    // The rivals and braidb-lab compile adapter.rs without this script, so a `cfg` marks the commits without the call.
    println!("cargo:rustc-check-cfg=cfg(families_create_themselves)");
    if !read(&engine.join("src/db/mod.rs")).contains("pub fn create_column_family(") {
        println!("cargo:rustc-cfg=families_create_themselves");
    }
    println!("cargo:rustc-check-cfg=cfg(has_no_lending_cursor)");
    let cursor = engine.join("src/db/cursor.rs");
    if !cursor.exists() || !read(&cursor).contains("pub fn entry(&mut self)") {
        println!("cargo:rustc-cfg=has_no_lending_cursor");
    }
}

/// The text of a source file of the engine. Cargo reruns this script if the file changes.
fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("the engine must have its sources in {}: {error}", path.display()))
}
