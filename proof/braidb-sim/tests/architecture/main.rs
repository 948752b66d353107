//! The structure that ARCHITECTURE.md promises, checked against the sources: which module may use which, and where files,
//! clocks, randomness and threads may be used. Also checks the licences of dependencies, and that the document is true.
#![allow(clippy::disallowed_methods, reason = "reads the sources of the workspace")]

mod licences;
mod source;

use source::{Source, sources};
use std::collections::BTreeSet;
use std::path::Path;

/// The modules of `braidb`. Each may use itself and later ones.
const ORDER: [&str; 13] = [
    "db", "read", "jobs", "write", "plan", "memory", "version", "table", "value", "log", "cache", "visible",
    "base",
];

/// The rooms of `version`. Each may use itself and later ones.
const ROOMS_OF_VERSION: [&str; 6] = ["manifest", "state", "shape", "table_file", "usage", "directory"];

/// Lines of the longest source file allowed.
const MAX_LINES: usize = 700;

/// Lines of the longest function of the product.
const MAX_FUNCTION_LINES: usize = 70;

/// Functions that may be longer: the path, the name, and the reason.
const LONG_FUNCTIONS: [(&str, &str, &str); 2] = [
    ("crates/braidb/src/version/state/edit.rs", "encode", "one short arm for each field of an edit"),
    ("crates/braidb/src/base/error.rs", "fmt", "one short arm for each error"),
];

/// Names whose effects differ from run to run. Only the seams of `braidb-storage` may use them.
const AMBIENT: [&str; 13] = [
    "std::fs",
    "std::thread",
    "Instant",
    "SystemTime",
    "RandomState",
    "HashMap",
    "HashSet",
    "getrandom",
    "rand::",
    // The last bit of these functions' results depends on the version of the C library. The crate libm has replacements.
    ".exp(",
    ".exp2(",
    ".ln(",
    ".powf(",
];

/// Exceptions from [`AMBIENT`]: the path, the word (all words if empty), and the reason.
const MAY_BE_AMBIENT: [(&str, &str, &str); 12] = [
    ("crates/braidb-storage/", "", "the seams themselves"),
    ("lab/braidb-lab/src/verbs/pair/host.rs", "", "files and time of a tool that starts processes in turns"),
    ("crates/braidb-cli/src/host/", "", "the command's own files and clock"),
    (
        "crates/braidb/src/cache/values.rs",
        "HashMap",
        "its hasher has no seed, and nothing walks over the map",
    ),
    ("lab/braidb-bench/src/draws.rs", ".powf(", "draws of a benchmark are many, and libm's takes longer"),
    ("lab/braidb-bench/src/host/", "", "the clock, processes and files of benchmarks"),
    ("lab/braidb-bench/src/run.rs", "std::thread", "threads that read and write are what it measures"),
    (
        "lab/braidb-lab/src/verbs/bench/steady/mod.rs",
        "std::thread",
        "the threads of the load are what it measures",
    ),
    (
        "crates/braidb/src/write/queue/waiting.rs",
        "std::thread",
        "lets other threads run where threads meet; a stepped runtime has one thread, which meets no other",
    ),
    (
        "bindings/python/braidb-python/src/interrupts.rs",
        "std::thread",
        "the thread that works while another one waits for Ctrl-C",
    ),
    ("proof/braidb-sim/src/judge/writers/", "std::thread", "judges writers on real threads"),
    ("proof/braidb-sim/src/judge/isolation/", "std::thread", "judges transactions on real threads"),
];

/// Nouns that ARCHITECTURE.md must define.
const NOUNS: [&str; 28] = [
    "segment",
    "pipeline",
    "flushing set",
    "commit log",
    "body",
    "table",
    "Bloom filter",
    "block cache",
    "level",
    "guard",
    "cell",
    "run",
    "slice",
    "tier",
    "column family",
    "sequence number",
    "tombstone",
    "snapshot",
    "view",
    "plan",
    "claim",
    "job",
    "edit",
    "manifest",
    "debt",
    "write stall",
    "value",
    "batch",
];

