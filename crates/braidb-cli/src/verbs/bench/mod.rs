//! `bench DIR WORKLOAD…`: how fast, how much is written, at what cost.
//!
//! The database lies in `DIR/db`, and the file `DIR/BRAIDB-BENCH` says that the benchmark made the directory: without
//! it, nothing in DIR is touched. Its text says with what the database was filled, and is empty while it is not. So a
//! later run can measure reads on what an earlier one filled, and only with the same keys.

mod measure;
mod paper;
mod queue;
mod report;
mod space;
mod workload;

use crate::failure::{Failure, Outcome};
use crate::host::files;
use crate::store::{BENCH_DB, BENCH_MARK, empty_database, open_with, require_free};
use crate::text;
use braidb::{Db, Durability, Guards, MemoryPolicy, Options};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use workload::{Data, Distribution, Workload};

/// Measure workloads, one after the other
///
/// fillseq and fillrandom start with an empty database and write NUM keys once each, in order and in random order.
/// overwrite writes random keys of those, and updaterandom does so to an empty database. readrandom gets random keys,
/// readmissing keys that lie between them, and seekrandom moves an iterator to a random key and reads 50 entries from
/// there; getwhilewriting and seekwhilewriting do so while one more thread writes random keys. mixed gets and overwrites random
/// keys, in a proportion that --read-percent sets. Each figure of bytes and time includes the background work: a workload ends
/// when the engine has settled.
///
/// queue starts with an empty database too. It appends rows, and from WINDOW rows on deletes the oldest for each new one,
/// NUM of them. When the engine has settled, it scans 1000 rows from the front, and does the same with a fresh database
/// that holds the same rows.
///
/// The database stays in DIR/db, so that later runs can measure on it with the NUM, KEY_BYTES and VALUE_BYTES of the fill.
#[derive(clap::Args, Debug)]
#[command(after_help = text::EXIT_STATUS, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    reproduction: Option<Reproduction>,
    #[command(flatten)]
    measurement: Measurement,
}

#[derive(clap::Subcommand, Debug)]
enum Reproduction {
    Paper(paper::Args),
}

/// Workloads on a database.
#[derive(clap::Args, Debug)]
struct Measurement {
    /// A directory for the benchmark: new, empty, or from an earlier benchmark (`./paper` if it is called that)
    // An option, because a reproduction goes without.
    #[arg(required = true)]
    dir: Option<PathBuf>,
    /// What to measure
    #[arg(required = true, value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    #[command(flatten)]
    settings: Settings,
    /// Print one JSON object a line for each workload
    #[arg(long)]
    json: bool,
}

/// How large workloads are, and what the database is given.
#[derive(clap::Args, Debug)]
struct Settings {
    /// Keys
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    num: u64,
    /// Operations of overwrite and updaterandom [default: NUM]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    writes: Option<u64>,
    /// Operations of read workloads [default: NUM; for those that seek a tenth of it]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    reads: Option<u64>,
    /// Operations of mixed [default: NUM]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// Operations of a hundred that read in mixed
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(0..=100))]
    read_percent: u64,
    /// How random keys are drawn
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    distribution: Distribution,
    /// Bytes of a key
    #[arg(long, default_value_t = 16)]
    key_bytes: usize,
    /// Bytes of a value, which cannot be compressed
    #[arg(long, default_value_t = 128)]
    value_bytes: usize,
    /// Threads that read or write
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Writes a second that the thread beside the readers is held to [default: as many as it can]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    write_rate: Option<u64>,
    /// What an acknowledged write means
    #[arg(long, value_enum, default_value_t = DurabilityArg::Buffer)]
    durability: DurabilityArg,
    /// Rows that are alive at a time in queue [default: a tenth of NUM]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Memory for writes, in MiB
    #[arg(long, default_value_t = 64)]
    memtable_mib: usize,
    /// The same in bytes
    #[arg(long, value_name = "BYTES", conflicts_with = "memtable_mib")]
    memtable_bytes: Option<usize>,
    /// Memory for blocks, in MiB
    #[arg(long, default_value_t = 64)]
    cache_mib: usize,
    /// Threads that merge
    #[arg(long, default_value_t = 2)]
    background_threads: usize,
    /// Runs that a cell of the tree holds before they are merged; 1 is a leveled tree [default: the engine's]
    #[arg(long)]
    runs: Option<usize>,
    /// Where levels are cut into cells [default: the engine's]
    #[arg(long, value_enum)]
    guards: Option<GuardsArg>,
    /// Merges of L0 wait below so much overlap, in percent; 0 never [default: the engine's]
    #[arg(long, value_name = "PERCENT")]
    l0_overlap: Option<u32>,
    /// How memory is kept small until it is flushed [default: the engine's]
    #[arg(long, value_enum)]
    memory: Option<MemoryArg>,
    /// From how many superseded versions in a hundred on --memory adaptive drops them
    #[arg(long, default_value_t = 20)]
    redundancy_percent: u32,
    /// How much of the memtable new writes gather in, in percent [default: the engine's]
    #[arg(long)]
    active_percent: Option<u32>,
    /// Flat segments of memory beside each other [default: the engine's]
    #[arg(long)]
    segments: Option<usize>,
    /// Bytes of logs beyond which memory is flushed [default: four times the memory for writes, and at least 64 MiB]
    #[arg(long, value_name = "BYTES")]
    log_bytes: Option<u64>,
    /// Keys in a hundred that stay in memory at a flush, to begin with; 0 is none, ever [default: the engine's]
    #[arg(long)]
    hot_keys_percent: Option<u32>,
    /// Tables in L0 at which they are merged [default: the engine's]
    #[arg(long, value_name = "TABLES")]
    l0_merge_tables: Option<usize>,
    /// At so many bytes in a hundred of a log that would go to tables, these stay in the log; 0 is never [default: the engine's]
    #[arg(long, value_name = "PERCENT")]
    log_tables: Option<u32>,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// [`Durability`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum DurabilityArg {
    None,
    Buffer,
    Sync,
}

