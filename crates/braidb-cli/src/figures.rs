//! Figures in readable form.

/// A number with a separator between groups of three digits: 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: 1 row, 2 rows.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// Bytes with a binary unit.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// Bytes as a whole number with a binary unit, rounded down: `1,023 MiB`.
pub fn whole_bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len()).find(|unit| bytes >> (10 * unit) < 1024).unwrap_or(UNITS.len() - 1);
    format!("{} {}", grouped(bytes >> (10 * unit)), UNITS[unit])
}

/// The bytes that a text stands for: a number with a unit of 1,024 (KiB, MiB, GiB, TiB) or 1,000 (KB, MB, GB, TB), or without one.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 10] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("B", 1),
        ("", 1),
    ];
    // The largest size: a million TiB. All of its multiples of a unit are exact numbers.
    const LIMIT: f64 = (1_u64 << 60) as f64;
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let bytes = unit.and_then(|(unit, scale)| {
        let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        Some(number * *scale as f64)
    });
    match bytes {
        Some(bytes) if (0.0..=LIMIT).contains(&bytes) => Ok(bytes.round() as u64),
        _ => Err("expected bytes, such as 512MiB, 1.5GB or 4096, up to 2^60".to_owned()),
    }
}

/// Nanoseconds with the unit that fits.
pub fn nanoseconds_text(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// `part` divided by `whole`; 0 if `whole` is 0.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 2000].map(|rows| counted(rows, "row", "rows")), ["0 rows", "1 row", "2,000 rows"]);
        let bytes = [0, 1023, 1024, 1536, (1 << 20) - 1, 5 << 30, 3 << 50];
        assert_eq!(
            bytes.map(bytes_text),
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB", "3072.0 TiB"]
        );
        assert_eq!(
            [1023, 2047, 1023 << 20, 1 << 30, u64::MAX].map(whole_bytes_text),
            ["1,023 B", "1 KiB", "1,023 MiB", "1 GiB", "16,777,215 TiB"]
        );
        let texts = ["0", "4096", "4096B", "1KiB", "1.5 MiB", "2GB", "1048576TiB"];
        assert_eq!(
            texts.map(parse_bytes),
            [0, 4096, 4096, 1024, 3 << 19, 2_000_000_000, 1 << 60].map(Ok::<u64, String>)
        );
        for wrong in ["", "GiB", "-1", "1XB", "1 G", "NaN", "inf", "2000000TiB"] {
            parse_bytes(wrong).expect_err(wrong);
        }
        let times = [999, 1_500, 2_000_000, 3_100_000_000];
        assert_eq!(times.map(nanoseconds_text), ["999 ns", "1.5 µs", "2.0 ms", "3.1 s"]);
        assert_eq!([ratio(1, 2), ratio(1, 0)], [0.5, 0.0]);
    }
}