/// The module of `braidb` that a file belongs to, and the depth of the file's own module. `None` for the root.
fn module_of(source: &Source) -> Option<(&str, usize)> {
    let path = source.path.strip_prefix("crates/braidb/src/")?.strip_suffix(".rs")?;
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.last() == Some(&"mod") {
        parts.pop();
    }
    if parts == ["lib"] { None } else { Some((parts[0], parts.len())) }
}

/// The names that follow a path's start at `at`: one, or the first names of a group in braces.
fn heads(code: &str, at: usize) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let rest = code[at..].trim_start();
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut depth, mut heads, mut start) = (0, vec![name(group)], 0);
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = i + 1,
            _ => {}
        }
        if start == i + 1 {
            heads.push(name(&group[start..]));
        }
    }
    heads
}

/// Every module right below `parent` that a file of `braidb` names: by a path that begins with `parent`, or by `super` up to it, `depth`
/// times.
fn used_modules(code: &str, parent: &str, depth: usize) -> Vec<String> {
    let is_start = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let mut used = Vec::new();
    for (at, found) in code.match_indices(parent) {
        if is_start(at) {
            used.extend(heads(code, at + found.len()));
        }
    }
    for (at, _) in code.match_indices("super::") {
        let rest = &code[at..];
        let ups = rest.split("::").take_while(|part| *part == "super").count();
        if is_start(at) && ups >= depth {
            used.extend(heads(rest, ups * "super::".len()));
        }
    }
    used
}

#[test]
fn every_member_stands_under_a_roof() {
    let manifest = source::read("Cargo.toml");
    let members = manifest.split("\nmembers = [").nth(1).expect("the workspace has members");
    let members: Vec<&str> = quoted_by('"', members.split(']').next().expect("the list ends")).collect();
    assert!(members.len() > 5, "{members:?}");
    for member in members {
        let roof = member.split('/').next().expect("a path has a first part");
        assert!(source::ROOFS.contains(&roof), "{member} stands under none of {:?}", source::ROOFS);
    }
}

#[test]
fn no_arrow_runs_up() {
    let rank = |module: &str| ORDER.iter().position(|known| *known == module);
    let (mut arrows, mut wrong) = (0, Vec::new());
    for source in sources() {
        let Some((module, depth)) = module_of(&source) else { continue };
        let own = rank(module).unwrap_or_else(|| panic!("{} is in no module of ORDER", source.path));
        for used in used_modules(&source.code, "crate::", depth) {
            let Some(other) = rank(&used) else { continue };
            arrows += 1;
            if other < own {
                wrong.push(format!("{}: {module} uses {used}", source.path));
            }
        }
    }
    assert!(arrows > 300, "only {arrows} paths were found: the scan is blind");
    assert!(wrong.is_empty(), "modules that use earlier modules of ORDER:\n{}", wrong.join("\n"));
}

#[test]
fn no_arrow_runs_up_in_version() {
    let rank = |room: &str| ROOMS_OF_VERSION.iter().position(|known| *known == room);
    let (mut arrows, mut wrong) = (0, Vec::new());
    for source in sources() {
        let Some(path) = source.path.strip_prefix("crates/braidb/src/version/") else { continue };
        let Some(room) = path.split('/').next().filter(|room| !["mod.rs", "tests"].contains(room)) else {
            continue;
        };
        let own = rank(room).unwrap_or_else(|| panic!("{} is in no room of ROOMS_OF_VERSION", source.path));
        let (_, depth) = module_of(&source).expect("it lies in `version`");
        for other in used_modules(&source.code, "crate::version::", depth - 1) {
            let Some(used) = rank(&other) else { continue };
            arrows += 1;
            if used < own {
                wrong.push(format!("{}: {room} uses {other}", source.path));
            }
        }
    }
    assert!(arrows > 10, "only {arrows} paths were found: the scan is blind");
    assert!(wrong.is_empty(), "rooms that use earlier rooms of `version`:\n{}", wrong.join("\n"));
}

