//! The size of workloads and the draw of their keys: the options of every program that runs workloads.

use crate::workload::{Count, Workload};
use clap::ValueEnum;

/// How large workloads are, and how their keys are drawn.
// A program may have further settings of its own.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "load")]
pub struct Settings {
    /// Keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub num: u64,
    /// Operations of overwrite and updaterandom [default: NUM]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub writes: Option<u64>,
    /// Operations of read workloads [default: NUM; for those that seek a tenth of it, for seeklong a hundredth]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub reads: Option<u64>,
    /// Operations of workloads that seek [default: READS, and else as READS says]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeks: Option<u64>,
    /// Operations of mixed, of pushpop, and of the workloads of YCSB and LogStore [default: NUM]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub operations: Option<u64>,
    /// Seconds that bursts takes
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Seconds that each workload takes, whatever its number of operations. It is no option of the command line: programs set it, but not
    /// for a fill, which would leave keys out.
    #[arg(skip)]
    pub timed_seconds: Option<u64>,
    /// Whether a workload that [`drive`](crate::drive::drive) runs again draws the next keys. Otherwise it draws its first keys again. It is
    /// no option of the command line: programs set it.
    #[arg(skip)]
    pub draws_on: bool,
    /// The number of a workload's first operation, which decides what the operation draws. `drive` sets it.
    #[arg(skip)]
    pub first_operation: u64,
    /// Compare no bytes of what gets and scans return; `byte_sum` in JSON, the sum of all their bytes, is equal for all correct stores
    #[arg(long)]
    pub unchecked: bool,
    /// Operations of a hundred that read in mixed
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub read_percent: u64,
    /// Entries that seekrandom and seekwhilewriting read from a random key on
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub entries: u64,
    /// How workloads that seek scan; only this engine has all forms
    #[arg(long, value_enum, default_value_t = Course::Forward)]
    pub scan: Course,
    /// How random keys are drawn [default: as the workload says, and uniform where it says nothing]
    #[arg(long, value_enum)]
    pub distribution: Option<Distribution>,
    /// Exponent of zipfian and latest, between 0 and 1 [default: 0.9 for LogStore's workloads, 0.99 for the others]
    #[arg(long, value_parser = exponent)]
    pub zipf_exponent: Option<f64>,
    /// Which keys are the hot ones of zipfian
    #[arg(long, value_enum, default_value_t = Ranks::Hashed)]
    pub ranks: Ranks,
    /// Bytes of a key
    #[arg(long, default_value_t = 16)]
    pub key_bytes: usize,
    /// Bytes of a value, which cannot be compressed
    #[arg(long, default_value_t = 128)]
    pub value_bytes: usize,
    /// Column families that the keys are spread over
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub families: u64,
    /// Threads that read or write
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    pub threads: u64,
    /// Writes a second of the thread that writes beside readers [default: as many as it can]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub write_rate: Option<u64>,
    /// Rows that are alive at a time in queue and pushpop [default: a tenth of NUM]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: Option<u64>,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How a scan goes, and what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Course {
    /// Upwards, keys and values
    Forward,
    /// Downwards, keys and values
    Backward,
    /// Upwards, keys alone
    Keys,
    /// Downwards, keys alone
    KeysBackward,
    /// Upwards, keys and values that the program may keep
    Owned,
}

impl Course {
    pub fn is_backward(self) -> bool {
        matches!(self, Course::Backward | Course::KeysBackward)
    }

    pub fn has_values(self) -> bool {
        !matches!(self, Course::Keys | Course::KeysBackward)
    }
}

/// Which keys are drawn often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Each key is drawn as often as any other
    Uniform,
    /// A few keys are drawn very often: by Zipf's law, as YCSB draws
    Zipfian,
    /// The newest keys are drawn most often: by Zipf's law over the age
    Latest,
    /// 99 of 100 operations draw from a hundredth of the keys, which is spread over all keys
    #[value(name = "hot-1-99")]
    Hot1In99,
    /// 80 of 100 operations draw from a fifth of the keys, which is spread over all keys
    #[value(name = "hot-20-80")]
    Hot20In80,
}

