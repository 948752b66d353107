//! The figures that a report's tables show.

use super::numbers::Unit;

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
}

/// How a figure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key in `Run::figures`.
    pub name: &'static str,
    pub label: &'static str,
    pub unit: Unit,
    pub better: Better,
}

const fn shown(name: &'static str, label: &'static str, unit: Unit, better: Better) -> Shown {
    Shown { name, label, unit, better }
}

/// The figures of the tables, in their order: rates, costs, latencies.
pub const COLUMNS: [Shown; 10] = [
    shown("operations_per_second", "operations a second", Unit::Count, Better::Higher),
    shown("settled_operations_per_second", "operations a second, settled", Unit::Count, Better::Higher),
    shown("cpu_us_per_operation", "CPU an operation", Unit::Microseconds, Better::Lower),
    shown("written_per_user_byte", "bytes written per user byte", Unit::Plain, Better::Lower),
    shown("peak_memory_bytes", "peak memory", Unit::Bytes, Better::Lower),
    shown("worst_directory_bytes", "directory at its worst", Unit::Bytes, Better::Lower),
    shown("p50_us", "p50", Unit::Microseconds, Better::Lower),
    shown("p99_us", "p99", Unit::Microseconds, Better::Lower),
    shown("p99_9_us", "p99.9", Unit::Microseconds, Better::Lower),
    shown("longest_us", "max", Unit::Microseconds, Better::Lower),
];
