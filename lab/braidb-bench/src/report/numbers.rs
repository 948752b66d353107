//! Numbers in readable form, with separators between thousands and with the unit that fits.

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A whole number: 1,234,567.
    Count,
    Microseconds,
    Bytes,
    /// A number with three significant digits: 12.3.
    Plain,
}

impl Unit {
    /// The text of a value in this unit. A value that is not finite is told in words.
    pub fn text(self, value: f64) -> String {
        if value.is_nan() {
            return "—".to_owned();
        }
        if value.is_infinite() {
            return "infinite".to_owned();
        }
        match self {
            Unit::Count => grouped(value),
            Unit::Microseconds => time(value),
            Unit::Bytes => bytes(value),
            Unit::Plain => plain(value),
        }
    }
}

/// Rounded to a whole number, with a comma between groups of three digits.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 && digits != "0" { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits. A larger number has all digits before the point.
fn plain(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.00095 => format!("{value:.1e}"),
        size if size < 0.9995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// Microseconds in the unit that fits.
fn time(us: f64) -> String {
    match us.abs() {
        0.0 => "0 µs".to_owned(),
        size if size < 0.9995 => format!("{:.0} ns", us * 1e3),
        size if size < 9.995 => format!("{us:.2} µs"),
        size if size < 999.95 => format!("{us:.1} µs"),
        size if size < 999_950.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

/// Bytes with a binary unit.
fn bytes(value: f64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if value.abs() < 1024.0 {
        return format!("{value:.0} B");
    }
    let mut scaled = value / 1024.0;
    let mut unit = 0;
    while scaled.abs() >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

/// The label of 10^`power` on an axis: 10, 1k, 100M.
pub fn power_of_ten(power: i32) -> String {
    let unit = ["", "k", "M", "G"].get(power.div_euclid(3) as usize);
    match unit {
        Some(unit) => format!("{}{unit}", 10_u32.pow(power.rem_euclid(3) as u32)),
        None => format!("10^{power}"),
    }
}

/// A factor in words: 1.9 times, 1.04 times, 230 times.
pub fn times(factor: f64) -> String {
    match factor {
        near if near < 1.095 => format!("{near:.2} times"),
        some if some < 9.95 => format!("{some:.1} times"),
        many => format!("{} times", grouped(many)),
    }
}

/// A number with its noun: 1 run, 2 runs.
pub fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number as f64), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let cases = [
            (Unit::Count, 1_234_567.4, "1,234,567"),
            (Unit::Count, 999.0, "999"),
            (Unit::Count, -0.2, "0"),
            (Unit::Count, -1234.0, "-1,234"),
            (Unit::Microseconds, 0.0, "0 µs"),
            (Unit::Microseconds, 0.25, "250 ns"),
            (Unit::Microseconds, 1.654, "1.65 µs"),
            (Unit::Microseconds, 12.34, "12.3 µs"),
            (Unit::Microseconds, 999.96, "1.0 ms"),
            (Unit::Microseconds, 3_100_000.0, "3.1 s"),
            (Unit::Bytes, 0.0, "0 B"),
            (Unit::Bytes, 1536.0, "1.5 KiB"),
            (Unit::Bytes, 1_048_575.0, "1.0 MiB"),
            (Unit::Bytes, 5_368_709_120.0, "5.0 GiB"),
            (Unit::Plain, 0.0, "0"),
            (Unit::Plain, 1.5, "1.50"),
            (Unit::Plain, 1.234, "1.23"),
            (Unit::Plain, 0.5, "0.500"),
            (Unit::Plain, 12.34, "12.3"),
            (Unit::Plain, 4321.0, "4,321"),
            (Unit::Plain, 0.00001, "1.0e-5"),
            (Unit::Plain, f64::INFINITY, "infinite"),
            (Unit::Bytes, f64::NAN, "—"),
        ];
        for (unit, value, text) in cases {
            assert_eq!(unit.text(value), text, "{unit:?} {value}");
        }
        assert_eq!([0, 2, 3, 10, 19, -1].map(power_of_ten), ["1", "100", "1k", "10G", "10^19", "10^-1"]);
        assert_eq!(
            [1.04, 1.9, 3.21, 230.4].map(times),
            ["1.04 times", "1.9 times", "3.2 times", "230 times"]
        );
        assert_eq!(counted(1, "run", "runs") + " " + &counted(2000, "run", "runs"), "1 run 2,000 runs");
    }
}
