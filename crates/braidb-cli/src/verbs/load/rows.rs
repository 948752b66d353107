//! Reads rows from a stream: one at a time, numbered, each whole or refused with the reason.

use crate::text::{self, BYTE_ORDER_MARK};
use std::io::{self, BufRead};

/// The longest correct row in bytes: every byte of the longest key and value as `\xNN`, and a tab.
const MAX_ROW_BYTES: usize = 4 * (braidb::MAX_KEY_BYTES + braidb::MAX_VALUE_BYTES) + 1;

/// A key and a value, or the reason why the row does not hold them.
pub type Row = Result<(Vec<u8>, Vec<u8>), String>;

/// How rows are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// Nothing is an escape, and the first tab ends the key.
    pub is_raw: bool,
    /// Rows that end in CR LF, empty lines, and a last row without a newline are accepted.
    pub is_lenient: bool,
}

/// What a stream has that is not quite a row: a mark, empty lines, other line ends, escapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// A byte order mark at the start, which was left out.
    pub has_mark: bool,
    /// Empty lines that were left out.
    pub empty_lines: u64,
    /// Rows that ended in CR LF.
    pub cr_lf: u64,
    /// Rows with escapes: their bytes differ from those of key and value.
    pub escaped: u64,
}

/// The rows of a stream.
pub struct Rows<R> {
    input: R,
    row: Vec<u8>,
    max_row_bytes: usize,
    form: Form,
    number: u64,
    bytes: u64,
    oddities: Oddities,
}

impl<R: BufRead> Rows<R> {
    pub fn of(input: R, form: Form) -> Rows<R> {
        let (row, oddities) = (Vec::new(), Oddities::default());
        Rows { input, row, max_row_bytes: MAX_ROW_BYTES, form, number: 0, bytes: 0, oddities }
    }

    /// The number of the row that was read last, from 1 on: its line in the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// The first escape of the row that was read last.
    pub fn first_escape(&self) -> String {
        let backslash = self.row.iter().position(|&byte| byte == b'\\').unwrap_or(self.row.len());
        let escape = &self.row[backslash..];
        let length = if escape.get(1) == Some(&b'x') { 4 } else { 2 };
        String::from_utf8_lossy(&escape[..length.min(escape.len())]).into_owned()
    }

    /// The next row; `None` at the end of the stream.
    pub fn next(&mut self) -> io::Result<Option<Row>> {
        loop {
            let (mut length, ended) = self.read_row()?;
            let mut mark = [0; 3];
            let mark = BYTE_ORDER_MARK.encode_utf8(&mut mark).as_bytes();
            if self.number == 0 && self.row.starts_with(mark) {
                self.row.drain(..mark.len());
                length -= mark.len();
                self.oddities.has_mark = true;
            }
            if length == 0 && !ended {
                return Ok(None);
            }
            self.number += 1;
            // Of an overlong row, only the start is kept, so its end is unknown.
            let is_cr_lf = ended && length == self.row.len() && self.row.last() == Some(&b'\r');
            self.oddities.cr_lf += u64::from(is_cr_lf);
            if is_cr_lf && self.form.is_lenient {
                self.row.pop();
                length -= 1;
            }
            if length == 0 && self.form.is_lenient {
                self.oddities.empty_lines += 1;
                continue;
            }
            let row = self.parse(length, ended, is_cr_lf);
            let is_escaped = |(key, value): &(Vec<u8>, Vec<u8>)| key.len() + 1 + value.len() < length;
            self.oddities.escaped += u64::from(row.as_ref().is_ok_and(is_escaped));
            return Ok(Some(row));
        }
    }

    /// The row that was read last, without its end.
    fn parse(&self, length: usize, ended: bool, is_cr_lf: bool) -> Row {
        let Form { is_raw, is_lenient } = self.form;
        if length > self.max_row_bytes {
            return Err(format!(
                "the row has {length} bytes; none can have more than {}",
                self.max_row_bytes
            ));
        }
        // A row whose end is missing may be half a row.
        if !ended && !is_lenient {
            return Err(
                "no newline at its end: the input was cut off here, or add one; --lenient takes the row"
                    .to_owned(),
            );
        }
        if self.row.is_empty() {
            return Err("an empty line; --lenient passes over empty lines".to_owned());
        }
        if is_raw {
            let (key, value) = text::raw_row(&self.row)?;
            return within_limits((key.to_owned(), value.to_owned()));
        }
        if is_cr_lf && !is_lenient {
            return Err("it ends in a carriage return and a newline; --lenient takes such rows".to_owned());
        }
        text::parse_row(&self.row).and_then(within_limits)
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
            // A carriage return and a byte order mark do not count.
            let most = self.max_row_bytes + 1 + BYTE_ORDER_MARK.len_utf8();
            let room = most.saturating_sub(self.row.len()).min(part.len());
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
        seen(Rows { max_row_bytes, ..Rows::of(input, Form::default()) }).0
    }

    fn seen(mut rows: Rows<impl BufRead>) -> (Vec<(u64, Row)>, Oddities) {
        let mut seen = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            seen.push((rows.number(), row));
        }
        (seen, rows.oddities())
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

    #[test]
    fn a_byte_order_mark_at_the_start_is_left_out() {
        for capacity in 1..9 {
            let rows = |input: &'static str| {
                seen(Rows::of(BufReader::with_capacity(capacity, input.as_bytes()), Form::default()))
            };
            let (found, oddities) = rows("\u{feff}a\t1\n\u{feff}b\t2\n");
            assert_eq!((&found[0].1, &found[1].1), (&pair("a", "1"), &pair("\u{feff}b", "2")));
            assert!(oddities.has_mark);
            assert_eq!(rows("\u{feff}").0, []);
        }
    }

    #[test]
    fn lenient_rows_may_end_anyhow() {
        let input = b"a\t1\r\n\r\n\nb\t2\n\nc\t\\x33";
        let lenient = Form { is_lenient: true, is_raw: false };
        let (found, oddities) = seen(Rows::of(&input[..], lenient));
        assert_eq!(found, [(1, pair("a", "1")), (4, pair("b", "2")), (6, pair("c", "3"))]);
        assert_eq!(oddities, Oddities { has_mark: false, empty_lines: 3, cr_lf: 2, escaped: 1 });
        // At the limit without the carriage return.
        let rows = Rows { max_row_bytes: 3, ..Rows::of(&b"a\t1\r\na\t12\r\n"[..], lenient) };
        let (found, _) = seen(rows);
        assert_eq!(found[0].1, pair("a", "1"));
        assert!(found[1].1.as_ref().unwrap_err().contains("4 bytes"), "{found:?}");
    }

    #[test]
    fn raw_rows_are_what_they_are() {
        let raw = Form { is_raw: true, is_lenient: false };
        let (found, oddities) = seen(Rows::of(&b"/dev/\\x2d\t\\\\\tq\xff\r\nk\t\n\nno end\t"[..], raw));
        let key = (b"/dev/\\x2d".to_vec(), b"\\\\\tq\xff\r".to_vec());
        assert_eq!((&found[0].1, &found[1].1), (&Ok(key), &pair("k", "")));
        assert!(found[2].1.as_ref().unwrap_err().contains("an empty line"));
        assert!(found[3].1.as_ref().unwrap_err().contains("no newline"));
        assert_eq!((oddities.escaped, oddities.cr_lf), (0, 1));
    }
}
