//! The figures that papers' experiments compare.

use super::table::none;
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
    /// The mean over all operations.
    MeanLatency,
    /// The part of the gets that waited for no device, for the fast or only one alone, or for the slow one, on a modelled machine. Not a
    /// number if there is no slow one.
    Served(By),
    /// Operations a second in the first or the last tenth of the time.
    First,
    Last,
    /// Bytes of all tables at the end. Logs are left out: their reserved space would hide small tables.
    TableBytes,
}

/// What served a get.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    Memory,
    Fast,
    Slow,
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
            Figure::Served(By::Memory) => "gets from memory".to_owned(),
            Figure::Served(By::Fast) => "gets from the fast or only device".to_owned(),
            Figure::Served(By::Slow) => "gets from the slow device".to_owned(),
            Figure::First => "operations a second in the first tenth of the time".to_owned(),
            Figure::Last => "operations a second in the last tenth of the time".to_owned(),
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
            Figure::MeanLatency => measured.run.lane.all_latencies().mean(),
            Figure::Served(by) => {
                let served = measured.served.unwrap_or_default();
                let gets = match by {
                    By::Memory => Some(served.memory),
                    By::Fast => Some(served.fast),
                    By::Slow => served.slow,
                };
                gets.map_or(f64::NAN, |gets| ratio(gets, served.all()))
            }
            Figure::First => mean_of(tenth(&measured.run.lane.by_second).0),
            Figure::Last => mean_of(tenth(&measured.run.lane.by_second).1),
            Figure::TableBytes => measured.space.table_bytes as f64,
        }
    }

    pub fn text(self, value: f64) -> String {
        match self {
            _ if value.is_nan() => none(),
            Figure::Flushes | Figure::Merges => grouped(value as u64),
            Figure::Served(_) => format!("{:.1}%", 100.0 * value),
            Figure::WrittenWithoutLog | Figure::Written(_) | Figure::TableBytes => bytes_text(value as u64),
            Figure::WrittenPerUserByte | Figure::MergeAmplification | Figure::ReadsPerGet => {
                format!("{value:.3}")
            }
            Figure::BackgroundCpu | Figure::Latency(_) | Figure::MeanLatency => {
                nanoseconds_text(value as u64)
            }
            // The others are operations a second.
            _ if value < 100.0 => format!("{value:.2}"),
            _ => grouped(value as u64),
        }
    }
}

/// The first and the last tenth of the whole seconds, each of at least one. The last second is not whole, unless it is the only one.
fn tenth(by_second: &[u64]) -> (&[u64], &[u64]) {
    let whole = &by_second[..by_second.len().saturating_sub(1).max(1).min(by_second.len())];
    let length = whole.len().div_ceil(10);
    (&whole[..length], &whole[whole.len() - length..])
}

fn mean_of(counts: &[u64]) -> f64 {
    ratio(counts.iter().sum(), counts.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_leave_out_the_last_second() {
        let seconds: Vec<u64> = (1..=21).collect();
        assert_eq!(tenth(&seconds), (&[1, 2][..], &[19, 20][..]));
        assert_eq!((tenth(&[7, 1]), tenth(&[7])), ((&[7][..], &[7][..]), (&[7][..], &[7][..])));
        assert_eq!(mean_of(tenth(&[]).0), 0.0);
    }
}
