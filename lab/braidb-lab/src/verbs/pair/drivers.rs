//! Builds the driver of a side: one driver of HEAD, linked to the engine of any commit.
//!
//! A commit is checked out once into scratch/pair/COMMIT and stays there. This module generates a package for its driver in
//! scratch/pair/drivers/COMMIT. The package depends on the engine of the commit and on the workloads of the working tree. The sources of
//! all drivers are lab/rivals/adapter.

use super::git::git;
use super::host;
use super::side::Side;
use braidb_bench::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names a program to run instead of building drivers. The tests of this tool set it to a program that measures nothing.
const INSTEAD: &str = "BRAIDB_PAIR_DRIVER";

/// Builds the driver of a side.
pub fn build(root: &Path, side: &Side) -> Outcome<PathBuf> {
    if let Some(program) = host::path_of(INSTEAD) {
        return Ok(program);
    }
    let scratch = root.join("scratch/pair");
    let checkout = match &side.commit {
        Some(commit) => checkout(root, commit)?,
        None => root.to_owned(),
    };
    let name = side.commit.as_deref().unwrap_or("working-tree");
    let package = scratch.join("drivers").join(name);
    host::create_dir(&package)?;
    host::write_text(&package.join("Cargo.toml"), &manifest(root, &checkout, name))?;
    give_versions(root, &package)?;
    let target = scratch.join("target");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--target-dir"]).arg(&target).arg("--manifest-path");
    cargo.arg(package.join("Cargo.toml")).env("BRAIDB_ENGINE", checkout.join("crates/braidb"));
    cargo.env("BRAIDB_ENGINE_NAME", side.commit.as_deref().unwrap_or("the working tree"));
    let status =
        cargo.status().map_err(|error| format!("could not start cargo: {error}; run `make setup`"))?;
    if !status.success() {
        return Err(format!(
            "the driver of {} does not build: see above, and {}",
            side.name,
            package.display()
        )
        .into());
    }
    // The next build replaces cargo's own file, so the measurement runs a copy.
    let kept = package.join("driver");
    host::copy(&target.join("release").join(binary(name)), &kept)?;
    Ok(kept)
}

/// Gives the driver the versions of dependencies in the working tree's Cargo.lock, so that both sides have equal versions. A driver that is
/// built already gets the versions again when they change. Cargo adds to Cargo.lock what an old commit needs, so given.lock keeps what was
/// given.
fn give_versions(root: &Path, package: &Path) -> Outcome {
    let given = package.join("given.lock");
    if let Some(versions) = host::read_text(&root.join("Cargo.lock"))?
        && host::read_text(&given)?.as_ref() != Some(&versions)
    {
        host::write_text(&package.join("Cargo.lock"), &versions)?;
        host::write_text(&given, &versions)?;
    }
    Ok(())
}

/// Builds the command of a commit that has `bench`, and returns its path: `braidb`, or `braidb-lab` since there is one. `braidb` lies beside.
pub fn command(root: &Path, commit: &str, target: &Path) -> Outcome<PathBuf> {
    let checkout = checkout(root, commit)?;
    let has_lab = checkout.join("lab/braidb-lab").exists();
    let (package, program) = if has_lab { ("braidb-lab", "braidb-lab") } else { ("braidb-cli", "braidb") };
    cargo(&checkout, &["-p", "braidb-cli", "-p", package], target)?;
    Ok(target.join("release").join(program))
}

/// Builds packages for release.
pub fn cargo(directory: &Path, packages: &[&str], target: &Path) -> Outcome {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--target-dir"]).arg(target).args(packages);
    let status = cargo.current_dir(directory).status();
    match status.map_err(|error| format!("could not start cargo: {error}; run `make setup`"))?.success() {
        true => Ok(()),
        false => Err(format!("{} does not build: see above", directory.display()).into()),
    }
}

/// The directory with the sources of a commit.
fn checkout(root: &Path, commit: &str) -> Outcome<PathBuf> {
    let checkout = root.join("scratch/pair").join(commit);
    if !checkout.join("Cargo.toml").exists() {
        // Removes the rest of a checkout that was interrupted, and git's entry of a checkout that a person removed.
        host::remove_dir(&checkout)?;
        git(root, &["worktree", "prune"])?;
        let place = checkout.to_string_lossy();
        git(root, &["worktree", "add", "--quiet", "--detach", &place, commit])?;
    }
    match checkout.join("crates/braidb/Cargo.toml").exists() {
        true => Ok(checkout),
        false => Err(format!("commit {commit} has no engine in crates/braidb").into()),
    }
}

/// The name of a driver's package and program.
fn binary(name: &str) -> String {
    format!("driver-{}", &name[..name.len().min(12)])
}

/// The manifest of a driver's package. Rust's `Debug` escapes a path without control characters as TOML wants it.
fn manifest(root: &Path, checkout: &Path, name: &str) -> String {
    let (engine, bench) = (checkout.join("crates/braidb"), root.join("lab/braidb-bench"));
    let adapter = root.join("lab/rivals/adapter");
    let (main, build) = (adapter.join("main.rs"), adapter.join("build.rs"));
    let binary = binary(name);
    format!(
        r#"# Written by braidb-lab pair, see lab/braidb-lab/src/verbs/pair/drivers.rs.
[workspace]

[package]
name = "{binary}"
version = "0.0.0"
edition = "2024"
publish = false
build = {build:?}

[[bin]]
name = "{binary}"
path = {main:?}

[dependencies]
braidb = {{ path = {engine:?} }}
braidb-bench = {{ path = {bench:?} }}
clap = {{ version = "4.5", features = ["derive", "wrap_help"] }}
serde_json = "1"

# As in the engine's workspace.
[profile.release]
lto = "fat"
codegen-units = 1
panic = "unwind"
debug = "line-tables-only"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_was_built_before_gets_new_versions() {
        let root = std::env::temp_dir().join(format!("braidb-pair-versions-{}", std::process::id()));
        let package = root.join("package");
        host::create_dir(&package).unwrap();
        let versions = |text: &str| {
            host::write_text(&root.join("Cargo.lock"), text).unwrap();
            give_versions(&root, &package).unwrap();
            host::read_text(&package.join("Cargo.lock")).unwrap().unwrap()
        };
        assert_eq!(versions("old"), "old");
        // Cargo adds entries like this for an old commit.
        host::write_text(&package.join("Cargo.lock"), "old and more").unwrap();
        assert_eq!(versions("old"), "old and more");
        assert_eq!(versions("new"), "new");
        host::remove_dir(&root).unwrap();
    }

    #[test]
    fn a_manifest_names_the_engine_of_the_commit_and_the_workloads_of_here() {
        let text = manifest(
            Path::new("/here"),
            Path::new("/here/scratch/pair/0123456789abcdef"),
            "0123456789abcdef",
        );
        for expected in [
            r#"name = "driver-0123456789ab""#,
            r#"braidb = { path = "/here/scratch/pair/0123456789abcdef/crates/braidb" }"#,
            r#"braidb-bench = { path = "/here/lab/braidb-bench" }"#,
            r#"path = "/here/lab/rivals/adapter/main.rs""#,
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
