//! The figures of the steady load: a row a minute, tables at the end, and lines `steady-NAME VALUE` for scripts.

use super::lane::{KINDS, Kind, Lane};
use crate::figures::{grouped, ratio};
use braidb::stats::Stats;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Minutes that the engine gets to reach a steady state, if the load takes longer. Bytes written count from the end of these minutes on.
const BEGINNING_MINUTES: usize = 2;
/// Memory growth is the memory in the last minute compared with the memory in this minute.
const MEMORY_MINUTE: usize = 4;

/// The bytes that the engine wrote since the open, by cause.
#[derive(Clone, Debug, Default)]
pub struct Causes(BTreeMap<String, u64>);

impl Causes {
    /// Bytes of tables and value files are counted by family and reason. Families share the logs, so bytes of logs have no family.
    pub fn of(stats: &Stats) -> Causes {
        let counts = &stats.counts;
        let log = counts.log_bytes.saturating_sub(counts.written_back_bytes);
        let shared =
            [("log", log), ("written-back", counts.written_back_bytes), ("manifest", counts.manifest_bytes)];
        let mut causes: BTreeMap<String, u64> =
            shared.map(|(name, bytes)| (name.to_owned(), bytes)).into_iter().collect();
        for family in &stats.families {
            for (reason, bytes) in &family.written_bytes {
                causes.insert(format!("{}-{reason}", family.name), *bytes);
            }
        }
        Causes(causes)
    }

    pub fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// What was written since `earlier`. Causes without any bytes are left out.
    fn since(&self, earlier: &Causes) -> Causes {
        let before = |name: &String| earlier.0.get(name).copied().unwrap_or(0);
        let grown = self.0.iter().map(|(name, bytes)| (name.clone(), bytes.saturating_sub(before(name))));
        Causes(grown.filter(|(_, bytes)| *bytes > 0).collect())
    }
}

/// Resident memory of the process in a minute, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    sum: u64,
    samples: u64,
    pub most: u64,
}

impl Memory {
    pub fn sample(&mut self, bytes: u64) {
        self.sum += bytes;
        self.samples += 1;
        self.most = self.most.max(bytes);
    }

    pub fn mean(&self) -> u64 {
        self.sum / self.samples.max(1)
    }
}

/// The figures of one minute. The last one may be shorter.
#[derive(Debug)]
pub struct Minute {
    pub seconds: f64,
    pub lane: Lane,
    pub memory: Memory,
    /// What the engine says that it holds at the end: writes, blocks, indexes and filters.
    pub engine_bytes: u64,
    /// Bytes that users wrote since the open, up to the end of the minute.
    pub user_bytes: u64,
    /// Bytes that the engine wrote since the open, up to the end of the minute.
    pub causes: Causes,
}

/// All minutes, and the state before the first one.
#[derive(Debug)]
pub struct Report {
    pub rate: u64,
    pub user_bytes_before: u64,
    pub causes_before: Causes,
    pub minutes: Vec<Minute>,
}

const MB: f64 = 1e6;

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn at(latency: &Histogram<u64>, quantile: f64) -> f64 {
    ms(latency.value_at_quantile(quantile))
}

/// The two head lines of the rows.
pub fn head() -> String {
    let line = |names: &[(&str, usize)]| -> String {
        names.iter().map(|(name, width)| format!("{name:>width$}")).collect()
    };
    let groups = [("puts ms", 18), ("gets ms", 18), ("pops ms", 18), ("sweeps ms", 18), ("latest", 9)];
    let first = [("minute", 6), ("rate", 9), ("user", 9), ("written", 9), ("ratio", 7)];
    let first = [line(&first), line(&groups), line(&[("memory MB", 16), ("engine", 9)])].concat();
    let latencies = line(&[("p99.9", 9), ("longest", 9)]).repeat(4);
    let start = line(&[("", 6), ("a second", 9), ("MB", 9), ("MB", 9), ("", 7)]);
    format!("{first}\n{start}{latencies}{}", line(&[("ms", 9), ("mean", 8), ("most", 8), ("MB", 9)]))
}

impl Report {
    /// Bytes that users wrote, and bytes that the engine wrote by cause, before the minute with this index.
    fn before(&self, minute: usize) -> (u64, &Causes) {
        match minute.checked_sub(1).map(|last| &self.minutes[last]) {
            Some(last) => (last.user_bytes, &last.causes),
            None => (self.user_bytes_before, &self.causes_before),
        }
    }

    /// Bytes that users wrote, and bytes that the engine wrote by cause, from the minute with this index to the end.
    fn since(&self, minute: usize) -> (u64, Causes) {
        let ((user_bytes, causes), last) =
            (self.before(minute), self.minutes.last().expect("a load has a minute"));
        (last.user_bytes - user_bytes, last.causes.since(causes))
    }

    /// The row of the last minute.
    pub fn last_row(&self) -> String {
        let index = self.minutes.len() - 1;
        let minute = &self.minutes[index];
        let (user_bytes, causes) = self.since(index);
        let written_bytes = causes.all();
        let mut row = format!(
            "{:>6}{:>9}{:>9.1}{:>9.1}{:>7.2}",
            index + 1,
            grouped((minute.lane.operations as f64 / minute.seconds.max(1e-9)).round() as u64),
            user_bytes as f64 / MB,
            written_bytes as f64 / MB,
            ratio(written_bytes, user_bytes),
        );
        let lane = &minute.lane;
        for latency in
            [&lane.puts(), lane.latency(Kind::Get), lane.latency(Kind::Pop), lane.latency(Kind::Sweep)]
        {
            write!(row, "{:>9.2}{:>9.2}", at(latency, 0.999), ms(latency.max()))
                .expect("a string takes everything");
        }
        let Memory { most, .. } = minute.memory;
        write!(
            row,
            "{:>9.1}{:>8.0}{:>8.0}{:>9.0}",
            ms(lane.latest_ns),
            minute.memory.mean() as f64 / MB,
            most as f64 / MB,
            minute.engine_bytes as f64 / MB,
        )
        .expect("a string takes everything");
        row
    }

