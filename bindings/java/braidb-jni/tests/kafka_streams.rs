//! Compiles the state stores for Kafka Streams with the newest version that they are tested with, and runs their tests in
//! `bindings/java/kafka-streams/src/test`: ours, and Kafka's own tests of stores, on the oldest version that they work with; ours alone on the
//! newest one. No broker runs. Has Maven build the jars of all modules.
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
use std::sync::{Mutex, OnceLock, PoisonError};

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

/// The application of the documents.
fn example() -> PathBuf {
    bindings().join("../../examples/kafka-streams")
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
    static ASKING: Mutex<()> = Mutex::new(());
    let _guard = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    let pom = module().join("tests/pom.xml");
    let known = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kafka-streams-{version}.class-path"));
    let title = format!("{}\n", read(&pom).lines().map(str::trim).collect::<String>());
    let jars = fs::read_to_string(&known).ok().and_then(|text| text.strip_prefix(&title).map(str::to_owned));
    if let Some(jars) = jars.filter(|jars| jars.split(':').all(|jar| Path::new(jar).exists())) {
        return Ok(jars);
    }
    let asked = room("class-path").join(version);
    let version_arg = format!("-Dkafka.version={version}");
    let suites = if version == VERSIONS[0] { "-Psuites" } else { "-P!suites" };
    let file = format!("-Dmdep.outputFile={}", asked.display());
    maven(&pom, &[&version_arg, suites, "dependency:build-classpath", &file])
        .map_err(|why| format!("no jars of Kafka {version}: {why}"))?;
    let jars = read(&asked).trim().to_owned();
    write(&known, &format!("{title}{jars}"));
    Ok(jars)
}

/// Runs Maven, with its local repository alone if that has all.
fn maven(pom: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut said = String::new();
    for network in ["-o", "-nsu"] {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", network]).arg("-f").arg(pom).args(arguments);
        if env::var_os("MAVEN_OPTS").is_none() {
            maven.env("MAVEN_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC");
        }
        let output = maven.output().map_err(|error| format!("there is no `mvn`: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        said = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    Err(format!("`mvn` fails: {said}"))
}

/// Whether an error of [`maven`] says that it is not there, or that it cannot load a plugin.
fn is_out_of_reach(error: &str) -> bool {
    let words = ["there is no `mvn`", "could not be resolved", "Could not resolve", "Could not transfer"];
    words.iter().any(|words| error.contains(words))
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
        let mut test: Vec<_> = test.iter().flat_map(|dir| all_sources(&module().join(dir))).collect();
        test.extend(sources(&example()));
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

/// Builds the jars as `docs/java.md` says, and installs none. The native library is missing at first, and then a file stands in for it.
#[test]
fn maven_builds_the_jars() {
    const TEST: &str = "maven_builds_the_jars";
    if let Some(why) = lack().or_else(|| class_path(VERSIONS[1]).err()) {
        return leave_out("kafka", TEST, &why);
    }
    let root = room(TEST);
    let java = root.join("bindings/java");
    for file in ["", "braidb", "braidb-native-linux-x86_64", "kafka-streams"] {
        fs::create_dir_all(java.join(file)).unwrap_or_else(|error| panic!("{}: {error}", java.display()));
        write(&java.join(file).join("pom.xml"), &read(&bindings().join(file).join("pom.xml")));
    }
    for module in ["braidb", "kafka-streams"] {
        run(Command::new("cp").arg("-r").arg(bindings().join(module).join("src")).arg(java.join(module)));
    }
    let native = java.join("braidb-native-linux-x86_64/pom.xml");
    let error = maven(&native, &["package"]).expect_err("there is no library");
    if is_out_of_reach(&error) {
        return leave_out("kafka", TEST, &error);
    }
    assert!(error.contains("Build the library first: cargo build --release -p braidb-jni"), "{error}");
    let built = root.join("target/release");
    fs::create_dir_all(&built).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    write(&built.join("libbraidb_jni.so"), "library");
    if let Err(error) = maven(&java.join("pom.xml"), &["package"]) {
        assert!(is_out_of_reach(&error), "{error}");
        return leave_out("kafka", TEST, &error);
    }
    for (module, content) in [
        ("braidb", "io/github/braidb/BraidDb.class"),
        ("braidb-native-linux-x86_64", "META-INF/native/linux-x86_64/libbraidb_jni.so"),
        ("kafka-streams", "io/github/braidb/streams/BraidStores.class"),
    ] {
        let jars = java.join(module).join("target");
        let jars = jars.read_dir().unwrap_or_else(|error| panic!("{}: {error}", jars.display()));
        let jars = jars.map(|entry| entry.expect("a directory can be read").path());
        let jar = jars.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "jar"));
        let listed = run(Command::new(program("jar"))
            .args(["--list", "--file"])
            .arg(jar.unwrap_or_else(|| panic!("{module} has no jar"))));
        assert!(listed.lines().any(|line| line == content), "{module}: {listed}");
    }
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
    // The example compiles the stores from their sources.
    for (dir, version) in
        [(module(), VERSIONS[1]), (module().join("tests"), VERSIONS[0]), (example(), VERSIONS[1])]
    {
        let pom = dir.join("pom.xml");
        for wanted in [
            format!("<kafka.version>{version}</kafka.version>"),
            format!("<version>{}-SNAPSHOT</version>", env!("CARGO_PKG_VERSION")),
        ] {
            assert!(read(&pom).contains(&wanted), "{} has no {wanted}", pom.display());
        }
    }
}
