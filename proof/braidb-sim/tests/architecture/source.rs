//! The sources of the workspace, with comments and contents of literals removed.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file.
pub struct Source {
    /// The path from the root of the workspace.
    pub path: String,
    /// The text without comments and contents of literals. Line breaks stay.
    pub code: String,
    pub without_comments: String,
}

impl Source {
    /// Whether the file is a test, a benchmark or an example, and so no part of the engine or a tool.
    pub fn is_test(&self) -> bool {
        ["/tests/", "/tests.rs", "/examples/"].iter().any(|part| self.path.contains(part))
    }

    /// Where `word` stands in the code as a whole word.
    pub fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let places = self.code.match_indices(word).map(|(at, _)| at);
        places.filter(move |&at| {
            let (before, after) = (&self.code[..at], &self.code[at + word.len()..]);
            !before.ends_with(is_part) && (!word.ends_with(is_part) || !after.starts_with(is_part))
        })
    }
}

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a text file of the workspace.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The directories that hold the members of the workspace: the product, its bindings, its proof, and the laboratory.
pub const ROOFS: [&str; 4] = ["crates", "bindings", "proof", "lab"];

/// Every Rust file below [`ROOFS`]. `lab/rivals` is left out: it is a workspace of its own.
pub fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    for roof in ROOFS {
        collect(&root().join(roof), &mut paths);
    }
    paths.retain(|path| !path.starts_with(root().join("lab/rivals")));
    paths.sort();
    assert!(paths.len() > 100, "only {} sources were found", paths.len());
    paths.iter().map(|path| load(path)).collect()
}

fn collect(dir: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the directory can be listed") {
        let path = entry.expect("the directory can be listed").path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

fn load(path: &Path) -> Source {
    let text = fs::read_to_string(path).expect("a source is text");
    let path = path.strip_prefix(root()).expect("it lies below the root").to_str().expect("names are UTF-8");
    Source { path: path.to_owned(), code: strip(&text, false), without_comments: strip(&text, true) }
}

/// Removes comments, and the contents of literals too unless `with_literals`.
fn strip(text: &str, with_literals: bool) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (len, is_literal) = token(rest, out.chars().next_back());
        let (head, tail) = rest.split_at(len);
        rest = tail;
        if len == first.len_utf8() || (is_literal && with_literals) {
            out.push_str(head);
        } else {
            // A literal becomes a pair of quotes, a comment a space. Both keep their line breaks.
            out.push_str(if is_literal { "\"\"" } else { " " });
            out.extend(head.chars().filter(|c| *c == '\n'));
        }
    }
    out
}

/// The length of the comment or literal that `rest` starts with, or else of one character. Also returns whether it is a
/// literal.
fn token(rest: &str, before: Option<char>) -> (usize, bool) {
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let first = rest.chars().next().expect("there is more").len_utf8();
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), false);
    }
    if rest.starts_with("/*") {
        return (rest.find("*/").map_or(rest.len(), |at| at + 2), false);
    }
    if let Some(raw) = rest.strip_prefix('r').filter(|_| !in_word || before == Some('b')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let start = 2 + hashes;
            let end = format!("\"{}", "#".repeat(hashes));
            return (rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()), true);
        }
    }
    if rest.starts_with('"') {
        return (end_of_quotes(rest, '"'), true);
    }
    // A quote starts a character or a lifetime.
    let mut after = rest.strip_prefix('\'').unwrap_or_default().chars();
    match (after.next(), after.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => (end_of_quotes(rest, '\''), true),
        _ => (first, false),
    }
}

/// The end of the literal that starts with a quote.
fn end_of_quotes(rest: &str, quote: char) -> usize {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn comments_and_literals_are_left_out() {
    let text = "a // b\n\"c // \\\" d\" e /* f\n */ '\"' g 'h, r#\"i\"j\"# k";
    assert_eq!(strip(text, false), "a  \n\"\" e  \n \"\" g 'h, \"\" k");
    assert_eq!(strip(text, true), "a  \n\"c // \\\" d\" e  \n '\"' g 'h, r#\"i\"j\"# k");
}
