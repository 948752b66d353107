//! `scripts/install` where it builds the libraries. The other tests install what cargo built for them.

use crate::tools::{self, Scratch, bindings};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Makes a program that a script of the shell stands for.
fn program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("a program can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program can be run");
}

/// Cargo's configuration may name any directory for what it builds. The script takes the libraries from where cargo says they are.
#[test]
fn the_script_finds_what_cargo_built() {
    let scratch = Scratch::new("installation");
    let (programs, built) = (scratch.database().join("programs"), scratch.database().join("x86/a release"));
    let prefix = scratch.database().join("prefix");
    for dir in [&programs, &built] {
        fs::create_dir_all(dir).expect("a directory can be made");
    }
    for (file, text) in [("libbraidb_c.so", "shared"), ("libbraidb_c.a", "static")] {
        fs::write(built.join(file), text).expect("a library can be written");
    }
    let artifact = |name: &str, files: &str| {
        format!(
            r#"{{"reason":"compiler-artifact","target":{{"name":"{name}"}},"filenames":[{files}],"fresh":true}}"#
        )
    };
    let file = |extension| format!(r#""{}/libbraidb_c.{extension}""#, built.display());
    let printed = [
        artifact("braidb", r#""/elsewhere/libbraidb.rlib""#),
        artifact("braidb_c", &[file("so"), file("a"), file("rlib")].join(",")),
        r#"{"reason":"build-finished","success":true}"#.to_owned(),
    ];
    program(&programs.join("cargo"), &format!("cat <<'END'\n{}\nEND", printed.join("\n")));
    // The libraries are none, so nothing can be stripped from them.
    program(&programs.join("strip"), "exit 0");
    let path = format!("{}:{}", programs.display(), env::var("PATH").expect("there is a path"));
    let mut install = Command::new(bindings().join("../../scripts/install"));
    install.arg(&prefix).args(["--library", "braidb"]).env("PATH", path).env_remove("CARGO_TARGET_DIR");
    tools::run(&mut install);
    assert_eq!(tools::read(prefix.join("lib/libbraidb.so.0")), "shared");
    assert_eq!(tools::read(prefix.join("lib/libbraidb.a")), "static");
    program(&programs.join("cargo"), "echo '{\"reason\":\"build-finished\",\"success\":true}'");
    let refused = install.output().expect("the script runs");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--from"));
}
