//! Compiles the Java sources, and runs the tests in `bindings/java/braidb/src/test`, the example and the programs of docs/java.md. Each class
//! of tests has a JVM of its own, which checks all calls of the native library (`-Xcheck:jni`).
//!
//! Without a JDK 17 or later the tests pass and print what they leave out. If the environment variable `BRAIDB_REQUIRE` has the word `java`,
//! they fail. `JAVA_HOME` names another JDK than the one of `PATH`. `BRAIDB_JAVA_LEAKS` is the number of cursors that the test of leaks leaks.
#![allow(
    clippy::disallowed_methods,
    reason = "writes sources and classes, and starts compilers and programs"
)]

mod jdk;

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use jdk::{bindings, classes, lack, leave_out, library, package, program, read, room, run, sources, write};

/// Native bytes before the collector is prompted in the test of leaks: 4 MiB, so that a few thousand cursors are enough.
const LEAKS_BYTES: u32 = 4 << 20;
/// The platform's name in the paths of libraries in jars.
const PLATFORM: &str = "linux-x86_64";

fn main_sources() -> PathBuf {
    bindings().join("braidb/src/main/java/io/github/braidb")
}

fn test_sources() -> PathBuf {
    bindings().join("braidb/src/test/java/io/github/braidb")
}

/// The programs of docs/java.md: the text of each block of Java.
fn page() -> Vec<String> {
    let page = read(&bindings().join("../../docs/java.md"));
    let blocks = page.split("```java\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("split gives one part").to_owned()).collect()
}

/// A class whose `main` runs all blocks of docs/java.md but those that are whole classes.
fn page_source() -> String {
    let mut source =
        String::from("import io.github.braidb.*;\nimport java.nio.file.*;\nimport java.util.*;\n\n");
    source.push_str("final class Page {\n    public static void main(String[] names) throws Exception {\n");
    for block in page().iter().filter(|block| !block.contains("class ")) {
        source.push_str(&format!("        {{\n{block}\n        }}\n"));
    }
    source.push_str("    }\n}\n");
    source
}

/// A directory with the classes of the tests, of the examples and of docs/java.md.
fn tests() -> &'static Path {
    static TESTS: OnceLock<PathBuf> = OnceLock::new();
    TESTS.get_or_init(|| {
        let written = room("sources");
        write(&written.join("Page.java"), &page_source());
        for block in page().iter().filter(|block| block.contains("class ")) {
            let name = block.split("class ").nth(1).and_then(|rest| rest.split_whitespace().next());
            write(&written.join(format!("{}.java", name.expect("a class has a name"))), block);
        }
        let tests = [test_sources(), bindings().join("examples"), written].map(|dir| sources(&dir)).concat();
        // Tests close what a statement closes again.
        classes("tests", &package().display().to_string(), &["-Xlint:all,-try"], &tests)
    })
}

/// The classes of the tests and of the package, as a class path.
fn compiled() -> String {
    format!("{}:{}", tests().display(), package().display())
}

