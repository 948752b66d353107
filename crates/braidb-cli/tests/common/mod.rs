//! Tools that the tests of the command share: a directory for each test, and the real binary.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]
#![allow(dead_code, reason = "each test program uses its part of this")]

pub mod tiered;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A directory that is removed at the end. The database lies in its subdirectory [`Place::db`].
pub struct Place(PathBuf);

impl Place {
    pub fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("braidb-cli-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The directory of the database; not created here.
    pub fn db(&self) -> String {
        self.path("db").into_os_string().into_string().unwrap()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.into_os_string().into_string().unwrap()
    }

    /// The names in the directory of the database, sorted.
    pub fn db_files(&self) -> Vec<String> {
        names(&self.path("db"))
    }

    /// The database's only table.
    pub fn table(&self) -> PathBuf {
        let tables: Vec<String> =
            self.db_files().into_iter().filter(|name| name.ends_with(".table")).collect();
        assert_eq!(tables.len(), 1, "{tables:?}");
        self.path("db").join(&tables[0])
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The result of a run of the command.
#[derive(Debug)]
pub struct Run {
    pub status: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Run {
    /// The output as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    /// Fails unless the exit status is `status`.
    #[track_caller]
    pub fn exits(self, status: i32) -> Run {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Fails unless the output is equal to this, and the exit status is 0.
    #[track_caller]
    pub fn prints(self, text: &str) {
        let run = self.exits(0);
        assert_eq!(run.text(), text);
    }

    /// Fails unless standard error contains this.
    #[track_caller]
    pub fn tells(self, part: &str) -> Run {
        assert!(self.err.contains(part), "{part:?} is not in {self:?}");
        self
    }
}

/// Starts the command, with pipes.
pub fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_braidb"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs the command with nothing on standard input.
pub fn braidb(arguments: &[&str]) -> Run {
    braidb_with(arguments, b"")
}

/// Runs the command with `input` on standard input.
pub fn braidb_with(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = start(arguments);
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A verb that refuses its arguments does not read its input, so the write may fail.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    Run {
        status: output.status.code().expect("it was not killed"),
        out: output.stdout,
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Random bytes that depend on the seed alone.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Up to `longest` bytes of any kind.
    pub fn bytes(&mut self, longest: u64) -> Vec<u8> {
        let length = self.next() % (longest + 1);
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// `length` bytes of any kind.
    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}