/// [`Guards`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum GuardsArg {
    /// Nowhere
    None,
    /// By bytes
    Balanced,
    /// By the hashes of keys: 27 bits for L1, 2 fewer for each deeper level
    Sampled,
}

/// [`MemoryPolicy`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MemoryArg {
    /// Not at all: one skiplist
    None,
    /// Flat segments, whose indices are merged
    Basic,
    /// All superseded versions go at once
    Eager,
    /// Superseded versions go where there are many
    Adaptive,
}

impl From<GuardsArg> for Guards {
    fn from(arg: GuardsArg) -> Guards {
        match arg {
            GuardsArg::None => Guards::None,
            GuardsArg::Balanced => Guards::Balanced,
            GuardsArg::Sampled => Guards::Sampled { top_level_bits: 27, bit_decrement: 2 },
        }
    }
}

pub fn run(args: &Args) -> Outcome {
    match &args.reproduction {
        Some(Reproduction::Paper(args)) => paper::run(args),
        None => run_workloads(&args.measurement),
    }
}

fn run_workloads(args: &Measurement) -> Outcome {
    let (dir, settings) = (args.dir(), &args.settings);
    let data = Data::new(settings)?;
    args.check()?;
    let mark = dir.join(BENCH_MARK);
    if !mark.exists() {
        require_free(dir)?;
    }
    let db_dir = dir.join(BENCH_DB);
    if !args.workloads[0].starts_empty() {
        require_filled(args, &mark, &db_dir)?;
    }
    let mut db = None;
    for &workload in &args.workloads {
        if workload.starts_empty() {
            if let Some(old) = db.take() {
                Db::close(&old)?;
            }
            start_empty(dir, &settings.options())?;
        }
        let open = match db.take() {
            Some(open) => open,
            None => open_with(&db_dir, settings.options())?,
        };
        let measured = measure::measure(&open, &db_dir, workload, &data, settings)?;
        let scans = match workload {
            Workload::Queue => Some(queue::compare(&open, &dir.join("fresh"), &data, settings)?),
            _ => None,
        };
        report::print(&measured, scans, args, files::bytes_in(&db_dir).unwrap_or(0))?;
        if workload.fills() {
            open.persist(Durability::Sync)?;
            set_mark(&mark, &settings.filling())?;
        }
        db = Some(open);
    }
    match db {
        Some(db) => Ok(db.close()?),
        None => Ok(()),
    }
}

impl Measurement {
    fn dir(&self) -> &Path {
        self.dir.as_deref().expect("the command line requires it where nothing is reproduced")
    }

    fn check(&self) -> Outcome {
        let settings = &self.settings;
        if self.workloads.contains(&Workload::Queue)
            && (settings.threads > 1 || settings.window() > settings.num)
        {
            return Err(Failure::Use(format!(
                "queue needs one thread and a window of at most NUM, {} rows; --threads is {}, --window {}",
                settings.num,
                settings.threads,
                settings.window()
            )));
        }
        let needs_a_fill =
            |pair: &&[Workload]| pair[0].starts_empty() && !pair[0].fills() && !pair[1].starts_empty();
        match self.workloads.windows(2).find(needs_a_fill) {
            Some(pair) => Err(Failure::Use(format!(
                "{} cannot be measured on what {} leaves; put a fill before it",
                pair[1].name(),
                pair[0].name()
            ))),
            None => Ok(()),
        }
    }
}

impl Settings {
    fn options(&self) -> Options {
        let options = Options::new()
            .durability(match self.durability {
                DurabilityArg::None => Durability::None,
                DurabilityArg::Buffer => Durability::Buffer,
                DurabilityArg::Sync => Durability::Sync,
            })
            .memtable_bytes(self.memtable_bytes())
            .log_bytes(self.log_bound_bytes())
            .block_cache_bytes(self.cache_mib.saturating_mul(1 << 20))
            .background_threads(self.background_threads);
        let memory_policy = self.memory.map(|memory| match memory {
            MemoryArg::None => MemoryPolicy::None,
            MemoryArg::Basic => MemoryPolicy::Basic,
            MemoryArg::Eager => MemoryPolicy::Eager,
            MemoryArg::Adaptive => MemoryPolicy::Adaptive { redundancy_percent: self.redundancy_percent },
        });
        let options = given(options, self.runs, Options::max_runs_per_guard);
        let options = given(options, self.guards.map(Guards::from), Options::guards);
        let options = given(options, memory_policy, Options::memory_policy);
        let options = given(options, self.active_percent, Options::active_percent);
        let options = given(options, self.segments, Options::pipeline_segments);
        let options = given(options, self.hot_keys_percent, Options::hot_keys_percent);
        let options = given(options, self.l0_overlap, Options::l0_overlap_percent);
        let options = given(options, self.log_tables, Options::log_table_percent);
        given(options, self.l0_merge_tables, Options::l0_merge_tables)
    }

