//! Queries to git: the root of the repository, commits, and a hash of the sources.

use super::host;
use braidb_bench::Outcome;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The paths that a line of `regress` depends on. Documents are left out, so that a change of a document does not discard a row.
const SOURCES: [&str; 6] = ["crates", "proof", "lab", "scripts", "Cargo.toml", "Cargo.lock"];

/// Runs git in `directory` and returns what it prints, without the last line end.
pub fn git(directory: &Path, arguments: &[&str]) -> Outcome<String> {
    said(Command::new("git").current_dir(directory).args(arguments))
}

fn said(command: &mut Command) -> Outcome<String> {
    let output = command.output().map_err(|error| format!("could not start git: {error}; install it"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", complaint.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The root of the repository around the working directory.
pub fn root() -> Outcome<PathBuf> {
    git(Path::new("."), &["rev-parse", "--show-toplevel"]).map(PathBuf::from)
}

/// The full hash of the commit with the name `name`.
pub fn commit(root: &Path, name: &str) -> Outcome<String> {
    git(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")])
        .map_err(|_| {
            format!("{name} is no commit of {}; name a commit, or . for the working tree", root.display())
                .into()
        })
}

/// A hash of the sources in the working tree, with new files and without ignored files. Committing the working tree does not change the
/// hash.
pub fn hash_of_sources(root: &Path) -> Outcome<String> {
    // Git hashes the content of an index, so the sources go to a temporary index. It starts as a copy of the real index, which spares git
    // from reading each file.
    let index = std::env::temp_dir().join(format!("braidb-sources-{}.index", std::process::id()));
    let real = root.join(git(root, &["rev-parse", "--git-path", "index"])?);
    let hash = hash_with_index(root, &real, &index);
    host::remove_file(&index)?;
    hash
}

fn hash_with_index(root: &Path, real: &Path, index: &Path) -> Outcome<String> {
    if real.exists() {
        host::copy(real, index)?;
    }
    let with_index = |arguments: &[&str]| {
        said(Command::new("git").current_dir(root).env("GIT_INDEX_FILE", index).args(arguments))
    };
    for source in SOURCES {
        match root.join(source).exists() {
            true => with_index(&["add", "--all", "--", source])?,
            false => with_index(&["rm", "-r", "--cached", "--quiet", "--ignore-unmatch", "--", source])?,
        };
    }
    let mut listing = vec!["ls-files", "--stage", "--"];
    listing.extend(SOURCES);
    let mut hasher = DefaultHasher::new();
    with_index(&listing)?.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}
