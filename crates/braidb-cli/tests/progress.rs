//! What a user sees on a terminal while a verb works: one line of whole numbers that fits in 80 columns, and nothing of it elsewhere.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

mod common;

use common::tiered::Tiered;
use common::{Place, braidb_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

const COLUMNS: u16 = 80;

/// What the command writes to standard error if it is a terminal, and its exit status.
fn on_a_terminal(arguments: &[&str], input: Option<&str>) -> (String, i32) {
    on_a_terminal_with(arguments, input, false)
}

/// As [`on_a_terminal`]. The terminal shows standard output too if `has_output`.
fn on_a_terminal_with(arguments: &[&str], input: Option<&str>, has_output: bool) -> (String, i32) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let screen = File::options().read(true).write(true).open(name).unwrap();
    let input = input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into());
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidb"));
    command.args(arguments).env("TERM", "xterm").env_remove("NO_COLOR");
    let output = if has_output { screen.try_clone().unwrap().into() } else { Stdio::null() };
    command.stdin(input).stdout(output).stderr(screen);
    let mut child = command.spawn().unwrap();
    // The child alone holds the terminal from here on, so reading ends with it.
    drop(command);
    let (mut terminal, mut shown, mut part) = (File::from(terminal), Vec::new(), [0; 4096]);
    while let Ok(bytes @ 1..) = terminal.read(&mut part) {
        shown.extend_from_slice(&part[..bytes]);
    }
    (String::from_utf8(shown).unwrap(), child.wait().unwrap().code().unwrap())
}

/// The texts that were shown in one line of the terminal, without control sequences.
fn lines(shown: &str) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut characters = shown.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => while characters.next().is_some_and(|character| !character.is_ascii_alphabetic()) {},
            '\r' | '\n' => texts.push(String::new()),
            other => texts.last_mut().unwrap().push(other),
        }
    }
    texts.iter().map(|text| text.trim_end().to_owned()).filter(|text| !text.is_empty()).collect()
}

/// Fails unless the command shows how far it is, in `words`, and nothing that does not fit or is no whole number.
#[track_caller]
fn shows(arguments: &[&str], input: Option<&str>, words: &str) {
    let (shown, status) = on_a_terminal(arguments, input);
    assert_eq!(status, 0, "{shown}");
    let bars: Vec<String> = lines(&shown).into_iter().filter(|line| line.contains(words)).collect();
    assert!(!bars.is_empty(), "{words:?} is not in {shown:?}");
    for bar in bars {
        let is_fine = bar.chars().count() < usize::from(COLUMNS) && !bar.contains('.');
        assert!(is_fine, "{bar:?}");
    }
}

#[test]
fn bars_have_whole_numbers_and_fit() {
    let place = Place::new("progress");
    let db = &place.db();
    let rows: String = (0..5000).map(|row| format!("key {row:05}\tvalue {}\n", row * 7)).collect();
    let file = &place.file("rows.tsv", &rows);
    shows(&["load", db, file], None, "░ 0 B of ");
    shows(&["load", db], Some(file), " KiB, 1,000 rows");
    shows(&["dump", db], None, " of 5,000 rows");
    shows(&["verify", db], None, "iB of ");
    shows(&["compact", db], None, "░ 0 B of ");
    shows(&["simulate", "--num", "1000000"], None, " 1,000,000 of 1,000,000 writes");
    // Rows and a bar would share the screen.
    let (shown, status) = on_a_terminal_with(&["dump", db], None, true);
    assert!(status == 0 && shown.contains("5,000 rows dumped"), "{shown}");
    assert!(
        lines(&shown).contains(&"key 04999\tvalue 34993".to_owned()) && !shown.contains(['░', '█']),
        "{shown}"
    );
    // Elsewhere there is no bar.
    for verb in [&["load", db][..], &["dump", db], &["verify", db], &["compact", db]] {
        let run = braidb_with(verb, rows.as_bytes()).exits(0);
        assert!(!run.err.contains('░') && !run.err.contains('█'), "{run:?}");
    }
}

#[test]
fn a_tier_that_is_emptied_has_a_bar() {
    let tiered = Tiered::new("progress-tier");
    shows(&["tier", "evacuate", &tiered.db(), &tiered.path("slow")], None, " KiB of ");
}
