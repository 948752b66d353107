//! The label, the unit and the better direction of each figure.

use super::numbers::Unit;

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
    /// Neither: the figure describes the run.
    Neither,
}

/// How a figure is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key in `Run::figures`.
    pub name: String,
    pub label: String,
    pub unit: Unit,
    pub better: Better,
}

const KNOWN: [(&str, &str, Unit, Better); 15] = [
    ("operations_per_second", "operations a second", Unit::Count, Better::Higher),
    ("settled_operations_per_second", "operations a second, settled", Unit::Count, Better::Higher),
    ("cpu_us_per_operation", "CPU an operation", Unit::Microseconds, Better::Lower),
    ("written_per_user_byte", "bytes written per user byte", Unit::Plain, Better::Lower),
    ("peak_memory_bytes", "peak memory", Unit::Bytes, Better::Lower),
    ("worst_directory_bytes", "directory at its worst", Unit::Bytes, Better::Lower),
    ("p50_us", "p50", Unit::Microseconds, Better::Lower),
    ("p99_us", "p99", Unit::Microseconds, Better::Lower),
    ("p99_9_us", "p99.9", Unit::Microseconds, Better::Lower),
    ("longest_us", "max", Unit::Microseconds, Better::Lower),
    ("called_bytes", "bytes written by calls", Unit::Bytes, Better::Lower),
    ("mapped_bytes", "bytes written through the mapped log", Unit::Bytes, Better::Lower),
    ("reads_per_get", "reads a get", Unit::Plain, Better::Lower),
    ("looks_per_get", "looks a get", Unit::Plain, Better::Lower),
    ("checked", "operations whose answer was checked", Unit::Count, Better::Neither),
];

/// The figures of the summary's three tables: rates, costs, latencies.
pub const RATES: [&str; 2] = ["operations_per_second", "settled_operations_per_second"];
pub const COSTS: [&str; 4] =
    ["cpu_us_per_operation", "written_per_user_byte", "peak_memory_bytes", "worst_directory_bytes"];
pub const LATENCIES: [&str; 4] = ["p50_us", "p99_us", "p99_9_us", "longest_us"];

/// How the figure `name` is shown. The unit of an unknown figure is read from the end of its name.
pub fn shown(name: &str) -> Shown {
    if let Some((_, label, unit, better)) = KNOWN.iter().find(|(known, ..)| *known == name) {
        return Shown { name: name.to_owned(), label: (*label).to_owned(), unit: *unit, better: *better };
    }
    let unit = [
        ("_us", Unit::Microseconds),
        ("_us_per_operation", Unit::Microseconds),
        ("_bytes", Unit::Bytes),
        ("_per_second", Unit::Count),
    ]
    .into_iter()
    .find(|(end, _)| name.ends_with(end))
    .map_or(Unit::Plain, |(_, unit)| unit);
    let named = match unit {
        Unit::Microseconds => name.replace("_us", ""),
        Unit::Bytes => name.strip_suffix("_bytes").unwrap_or(name).to_owned(),
        _ => name.to_owned(),
    };
    Shown { name: name.to_owned(), label: named.replace('_', " "), unit, better: Better::Neither }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_known_and_unknown_names_tell_their_unit() {
        for name in RATES.iter().chain(&COSTS).chain(&LATENCIES) {
            assert_ne!(shown(name).better, Better::Neither, "{name}");
        }
        let told = ["stall_us", "cache_bytes", "merges_per_second", "levels"]
            .map(|name| (shown(name).label, shown(name).unit));
        let expected = [
            ("stall", Unit::Microseconds),
            ("cache", Unit::Bytes),
            ("merges per second", Unit::Count),
            ("levels", Unit::Plain),
        ];
        assert_eq!(told, expected.map(|(label, unit)| (label.to_owned(), unit)));
    }
}