#[test]
fn arrows_are_found_in_every_form() {
    let used = |code: &str| used_modules(code, "crate::", 2);
    assert_eq!(used("use crate::db::Db; fn f() { crate::log::scan() }"), ["db", "log"]);
    assert_eq!(used("use crate::{base::{ids, key}, db::{Db, Iter}, write};"), ["base", "db", "write"]);
    assert_eq!(used("use super::super::jobs::Jobs; use super::batch;"), ["jobs"]);
    assert_eq!(used("$crate::base::mutant::is_active(x); my_crate::db::x()"), ["base"]);
}

#[test]
fn every_module_has_its_place() {
    let root = source::read("crates/braidb/src/lib.rs");
    for line in root.lines().filter_map(|line| line.strip_prefix("mod ")) {
        let module = line.trim_end_matches(';');
        assert!(ORDER.contains(&module), "module {module} has no place in the order of dependencies");
    }
}

/// Whether the code uses `word`, also through a group of imports.
fn uses(source: &Source, word: &str) -> bool {
    let in_group = |module: &str| {
        let starts = source.code.match_indices("std::{");
        starts.flat_map(|(at, _)| heads(&source.code, at + "std::".len())).any(|head| head == module)
    };
    // `panicking` asks whether a panic is under way, and a `LocalKey` belongs to one thread. Neither makes runs differ.
    let harmless = ["std::thread::panicking", "std::thread::LocalKey"];
    let is_harmless = |at: usize| harmless.iter().any(|name| source.code[at..].starts_with(name));
    source.words(word).any(|at| !is_harmless(at)) || word.strip_prefix("std::").is_some_and(in_group)
}

