//! `fill DIR`: every store is filled with the same keys in the same random order, each key once.

use crate::Outcome;
use crate::child::{self, Figures};
use crate::figures::{bytes_text, grouped};
use crate::stores::{Kind, Settings};
use braidb_bench::draws::{Noise, mix, shuffled, write_decimal};
use braidb_bench::host::clock::Stopwatch;
use braidb_bench::host::files;
use braidb_bench::host::process::{self, Usage};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Fill databases on disk with the same keys in the same random order, and wait until they have settled
#[derive(clap::Args)]
pub struct Args {
    /// A directory that does not exist yet; it is removed at the end
    dir: PathBuf,
    /// Stores; the first one is compared with each of the others
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["braidb", "fjall"])]
    stores: Vec<Kind>,
    #[command(flatten)]
    sizes: Sizes,
    /// Runs of each store, which take turns; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Clone)]
struct Sizes {
    /// Keys
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    num: u64,
    /// Bytes of a value, which cannot be compressed; a key has 16
    #[arg(long, default_value_t = 128)]
    value_bytes: usize,
    /// Memory for writes, in MiB
    #[arg(long, default_value_t = 64)]
    memtable_mib: usize,
    /// Memory for blocks, in MiB
    #[arg(long, default_value_t = 64)]
    cache_mib: usize,
    /// Where chance starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A put returns when it is on stable storage [default: when the operating system has it]
    #[arg(long)]
    sync: bool,
}

/// Fills one store.
#[derive(clap::Args)]
pub struct OneArgs {
    #[arg(value_enum)]
    store: Kind,
    dir: PathBuf,
    #[command(flatten)]
    sizes: Sizes,
}

const KEY_BYTES: usize = 16;
/// The number of keys that are read back after a fill.
const CHECKED: u64 = 1000;

pub fn run(args: &Args) -> Outcome {
    if args.dir.exists() {
        return Err(format!("{} exists; choose a new directory", args.dir.display()).into());
    }
    fs::create_dir_all(&args.dir)?;
    let origins = args.stores.iter().map(|kind| kind.origin()).collect::<Outcome<Vec<_>>>()?;
    let mut runs: Vec<(Kind, Vec<Figures>)> = args.stores.iter().map(|kind| (*kind, Vec::new())).collect();
    for round in 1..=args.rounds {
        for (kind, runs) in &mut runs {
            let figures = child::figures_of(&args.sizes.command_line(*kind, &args.dir.join("db")))?;
            eprintln!(
                "round {round}: {:6} {} puts a second, settled",
                kind.name(),
                grouped(figures["settled_puts_per_second"] as u64)
            );
            runs.push(figures);
        }
    }
    fs::remove_dir(&args.dir)?;
    let sides: Vec<_> =
        runs.into_iter().map(|(kind, runs)| (kind.name().to_owned(), child::medians(&runs))).collect();
    println!("{}", if args.json { child::as_json(&sides) } else { table(&sides) });
    for origin in origins.into_iter().flatten() {
        eprintln!("{origin}");
    }
    Ok(())
}

impl Sizes {
    fn command_line(&self, kind: Kind, dir: &Path) -> Vec<OsString> {
        let mut line = vec!["one-fill".into(), kind.name().into(), dir.into()];
        for (option, value) in [
            ("--num", self.num),
            ("--value-bytes", self.value_bytes as u64),
            ("--memtable-mib", self.memtable_mib as u64),
            ("--cache-mib", self.cache_mib as u64),
            ("--seed", self.seed),
        ] {
            line.extend([option.into(), value.to_string().into()]);
        }
        line.extend(self.sync.then(|| "--sync".into()));
        line
    }
}

/// A column for each side, and one for the first side divided by each other side.
fn table(sides: &[(String, Figures)]) -> String {
    type Text = fn(f64) -> String;
    let number: Text = |value| grouped(value as u64);
    let bytes: Text = |value| bytes_text(value as u64);
    let exact: Text = |value| format!("{value:.3}");
    let rows: [(&str, &str, Text); 8] = [
        ("puts a second, settled", "settled_puts_per_second", number),
        ("puts a second, until the last put", "puts_per_second", number),
        ("µs CPU a put, until settled", "cpu_us_per_put", exact),
        ("bytes handed to write calls", "called_bytes", bytes),
        ("bytes sent to the device", "device_bytes", bytes),
        ("… handed over for each user byte", "called_per_user_byte", exact),
        ("bytes on disk", "directory_bytes", bytes),
        ("peak memory", "peak_memory_bytes", bytes),
    ];
    let [(first, of_first), others @ ..] = sides else { return String::new() };
    let line = |title: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>16}")).collect();
        format!("{title:36}{cells}")
    };
    let names = sides.iter().map(|(name, _)| name.clone());
    let mut lines =
        vec![line("", names.chain(others.iter().map(|(name, _)| format!("{first}/{name}"))).collect())];
    for (title, name, text) in rows {
        let figures = sides.iter().map(|(_, figures)| text(figures[name]));
        let ratios = others.iter().map(|(_, figures)| format!("{:.3}", of_first[name] / figures[name]));
        lines.push(line(title, figures.chain(ratios).collect()));
    }
    lines.join("\n")
}

pub fn run_one(args: &OneArgs) -> Outcome {
    let sizes = &args.sizes;
    let mib = |mib: usize| mib.saturating_mul(1 << 20);
    let settings = Settings {
        memtable_bytes: mib(sizes.memtable_mib),
        cache_bytes: mib(sizes.cache_mib),
        sync: sizes.sync,
    };
    let store = args.store.open_with(&args.dir, 1, &settings)?;
    let noise = Noise::new(sizes.seed, sizes.value_bytes);
    let mut key = [0; KEY_BYTES];
    let number = |put: u64| shuffled(put, sizes.num, sizes.seed);

    let (watch, before) = (Stopwatch::start(), Usage::now());
    for put in 0..sizes.num {
        write_decimal(number(put), &mut key);
        store.put(0, &key, noise.value(put, sizes.value_bytes))?;
    }
    let seconds = watch.seconds();
    let mut settled = None;
    store.settle(&mut || settled = Some((watch.seconds(), Usage::now().since(&before))))?;
    let (settled_seconds, usage) = settled.ok_or("the store settled without a mark")?;
    let peak_memory_bytes = process::peak_memory_bytes();
    let directory_bytes = files::allocated_below(&args.dir)?;

    for check in 0..CHECKED {
        let put = mix(check) % sizes.num;
        write_decimal(number(put), &mut key);
        let mut is_right = false;
        store.get(0, &key, &mut |value| is_right = value == noise.value(put, sizes.value_bytes))?;
        if !is_right {
            return Err(format!("{} does not have what put {put} wrote", args.store.name()).into());
        }
    }
    drop(store);
    fs::remove_dir_all(&args.dir)?;

    let (puts, user_bytes) = (sizes.num as f64, sizes.num as f64 * (KEY_BYTES + sizes.value_bytes) as f64);
    let figures = Figures::from(
        [
            ("puts_per_second", puts / seconds),
            ("settled_puts_per_second", puts / settled_seconds),
            ("cpu_us_per_put", usage.cpu_us as f64 / puts),
            ("called_bytes", usage.called_bytes as f64),
            ("device_bytes", usage.device_bytes as f64),
            ("called_per_user_byte", usage.called_bytes as f64 / user_bytes),
            ("directory_bytes", directory_bytes as f64),
            ("peak_memory_bytes", peak_memory_bytes as f64),
        ]
        .map(|(name, figure)| (name.to_owned(), figure)),
    );
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}
