//! The installed library, compilers, and how programs are compiled and run. The main file of each test names its library, as `LIBRARY`.

use crate::LIBRARY;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A library, and where its parts lie.
pub struct Library {
    /// What `scripts/install` and pkg-config call it.
    pub package: &'static str,
    /// What the linker calls it.
    pub name: &'static str,
    /// Its file, below the directory of libraries.
    pub file: &'static str,
    /// The directory of its headers, below the prefix of the installation.
    pub headers: &'static str,
    /// Its header, below the directory of headers.
    pub header: &'static str,
    /// What stands in front of each function in the header.
    pub marker: &'static str,
}

/// The directory `bindings/c`.
pub fn bindings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the tests build. It stays, and the next run writes over it.
fn built() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(LIBRARY.package);
    fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    dir
}

/// Runs a command, which must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A command that runs a compiled program: under the tool that the variable `BRAIDB_UNDER` names, with its arguments, if it is set.
pub fn program(file: &Path) -> Command {
    let under = env::var("BRAIDB_UNDER").unwrap_or_default();
    let mut words = under.split_whitespace();
    let Some(tool) = words.next() else { return Command::new(file) };
    let mut command = Command::new(tool);
    command.args(words).arg(file);
    command
}

/// Where `scripts/install` installed the library that cargo built for this test.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = built().join("installed");
        // Cargo builds the shared and the static library beside this test.
        let test = env::current_exe().expect("a program knows its file");
        let libraries = test.parent().expect("a file lies in a directory");
        let mut install = Command::new(bindings().join("../../scripts/install"));
        run(install.arg(&prefix).args(["--library", LIBRARY.package, "--from"]).arg(libraries));
        prefix
    })
}

/// A tool of the machine: the environment variable names it, or it has its usual name. `None` if it does not run.
fn tool(variable: &str, name: &str) -> Option<String> {
    let name = env::var(variable).unwrap_or_else(|_| name.to_owned());
    let answer = Command::new(&name).arg("--version").output();
    answer.is_ok_and(|output| output.status.success()).then_some(name)
}

/// Says that a test is left out, also where the output of passing tests is hidden.
pub fn leave_out(test: &str, why: &str) {
    let is_required =
        env::var("BRAIDB_REQUIRE").is_ok_and(|words| words.split_whitespace().any(|word| word == "c"));
    assert!(!is_required, "{test}: {why}");
    let _ = writeln!(io::stderr(), "SKIPPED c: {test} of {}: {why}", LIBRARY.package);
}

/// A language in which programs use the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
}

impl Language {
    /// A compiler with all that it must accept without a warning. `None`, which is said, if there is none.
    pub fn compiler(self, test: &str) -> Option<Command> {
        let (variable, name) = match self {
            Language::C => ("CC", "cc"),
            Language::Cpp => ("CXX", "c++"),
        };
        let Some(name) = tool(variable, name) else {
            leave_out(test, &format!("there is no `{name}`"));
            return None;
        };
        let mut compiler = Command::new(name);
        match self {
            Language::C => compiler.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L"]),
            Language::Cpp => compiler.arg("-std=c++17"),
        };
        compiler.args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        compiler.arg("-I").arg(prefix().join(LIBRARY.headers));
        Some(compiler)
    }
}

/// Compiles the header alone, with nothing included before it, in both languages.
pub fn compile_header() {
    let header = prefix().join(LIBRARY.headers).join(LIBRARY.header);
    for (language, name) in [(Language::C, "c"), (Language::Cpp, "c++")] {
        if let Some(mut compiler) = language.compiler("header") {
            run(compiler.args(["-fsyntax-only", "-x", name]).arg(&header));
        }
    }
}

/// How a program gets the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    Shared,
    Static,
}

/// Compiles a program. `None` if there is no compiler.
pub fn compile(language: Language, source: &Path, test: &str, linking: Linking) -> Option<PathBuf> {
    let mut compiler = language.compiler(test)?;
    let (program, libraries) = (built().join(test), prefix().join("lib"));
    compiler.arg(source).arg("-o").arg(&program);
    match linking {
        Linking::Shared => {
            compiler.arg("-L").arg(&libraries).arg(format!("-l{}", LIBRARY.name));
            compiler.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        Linking::Static => {
            let package = read(libraries.join("pkgconfig").join(format!("{}.pc", LIBRARY.package)));
            let private = package.lines().find_map(|line| line.strip_prefix("Libs.private: "));
            let private = private.expect("the package names what a static library needs");
            compiler.arg(libraries.join(format!("lib{}.a", LIBRARY.name))).args(private.split_whitespace());
        }
    }
    run(&mut compiler);
    Some(program)
}

/// Compiles a test in C and runs it. Its argument is the path of a database that is missing. Returns what it printed, or `None` if there is no
/// compiler.
pub fn run_test(source: &Path) -> Option<String> {
    let name = source.file_stem().and_then(|name| name.to_str()).expect("a test has a name");
    let program = compile(Language::C, source, name, Linking::Shared)?;
    let scratch = Scratch::new(name);
    let output = run(self::program(&program).arg(scratch.database()));
    Some(String::from_utf8(output.stdout).expect("a test prints UTF-8"))
}

/// A directory for the databases of a test, which is missing. It is removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Scratch {
        let dir = env::temp_dir().join(format!("{}-{test}-{}", LIBRARY.package, std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        Scratch(dir)
    }

    pub fn database(&self) -> PathBuf {
        self.0.join("db")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