#[test]
fn only_the_seams_touch_the_machine() {
    let mut wrong = Vec::new();
    let sources = sources();
    for source in sources.iter().filter(|source| !source.is_test()) {
        for word in AMBIENT {
            let is_allowed = MAY_BE_AMBIENT
                .iter()
                .any(|(path, only, _)| source.path.starts_with(path) && (only.is_empty() || *only == word));
            if uses(source, word) && !is_allowed {
                wrong.push(format!("{} uses {word}", source.path));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "these files use the machine directly, instead of a seam of braidb-storage:\n{}",
        wrong.join("\n")
    );
    for (path, word, _) in MAY_BE_AMBIENT {
        let is_needed = |source: &&Source| {
            source.path.starts_with(path)
                && AMBIENT.iter().any(|w| (word.is_empty() || *w == word) && uses(source, w))
        };
        assert!(sources.iter().any(|source| is_needed(&source)), "{path} needs no exception for {word}");
    }
}

#[test]
fn mutants_are_listed_and_planted() {
    let mut planted = BTreeSet::new();
    for source in sources() {
        // The names are string literals, which `code` omits.
        for (at, call) in source.without_comments.match_indices("mutant!(\"") {
            let name = &source.without_comments[at + call.len()..];
            planted.insert(name[..name.find('"').expect("the literal ends")].to_owned());
        }
    }
    let listed: BTreeSet<String> = braidb::mutants::ALL.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed.len(), braidb::mutants::ALL.len(), "a mutant is listed twice");
    assert_eq!(planted, listed, "planted (left) and listed in base/mutant.rs (right) differ");
    let document = source::read("docs/crash-safety.md");
    for name in &listed {
        assert!(
            document.contains(&format!("`{name}`")),
            "docs/crash-safety.md does not say which rule {name} breaks"
        );
    }
}

#[test]
fn files_are_short_and_finished() {
    let mut wrong = Vec::new();
    for source in sources() {
        let lines = source.code.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{} has {lines} lines", source.path));
        }
        for unfinished in ["todo!", "unimplemented!", "dbg!"] {
            if source.words(unfinished).next().is_some() {
                wrong.push(format!("{} has {unfinished}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The functions of a file that rustfmt has laid out, each with its lines.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let (indent, text) = line.split_at(line.len() - line.trim_start().len());
        let Some((before, name)) = text.split_once("fn ") else { continue };
        let is_head = before.split_whitespace().all(|word| {
            ["const", "unsafe", "async", "extern", "\"\""].contains(&word) || word.starts_with("pub")
        });
        if !is_head {
            continue;
        }
        let is_end = |line: &&str| {
            line.strip_prefix(indent).is_some_and(|rest| rest.ends_with(['}', ';']) && !rest.starts_with(' '))
        };
        let name =
            name.split(|c: char| !c.is_alphanumeric() && c != '_').next().expect("split gives one part");
        let length = lines[at..].iter().position(is_end).map_or(1, |end| end + 1);
        functions.push((name, length));
    }
    functions
}

#[test]
fn functions_fit_a_screen() {
    let (mut found, mut wrong) = (0, Vec::new());
    let mut exceptions: BTreeSet<(&str, &str)> =
        LONG_FUNCTIONS.iter().map(|&(path, name, _)| (path, name)).collect();
    let sources = sources();
    let is_product = |source: &&Source| source.path.starts_with("crates/") && !source.is_test();
    for source in sources.iter().filter(is_product) {
        for (name, lines) in functions(&source.code) {
            found += 1;
            if lines > MAX_FUNCTION_LINES && !exceptions.remove(&(source.path.as_str(), name)) {
                wrong.push(format!("{}: {name} has {lines} lines", source.path));
            }
        }
    }
    assert!(found > 2_000, "only {found} functions were found: the scan is blind");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(exceptions.is_empty(), "these need no exception: {exceptions:?}");
}

#[test]
fn lengths_of_functions_are_counted() {
    let code = "impl A {\n    pub(super) fn one(\n        x: u8,\n    ) {\n        x;\n    }\n}\nfn two() {}\ntrait T {\n    fn three(&self);\n}\n";
    assert_eq!(functions(code), [("one", 5), ("two", 1), ("three", 1)]);
}

#[test]
fn modules_with_files_of_their_own_begin_in_mod_rs() {
    let beside_their_folders: Vec<String> = sources()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| {
            let folder = source::root().join(path.trim_end_matches(".rs"));
            let mut files = folder.read_dir().into_iter().flatten().flatten();
            files.any(|file| file.path().extension().is_some_and(|extension| extension == "rs"))
        })
        .collect();
    assert!(
        beside_their_folders.is_empty(),
        "these files belong in their folders, as mod.rs: {beside_their_folders:?}"
    );
}

/// One file compares memory and logs with their thresholds. The compiler enforces it as long as no field of `MemoryLimits` is public
/// and no other method returns the options.
#[test]
fn one_file_reads_the_memory_limits() {
    let limits = source::read("crates/braidb/src/plan/memory/limits.rs");
    let fields = limits.split("pub struct MemoryLimits {").nth(1).expect("the struct is there");
    let fields = fields.split('}').next().expect("the struct ends");
    assert!(!fields.contains("pub"), "a field of MemoryLimits is public: {fields}");
    assert!(!limits.contains("-> MemoryOptions") && !limits.contains("-> &MemoryOptions"));
    let makers: Vec<String> = sources()
        .into_iter()
        .filter(|source| source.path.starts_with("crates/braidb/src/") && !source.is_test())
        .filter(|source| source.words("MemoryOptions").next().is_some())
        .map(|source| source.path)
        .filter(|path| !path.starts_with("crates/braidb/src/plan/memory/"))
        .collect();
    assert_eq!(makers, ["crates/braidb/src/db/options.rs"], "the options of memory are made in one place");
}

/// The files of `braidb` that have public types. Each such type must have an example in its documentation.
const PUBLIC: [&str; 15] = [
    "base/durability.rs",
    "base/error.rs",
    "base/report.rs",
    "base/value.rs",
    "db/batch.rs",
    "db/bounds.rs",
    "db/database.rs",
    "db/family.rs",
    "db/iter.rs",
    "db/mod.rs",
    "db/options.rs",
    "db/snapshot.rs",
    "db/stats.rs",
    "db/tree.rs",
    "db/tuning.rs",
];

/// Whether the documentation right above line `at` has an example.
fn has_example(lines: &[&str], at: usize) -> bool {
    let above = lines[..at].iter().rev().map(|line| line.trim());
    above
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .any(|line| line.starts_with("/// ```"))
}

#[test]
fn every_public_type_and_main_method_has_an_example() {
    let mut without = Vec::new();
    let engine = PUBLIC.iter().map(|file| format!("crates/braidb/src/{file}"));
    let storage = sources().into_iter().map(|source| source.path);
    // The simulated file system is for tests of this repository.
    let is_public = |path: &String| {
        path.starts_with("crates/braidb-storage/src/") && !path.starts_with("crates/braidb-storage/src/sim/")
    };
    let storage = storage.filter(is_public);
    for path in engine.chain(storage) {
        let text = source::read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let is_type =
                ["pub struct ", "pub enum ", "pub trait "].iter().any(|word| line.starts_with(word));
            let is_method = path.ends_with("/db/mod.rs") && line.starts_with("    pub fn ");
            if (is_type || is_method) && !has_example(&lines, at) {
                without.push(format!("{path}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    assert!(without.is_empty(), "{}", without.join("\n"));
}

/// The texts in backticks in `text`.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    quoted_by('`', text)
}

fn quoted_by(mark: char, text: &str) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

#[test]
fn each_noun_has_its_file() {
    let document = source::read("ARCHITECTURE.md");
    let section =
        document.split("\n## ").find(|section| section.starts_with("Nouns")).expect("a section `Nouns`");
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| noun"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for row in &rows {
        let &[noun, meaning, files] = row.as_slice() else {
            panic!("a row of the nouns has no three cells: {row:?}")
        };
        assert!(!meaning.is_empty(), "{noun} has no meaning");
        assert!(quoted(files).next().is_some(), "{noun} has no file");
        for file in quoted(files) {
            assert!(
                source::root().join("crates/braidb/src").join(file).is_file(),
                "{noun}: there is no {file}"
            );
        }
    }
    for noun in NOUNS {
        assert!(rows.iter().any(|row| row[0] == noun), "ARCHITECTURE.md has no row for the noun {noun:?}");
    }
}

/// Every document that must stay true.
fn documents() -> Vec<String> {
    let mut documents: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned).to_vec();
    documents.extend(source::ROOFS.map(|roof| format!("{roof}/README.md")));
    documents.push("lab/braidb-lab/README.md".to_owned());
    for dir in ["docs", "docs/decisions"] {
        for entry in std::fs::read_dir(source::root().join(dir)).expect("the repository has documents") {
            let name =
                entry.expect("a directory can be read").file_name().into_string().expect("names are UTF-8");
            documents.extend(name.ends_with(".md").then(|| format!("{dir}/{name}")));
        }
    }
    assert!(documents.len() > 20, "{documents:?}");
    documents
}

#[test]
fn documents_name_only_what_exists() {
    for document in documents() {
        let text = source::read(&document);
        let dir = source::root().join(&document).parent().expect("it lies in the root").to_owned();
        for path in quoted(&text).filter(|text| is_path(text)) {
            let exists = |base: &Path| base.join(path).exists();
            let bases = [source::root(), source::root().join("crates/braidb/src"), dir.clone()];
            let is_known = bases.iter().any(|base| exists(base));
            assert!(is_known, "{document} names {path}, which does not exist");
        }
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let file = link.split('#').next().expect("split gives one part");
            assert!(dir.join(file).exists(), "{document} links to {link}, which does not exist");
        }
    }
}

/// Whether a quoted text names a file of the repository.
fn is_path(text: &str) -> bool {
    let is_file =
        [".rs", ".md", ".toml", ".sh"].iter().any(|end| text.ends_with(end)) || text.starts_with("scripts/");
    is_file && !text.contains([' ', '*', '<', '…'])
}
