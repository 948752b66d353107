//! Tools that the tests of `braidb` and of `braidb-lab` share: a directory for each test, and runs of a real binary.

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

/// The result of a run of a program.
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

/// Starts a program, with pipes.
pub fn start(program: &str, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a program with `input` on standard input.
pub fn run(program: &str, arguments: &[&str], input: &[u8]) -> Run {
    let mut child = start(program, arguments);
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
