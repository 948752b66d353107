//! Results of a measurement, as rows of JSON keep them and reports show them.

use serde::{Deserialize, Serialize};
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
    /// The operations that ended in each second from the start on. The last entry is the second in which the store had settled.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pair {
    pub workload: String,
    /// The side in the numerator.
    pub a: String,
    /// The side in the denominator.
    pub b: String,
    pub figures: Vec<PairedFigure>,
}

/// The ratios of one figure. An infinite number is `null` in JSON, which has no infinity.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PairedFigure {
    pub name: String,
    /// A over B, one for each round.
    pub ratios: Vec<f64>,
    /// A over A, of other runs than the ones in `ratios`.
    pub ratios_of_same: Vec<f64>,
    /// The median of `ratios`.
    pub median: f64,
    /// The standard error of the median of `ratios`: 1.25 · σ / √n, with σ their standard deviation.
    pub spread: f64,
    /// The standard error of the median of `ratios_of_same`: 1.25 · σ / √n, with σ their standard deviation.
    pub spread_of_same: f64,
    /// The limit on the median, if there is one.
    pub limit: Option<Limit>,
}

/// A limit on a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
}
