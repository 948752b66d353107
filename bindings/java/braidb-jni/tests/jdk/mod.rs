//! A JDK for tests: its programs, the library that they load, sources, and rooms to work in.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest version of Java for which the sources are written.
pub(crate) const OLDEST: u32 = 17;

/// The directory `bindings/java`.
pub(crate) fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A program of the JDK.
pub(crate) fn program(name: &str) -> PathBuf {
    match env::var_os("JAVA_HOME") {
        Some(home) => Path::new(&home).join("bin").join(name),
        None => PathBuf::from(name),
    }
}

/// Why there is no JDK, if there is none.
pub(crate) fn lack() -> Option<String> {
    let javac = program("javac");
    let answer = match Command::new(&javac).arg("-version").output() {
        Ok(answer) => answer,
        Err(error) => return Some(format!("there is no `{}`: {error}", javac.display())),
    };
    let said = String::from_utf8_lossy(&answer.stdout).into_owned();
    let version = said.split([' ', '.']).nth(1).and_then(|version| version.trim().parse::<u32>().ok());
    match version {
        Some(version) if version >= OLDEST => None,
        _ => Some(format!("`{}` says {said:?}, and Java {OLDEST} is needed", javac.display())),
    }
}

/// Says that a test is left out, also where the output of passing tests is hidden. Fails if `BRAIDB_REQUIRE` has `word`.
pub(crate) fn leave_out(word: &str, test: &str, why: &str) {
    let is_required = env::var("BRAIDB_REQUIRE")
        .is_ok_and(|words| words.split_whitespace().any(|required| required == word));
    assert!(!is_required, "{test}: {why}");
    let _ = writeln!(io::stderr(), "SKIPPED {word} {test}: {why}");
}

/// The native library. Cargo builds it beside this test.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().expect("a program knows its file");
    test.with_file_name(format!("{}braidb_jni{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX))
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// An empty directory for this test program.
pub(crate) fn room(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("braidb-jni").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    dir
}

/// The Java sources in a directory.
pub(crate) fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let paths = entries.map(|entry| entry.expect("a directory can be read").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "java")).collect()
}

/// Runs a program to its end. Returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}