    /// The operations of all minutes.
    pub fn all(&self) -> Lane {
        let mut all = Lane::default();
        self.minutes.iter().for_each(|minute| all.add(&minute.lane));
        all
    }

    /// The index of the first minute that is judged.
    fn first_judged(&self) -> usize {
        if self.minutes.len() > BEGINNING_MINUTES { BEGINNING_MINUTES } else { 0 }
    }

    /// The tables at the end: latencies by kind, and bytes by cause.
    pub fn tables(&self) -> String {
        let all = self.all();
        let mut text = format!(
            "\n{:<8}{:>12}{:>10}{:>10}{:>10}{:>10}   ms\n",
            "", "calls", "p50", "p99", "p99.9", "longest"
        );
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
        for (kind, name) in KINDS {
            let latency = all.latency(kind);
            let figures = [0.5, 0.99, 0.999, 1.0].map(|quantile| format!("{:>10.3}", at(latency, quantile)));
            line(format!("{name:<8}{:>12}{}", grouped(latency.len()), figures.concat()));
        }
        let first = self.first_judged();
        let (user_bytes, causes) = self.since(first);
        let minutes = format!("minutes {} to {}", first + 1, self.minutes.len());
        line(format!("\n{:<28}{:>12}{:>14}", format!("written in {minutes}"), "MB", "a user byte"));
        let mut cause = |name: &str, bytes: u64| {
            line(format!(
                "  {name:<26}{:>12}{:>14.3}",
                format!("{:.1}", bytes as f64 / MB),
                ratio(bytes, user_bytes)
            ));
        };
        cause("keys and values by users", user_bytes);
        causes.0.iter().for_each(|(name, bytes)| cause(name, *bytes));
        cause("all", causes.all());
        text
    }

    /// The lines for scripts: `steady-NAME VALUE`.
    pub fn lines(&self) -> String {
        let (all, first) = (self.all(), self.first_judged());
        let seconds: f64 = self.minutes.iter().map(|minute| minute.seconds).sum();
        let rate = all.operations as f64 / seconds.max(1e-9);
        let (user_bytes, causes) = self.since(first);
        let last = self.minutes.last().expect("a load has a minute");
        let early = &self.minutes[(MEMORY_MINUTE - 1).min(self.minutes.len() - 1)];
        let figures = [
            ("operations-per-second", rate),
            ("rate-held", rate / self.rate as f64),
            ("written-per-user-byte", ratio(causes.all(), user_bytes)),
            ("longest-put-ms", ms(all.puts().max())),
            ("sweep-p999-ms", at(all.latency(Kind::Sweep), 0.999)),
            ("memory-growth", ratio(last.memory.mean(), early.memory.mean())),
        ];
        figures.map(|(name, figure)| format!("steady-{name} {figure:.3}\n")).concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(number: u64, bytes: &[(&str, u64)]) -> Minute {
        let mut lane = Lane::default();
        (0..60).for_each(|_| lane.ended(number));
        lane.record(Kind::Push, number * 1_000_000);
        let mut memory = Memory::default();
        [100, 300].iter().for_each(|bytes| memory.sample(number * bytes));
        let causes = Causes(bytes.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect());
        Minute { seconds: 60.0, lane, memory, engine_bytes: 0, user_bytes: 7 + number * 10, causes }
    }

    fn line(report: &Report, name: &str) -> Option<f64> {
        let lines = report.lines();
        let line = lines.lines().find_map(|line| line.strip_prefix(&format!("steady-{name} ")));
        line.map(|figure| figure.parse().unwrap())
    }

    #[test]
    fn bytes_count_from_the_third_minute_on_and_memory_from_the_fourth() {
        let causes_before = Causes([("log".to_owned(), 5)].into());
        let mut report = Report { rate: 2, user_bytes_before: 7, causes_before, minutes: Vec::new() };
        report.minutes = (1..=2).map(|number| minute(number, &[("log", 5 + number * 50)])).collect();
        assert_eq!(line(&report, "written-per-user-byte"), Some(5.0));
        assert_eq!((line(&report, "memory-growth"), line(&report, "rate-held")), (Some(1.0), Some(0.5)));
        assert!(report.last_row().contains(" 5.00 "), "{}", report.last_row());
        let later = |number| minute(number, &[("log", 105), ("series-scans", (number - 2) * 20)]);
        report.minutes.extend((3..=8).map(later));
        assert_eq!(line(&report, "written-per-user-byte"), Some(2.0));
        assert_eq!(line(&report, "memory-growth"), Some(2.0));
        assert!((8.0..8.1).contains(&line(&report, "longest-put-ms").unwrap()));
        let tables = report.tables();
        assert!(
            tables.contains("written in minutes 3 to 8") && tables.contains("  series-scans "),
            "{tables}"
        );
        assert!(!tables.contains("  log "), "nothing was written to the log since: {tables}");
    }
}
