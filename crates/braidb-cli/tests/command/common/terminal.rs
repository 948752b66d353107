//! Runs of a program whose standard error is a terminal.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

const COLUMNS: u16 = 80;

/// What a program writes to standard error if it is a terminal, and its exit status. The terminal shows standard output too if
/// `has_output`.
pub fn on_a_terminal(
    program: &str,
    arguments: &[&str],
    input: Option<&str>,
    has_output: bool,
) -> (String, i32) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let screen = File::options().read(true).write(true).open(name).unwrap();
    let input = input.map_or_else(Stdio::null, |path| File::open(path).unwrap().into());
    let mut command = Command::new(program);
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
pub fn lines(shown: &str) -> Vec<String> {
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

/// Fails unless the program shows how far it is, in `words`, and nothing that does not fit or is no whole number.
#[track_caller]
pub fn shows(program: &str, arguments: &[&str], input: Option<&str>, words: &str) {
    let (shown, status) = on_a_terminal(program, arguments, input, false);
    assert_eq!(status, 0, "{shown}");
    let bars: Vec<String> = lines(&shown).into_iter().filter(|line| line.contains(words)).collect();
    assert!(!bars.is_empty(), "{words:?} is not in {shown:?}");
    for bar in bars {
        let is_fine = bar.chars().count() < usize::from(COLUMNS) && !bar.contains('.');
        assert!(is_fine, "{bar:?}");
    }
}
