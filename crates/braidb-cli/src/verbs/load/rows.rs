//! Reads rows from a stream: one at a time, numbered, each whole or refused with the reason.

use crate::text;
use std::io::{self, BufRead};

/// The longest correct row in bytes: every byte of the longest key and value as `\xNN`, and a tab.
const MAX_ROW_BYTES: usize = 4 * (braidb::MAX_KEY_BYTES + braidb::MAX_VALUE_BYTES) + 1;

/// A key and a value, or the reason why the row does not hold them.
pub type Row = Result<(Vec<u8>, Vec<u8>), String>;

/// The rows of a stream.
pub struct Rows<R> {
    input: R,
    row: Vec<u8>,
    max_row_bytes: usize,
    number: u64,
    bytes: u64,
    cr_lf: bool,
}

impl<R: BufRead> Rows<R> {
    pub fn of(input: R) -> Rows<R> {
        Rows { input, row: Vec::new(), max_row_bytes: MAX_ROW_BYTES, number: 0, bytes: 0, cr_lf: false }
    }

    /// The number of the row that was read last, from 1 on: its line in the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the row that was read last ended in CR LF.
    pub fn ends_in_cr_lf(&self) -> bool {
        self.cr_lf
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next row; `None` at the end of the stream.
    pub fn next(&mut self) -> io::Result<Option<Row>> {
        let (length, ended) = self.read_row()?;
        if length == 0 && !ended {
            return Ok(None);
        }
        self.number += 1;
        self.cr_lf = ended && self.row.last() == Some(&b'\r');
        Ok(Some(match (ended, length > self.max_row_bytes) {
            (_, true) => {
                Err(format!("the row has {length} bytes; none can have more than {}", self.max_row_bytes))
            }
            // A row whose end is missing may be half a row.
            (false, _) => Err("no newline at its end: the input was cut off here, or add one".to_owned()),
            (true, false) => text::parse_row(&self.row).and_then(within_limits),
        }))
    }

    /// Reads up to the next newline. Returns the length of the row, and whether a newline ended it. Only the start of an overlong row is
    /// kept.
    fn read_row(&mut self) -> io::Result<(usize, bool)> {
        self.row.clear();
        let mut length = 0;
        loop {
            let buffer = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if buffer.is_empty() {
                return Ok((length, false));
            }
            let newline = buffer.iter().position(|&byte| byte == b'\n');
            let part = &buffer[..newline.unwrap_or(buffer.len())];
            let room = self.max_row_bytes.saturating_sub(self.row.len()).min(part.len());
            self.row.extend_from_slice(&part[..room]);
            length += part.len();
            let used = part.len() + usize::from(newline.is_some());
            self.input.consume(used);
            self.bytes += used as u64;
            if newline.is_some() {
                return Ok((length, true));
            }
        }
    }
}

/// Refuses a row that the database would refuse, so that one row does not spoil its batch.
fn within_limits((key, value): (Vec<u8>, Vec<u8>)) -> Row {
    if key.len() > braidb::MAX_KEY_BYTES {
        return Err(format!("the key has {} bytes; the limit is {}", key.len(), braidb::MAX_KEY_BYTES));
    }
    if value.len() > braidb::MAX_VALUE_BYTES {
        return Err(format!("the value has {} bytes; the limit is {}", value.len(), braidb::MAX_VALUE_BYTES));
    }
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    fn rows(input: impl BufRead, max_row_bytes: usize) -> Vec<(u64, Row)> {
        let mut rows = Rows { max_row_bytes, ..Rows::of(input) };
        let mut seen = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            seen.push((rows.number(), row));
        }
        seen
    }

    fn pair(key: &str, value: &str) -> Row {
        Ok((key.into(), value.into()))
    }

    #[test]
    fn rows_are_numbered_and_broken_ones_do_not_hide_the_next() {
        let seen = rows(&b"a\t1\nbroken\nb\t2\n\nc\t3\n"[..], 100);
        assert_eq!(seen.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!((&seen[0].1, &seen[2].1, &seen[4].1), (&pair("a", "1"), &pair("b", "2"), &pair("c", "3")));
        assert!(seen[1].1.is_err() && seen[3].1.is_err());
    }

    #[test]
    fn a_row_without_an_end_is_refused() {
        let seen = rows(&b"a\t1\nb\t2"[..], 100);
        assert_eq!(seen[0].1, pair("a", "1"));
        assert!(seen[1].1.as_ref().unwrap_err().contains("newline"));
        assert_eq!(rows(&b""[..], 100), []);
    }

    #[test]
    fn an_overlong_row_is_skipped_whole() {
        let seen = rows(&b"aaa\t111111\nb\t2\nccccccccccc"[..], 9);
        assert!(seen[0].1.as_ref().unwrap_err().contains("10 bytes"));
        assert_eq!(seen[1].1, pair("b", "2"));
        assert!(seen[2].1.as_ref().unwrap_err().contains("11 bytes"));
        assert_eq!(rows(&b"aaa\t11111\n"[..], 9)[0].1, pair("aaa", "11111"), "exactly at the limit");
    }

    #[test]
    fn a_key_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
        let row = |bytes| format!("{}\tv\n", "k".repeat(bytes)).into_bytes();
        let limit = braidb::MAX_KEY_BYTES;
        assert!(rows(&row(limit)[..], MAX_ROW_BYTES)[0].1.is_ok());
        assert!(
            rows(&row(limit + 1)[..], MAX_ROW_BYTES)[0]
                .1
                .as_ref()
                .unwrap_err()
                .contains("the limit is 65536")
        );
    }

    #[test]
    fn rows_do_not_depend_on_how_the_input_arrives() {
        let input = b"key\tvalue\n\\x00\tx\nbad\n";
        let whole = rows(&input[..], 100);
        for capacity in 1..input.len() {
            assert_eq!(rows(BufReader::with_capacity(capacity, input.take(1000)), 100), whole);
        }
    }
}
