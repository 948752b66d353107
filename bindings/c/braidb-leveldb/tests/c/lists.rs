//! Lists that must agree: the functions of the header, of the shared library and of the tests.

use crate::interface::{self, functions};
use crate::programs::{self, PROGRAMS};
use crate::tools::read;

/// Functions that LevelDB 1.23 declares.
const FUNCTIONS: usize = 68;

#[test]
fn the_library_exports_what_the_header_declares() {
    interface::compare_symbols();
    assert_eq!(functions().len(), FUNCTIONS);
}

#[test]
fn every_function_is_tested() {
    let mut tests: String = PROGRAMS.iter().map(|name| read(programs::source(name))).collect();
    tests += &read(programs::directory().join("check.h"));
    let missing: Vec<String> =
        functions().into_iter().filter(|function| !tests.contains(&format!("{function}("))).collect();
    assert!(missing.is_empty(), "no test calls {missing:?}");
    let panics = read(programs::source("panics"));
    let is_planted = |function: &String| {
        ["FAILS", "IS_NEUTRAL", "FREES"].iter().any(|kind| panics.contains(&format!("{kind}({function},")))
    };
    let missing: Vec<String> = functions().into_iter().filter(|function| !is_planted(function)).collect();
    assert!(missing.is_empty(), "no panic is planted in {missing:?}");
}