    /// What the logs may take. The engine is told always, so that its default is no other.
    fn log_bound_bytes(&self) -> u64 {
        self.log_bytes.unwrap_or_else(|| (self.memtable_bytes() as u64).saturating_mul(4).max(64 << 20))
    }

    /// What a database may take on disk while the same keys stay alive: merges write anew what they read, beside logs and
    /// memory.
    fn directory_bound_bytes(&self, live_bytes: u64) -> u64 {
        2 * live_bytes + self.log_bound_bytes() + 4 * self.memtable_bytes() as u64
    }

    fn memtable_bytes(&self) -> usize {
        self.memtable_bytes.unwrap_or(self.memtable_mib.saturating_mul(1 << 20))
    }

    /// Rows of a queue that are alive at a time.
    fn window(&self) -> u64 {
        self.window.unwrap_or(self.num.div_ceil(10))
    }

    /// Keys and values that are alive after a workload.
    fn live_bytes(&self, workload: Workload, data: &Data) -> u64 {
        let rows = match workload {
            Workload::Queue => self.window(),
            Workload::Updaterandom => data.different(workload, self.operations(workload)),
            _ => self.num,
        };
        rows.saturating_mul((self.key_bytes + self.value_bytes) as u64)
    }

    /// Whether what is alive stays the same from this operation on, so that space can be judged by it: not in workloads
    /// that begin with nothing.
    fn is_steady(&self, workload: Workload, operation: u64) -> bool {
        match workload {
            Workload::Queue => operation >= self.window(),
            _ => workload.writes() && !workload.starts_empty(),
        }
    }

    /// What a fill writes, as the options that ask for it. (The seed changes no key, only the order.)
    fn filling(&self) -> String {
        format!("--num {} --key-bytes {} --value-bytes {}", self.num, self.key_bytes, self.value_bytes)
    }

    /// How many operations a workload has, those of the thread that writes beside readers left out.
    fn operations(&self, workload: Workload) -> u64 {
        match workload {
            Workload::Fillseq | Workload::Fillrandom => self.num,
            Workload::Overwrite | Workload::Updaterandom => self.writes.unwrap_or(self.num),
            Workload::Mixed => self.operations.unwrap_or(self.num),
            Workload::Queue => self.num + self.window(),
            Workload::Readrandom | Workload::Readmissing | Workload::Getwhilewriting => {
                self.reads.unwrap_or(self.num)
            }
            Workload::Seekrandom | Workload::Seekwhilewriting => self.reads.unwrap_or(self.num.div_ceil(10)),
        }
    }
}

/// Sets an option of the engine, if it is given.
fn given<T>(options: Options, value: Option<T>, set: fn(Options, T) -> Options) -> Options {
    match value {
        Some(value) => set(options, value),
        None => options,
    }
}

/// Refuses to measure on what an earlier run did not fill, or filled with other keys or values.
fn require_filled(args: &Measurement, mark: &Path, db_dir: &Path) -> Outcome {
    let filled = match mark.exists() && db_dir.exists() {
        true => files::read_text(mark).map_err(|error| Failure::file("read", mark, &error))?,
        false => String::new(),
    };
    let dir = args.dir().display();
    match filled.trim_end() {
        "" => Err(Failure::Use(format!(
            "{dir} is not filled; fill it first: braidb bench {dir} fillrandom {} {}",
            args.workloads[0].name(),
            args.settings.filling()
        ))),
        filled if filled != args.settings.filling() => Err(Failure::Use(format!(
            "{dir} was filled with {filled}, and not with {}; use the same options, or fill it anew",
            args.settings.filling()
        ))),
        _ => Ok(()),
    }
}

/// Says in the directory that it is the benchmark's, and what its database was filled with.
fn set_mark(mark: &Path, filling: &str) -> Outcome {
    files::write_text(mark, filling).map_err(|error| Failure::file("write", mark, &error))
}

/// Makes the directory the benchmark's, without the database of an earlier workload. Until all that can be refused was, that
/// one is as it was.
fn start_empty(dir: &Path, options: &Options) -> Outcome {
    options.check()?;
    let (mark, db_dir) = (dir.join(BENCH_MARK), dir.join(BENCH_DB));
    files::create_dir(dir).map_err(|error| Failure::file("create", dir, &error))?;
    if !mark.exists() {
        set_mark(&mark, "")?;
    }
    empty_database(&db_dir, || set_mark(&mark, ""))
}