impl Distribution {
    /// The name of the distribution, as the command line spells it.
    pub fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
}

/// Which keys the ranks of [`Distribution::Zipfian`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ranks {
    /// Spread over all keys
    Hashed,
    /// The smallest key is the hottest
    Ordered,
}

fn exponent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(exponent) if exponent > 0.0 && exponent < 1.0 => Ok(exponent),
        _ => Err("a number between 0 and 1, both excluded".to_owned()),
    }
}

impl Settings {
    /// Checks the settings for these workloads. An error is a sentence that names the option.
    ///
    /// # Errors
    ///
    /// The sentence, if the settings are wrong, or do not fit these workloads.
    pub fn check(&self, workloads: &[&Workload]) -> Result<(), String> {
        let digits = self.num.saturating_mul(2).to_string().len();
        if self.key_bytes < digits {
            let bytes = self.key_bytes;
            return Err(format!("--key-bytes {bytes}: {} keys need {digits} bytes or more", self.num));
        }
        for workload in workloads {
            if workload.has_a_window() && (self.threads > 1 || self.window() > self.num || self.families > 1)
            {
                return Err(format!(
                    "{} needs one thread, one family, and a window of at most NUM, {} rows; --threads is {}, --families {}, --window {}",
                    workload.name,
                    self.num,
                    self.threads,
                    self.families,
                    self.window()
                ));
            }
            if self.distribution == Some(Distribution::Latest) && !workload.inserts() {
                return Err(format!("--distribution latest: {} inserts nothing; ycsb-d does", workload.name));
            }
        }
        let needs_a_fill =
            |pair: &&[&Workload]| !pair[0].fills() && !pair[0].keeps_the_keys() && !pair[1].starts_empty();
        match workloads.windows(2).find(needs_a_fill) {
            Some(pair) => Err(format!(
                "{} cannot be measured on what {} leaves; put a fill before it",
                pair[1].name, pair[0].name
            )),
            None => Ok(()),
        }
    }

    /// The number of rows of a queue that are alive at a time.
    pub fn window(&self) -> u64 {
        self.window.unwrap_or(self.num.div_ceil(10))
    }

    /// The options that tell what a fill writes. They lack the seed, which changes no key, only the order.
    pub fn filling(&self) -> String {
        let families = match self.families {
            1 => String::new(),
            families => format!(" --families {families}"),
        };
        format!(
            "--num {} --key-bytes {} --value-bytes {}{families}",
            self.num, self.key_bytes, self.value_bytes
        )
    }

    /// The number of operations of a workload, without the operations of the thread that writes beside readers. `None` if the workload ends
    /// by time.
    pub fn operations(&self, workload: &Workload) -> Option<u64> {
        if self.timed_seconds.is_some() {
            return None;
        }
        Some(match workload.count {
            Count::Keys => self.num,
            Count::Writes => self.writes.unwrap_or(self.num),
            Count::Operations => self.operations.unwrap_or(self.num),
            Count::KeysAndWindow => self.num + self.window(),
            Count::WindowAndOperations => self.window() + self.operations.unwrap_or(self.num),
            Count::Reads => self.reads.unwrap_or(self.num),
            Count::Seeks => self.seeks.or(self.reads).unwrap_or(self.num.div_ceil(10)),
            Count::LongSeeks => self.seeks.or(self.reads).unwrap_or(self.num.div_ceil(100)),
            Count::Seconds => return None,
        })
    }

    /// The exponent of the Zipfian draws of a workload.
    pub fn zipf_exponent(&self, workload: &Workload) -> f64 {
        self.zipf_exponent.unwrap_or(workload.zipf_exponent)
    }

    /// The distribution that a workload draws by.
    pub fn distribution(&self, workload: &Workload) -> Distribution {
        self.distribution.unwrap_or(workload.distribution)
    }
}
