//! Puts the compiled module beside the Python sources, as an installed package has it, and runs the tests in `bindings/python/tests`.
//!
//! Without Python 3.11 or later they pass and print what they leave out. If the environment variable `BRAIDB_REQUIRE` has the word `python`,
//! they fail.
#![allow(clippy::disallowed_methods, reason = "copies sources, and starts the interpreter")]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The oldest version of Python that loads the module: `abi3-py311` of pyo3.
const OLDEST: (u32, u32) = (3, 11);

/// The directory `bindings/python`.
fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The interpreter that the environment variable `PYTHON` names, or `python3`. Otherwise why there is none.
fn interpreter() -> Result<String, String> {
    let name = env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let program = "import sys; print(*sys.version_info[:2])";
    let answer = Command::new(&name).args(["-c", program]).output();
    let answer = answer.map_err(|error| format!("there is no `{name}`: {error}"))?;
    let version = String::from_utf8_lossy(&answer.stdout).into_owned();
    let mut numbers = version.split_whitespace().map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version >= OLDEST {
        true => Ok(name),
        false => Err(format!("`{name}` has version {version:?}, and the module needs {OLDEST:?}")),
    }
}

/// Says that a test is left out, also where the output of passing tests is hidden.
fn leave_out(test: &str, why: &str) {
    let is_required =
        env::var("BRAIDB_REQUIRE").is_ok_and(|words| words.split_whitespace().any(|word| word == "python"));
    assert!(!is_required, "{test}: {why}");
    let _ = writeln!(io::stderr(), "SKIPPED python {test}: {why}");
}

/// A directory with the package `braidb` as pip installs it.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("braidb-python");
        let package = root.join("braidb");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&package).unwrap_or_else(|error| panic!("{}: {error}", package.display()));
        for source in list(&bindings().join("python/braidb")) {
            copy(&source, &package.join(source.file_name().expect("a file has a name")));
        }
        // Cargo builds the library beside this test.
        let test = env::current_exe().expect("a program knows its file");
        let built =
            test.with_file_name(format!("{}braidb_core{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX));
        copy(&built, &package.join("_core.abi3.so"));
        root
    })
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap_or_else(|error| panic!("{} to {}: {error}", from.display(), to.display()));
}

/// The files of a directory.
fn list(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries
        .map(|entry| entry.expect("a directory can be read").path())
        .filter(|path| path.is_file())
        .collect()
}

/// Runs a file of tests in Python.
fn runs(test: &str) {
    let python = match interpreter() {
        Ok(python) => python,
        Err(why) => return leave_out(test, &why),
    };
    let mut command = Command::new(python);
    command.args(["-X", "dev", "-W", "error::ResourceWarning", "-m", "unittest", test]);
    command.current_dir(bindings().join("tests")).env("PYTHONPATH", installed());
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    assert!(said.contains("\nOK\n"), "{said}");
}

/// Declares a test for each file of tests in Python.
macro_rules! tests {
    ($($name:ident)*) => {
        const TESTS: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            runs(stringify!($name));
        })*
    };
}

tests! {
    test_closing test_database test_entries test_forks test_interrupts test_page test_plyvel test_stubs test_threads test_writes
}

#[test]
fn every_file_of_tests_is_run() {
    let files = list(&bindings().join("tests")).into_iter();
    let names = files.map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned());
    let found: BTreeSet<String> = names.filter(|name| name.starts_with("test_")).collect();
    let run: BTreeSet<String> = TESTS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, run);
}
