//! Compiles the state stores for Kafka Streams with the newest version that they are tested with, and runs their tests in
//! `bindings/java/kafka-streams/src/test`: ours, and Kafka's own tests of stores, on the oldest version that they work with; ours alone on the
//! newest one. No broker runs.
//!
//! Maven gives the class path, from its local repository if that has all, and downloads about 120 MB otherwise, once. Without a JDK 17 or
//! later, or without Maven, the tests pass and print what they leave out. If the environment variable `BRAIDB_REQUIRE` has the word `kafka`,
//! they fail.
#![allow(clippy::disallowed_methods, reason = "writes classes, and starts compilers and programs")]

mod jdk;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use jdk::{bindings, classes, lack, leave_out, library, package, program, read, room, run, sources, write};

/// The version of Kafka whose own tests are published, and the newest one that the stores are tested with.
const VERSIONS: [&str; 2] = ["4.3.1", "4.4.0"];

/// Our classes of tests, and the subclasses of Kafka's own.
const OURS: &str = "io.github.braidb.streams";
const SUITES: &str = "org.apache.kafka.streams.state.internals";

/// The directory `bindings/java/kafka-streams`.
fn module() -> PathBuf {
    bindings().join("kafka-streams")
}

/// The Java sources below a directory.
fn all_sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = sources(dir);
    for entry in dir.read_dir().unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("a directory can be read").path();
        if path.is_dir() {
            found.extend(all_sources(&path));
        }
    }
    found
}

/// The jars for a version of Kafka, as a class path. Maven is asked once for each text of the POM.
fn class_path(version: &str) -> Result<String, String> {
    let pom = module().join("tests/pom.xml");
    let known = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kafka-streams-{version}.class-path"));
    let title = format!("{}\n", read(&pom).lines().map(str::trim).collect::<String>());
    let jars = fs::read_to_string(&known).ok().and_then(|text| text.strip_prefix(&title).map(str::to_owned));
    if let Some(jars) = jars.filter(|jars| jars.split(':').all(|jar| Path::new(jar).exists())) {
        return Ok(jars);
    }
    let asked = room("class-path").join(version);
    let mut said = String::new();
    for network in ["-o", "-nsu"] {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", network]).arg("-f").arg(&pom).arg(format!("-Dkafka.version={version}"));
        maven.arg(if version == VERSIONS[0] { "-Psuites" } else { "-P!suites" });
        maven.arg("dependency:build-classpath").arg(format!("-Dmdep.outputFile={}", asked.display()));
        let output = maven.output().map_err(|error| format!("there is no `mvn`: {error}"))?;
        if output.status.success() {
            let jars = read(&asked).trim().to_owned();
            write(&known, &format!("{title}{jars}"));
            return Ok(jars);
        }
        said = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    Err(format!("`mvn` finds no jars of Kafka {version}: {}", said.lines().next().unwrap_or_default()))
}

/// The classes of the tests, of the stores and of the package, as a class path, and the jars for the oldest version of Kafka.
fn compiled() -> &'static Result<(String, String), String> {
    static COMPILED: OnceLock<Result<(String, String), String>> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let jars = class_path(VERSIONS[0])?;
        let package = package();
        let package = package.display();
        // Jars of Kafka name annotations that they do not bring along.
        let lints = ["-Xlint:all,-classfile", "-Xdoclint:all/protected"];
        let main = all_sources(&module().join("src/main/java"));
        let stores = classes("stores", &format!("{package}:{}", class_path(VERSIONS[1])?), &lints, &main);
        let both = format!("{}:{package}", stores.display());
        // Programs that no test runs must compile too.
        let test = ["src/test/java", "src/bench/java", "chaos/src"];
        let test: Vec<_> = test.iter().flat_map(|dir| all_sources(&module().join(dir))).collect();
        let tests = classes("store-tests", &format!("{both}:{jars}"), &["-Xlint:none"], &test);
        Ok((format!("{}:{both}", tests.display()), jars))
    })
}

/// The class path of the tests with a version of Kafka. The tests are compiled with the oldest one.
fn equipped(version: &str) -> Result<String, String> {
    let (classes, jars) = compiled().clone()?;
    let jars = if version == VERSIONS[0] { jars } else { class_path(version)? };
    Ok(format!("{classes}:{jars}"))
}

/// The classes of tests in a package.
fn test_classes(package: &str) -> Vec<String> {
    let dir = module().join("src/test/java").join(package.replace('.', "/"));
    let names = sources(&dir).into_iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.filter(|name| name.ends_with("Test")).collect();
    names.sort();
    assert!(names.len() >= 5, "{package}: {names:?}");
    names.into_iter().map(|name| format!("{package}.{name}")).collect()
}

