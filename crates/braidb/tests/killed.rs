//! A real process is killed in the middle of writing. Every acknowledged write is there afterwards, although the log is stored into a
//! mapping that died with the process.

use braidb::Db;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Environment variable: the directory of the database.
const DIR: &str = "BRAIDB_KILLED_DIR";

#[test]
fn what_was_acknowledged_survives_the_process() {
    let dir = std::env::temp_dir().join(format!("braidb-killed-{}", std::process::id()));
    let mut stored = 0;
    for round in 1..=4 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "writes_until_it_is_killed", "--nocapture"]).env(DIR, &dir);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut told = || lines.next().map(|line| line.unwrap().parse::<u64>().unwrap());
        let mut acknowledged = (0..round * 7_777).map(|_| told().expect("the child writes")).last().unwrap();
        child.kill().unwrap();
        while let Some(more) = told() {
            acknowledged = more;
        }
        child.wait().unwrap();
        let db = Db::open(&dir).unwrap();
        let numbers = db.iter().map(|entry| u64::from_be_bytes(entry.unwrap().0[..].try_into().unwrap()));
        stored = numbers.zip(0..).map(|(found, expected)| assert_eq!(found, expected)).count() as u64;
        assert!(
            stored > acknowledged,
            "{acknowledged} was acknowledged, the last one found is {}",
            stored - 1
        );
        assert!(stored <= acknowledged + 2, "at most the write under way is there besides");
    }
    assert!(stored > 4 * 7_777);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
#[ignore = "writes until it is killed: the test above runs it, by cargo test -p braidb --test killed"]
fn writes_until_it_is_killed() {
    let db = Db::open(std::env::var_os(DIR).expect("started by the other test")).unwrap();
    let first = db.iter().count() as u64;
    let mut parent = std::io::stderr();
    for number in first.. {
        db.put(number.to_be_bytes(), vec![number as u8; (number % 300) as usize]).unwrap();
        // One call, so that the parent reads a whole line or none.
        parent.write_all(format!("{number}\n").as_bytes()).unwrap();
    }
}
