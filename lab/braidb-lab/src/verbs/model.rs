//! `model`: the cost model of LogStore for a store on one or two devices.

use super::bench::DeviceArg;
use crate::failure::{Failure, Outcome};
use crate::figures::{bytes_text, counted, grouped, parse_bytes};
use crate::text;
use crate::verbs::print_text;
use braidb::Options;
use braidb::stats::{Forecast, Load};
use braidb_bench::settings::Ranks;
use braidb_device::cost::{Bound, Layout, Limit, Memory, Prediction, Setup, Tree};
use serde_json::{Value, json};

/// Predict reads and puts a second of a store on one or two devices, and which device limits them
///
/// Nothing is run. The first column has equations 1 to 9 of LogStore (section IV): memory has the hottest records, an access costs a seek,
/// and each level costs a read one access and a put one compaction.
///
/// The second column refines them for BraidDB. A block cache and a page cache keep what was read. An access also transfers pages. A get
/// asks a table, and then the value where it lies apart. The simulator of `simulate` tells what merges write, and merges seek between
/// requests. One client waits for one device after the other.
///
/// Syncs and processors cost nothing.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    /// The device of the hottest data
    #[arg(long, value_enum, default_value_t = DeviceArg::Nvme)]
    fast: DeviceArg,
    /// The device of the coldest data [default: none; the fast device has all data]
    #[arg(long, value_enum)]
    slow: Option<DeviceArg>,
    /// All data, such as 1GiB or 100GB
    #[arg(long, value_name = "BYTES", default_value = "100GB", value_parser = parse_bytes)]
    data: u64,
    /// Memory for data: a share, such as 2%, or bytes, such as 512MiB
    #[arg(long, value_name = "PERCENT|BYTES", default_value = "2%", value_parser = MemoryArg::parse)]
    memory: MemoryArg,
    /// Share of the data that lies on the fast device, in percent
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = parse_percent, requires = "slow")]
    fast_share: f64,
    /// By how much to enlarge the fast device in a second prediction: bytes, such as 1GiB
    #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = parse_bytes, requires = "slow")]
    more: u64,
    /// Bytes of a key
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(0..=braidb::MAX_KEY_BYTES as u64))]
    key_bytes: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=braidb::MAX_VALUE_BYTES as u64))]
    value_bytes: u64,
    /// Exponent of Zipf's law, by which reads draw keys; 0 draws all equally often
    #[arg(long, value_name = "EXPONENT", default_value = "0.9", value_parser = parse_exponent)]
    zipf: f64,
    /// Where the hot keys lie: `ordered` has them side by side, so that a device can hold them; matters to the second column only
    #[arg(long, value_enum, default_value_t = Ranks::Ordered)]
    ranks: Ranks,
    /// Operations of a hundred that read, in the mixed load; the others put
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=100))]
    reads: u64,
    /// Levels on the fast device [default: 2, as LogStore; 7, as LevelDB, without --slow]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    fast_levels: Option<u32>,
    /// Levels on the slow device
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), requires = "slow")]
    slow_levels: u32,
    /// Size of a level divided by the size of the level above
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    growth: u32,
    /// Accesses of a read that the fast device serves, such as 1 with filters; first column only [default: one for each level]
    #[arg(long, value_name = "NUMBER", value_parser = parse_above_0)]
    fast_probes: Option<f64>,
    /// Accesses of a read that the slow device serves; first column only [default: one for each level]
    #[arg(long, value_name = "NUMBER", value_parser = parse_above_0, requires = "slow")]
    slow_probes: Option<f64>,
    /// Share of the memory that keeps blocks and values, in percent; the rest keeps pages. Matters to the second column only
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = parse_percent)]
    blocks: f64,
    /// Memory for writes, in MiB, with which merges are simulated
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=2048))]
    memtable_mib: u64,
    /// Bytes that flushes and merges write for each byte flushed, such as a measured figure; second column only [default: simulated]
    #[arg(long, value_name = "NUMBER", value_parser = parse_amplification)]
    amplification: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Memory on the command line.
#[derive(Clone, Copy, Debug)]
enum MemoryArg {
    /// A share of the data, from 0 to 1.
    Share(f64),
    Bytes(u64),
}

impl MemoryArg {
    fn parse(text: &str) -> Result<MemoryArg, String> {
        match text.ends_with('%') {
            true => parse_percent(text).map(|percent| MemoryArg::Share(percent / 100.0)),
            false => parse_bytes(text).map(MemoryArg::Bytes),
        }
    }

