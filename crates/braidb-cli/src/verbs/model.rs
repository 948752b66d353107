//! `model`: the cost model of LogStore for a store on one or two devices.

use super::bench::DeviceArg;
use crate::failure::{Failure, Outcome, printing};
use crate::figures::{bytes_text, counted, grouped, parse_bytes};
use crate::text;
use braidb_bench::settings::Ranks;
use braidb_device::PAGE_BYTES;
use braidb_device::cost::{
    Bound, Layout, Limit, PageCache, Part, Popularity, Rates, compactions_of_load, merged_per_byte,
    mixed_per_second,
};
use serde_json::{Value, json};
use std::io::Write as _;

/// Predict reads and puts a second of a store on one or two devices, and which device limits them
///
/// Nothing is run. The first column has equations 1 to 9 of LogStore (section IV): memory has the hottest records, an access costs a seek,
/// and each level costs a read one access and a put one compaction.
///
/// The second column refines them. Memory is a page cache that keeps what was read last. An access also transfers the pages of the record. A
/// record is compacted at most log(DATA in MB) - 1 times, to the base GROWTH. --fast-amplification and --slow-amplification replace these
/// compactions by figures that were measured or simulated.
///
/// One client waits for each operation. Logs, syncs and processors cost nothing.
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
    #[arg(long, value_name = "PERCENT|BYTES", default_value = "2%", value_parser = Memory::parse)]
    memory: Memory,
    /// Share of the data that lies on the fast device, in percent
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = parse_percent, requires = "slow")]
    fast_share: f64,
    /// Fast device to add, whose worth is told: bytes, such as 1GiB
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
    /// Accesses of a read that the fast device serves, such as 1 with filters [default: one for each level]
    #[arg(long, value_name = "NUMBER", value_parser = parse_above_0)]
    fast_probes: Option<f64>,
    /// Accesses of a read that the slow device serves [default: one for each level]
    #[arg(long, value_name = "NUMBER", value_parser = parse_above_0, requires = "slow")]
    slow_probes: Option<f64>,
    /// Bytes that merges read from the fast device and write to it, for each byte put: measured, or twice what `simulate` foretells
    #[arg(long, value_name = "NUMBER", value_parser = parse_from_0)]
    fast_amplification: Option<f64>,
    /// Bytes that merges read from the slow device and write to it, for each byte put
    #[arg(long, value_name = "NUMBER", value_parser = parse_from_0, requires = "slow")]
    slow_amplification: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Memory on the command line.
#[derive(Clone, Copy, Debug)]
enum Memory {
    /// A share of the data, from 0 to 1.
    Share(f64),
    Bytes(u64),
}

impl Memory {
    fn parse(text: &str) -> Result<Memory, String> {
        match text.ends_with('%') {
            true => parse_percent(text).map(|percent| Memory::Share(percent / 100.0)),
            false => parse_bytes(text).map(Memory::Bytes),
        }
    }