/// A JVM that will run classes of tests in a directory.
fn launcher(dir: &Path, class_path: &str) -> Command {
    let mut java = Command::new(program("java"));
    java.args(["-ea", "-Xcheck:jni", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    java.arg(format!("-Djava.io.tmpdir={}", dir.display()));
    java.arg(format!("-Dbraidb.library.path={}", library().display())).arg("-Dbraidb.linger.ms=0");
    java.arg(format!("-Dlog4j2.configurationFile={}", module().join("tests/log4j2.properties").display()));
    java.args(["-cp", class_path]);
    java.args(["org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner"]);
    java.args(["--disable-ansi-colors", "--details=summary", "--fail-if-no-tests"]);
    java.current_dir(dir);
    java
}

/// Runs the classes of tests in a package with a version of Kafka.
fn passes(test: &str, version: &str, package: &str) {
    let class_path = match lack() {
        None => equipped(version),
        Some(why) => Err(why),
    };
    let class_path = match class_path {
        Ok(found) => found,
        Err(why) => return leave_out("kafka", test, &why),
    };
    let dir = room(test);
    let mut java = launcher(&dir, &class_path);
    for class in test_classes(package) {
        java.args(["-c", &class]);
    }
    let said = launch(test, &mut java);
    assert!(!said.contains("WARNING in native method") && !said.contains("FATAL ERROR"), "{said}");
}

/// Runs the launcher, and prints how many tests of Java passed, failed and were left out. `braidb-lab regress streams-tests` shows the numbers.
fn launch(test: &str, java: &mut Command) -> String {
    let said = run(java);
    for (words, name) in [
        ("tests successful", "passed"),
        ("tests failed", "failed"),
        ("tests skipped", "skipped"),
        ("tests aborted", "aborted"),
    ] {
        let line =
            said.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words}: {said}"));
        let number = line.trim_matches(['[', ' ']).split(' ').next().expect("a line has a word");
        println!("\n{test}-{name} {number}");
    }
    said
}

// Each JVM is a test of its own, so that they run side by side.

#[test]
fn stores_pass_their_tests() {
    passes("stores_pass_their_tests", VERSIONS[0], OURS);
}

#[test]
fn stores_pass_the_tests_of_kafka() {
    passes("stores_pass_the_tests_of_kafka", VERSIONS[0], SUITES);
}

#[test]
fn stores_pass_their_tests_on_a_newer_kafka() {
    passes("stores_pass_their_tests_on_a_newer_kafka", VERSIONS[1], OURS);
}

/// The package of Kafka's own tests of the DSL.
const DSL: &str = "org.apache.kafka.streams.kstream.internals";

#[test]
#[ignore = "993 tests of Kafka's DSL on these stores: 3 minutes or more: cargo test -p braidb-jni --test kafka_streams -- --ignored"]
fn the_dsl_passes_its_tests_on_the_stores() {
    let class_path = equipped(VERSIONS[0]).unwrap_or_else(|why| panic!("{why}"));
    let sources = all_sources(&module().join("src/shadow/java"));
    let shadow = classes("store-shadows", &class_path, &["-Xlint:none"], &sources);
    let dir = room("the_dsl_passes_its_tests_on_the_stores");
    let mut java = launcher(&dir, &format!("{}:{class_path}", shadow.display()));
    java.args(["-p", DSL, "--include-classname"])
        .arg(format!("^{}[.][A-Za-z]+Test$", DSL.replace('.', "[.]")));
    launch("the_dsl_passes_its_tests_on_the_stores", &mut java);
}

/// Kafka's internals change with each release, so one file has all uses of them.
#[test]
fn one_file_uses_what_kafka_does_not_publish() {
    let mut users = Vec::new();
    for path in all_sources(&module().join("src/main/java")) {
        let text = read(&path);
        let uses = text.lines().any(|line| line.contains("org.apache.kafka") && line.contains(".internals."));
        if uses {
            users.push(path.file_name().expect("a file has a name").to_string_lossy().into_owned());
        }
    }
    assert_eq!(users, ["KafkaInternals.java"]);
}

/// The chaos must find planted faults, so their patches follow the stores.
#[test]
fn planted_faults_fit_the_stores() {
    let plants = module().join("chaos/plants");
    let stores = module().join("src/main/java");
    let entries = plants.read_dir().unwrap_or_else(|error| panic!("{}: {error}", plants.display()));
    let patches: Vec<_> = entries.map(|entry| entry.expect("a directory can be read").path()).collect();
    assert_eq!(patches.len(), 3, "{patches:?}");
    if let Err(error) = Command::new("patch").arg("--version").output() {
        return leave_out("kafka", "planted_faults_fit_the_stores", &format!("there is no `patch`: {error}"));
    }
    for path in patches {
        let mut patch = Command::new("patch");
        patch
            .args(["--dry-run", "--force", "--strip=1", "--directory"])
            .arg(&stores)
            .arg("--input")
            .arg(&path);
        run(&mut patch);
    }
}

#[test]
fn the_pom_names_the_versions_of_the_tests() {
    for (pom, version) in [("pom.xml", VERSIONS[1]), ("tests/pom.xml", VERSIONS[0])] {
        let wanted = format!("<kafka.version>{version}</kafka.version>");
        assert!(read(&module().join(pom)).contains(&wanted), "{pom} has no {wanted}");
    }
    let wanted = format!("<version>{}-SNAPSHOT</version>", env!("CARGO_PKG_VERSION"));
    for pom in ["pom.xml", "tests/pom.xml"] {
        assert!(read(&module().join(pom)).contains(&wanted), "{pom} has no {wanted}");
    }
}