    /// The bytes for `data_bytes` of data.
    fn bytes(self, data_bytes: u64) -> u64 {
        match self {
            MemoryArg::Share(share) => (share * data_bytes as f64).round() as u64,
            MemoryArg::Bytes(bytes) => bytes,
        }
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    in_range(number, |percent| (0.0..=100.0).contains(&percent), "a number of percent from 0 to 100")
}

fn parse_exponent(text: &str) -> Result<f64, String> {
    in_range(text, |exponent| (0.0..=4.0).contains(&exponent), "a number from 0 to 4")
}

fn parse_above_0(text: &str) -> Result<f64, String> {
    in_range(text, |number| number > 0.0 && number <= 1e6, "a number above 0, up to 1000000")
}

fn parse_amplification(text: &str) -> Result<f64, String> {
    in_range(text, |number| (1.0..=1e6).contains(&number), "a number from 1 to 1000000")
}

fn in_range(text: &str, is_good: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    text.parse().ok().filter(|&number| is_good(number)).ok_or_else(|| format!("expected {expected}"))
}

/// The bytes that flushes and merges of a store will write for each byte flushed, by the simulator behind `simulate`: those of a second put
/// of each record, after a first one filled the store. Puts draw keys evenly.
///
/// # Errors
///
/// An option that cannot work.
pub fn simulated_amplification(options: &Options, records: u64, record_bytes: u64) -> Outcome<f64> {
    let forecast = |entries: u64| {
        options.forecast(&Load { entries, entry_bytes: record_bytes, keys: records, ..Load::default() })
    };
    let (filled, overwritten) = (forecast(records)?, forecast(2 * records)?);
    let merged = |forecast: &Forecast| forecast.merged_bytes.iter().sum::<u64>() as f64;
    let flushed = (overwritten.flushed_bytes - filled.flushed_bytes) as f64;
    Ok(1.0 + (merged(&overwritten) - merged(&filled)).max(0.0) / flushed)
}

/// The most flushes of a simulated fill, because more take longer than 10 seconds. More data is simulated as if it had the size of such a
/// fill, which is 1 TiB with 64 MiB of memory for writes. From 100 GB to 1 TiB the amplification grows by 1.3.
const MOST_FLUSHES: u64 = 1 << 14;

/// The arguments, as the model takes them.
struct Store<'a> {
    args: &'a Args,
    setup: Setup,
    /// The share of the data that fits into memory.
    memory_share: f64,
    /// The fast share after `--more`. `None` without a slow device.
    larger_share: Option<f64>,
}

pub fn run(args: &Args) -> Outcome {
    let store = Store::new(args)?;
    let text = if args.json { format!("{:#}", store.as_json()) } else { store.as_text() };
    print_text(&format!("{text}\n"))
}

