//! Keys and values as text: one form for the command line, for output, and for the rows of `load` and `dump`.
//!
//! ```text
//! text  := unit*
//! unit  := `\t` tab | `\n` newline | `\r` carriage return | `\\` backslash
//!        | `\xNN`    the byte with these two hexadecimal digits
//!        | any other byte except a backslash, standing for itself
//! row   := key TAB value NEWLINE          (no raw tab, newline or carriage return within key or value)
//! ```
//!
//! Many texts stand for equal bytes. Output has the one canonical form:
//! - Printable ASCII and valid UTF-8 stand as they are.
//! - Tab, newline, carriage return and backslash have the four short escapes.
//! - Other control characters, byte order marks, and bytes that are not UTF-8, are `\xNN` in lower case. (`load` skips a byte order mark at
//!   the start of its input.)

use crate::failure::{Failure, Outcome};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

macro_rules! exit_status {
    () => {
        "\
Exit status: 0 done; 1 no such key; 2 wrong use, such as no database or no column family there
(the data is in order); 3 damage or I/O error."
    };
}

/// The help text on exit statuses.
pub const EXIT_STATUS: &str = exit_status!();

/// The help text on this form and on exit statuses.
pub const HELP: &str = concat!(
    "\
Keys and values are any bytes. On the command line, in rows and in output they are written alike:
  \\t tab   \\n newline   \\r carriage return   \\\\ backslash   \\xNN the byte with these two hexadecimal digits
and every other byte stands for itself. A key or value that starts with a dash goes behind `--`.

",
    exit_status!()
);

/// The character that editors of some systems put at the start of a file.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// Appends the canonical text of `bytes` to `out`.
pub fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    if bytes.iter().all(plain) {
        out.extend_from_slice(bytes);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            let utf8 = character.encode_utf8(&mut utf8).as_bytes();
            match character {
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\\' => out.extend_from_slice(b"\\\\"),
                BYTE_ORDER_MARK => utf8.iter().for_each(|&byte| hex_into(byte, out)),
                _ if character.is_control() => utf8.iter().for_each(|&byte| hex_into(byte, out)),
                _ => out.extend_from_slice(utf8),
            }
        }
        chunk.invalid().iter().for_each(|&byte| hex_into(byte, out));
    }
}

fn hex_into(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// The canonical text of `bytes`, for messages.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    escape_into(bytes, &mut out);
    String::from_utf8(out).expect("the canonical text is UTF-8")
}

/// The bytes that a text stands for.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(backslash) = rest.iter().position(|&byte| byte == b'\\') {
        bytes.extend_from_slice(&rest[..backslash]);
        let (byte, length) = escape_at(&rest[backslash..])?;
        bytes.push(byte);
        rest = &rest[backslash + length..];
    }
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

/// The byte of the escape that `text` starts with, and the escape's length.
fn escape_at(text: &[u8]) -> Result<(u8, usize), String> {
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    match text.get(1) {
        Some(b't') => Ok((b'\t', 2)),
        Some(b'n') => Ok((b'\n', 2)),
        Some(b'r') => Ok((b'\r', 2)),
        Some(b'\\') => Ok((b'\\', 2)),
        Some(b'x') => match (digit(2), digit(3)) {
            (Some(high), Some(low)) => Ok(((high * 16 + low) as u8, 4)),
            _ => Err(r"`\x` must be followed by two hexadecimal digits".to_owned()),
        },
        Some(&other) => {
            Err(format!(r"`\{}` is not an escape; write `\\` for a backslash", escaped(&[other])))
        }
        None => Err(r"a lone backslash at the end; write `\\` for a backslash".to_owned()),
    }
}

/// The bytes that an argument stands for.
pub fn argument(what: &str, text: &OsStr) -> Outcome<Vec<u8>> {
    unescape(text.as_bytes()).map_err(|why| Failure::Use(format!("{what}: {why}")))
}

/// The key and the value of a row, without its newline.
pub fn parse_row(row: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    if row.contains(&b'\r') {
        return Err(r"a raw carriage return; write `\r` for one that belongs to the data, and end rows with a newline alone"
            .to_owned());
    }
    let (key, value) = raw_row(row)?;
    if value.contains(&b'\t') {
        return Err(r"a second tab; write `\t` for one that belongs to the data".to_owned());
    }
    Ok((unescape(key)?, unescape(value)?))
}

/// The key and the value of a row without escapes: what stands before its first tab, and behind it.
pub fn raw_row(row: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let tab = row.iter().position(|&byte| byte == b'\t').ok_or("no tab between a key and a value")?;
    Ok((&row[..tab], &row[tab + 1..]))
}

/// Appends the row of `key` and `value` to `out`.
pub fn row_into(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    escape_into(key, out);
    out.push(b'\t');
    escape_into(value, out);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_is_as_documented() {
        let text = |bytes: &[u8]| escaped(bytes);
        assert_eq!(text(b"plain text, 'quoted' ~"), "plain text, 'quoted' ~");
        assert_eq!(text(b"a\tb\nc\rd\\e"), r"a\tb\nc\rd\\e");
        assert_eq!(text(b"\0\x1f\x7f"), r"\x00\x1f\x7f");
        assert_eq!(text("Київ €".as_bytes()), "Київ €");
        assert_eq!(text(b"\xff\xfeok\xe2\x82"), r"\xff\xfeok\xe2\x82");
        assert_eq!(text("\u{feff}k".as_bytes()), r"\xef\xbb\xbfk", "`load` would skip a byte order mark");
        assert_eq!(text("\u{85}".as_bytes()), r"\xc2\x85", "a control character beyond ASCII");
    }

    #[test]
    fn every_pair_of_bytes_comes_back() {
        for first in 0..=255 {
            for second in 0..=255 {
                let bytes = [first, second];
                let text = escaped(&bytes);
                assert!(!text.contains(['\t', '\n', '\r']), "{text:?}");
                assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn hexadecimal_digits_may_be_upper_case() {
        assert_eq!(unescape(br"\xFf\x0A").unwrap(), [255, 10]);
    }

    #[test]
    fn wrong_escapes_are_refused() {
        for wrong in [&br"a\"[..], br"\q", br"\x", br"\x1", br"\x1g", br"\xg1", b"\\\xff", br"\0"] {
            unescape(wrong).expect_err(&escaped(wrong));
        }
    }

    #[test]
    fn rows_are_parsed_strictly() {
        assert_eq!(parse_row(b"k\tv").unwrap(), (b"k".to_vec(), b"v".to_vec()));
        assert_eq!(parse_row(b"\t").unwrap(), (vec![], vec![]), "an empty key and an empty value are legal");
        assert_eq!(parse_row(br"a\tb	c\\").unwrap(), (b"a\tb".to_vec(), br"c\".to_vec()));
        for broken in [&b""[..], b"k", b"k\tv\tw", b"k\tv\r", b"k\\\tv", b"k\t\\x0"] {
            parse_row(broken).expect_err(&escaped(broken));
        }
    }

    #[test]
    fn a_row_comes_back() {
        let mut row = Vec::new();
        row_into(b"k\t\xff", b"v\n", &mut row);
        assert_eq!(row, b"k\\t\\xff\tv\\n\n");
        assert_eq!(parse_row(&row[..row.len() - 1]).unwrap(), (b"k\t\xff".to_vec(), b"v\n".to_vec()));
    }
}
