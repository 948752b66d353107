//! A JDK for tests: its programs, the library that they load, sources, and rooms to work in.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::OnceLock;

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

/// What the compiler says of its version. The error says why there is none.
fn javac_version() -> &'static Result<String, String> {
    static SAID: OnceLock<Result<String, String>> = OnceLock::new();
    SAID.get_or_init(|| {
        let javac = program("javac");
        let answer = Command::new(&javac).arg("-version").output();
        let answer = answer.map_err(|error| format!("there is no `{}`: {error}", javac.display()))?;
        Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
    })
}

/// Why there is no JDK, if there is none.
pub(crate) fn lack() -> Option<String> {
    let said = match javac_version() {
        Ok(said) => said,
        Err(why) => return Some(why.clone()),
    };
    let version = said.split([' ', '.']).nth(1).and_then(|version| version.trim().parse::<u32>().ok());
    match version {
        Some(version) if version >= OLDEST => None,
        _ => Some(format!("`javac` says {said:?}, and Java {OLDEST} is needed")),
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

/// The Java sources in a directory, in the order of their names.
pub(crate) fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = dir.read_dir().unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let paths = entries.map(|entry| entry.expect("a directory can be read").path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "java")).collect();
    paths.sort();
    paths
}

/// A directory with the classes of sources, for which a warning is an error. What was compiled once is there for all test programs, until
/// the sources, the compiler or its arguments change: the directory's name has a hash of them.
pub(crate) fn classes(name: &str, class_path: &str, lints: &[&str], sources: &[PathBuf]) -> PathBuf {
    let mut javac = Command::new(program("javac"));
    javac.args(["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-encoding", "UTF-8"]);
    javac.args(["-Werror", "--release", &OLDEST.to_string()]).args(lints);
    if !class_path.is_empty() {
        javac.args(["-cp", class_path]);
    }
    javac.args(sources);
    let mut hasher = DefaultHasher::new();
    (javac_version(), javac.get_args().collect::<Vec<_>>()).hash(&mut hasher);
    sources.iter().for_each(|path| read(path).hash(&mut hasher));
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("braidb-jni-classes");
    let dir = all.join(format!("{name}-{:016x}", hasher.finish()));
    if !dir.exists() {
        let made = all.join(format!("{name}.{}", process::id()));
        fs::create_dir_all(&made).unwrap_or_else(|error| panic!("{}: {error}", made.display()));
        run(javac.arg("-d").arg(&made));
        remove_older(&all, name);
        fs::rename(&made, &dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    }
    dir
}

/// Removes the classes of earlier sources.
fn remove_older(all: &Path, name: &str) {
    for entry in all.read_dir().expect("a directory can be read") {
        let path = entry.expect("a directory can be read").path();
        let own = path.file_name().and_then(|file| file.to_str()).and_then(|file| file.strip_prefix(name));
        if own.is_some_and(|hash| hash.starts_with('-') && hash.len() == 17) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// The classes of the package `io.github.braidb`. Comments of what is public are checked as the generator of the reference checks them.
pub(crate) fn package() -> PathBuf {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE
        .get_or_init(|| {
            let main = sources(&bindings().join("braidb/src/main/java/io/github/braidb"));
            assert!(main.len() > 15, "{main:?}");
            classes("package", "", &["-Xlint:all", "-Xdoclint:all/protected"], &main)
        })
        .clone()
}

/// Runs a program to its end. Returns what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}