    /// The share of `data_bytes` that fits into memory, up to 1.
    fn share_of(self, data_bytes: u64) -> f64 {
        match self {
            Memory::Share(share) => share,
            Memory::Bytes(bytes) => (bytes as f64 / data_bytes as f64).min(1.0),
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

fn parse_from_0(text: &str) -> Result<f64, String> {
    in_range(text, |number| (0.0..=1e6).contains(&number), "a number from 0 to 1000000")
}

fn in_range(text: &str, is_good: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    text.parse().ok().filter(|&number| is_good(number)).ok_or_else(|| format!("expected {expected}"))
}

/// The way in which a column is predicted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Equations 1 to 9.
    Paper,
    /// With a page cache, transfers, and compactions that were given or fit a finite load.
    Refined,
}

/// What a form predicts.
struct Prediction {
    rates: Rates,
    reads: Bound,
    puts: Bound,
    mixed_per_second: f64,
    /// The share of the mixed load's time that reads take.
    reads_of_time: f64,
}

impl Prediction {
    /// What limits the mixed load: the device that limits the operations that take most of the time.
    fn mixed_limit(&self) -> Limit {
        if !self.mixed_per_second.is_finite() {
            Limit::Memory
        } else if self.reads_of_time >= 0.5 {
            self.reads.by
        } else {
            self.puts.by
        }
    }
}

/// The arguments, as the model takes them.
struct Store<'a> {
    args: &'a Args,
    record_bytes: u64,
    popularity: Popularity,
    memory_share: f64,
    fast_share: f64,
    /// The share after `--more`. `None` without a slow device.
    larger_share: Option<f64>,
}

pub fn run(args: &Args) -> Outcome {
    let store = Store::new(args)?;
    let mut text = if args.json { format!("{:#}", store.as_json()) } else { store.as_text() };
    text.push('\n');
    std::io::stdout().write_all(text.as_bytes()).map_err(printing)
}

impl Store<'_> {
    fn new(args: &Args) -> Outcome<Store<'_>> {
        let record_bytes = args.key_bytes + args.value_bytes;
        let records = args.data / record_bytes;
        if records == 0 {
            let message = format!("--data {}: a record alone has {record_bytes} bytes", args.data);
            return Err(Failure::Use(message));
        }
        let fast_share = args.slow.map_or(1.0, |_| args.fast_share / 100.0);
        let larger_share = (fast_share + args.more as f64 / args.data as f64).min(1.0);
        Ok(Store {
            args,
            record_bytes,
            popularity: Popularity::zipf(records, args.zipf),
            memory_share: args.memory.share_of(args.data),
            fast_share,
            larger_share: args.slow.map(|_| larger_share),
        })
    }

    fn predict(&self, form: Form, fast_share: f64) -> Prediction {
        let (fast, slow) = self.parts(form, fast_share);
        let rates = self.rates(form, fast_share);
        let reads = Bound::of_reads(&fast, &slow, &rates);
        let puts = Bound::of_puts(&fast, &slow, self.record_bytes);
        let read_share = self.args.reads as f64 / 100.0;
        let mixed_per_second = mixed_per_second(read_share, reads.per_second, puts.per_second);
        let reads_of_time = match mixed_per_second.is_finite() {
            true => read_share / reads.per_second * mixed_per_second,
            false => 0.0,
        };
        Prediction { rates, reads, puts, mixed_per_second, reads_of_time }
    }

    fn rates(&self, form: Form, fast_share: f64) -> Rates {
        match form {
            Form::Paper if self.args.zipf == 0.0 => Rates::uniform(self.memory_share, fast_share),
            Form::Paper => Rates::hottest_in_memory(&self.popularity, self.memory_share, fast_share),
            Form::Refined => {
                let layout = match self.args.ranks {
                    Ranks::Ordered => Layout::ByHeat,
                    Ranks::Hashed => Layout::Scattered,
                };
                let records_per_page = ((PAGE_BYTES + self.record_bytes / 2) / self.record_bytes).max(1);
                PageCache { share: self.memory_share, records_per_page, layout }
                    .rates(&self.popularity, fast_share)
            }
        }
    }

    /// The devices. A slow one without data has no levels; its levels then are on the fast one.
    fn parts(&self, form: Form, fast_share: f64) -> (Part, Part) {
        let args = self.args;
        let slow_levels = args.slow.map_or(0, |_| args.slow_levels);
        let fast_levels = args.fast_levels.unwrap_or(if args.slow.is_some() { 2 } else { 7 });
        let (fast_merged, slow_merged) = self.merged_per_byte(form, fast_levels, slow_levels);
        let (fast_profile, slow_profile) = (args.fast.profile(), args.slow.unwrap_or(args.fast).profile());
        let (fast, slow) = if fast_share < 1.0 {
            let probes = |given: Option<f64>, levels: u32| given.unwrap_or(f64::from(levels));
            (
                Part::new(&fast_profile, probes(args.fast_probes, fast_levels), fast_merged),
                Part::new(&slow_profile, probes(args.slow_probes, slow_levels), slow_merged),
            )
        } else {
            let probes = args.fast_probes.unwrap_or(f64::from(fast_levels + slow_levels));
            (Part::new(&fast_profile, probes, fast_merged + slow_merged), Part::new(&slow_profile, 1.0, 0.0))
        };
        let access_bytes = self.record_bytes.next_multiple_of(PAGE_BYTES);
        match form {
            Form::Paper => (fast, slow),
            Form::Refined => (fast.transferring(access_bytes), slow.transferring(access_bytes)),
        }
    }

    /// Bytes that merges read and write for each byte put, on the fast and on the slow device, both with data.
    fn merged_per_byte(&self, form: Form, fast_levels: u32, slow_levels: u32) -> (f64, f64) {
        let growth = f64::from(self.args.growth);
        let of_tree = f64::from(fast_levels + slow_levels - 1);
        let compactions = match form {
            Form::Paper => of_tree,
            Form::Refined => of_tree.min(compactions_of_load(self.args.data, growth)),
        };
        let slow_compactions = f64::from(slow_levels).min(compactions);
        let fast = merged_per_byte(growth, compactions - slow_compactions);
        let slow = merged_per_byte(growth, slow_compactions);
        match form {
            Form::Paper => (fast, slow),
            Form::Refined => {
                (self.args.fast_amplification.unwrap_or(fast), self.args.slow_amplification.unwrap_or(slow))
            }
        }
    }

    fn as_json(&self) -> Value {
        let form = |form| {
            let mut value = json_of(&self.predict(form, self.fast_share));
            if let Some(share) = self.larger_share {
                value["with_more"] = json_of(&self.predict(form, share));
            }
            value
        };
        json!({
            "fast": self.args.fast.name(),
            "slow": self.args.slow.map(DeviceArg::name),
            "records": self.popularity.records(),
            "record_bytes": self.record_bytes,
            "memory_share": self.memory_share,
            "fast_share": self.fast_share,
            "more_bytes": self.larger_share.map(|_| self.args.more),
            "paper": form(Form::Paper),
            "refined": form(Form::Refined),
        })
    }

    fn as_text(&self) -> String {
        let args = self.args;
        let forms = [Form::Paper, Form::Refined].map(|form| self.predict(form, self.fast_share));
        let fast = format!("fast {}", args.fast.name());
        let slow = args.slow.map(|slow| format!("slow {}", slow.name()));
        let limited = |bound: &Bound| self.limited_text(bound.per_second, bound.by);
        let mut text = format!(
            "{}: {} of {}, {:.1}% of it on {fast}, {:.1}% in memory\n",
            bytes_text(args.data),
            counted(self.popularity.records(), "record", "records"),
            bytes_text(self.record_bytes),
            100.0 * self.fast_share,
            100.0 * self.memory_share,
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
        row("reads a second", forms.each_ref().map(|form| limited(&form.reads)));
        row("puts a second", forms.each_ref().map(|form| limited(&form.puts)));
        let mixed = |form: &Prediction| self.limited_text(form.mixed_per_second, form.mixed_limit());
        row(&format!("{}% reads, {}% puts", args.reads, 100 - args.reads), forms.each_ref().map(mixed));
        row("  time of it that reads take", forms.each_ref().map(|form| percent(form.reads_of_time)));
        if let Some(share) = self.larger_share {
            let larger = [Form::Paper, Form::Refined].map(|form| self.predict(form, share));
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
