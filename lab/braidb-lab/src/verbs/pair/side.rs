//! A side of a comparison in the form of the command line: `COMMIT` or `.`, and options.

use super::git;
use braidb_bench::Outcome;
use std::path::Path;

/// One side of a comparison: an engine and the options that open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// The text of the command line, with one space between words. It names the side in tables and rows.
    pub name: String,
    /// The full hash of a commit; `None` for the working tree.
    pub commit: Option<String>,
    /// Options of the engine and their values.
    pub options: Vec<(String, String)>,
}

impl Side {
    /// Reads `ae2ffe8 l0_overlap=0 guards=none`.
    pub fn read(root: &Path, text: &str) -> Outcome<Side> {
        let mut words = text.split_whitespace();
        let commit = match words.next() {
            None => return Err("a side is empty; name a commit, or . for the working tree".into()),
            Some(".") => None,
            Some(name) => Some(git::commit(root, name)?),
        };
        let mut options = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some((option, value)) if !option.is_empty() && !value.is_empty() => {
                    options.push((option.to_owned(), value.to_owned()));
                }
                _ => {
                    return Err(format!("{word:?} in the side {text:?} is not OPTION=VALUE").into());
                }
            }
        }
        let name = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        Ok(Side { name, commit, options })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Outcome<Side> {
        Side::read(Path::new(env!("CARGO_MANIFEST_DIR")), text)
    }

    #[test]
    fn the_working_tree_with_options() {
        let side = read(" .  guards=none l0_overlap=0").unwrap();
        assert_eq!(side.name, ". guards=none l0_overlap=0");
        assert_eq!(side.commit, None);
        let options = [("guards", "none"), ("l0_overlap", "0")];
        assert_eq!(side.options, options.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_wrong_side_is_refused_with_its_word() {
        for (text, expected) in [
            ("", "empty"),
            (". guards", "\"guards\""),
            (". guards=", "\"guards=\""),
            ("no-such-commit", "no-such-commit is no commit"),
            ("--all", "--all is no commit"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
