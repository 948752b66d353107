//! The programs: tests in C, one file each, and the benchmark.

use crate::interface;
use crate::tools::{self, Language, Linking, Scratch, bindings};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Where the programs lie.
pub fn directory() -> PathBuf {
    bindings().join("tests/leveldb")
}

pub fn source(name: &str) -> PathBuf {
    directory().join(format!("{name}.c"))
}

/// Declares a test for each program.
macro_rules! programs {
    ($($name:ident)*) => {
        pub const PROGRAMS: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            tools::run_test(&source(stringify!($name)));
        })*
    };
}

programs! { closing entries forks iterators opening threads }

#[test]
fn an_exception_ends_the_process() {
    let source = directory().join("exceptions.cpp");
    if let Some(program) = tools::compile(Language::Cpp, &source, "exceptions", Linking::Shared) {
        let scratch = Scratch::new("exceptions");
        tools::run(tools::program(&program).arg(scratch.database()));
    }
}

#[test]
fn a_panic_planted_in_each_function_becomes_an_error() {
    if !cfg!(debug_assertions) {
        return tools::leave_out("panics", "a library without debug assertions plants no panics");
    }
    if let Some(printed) = tools::run_test(&source("panics")) {
        assert_eq!(printed, format!("{} panics were planted\n", interface::functions().len()));
    }
}

#[test]
fn every_program_is_run() {
    let files = directory()
        .read_dir()
        .expect("there are tests in C")
        .map(|entry| entry.expect("it can be read").path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    let found: BTreeSet<String> =
        sources.map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned()).collect();
    let run: BTreeSet<String> = PROGRAMS.iter().chain(&["panics"]).map(|name| (*name).to_owned()).collect();
    assert_eq!(found, run);
}

#[test]
fn the_static_library_is_complete() {
    let Some(program) =
        tools::compile(Language::C, &source("iterators"), "iterators-static", Linking::Static)
    else {
        return;
    };
    let scratch = Scratch::new("iterators-static");
    tools::run(tools::program(&program).arg(scratch.database()));
}

#[test]
fn the_benchmark_measures_puts_gets_and_walks() {
    let source = bindings().join("bench/leveldb_bench.c");
    let Some(program) = tools::compile(Language::C, &source, "bench", Linking::Shared) else { return };
    for order in ["0", "1"] {
        let scratch = Scratch::new(&format!("bench-{order}"));
        let output = tools::run(tools::program(&program).arg(scratch.database()).args(["3000", order]));
        let lines = String::from_utf8(output.stdout).expect("the benchmark prints UTF-8");
        let measured: Vec<&str> = lines.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(measured, ["put", "get", "iterate"]);
    }
}

#[test]
fn the_header_is_c_and_cpp() {
    tools::compile_header();
}
