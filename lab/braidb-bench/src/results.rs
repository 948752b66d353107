//! Results of a measurement, as rows of JSON keep them and reports show them.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The result of one workload on one store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The name of the workload.
    pub workload: String,
    /// Which store, commit or set of options was measured.
    pub side: String,
    pub seed: u64,
    /// The figures by name. A name ends with its unit.
    pub figures: BTreeMap<String, f64>,
    /// Bytes that the store wrote, by cause: `log`, `flush`, `merge_l1`. Empty if the store does not tell them.
    pub bytes_by_cause: BTreeMap<String, u64>,
    /// The operations that ended in each second from the start on. In the last second the store had settled.
    pub operations_by_second: Vec<u64>,
    pub machine: Machine,
    /// The release of a store that was loaded from a shared object, and the object's path. Empty for a store that was compiled in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

/// The state of the machine during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The mean number of processes that wanted to run in the last minute, at the beginning of the run.
    pub load: f64,
    /// Processor time that the hypervisor gave to other machines, over all processors.
    pub steal_seconds: f64,
    /// The file system of the store's directory, and its device.
    pub device: String,
    pub processor: String,
}

/// The comparison of two sides on a workload, figure by figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub workload: String,
    /// The side in the numerator.
    pub a: String,
    /// The side in the denominator.
    pub b: String,
    pub figures: Vec<PairedFigure>,
}

/// The ratios of one figure. An infinite number is `null` in JSON, which has no infinity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairedFigure {
    pub name: String,
    /// A over B, one for each round.
    #[serde(deserialize_with = "all_from_null")]
    pub ratios: Vec<f64>,
    /// A over A, of other runs than the ones in `ratios`.
    #[serde(deserialize_with = "all_from_null")]
    pub ratios_of_same: Vec<f64>,
    /// The median of `ratios`.
    #[serde(deserialize_with = "from_null")]
    pub median: f64,
    /// 1.25 s / √n, with s the standard deviation of `ratios`.
    #[serde(deserialize_with = "from_null")]
    pub spread: f64,
    /// 1.25 s / √n, with s the standard deviation of `ratios_of_same`.
    #[serde(deserialize_with = "from_null")]
    pub spread_of_same: f64,
    /// The limit on the median, if there is one.
    pub limit: Option<Limit>,
}

/// A number of which JSON may have `null` instead, which stands for infinity.
fn from_null<'de, D: Deserializer<'de>>(source: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or(f64::INFINITY))
}

/// A list of numbers, each read as by [`from_null`].
fn all_from_null<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<f64>, D::Error> {
    let numbers: Vec<Option<f64>> = Deserialize::deserialize(source)?;
    Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::INFINITY)).collect())
}

/// A limit on a ratio.
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
