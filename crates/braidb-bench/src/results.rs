//! What a measurement found, as it is kept in rows of JSON and shown in reports.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// One workload on one store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The name of the workload.
    pub workload: String,
    /// Which store, commit or set of options was measured.
    pub side: String,
    pub seed: u64,
    /// By name, with the unit last.
    pub figures: BTreeMap<String, f64>,
    /// Bytes that the store wrote, by cause: `log`, `flush`, `merge_l1`. Empty where it does not tell.
    pub bytes_by_cause: BTreeMap<String, u64>,
    /// Operations that ended in each second from the start on; the last second is the one in which the store had settled.
    pub operations_by_second: Vec<u64>,
    /// Latencies of the operations, as percentile (0 to 100) and microseconds, both ascending.
    pub percentiles_us: Vec<(f64, f64)>,
    pub machine: Machine,
}

/// What else the machine did during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processes that wanted to run, as a mean over a minute, at the beginning.
    pub load: f64,
    /// Processor time that the hypervisor gave to other machines, over all processors.
    pub steal_seconds: f64,
    /// The file system and the device below the directory.
    pub device: String,
    pub processor: String,
}

/// Two sides of a workload in turns, figure by figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub workload: String,
    /// The side in the numerator.
    pub a: String,
    /// The side in the denominator.
    pub b: String,
    pub figures: Vec<PairedFigure>,
}

/// The ratios of one figure. What is infinite is `null` in JSON, which has no infinity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairedFigure {
    pub name: String,
    /// A over B, one for each round.
    #[serde(deserialize_with = "all_from_null")]
    pub ratios: Vec<f64>,
    /// A over A, of other runs than those above.
    #[serde(deserialize_with = "all_from_null")]
    pub ratios_of_same: Vec<f64>,
    /// The median of `ratios`.
    #[serde(deserialize_with = "from_null")]
    pub median: f64,
    /// 1.25 s / √n, with s the standard deviation of `ratios`.
    #[serde(deserialize_with = "from_null")]
    pub spread: f64,
    /// The same of `ratios_of_same`.
    #[serde(deserialize_with = "from_null")]
    pub spread_of_same: f64,
    /// What the median is held to, if anything.
    pub limit: Option<Limit>,
}

/// A number that JSON may have as `null`, which stands for infinity.
fn from_null<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or(f64::INFINITY))
}

/// As [`from_null`], for each number of a list.
fn all_from_null<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<f64>, D::Error> {
    let numbers: Vec<Option<f64>> = Deserialize::deserialize(source)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::INFINITY)).collect())
}

/// What a ratio is held to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_ratios_come_back_from_json() {
        let figure = PairedFigure {
            name: "merged_bytes".to_owned(),
            ratios: vec![1.0, f64::INFINITY],
            ratios_of_same: vec![f64::INFINITY, 0.5],
            median: f64::INFINITY,
            spread: f64::INFINITY,
            spread_of_same: f64::INFINITY,
            limit: Some(Limit::AtMost(1.1)),
        };
        let json = serde_json::to_string(&figure).unwrap();
        assert_eq!(serde_json::from_str::<PairedFigure>(&json).unwrap(), figure, "{json}");
    }
}