impl Store<'_> {
    fn new(args: &Args) -> Outcome<Store<'_>> {
        let record_bytes = args.key_bytes + args.value_bytes;
        let records = args.data / record_bytes;
        if records == 0 {
            let message = format!("--data {}: a record alone has {record_bytes} bytes", args.data);
            return Err(Failure::Use(message));
        }
        let written_per_byte = match args.amplification {
            Some(given) => given,
            None => {
                let memtable_bytes = args.memtable_mib << 20;
                let options = Options::new().memtable_bytes(memtable_bytes as usize);
                let most = (MOST_FLUSHES * memtable_bytes / record_bytes).max(1);
                simulated_amplification(&options, records.min(most), record_bytes)?
            }
        };
        let memory_bytes = args.memory.bytes(args.data);
        let block_bytes = (memory_bytes as f64 * args.blocks / 100.0) as u64;
        let setup = Setup {
            fast: args.fast.profile(),
            slow: args.slow.map(DeviceArg::profile),
            fast_share: args.slow.map_or(1.0, |_| args.fast_share / 100.0),
            records,
            key_bytes: args.key_bytes,
            value_bytes: args.value_bytes,
            zipf_exponent: args.zipf,
            layout: match args.ranks {
                Ranks::Ordered => Layout::ByHeat,
                Ranks::Hashed => Layout::Scattered,
            },
            memory: Memory { block_bytes, page_bytes: memory_bytes - block_bytes },
            read_share: args.reads as f64 / 100.0,
            tree: Tree {
                growth: f64::from(args.growth),
                fast_levels: args.fast_levels.unwrap_or(if args.slow.is_some() { 2 } else { 7 }),
                slow_levels: args.slow_levels,
                fast_probes: args.fast_probes,
                slow_probes: args.slow_probes,
            },
            written_per_byte,
        };
        let larger_share = (setup.fast_share + args.more as f64 / args.data as f64).min(1.0);
        let memory_share = (memory_bytes as f64 / args.data as f64).min(1.0);
        Ok(Store { args, setup, memory_share, larger_share: args.slow.map(|_| larger_share) })
    }

    /// The paper's form and the refined one, with this share of the data on the fast device.
    fn forms(&self, fast_share: f64) -> [Prediction; 2] {
        let setup = Setup { fast_share, ..self.setup.clone() };
        [setup.by_paper(), setup.refined()]
    }

    fn as_json(&self) -> Value {
        let mut forms = self.forms(self.setup.fast_share).map(|form| json_of(&form));
        if let Some(share) = self.larger_share {
            let larger = self.forms(share);
            forms.iter_mut().zip(&larger).for_each(|(form, larger)| form["with_more"] = json_of(larger));
        }
        let [paper, refined] = forms;
        json!({
            "fast": self.args.fast.name(),
            "slow": self.args.slow.map(DeviceArg::name),
            "records": self.setup.records,
            "record_bytes": self.args.key_bytes + self.args.value_bytes,
            "memory_share": self.memory_share,
            "fast_share": self.setup.fast_share,
            "amplification": self.setup.written_per_byte,
            "more_bytes": self.larger_share.map(|_| self.args.more),
            "paper": paper,
            "refined": refined,
        })
    }

    fn as_text(&self) -> String {
        let args = self.args;
        let forms = self.forms(self.setup.fast_share);
        let fast = format!("fast {}", args.fast.name());
        let slow = args.slow.map(|slow| format!("slow {}", slow.name()));
        let limited = |bound: &Bound| self.limited_text(bound.per_second, bound.by);
        let mut text = format!(
            "{}: {} of {}, {:.1}% of it on {fast}, {:.1}% in memory; {:.2} bytes written a byte flushed\n",
            bytes_text(args.data),
            counted(self.setup.records, "record", "records"),
            bytes_text(args.key_bytes + args.value_bytes),
            100.0 * self.setup.fast_share,
            100.0 * self.memory_share,
            self.setup.written_per_byte,
        );
        let mut row = |label: &str, cells: [String; 2]| {
            let line = format!("{label:<32}{:>24}{:>24}", cells[0], cells[1]);
            text.push('\n');
            text.push_str(line.trim_end());
        };
        row("", ["equations 1 to 9".to_owned(), "refined".to_owned()]);
        row("reads that memory serves", forms.each_ref().map(|form| percent(form.rates.memory)));
        row(&format!("reads that {fast} serves"), forms.each_ref().map(|form| percent(form.rates.fast)));
        if let Some(slow) = &slow {
            row(&format!("reads that {slow} serves"), forms.each_ref().map(|form| percent(form.rates.slow)));
        }
        row("accesses to tables, a read", forms.each_ref().map(|form| format!("{:.3}", form.table_accesses)));
        row("reads a second", forms.each_ref().map(|form| limited(&form.reads)));
        row("puts a second", forms.each_ref().map(|form| limited(&form.puts)));
        let mixed = |form: &Prediction| self.limited_text(form.mixed_per_second, form.mixed_limit());
        row(&format!("{}% reads, {}% puts", args.reads, 100 - args.reads), forms.each_ref().map(mixed));
        row("  time of it that reads take", forms.each_ref().map(|form| percent(form.reads_of_time)));
        if let Some(share) = self.larger_share {
            let larger = self.forms(share);
            let gains =
                |of: fn(&Prediction) -> f64| [0, 1].map(|at| gain_text(of(&forms[at]), of(&larger[at])));
            row(&format!("{} more of {fast} buy", bytes_text(args.more)), [String::new(), String::new()]);
            row("  reads a second", gains(|form| form.reads.per_second));
            row("  puts a second", gains(|form| form.puts.per_second));
            row("  operations of the mixed load", gains(|form| form.mixed_per_second));
        }
        text
    }

    fn limited_text(&self, per_second: f64, by: Limit) -> String {
        match (by, self.args.slow) {
            (Limit::Memory, _) => "no limit".to_owned(),
            (Limit::Slow, Some(slow)) => format!("{}, slow {}", number(per_second), slow.name()),
            _ => format!("{}, fast {}", number(per_second), self.args.fast.name()),
        }
    }
}

fn json_of(prediction: &Prediction) -> Value {
    let limit = |limit| match limit {
        Limit::Memory => Value::Null,
        Limit::Fast => json!("fast"),
        Limit::Slow => json!("slow"),
    };
    // JSON has no infinite number: `null` where nothing limits.
    json!({
        "memory_reads_share": prediction.rates.memory,
        "fast_reads_share": prediction.rates.fast,
        "slow_reads_share": prediction.rates.slow,
        "table_accesses": prediction.table_accesses,
        "reads_per_second": prediction.reads.per_second,
        "reads_limit": limit(prediction.reads.by),
        "puts_per_second": prediction.puts.per_second,
        "puts_limit": limit(prediction.puts.by),
        "mixed_per_second": prediction.mixed_per_second,
        "mixed_limit": limit(prediction.mixed_limit()),
        "mixed_reads_time_share": prediction.reads_of_time,
    })
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn number(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { grouped(per_second.round() as u64) }
}

/// What a larger fast device adds to a throughput.
fn gain_text(before: f64, after: f64) -> String {
    if !before.is_finite() {
        return "no limit".to_owned();
    }
    if !after.is_finite() {
        return "no limit any more".to_owned();
    }
    let sign = if after < before { '-' } else { '+' };
    format!("{sign}{} ({:+.1}%)", number((after - before).abs()), 100.0 * (after / before - 1.0))
}