/// A JVM that will run a class, in an empty directory of its own.
fn java(name: &str) -> Command {
    let dir = room(&format!("run-{name}"));
    let mut java = Command::new(program("java"));
    java.args(["-ea", "-Xcheck:jni", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    java.arg(format!("-Dbraidb.test.dir={}", dir.display()));
    java.current_dir(dir);
    java
}

fn with_library(mut java: Command) -> Command {
    java.arg(format!("-Dbraidb.library.path={}", library().display())).arg("-cp").arg(compiled());
    java
}

/// Runs a class of tests. The JVM has nothing to say against the native calls.
fn passes(mut java: Command, class: &str) {
    let said = run(java.args(["io.github.braidb.Runner", class]));
    assert!(said.contains("OK "), "{said}");
    check_calls(&said);
}

/// Fails if the JVM found fault with a native call.
fn check_calls(said: &str) {
    assert!(!said.contains("WARNING in native method") && !said.contains("FATAL ERROR"), "{said}");
    assert!(!said.contains("WARNING: JNI local refs"), "{said}");
}

/// Whether this machine has a JDK. Says what is left out otherwise.
fn is_here(test: &str) -> bool {
    match lack() {
        None => true,
        Some(why) => {
            leave_out("java", test, &why);
            false
        }
    }
}

/// Declares a test for each class of tests that needs no more than the library.
macro_rules! tests {
    ($($name:ident: $class:literal,)*) => {
        const CLASSES: &[&str] = &[$($class),*];

        $(#[test]
        fn $name() {
            if is_here(stringify!($name)) {
                passes(with_library(java($class)), $class);
            }
        })*
    };
}

tests! {
    entries: "EntriesTest",
    cursors: "CursorTest",
    writes: "WritesTest",
    databases: "DatabaseTest",
    closes: "ClosingTest",
}

/// The classes of tests that a function of their own runs.
const OTHER_CLASSES: [&str; 8] = [
    "FullHeapTest",
    "LeaksTest",
    "PanicTest",
    "ScanPanicTest",
    "SpareTest",
    "LoaderTest",
    "MissingLibraryTest",
    "RefusedLibraryTest",
];

#[test]
fn leaks() {
    if is_here("leaks") {
        let mut java = java("LeaksTest");
        java.arg(format!("-Dbraidb.native.bytes={LEAKS_BYTES}"));
        if let Ok(leaks) = env::var("BRAIDB_JAVA_LEAKS") {
            java.arg(format!("-Dbraidb.test.leaks={leaks}"));
        }
        passes(with_library(java), "LeaksTest");
    }
}

#[test]
fn full_heaps() {
    if is_here("full_heaps") {
        let mut java = java("FullHeapTest");
        // The JVM takes the last limit on its command line.
        java.arg("-Xmx24m");
        passes(with_library(java), "FullHeapTest");
    }
}

#[test]
fn panics() {
    if !cfg!(debug_assertions) {
        return leave_out("java", "panics", "only a build with debug assertions plants panics");
    }
    if !is_here("panics") {
        return;
    }
    for (class, function) in [("PanicTest", "get"), ("ScanPanicTest", "scanFill"), ("SpareTest", "throw")] {
        let mut java = java(class);
        java.env("BRAIDB_C_PANIC", format!("Java_io_github_braidb_Native_{function}"));
        passes(with_library(java), class);
    }
}

/// A directory with the classes of the source `file`, in which `to` stands in the place of `from`.
fn altered(file: &str, from: &str, to: &str) -> PathBuf {
    let written = room(&format!("altered-{file}"));
    let text = read(&main_sources().join(file));
    assert!(text.contains(from), "{file} has no {from}");
    write(&written.join(file), &text.replace(from, to));
    classes(&format!("altered-{file}"), &compiled(), &["-Xlint:none"], &[written.join(file)])
}

#[test]
fn classes_that_do_not_fit_the_library_are_refused() {
    if !is_here("classes_that_do_not_fit_the_library_are_refused") {
        return;
    }
    let version = format!("\"{}\"", env!("CARGO_PKG_VERSION"));
    for (file, from, to, says) in [
        ("Native.java", "void raise(", "void stripped(", "lacks its method raise"),
        ("NativeLibrary.java", version.as_str(), "\"0.0.0\"", "and the jar braidb has 0.0.0"),
    ] {
        let classes = format!("{}:{}", altered(file, from, to).display(), compiled());
        let mut java = java(&format!("RefusedLibraryTest-{file}"));
        java.arg(format!("-Dbraidb.library.path={}", library().display()));
        java.arg(format!("-Dbraidb.test.says={says}")).args(["-cp", &classes]);
        passes(java, "RefusedLibraryTest");
    }
}

#[test]
fn poms_have_the_version_of_the_library() {
    for pom in ["pom.xml", "braidb/pom.xml", "braidb-native-linux-x86_64/pom.xml", "bench/pom.xml"] {
        let version = format!("<version>{}-SNAPSHOT</version>", env!("CARGO_PKG_VERSION"));
        assert!(read(&bindings().join(pom)).contains(&version), "{pom} has no {version}");
    }
}

/// A class path whose second directory has the library as a jar has it.
fn bundled() -> String {
    let resources = room("resources");
    let dir = resources.join("META-INF/native").join(PLATFORM);
    fs::create_dir_all(&dir).expect("a directory can be made");
    std::os::unix::fs::symlink(library(), dir.join(library().file_name().expect("a file has a name")))
        .expect("a link can be made");
    format!("{}:{}", compiled(), resources.display())
}

#[test]
fn libraries_come_out_of_jars() {
    if !cfg!(target_arch = "x86_64") {
        return leave_out(
            "java",
            "libraries_come_out_of_jars",
            "there is no jar with a library for this machine",
        );
    }
    if !is_here("libraries_come_out_of_jars") {
        return;
    }
    let class_path = bundled();
    let (extracted, cache, second) = (room("extracted"), room("cache"), room("second-cache"));
    // No user makes directories in /proc, so the third JVM falls back to the cache. So does the fourth one, where others may write.
    for (name, tmpdir, found, cache) in [
        ("first", extracted.as_path(), &extracted, &cache),
        ("again", &extracted, &extracted, &cache),
        ("fallback", Path::new("/proc"), &cache, &cache),
        ("open", &extracted, &second, &second),
    ] {
        if name == "open" {
            for dir in extracted.read_dir().expect("it can be read") {
                let dir = dir.expect("it can be read").path();
                fs::set_permissions(dir, Permissions::from_mode(0o777)).expect("the owner may do so");
            }
        }
        let mut java = java(&format!("LoaderTest-{name}"));
        java.arg(format!("-Djava.io.tmpdir={}", tmpdir.display()));
        java.arg(format!("-Dbraidb.test.extracted={}", found.display()));
        java.env("XDG_CACHE_HOME", cache).args(["-cp", &class_path]);
        passes(java, "LoaderTest");
    }
    let mut java = java("MissingLibraryTest");
    java.arg("-cp").arg(compiled());
    passes(java, "MissingLibraryTest");
}

/// The name that a pom gives to the module of its jar.
fn module_of(pom: &str) -> String {
    let text = read(&bindings().join(pom).join("pom.xml"));
    let name = text.split("<Automatic-Module-Name>").nth(1).and_then(|rest| rest.split('<').next());
    name.unwrap_or_else(|| panic!("{pom}/pom.xml names no module")).to_owned()
}

#[test]
fn jars_work_on_the_module_path() {
    if !cfg!(target_arch = "x86_64") {
        return leave_out(
            "java",
            "jars_work_on_the_module_path",
            "there is no jar with a library for this machine",
        );
    }
    if !is_here("jars_work_on_the_module_path") {
        return;
    }
    let resources = room("module-resources");
    let dir = resources.join("META-INF/native").join(PLATFORM);
    fs::create_dir_all(&dir).expect("a directory can be made");
    fs::copy(library(), dir.join(library().file_name().expect("a file has a name")))
        .expect("it can be copied");
    let jars = room("modules");
    let modules = [
        ("braidb", vec![package(), tests().to_owned()], "io"),
        ("braidb-native-linux-x86_64", vec![resources], "META-INF"),
    ];
    for (name, contents, top) in &modules {
        let manifest = jars.join("manifest");
        write(&manifest, &format!("Automatic-Module-Name: {}\n", module_of(name)));
        let mut jar = Command::new(program("jar"));
        jar.args(["--create", "--no-compress", "--file"]).arg(jars.join(format!("{name}.jar")));
        jar.arg("--manifest").arg(&manifest);
        contents.iter().for_each(|content| {
            jar.arg("-C").arg(content).arg(top);
        });
        run(&mut jar);
    }
    let mut java = java("EntriesTest-modules");
    java.arg(format!("-Djava.io.tmpdir={}", room("module-extracted").display()));
    java.arg("-p").arg(&jars).args(["-m", &format!("{}/io.github.braidb.Runner", module_of("braidb"))]);
    let said = run(java.arg("EntriesTest"));
    assert!(said.contains("OK "), "{said}");
}

#[test]
fn the_page_and_the_example_run() {
    if !is_here("the_page_and_the_example_run") {
        return;
    }
    for block in page().iter().filter(|block| block.contains("class ")) {
        let name = block.split("class ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let name = name.expect("a class has a name");
        check_calls(&run(with_library(java(name)).arg(name)));
    }
    check_calls(&run(with_library(java("Page")).arg("Page")));
    let said = run(with_library(java("Fruit")).args(["Fruit", "fruit.db"]));
    assert!(said.contains("pear is green") && said.contains("26 plums are left"), "{said}");
}

#[test]
fn every_class_of_tests_is_run() {
    let found: BTreeSet<String> = sources(&test_sources())
        .iter()
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .filter(|name| name.ends_with("Test"))
        .collect();
    let run: BTreeSet<String> = CLASSES.iter().chain(&OTHER_CLASSES).map(|name| (*name).to_owned()).collect();
    assert_eq!(found, run);
}

/// The native methods of Native.java: name, types of the arguments, and type of the result.
fn declared(text: &str) -> BTreeSet<(String, Vec<String>, String)> {
    let methods = text.split("static native ").skip(1).map(|rest| {
        let (head, rest) = rest.split_once('(').expect("a method has arguments");
        let (result, name) = head.split_once(' ').expect("a method has a type");
        let arguments = rest.split_once(')').expect("the arguments end").0;
        let types = arguments.split(',').filter_map(|argument| argument.split_whitespace().next());
        (name.to_owned(), types.map(str::to_owned).collect(), result.to_owned())
    });
    methods.collect()
}

/// The native methods of the sources in Rust, with the types of Java.
fn defined(text: &str) -> BTreeSet<(String, Vec<String>, String)> {
    let methods = text.split("fn Java_io_github_braidb_Native_").skip(1).map(|rest| {
        let (name, rest) = rest.split_once('<').expect("a method has a lifetime");
        let (arguments, rest) =
            rest.split_once('(').and_then(|(_, rest)| rest.split_once(')')).expect("they end");
        let result = rest.trim_start_matches(" -> ").split_once(" {").expect("a method has a body").0;
        // The environment has no type.
        let types =
            arguments.split(',').filter_map(|argument| Some(in_java(argument.split_once(':')?.1.trim())));
        (name.to_owned(), types.collect(), in_java(result))
    });
    methods.collect()
}

/// The type of Java for a type of the crate `jni`.
fn in_java(rust: &str) -> String {
    let java = match rust.trim_end_matches("<'local>") {
        "jlong" => "long",
        "jint" => "int",
        "jboolean" => "boolean",
        "()" => "void",
        "JByteArray" => "byte[]",
        "JLongArray" => "long[]",
        "JThrowable" => "Throwable",
        other => panic!("no native method takes or returns {other}"),
    };
    java.to_owned()
}

#[test]
fn native_methods_are_declared_as_they_are_defined() {
    let declared = declared(&read(&main_sources().join("Native.java")));
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = src.read_dir().expect("there are sources").map(|entry| entry.expect("it can be read").path());
    let text: String = files.map(|path| read(&path)).collect();
    let defined = defined(&text);
    assert!(defined.len() > 40, "{defined:?}");
    assert_eq!(declared, defined, "declared in Native.java (left) and defined in Rust (right)");
}

#[test]
fn codes_are_those_of_all_bindings() {
    let java = read(&main_sources().join("BraidException.java"));
    let constants = java.split("public enum Code {").nth(1).and_then(|rest| rest.split("\n    }").next());
    let is_code = |line: &&str| line.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    let lines = constants.expect("the enum is there").lines();
    let in_java: Vec<&str> = lines
        .map(|line| line.trim().trim_end_matches(','))
        .filter(|line| !line.is_empty())
        .filter(is_code)
        .collect();
    let rust = read(&bindings().join("../common/src/code.rs"));
    let codes = rust.split("codes! {").nth(1).and_then(|rest| rest.split('}').next());
    let in_rust: Vec<&str> = codes
        .expect("the list is there")
        .lines()
        .filter_map(|line| Some(line.trim().split_once(" = ")?.0))
        .collect();
    assert!(in_rust.len() > 20, "{in_rust:?}");
    assert_eq!(in_java, in_rust, "in BraidException.java (left) and in code.rs (right)");
}
