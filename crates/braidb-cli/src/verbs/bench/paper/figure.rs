//! The figures that papers' experiments compare.

use crate::figures::{bytes_text, grouped, nanoseconds_text, ratio};
use crate::verbs::bench::measure::Measured;

/// The figure that is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    SettledWrites,
    SettledOperations,
    /// Operations a second until the last one is done, without the background work that is left then.
    Operations,
    WrittenWithoutLog,
    Written(Cause),
    /// All bytes written, the log's included, for each byte of the user.
    WrittenPerUserByte,
    /// (Flushed + merged) / flushed, in bytes.
    MergeAmplification,
    /// Tables read for each get.
    ReadsPerGet,
    /// Processor time of background work.
    BackgroundCpu,
    Flushes,
    Merges,
    /// The latency that this many reads of a thousand do not exceed.
    Latency(u16),
    MeanLatency,
    /// Bytes of all tables at the end. Logs are left out: their reserved space would hide small tables.
    TableBytes,
}

/// The reason for which bytes were written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Log,
    Flush,
    Merge,
    WriteBack,
}

impl Figure {
    pub fn name(self) -> String {
        match self {
            Figure::SettledWrites => "writes a second, settled".to_owned(),
            Figure::SettledOperations => "operations a second, settled".to_owned(),
            Figure::Operations => "operations a second".to_owned(),
            Figure::WrittenWithoutLog => "bytes written without the log".to_owned(),
            Figure::Written(Cause::Log) => "bytes written to the log".to_owned(),
            Figure::Written(Cause::Flush) => "bytes flushed".to_owned(),
            Figure::Written(Cause::Merge) => "bytes merged".to_owned(),
            Figure::Written(Cause::WriteBack) => "bytes written back to the log".to_owned(),
            Figure::WrittenPerUserByte => "bytes written for each user byte, the log's too".to_owned(),
            Figure::MergeAmplification => "write amplification, (flushed + merged) / flushed".to_owned(),
            Figure::ReadsPerGet => "read amplification, reads of files a get".to_owned(),
            Figure::BackgroundCpu => "processor time of background work".to_owned(),
            Figure::Flushes => "flushes".to_owned(),
            Figure::Merges => "merges (compactions)".to_owned(),
            Figure::Latency(permille) => format!("latency, p{}", f64::from(permille) / 10.0),
            Figure::MeanLatency => "latency, mean".to_owned(),
            Figure::TableBytes => "bytes of tables at the end".to_owned(),
        }
    }

    pub fn of(self, measured: &Measured) -> f64 {
        let written = &measured.written;
        match self {
            Figure::SettledWrites | Figure::SettledOperations => {
                measured.run.lane.operations as f64 / measured.run.settled_seconds
            }
            Figure::Operations => measured.run.lane.operations as f64 / measured.run.seconds,
            Figure::WrittenWithoutLog => written.without_log as f64,
            Figure::Written(Cause::Log) => (written.total - written.without_log) as f64,
            Figure::Written(Cause::Flush) => written.flushed_bytes as f64,
            Figure::Written(Cause::Merge) => written.merged_bytes as f64,
            Figure::Written(Cause::WriteBack) => written.written_back_bytes as f64,
            Figure::WrittenPerUserByte => ratio(written.total, written.user_bytes),
            Figure::MergeAmplification => written.merge_amplification(),
            Figure::ReadsPerGet => measured.lookups.reads_per_get(),
            Figure::BackgroundCpu => measured.run.background_cpu_us as f64 * 1e3,
            Figure::Flushes => measured.flushes as f64,
            Figure::Merges => measured.merges as f64,
            Figure::Latency(permille) => {
                measured.run.lane.latency.value_at_quantile(f64::from(permille) / 1000.0) as f64
            }
            Figure::MeanLatency => measured.run.lane.latency.mean(),
            Figure::TableBytes => measured.space.table_bytes as f64,
        }
    }

    pub fn text(self, value: f64) -> String {
        match self {
            Figure::SettledWrites | Figure::SettledOperations | Figure::Operations if value < 100.0 => {
                format!("{value:.2}")
            }
            Figure::SettledWrites
            | Figure::SettledOperations
            | Figure::Operations
            | Figure::Flushes
            | Figure::Merges => grouped(value as u64),
            Figure::WrittenWithoutLog | Figure::Written(_) | Figure::TableBytes => bytes_text(value as u64),
            Figure::WrittenPerUserByte | Figure::MergeAmplification | Figure::ReadsPerGet => {
                format!("{value:.3}")
            }
            Figure::BackgroundCpu | Figure::Latency(_) | Figure::MeanLatency => {
                nanoseconds_text(value as u64)
            }
        }
    }
}
