//! Tells the adapter which options the linked engine has. It sets `has_NAME` for each setter of `Options` or `Tuning`, `has_tuning` if
//! `Tuning` exists, and `has_tuning_module` if the module `tuning` does. It sets `families_create_themselves` if `Db::column_family`
//! creates a missing family.

use std::path::{Path, PathBuf};

/// The options that adapter.rs knows and that some commit lacks.
const KNOWN: &[&str] = &[
    "active_percent",
    "background_merges",
    "background_threads",
    "block_bytes",
    "block_cache_bytes",
    "defer_below_l0",
    "filter_bits_per_key",
    "gap_entries",
    "gap_puts",
    "guards",
    "hot_keys_percent",
    "l0_merge_tables",
    "l0_overlap_percent",
    "l0_overlap_tables",
    "l0_slowdown_tables",
    "l0_stop_tables",
    "log_bytes",
    "log_rewrite_percent",
    "log_table_percent",
    "manifest_bytes",
    "max_runs_per_guard",
    "memory_policy",
    "memtable_bytes",
    "merge_bytes_per_second",
    "open_files",
    "overlap_samples",
    "overlap_scope",
    "pipeline_segments",
    "separation_threshold",
    "table_bytes",
    "value_layout",
];

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
    for name in KNOWN {
        println!("cargo:rustc-check-cfg=cfg(has_{name})");
        if options.contains(&format!("pub fn {name}(mut self")) {
            println!("cargo:rustc-cfg=has_{name}");
        }
    }
    // The driver of the rivals compiles adapter.rs without this script, so a `cfg` marks the commits without the call.
    println!("cargo:rustc-check-cfg=cfg(families_create_themselves)");
    if !read(&engine.join("src/db/mod.rs")).contains("pub fn create_column_family(") {
        println!("cargo:rustc-cfg=families_create_themselves");
    }
}

/// The text of a source file of the engine. Cargo reruns this script if the file changes.
fn read(path: &Path) -> String {
    println!("cargo:rerun-if-changed={}", path.display());
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("the engine must have its sources in {}: {error}", path.display()))
}
