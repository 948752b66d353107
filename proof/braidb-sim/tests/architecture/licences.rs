//! What `cargo metadata` says of the crates that the workspace is built from: their licences, and which crate uses which.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Allowed licences. They demand no more than that copies name the authors and carry the licence.
const ALLOWED: [&str; 11] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSL-1.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// For each crate of the workspace, the workspace crates that it may be built from.
const OURS: [(&str, &[&str]); 13] = [
    ("braidb-storage", &[]),
    ("braidb", &["braidb-storage"]),
    ("braidb-bench", &[]),
    ("braidb-device", &["braidb-storage"]),
    ("braidb-lab", &["braidb", "braidb-bench", "braidb-cli", "braidb-device"]),
    ("braidb-bindings", &["braidb"]),
    ("braidb-ffi", &[]),
    ("braidb-c", &["braidb", "braidb-bindings", "braidb-ffi"]),
    ("braidb-leveldb", &["braidb", "braidb-ffi"]),
    ("braidb-python", &["braidb", "braidb-bindings"]),
    ("braidb-jni", &["braidb", "braidb-bindings", "braidb-ffi"]),
    ("braidb-cli", &["braidb"]),
    ("braidb-sim", &["braidb", "braidb-storage"]),
];

/// One package, and the packages that it is built from, without dev-dependencies.
struct Package {
    name: String,
    licence: Option<String>,
    dependencies: Vec<String>,
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).output().expect("cargo can be run");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// All packages for this machine, by id.
fn packages() -> BTreeMap<String, Package> {
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo knows its host");
    let manifest = format!("{}/../../Cargo.toml", env!("CARGO_MANIFEST_DIR"));
    let metadata = cargo(&[
        "metadata",
        "--format-version=1",
        "--locked",
        "--filter-platform",
        host,
        "--manifest-path",
        &manifest,
    ]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo prints JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let mut packages = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let (name, licence) = (text(&package["name"]), package["license"].as_str().map(str::to_owned));
        packages.insert(text(&package["id"]), Package { name, licence, dependencies: Vec::new() });
    }
    for node in list(&metadata["resolve"]["nodes"]) {
        let is_built =
            |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        let built =
            list(&node["deps"]).into_iter().filter(is_built).map(|dependency| text(&dependency["pkg"]));
        packages.get_mut(&text(&node["id"])).expect("it is a package").dependencies = built.collect();
    }
    packages
}

#[test]
fn licences_are_allowed() {
    let packages = packages();
    let is_ours = |package: &Package| OURS.iter().any(|(name, _)| *name == package.name);
    let mut waiting: Vec<&String> = packages.iter().filter(|(_, p)| is_ours(p)).map(|(id, _)| id).collect();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if seen.insert(id) {
            waiting.extend(&packages[id].dependencies);
        }
    }
    assert!(seen.len() > 20, "only {} packages were found", seen.len());
    for package in seen.iter().map(|id| &packages[*id]) {
        let licence = package.licence.as_deref().unwrap_or("no licence");
        assert!(is_allowed(licence), "{} is under {licence}, which is not in the list", package.name);
    }
}

#[test]
fn our_crates_depend_one_way() {
    for package in packages().values().filter(|package| package.name.starts_with("braidb")) {
        let (_, may_use) = OURS
            .iter()
            .find(|(name, _)| *name == package.name)
            .unwrap_or_else(|| panic!("{} is new", package.name));
        let all = packages();
        for used in
            package.dependencies.iter().map(|id| &all[id].name).filter(|name| name.starts_with("braidb"))
        {
            assert!(may_use.contains(&used.as_str()), "{} must not use {used}", package.name);
        }
    }
}

/// Whether allowed licences alone can meet a licence expression.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = words.as_slice();
    any_of(&mut words) && words.is_empty()
}

fn any_of(words: &mut &[&str]) -> bool {
    let mut met = all_of(words);
    while let Some(("OR", rest)) = words.split_first().map(|(first, rest)| (*first, rest)) {
        *words = rest;
        // The right side is read too, even if the left one is met.
        met |= all_of(words);
    }
    met
}

fn all_of(words: &mut &[&str]) -> bool {
    let mut met = one(words);
    while let Some(("AND", rest)) = words.split_first().map(|(first, rest)| (*first, rest)) {
        *words = rest;
        met &= one(words);
    }
    met
}

fn one(words: &mut &[&str]) -> bool {
    let Some((&first, rest)) = words.split_first() else { return false };
    *words = rest;
    if first == "(" {
        let met = any_of(words);
        let closed = words.first() == Some(&")");
        *words = words.get(1..).unwrap_or_default();
        return met && closed;
    }
    if let ["WITH", exception, rest @ ..] = *words {
        let whole = format!("{first} WITH {exception}");
        *words = rest;
        return ALLOWED.contains(&whole.as_str());
    }
    ALLOWED.contains(&first)
}

#[test]
fn expressions_are_understood() {
    for good in
        ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "Unlicense OR MIT"]
    {
        assert!(is_allowed(good), "{good}");
    }
    for bad in
        ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-3.0", "", "(MIT", "Apache-2.0 WITH other"]
    {
        assert!(!is_allowed(bad), "{bad}");
    }
}
