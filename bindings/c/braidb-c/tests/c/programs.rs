//! The programs: tests in C, one file each, and the examples.

use crate::interface;
use crate::tools::{self, Language, Linking, Scratch, bindings};
use std::collections::BTreeSet;

/// Compiles and runs a test in C. Returns what it printed, or `None` if there is no compiler.
fn runs(name: &str) -> Option<String> {
    tools::run_test(&bindings().join("tests").join(format!("{name}.c")))
}

/// Declares a test for each program below `bindings/c/tests`.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            runs(stringify!($name));
        })*
    };
}

programs! { closing database entries forks library staged threads tiers }

#[test]
fn an_exception_ends_the_process() {
    let source = bindings().join("tests/exceptions.cpp");
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
    if let Some(printed) = runs("panics") {
        assert_eq!(printed, format!("{} panics were planted\n", interface::functions().len()));
    }
}

#[test]
fn every_program_is_run() {
    let dir = bindings().join("tests").read_dir().expect("there are tests in C");
    let files = dir.map(|entry| entry.expect("a directory can be read").path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    let found: BTreeSet<String> =
        sources.map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned()).collect();
    let run: BTreeSet<String> = PROGRAMS.iter().chain(&["panics"]).map(|name| (*name).to_owned()).collect();
    assert_eq!(found, run);
}

/// Compiles an example and runs it twice on one database: the second run finds the data of the first.
fn example(language: Language, file: &str, linking: Linking, prints: &str) {
    let test = format!("example-{file}-{}", if linking == Linking::Static { "static" } else { "shared" });
    let source = bindings().join("examples").join(file);
    let Some(program) = tools::compile(language, &source, &test, linking) else { return };
    let scratch = Scratch::new(&test);
    for _ in 0..2 {
        let output = tools::run(tools::program(&program).arg(scratch.database()));
        assert_eq!(String::from_utf8_lossy(&output.stdout), prints);
    }
}

const FRUIT: &str = "apple is red\nlemon is yellow\nplum is blue\n";

#[test]
fn the_example_in_c_runs() {
    example(Language::C, "fruit.c", Linking::Shared, FRUIT);
}

#[test]
fn the_example_in_c_runs_with_the_static_library() {
    example(Language::C, "fruit.c", Linking::Static, FRUIT);
}

#[test]
fn the_example_in_cpp_runs() {
    example(Language::Cpp, "fruit.cpp", Linking::Shared, "apple is red\nplum\napple\n");
}

#[test]
fn the_header_is_c_and_cpp() {
    tools::compile_header();
}
