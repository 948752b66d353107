//! `tier add|list|evacuate DIR`: the slow tiers of a database.

use super::stats::devices::{NO_TIERS, devices_text, tier_json};
use crate::failure::{Failure, Outcome, printing};
use crate::figures::{bytes_text, ratio};
use crate::host::clock::Stopwatch;
use crate::host::files;
use crate::progress::{Progress, Unit};
use crate::store::{Place, TIER, absolute};
use crate::text;
use braidb::stats::TierStats;
use braidb::{Db, Durability, Options};
use clap::Subcommand;
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Add a slow tier to a database, list its tiers, or empty one
///
/// A slow tier is a directory on a slower device, which takes what readers seldom want. The directory of the database is the fast tier. The
/// database remembers its tiers: later commands and programs find them by themselves.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
pub struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Subcommand)]
enum Step {
    Add(Add),
    List(List),
    Evacuate(Evacuate),
}

/// Make a directory a slow tier of an existing database
///
/// The directory is made if there is none; an existing one must be empty. Paths are remembered as absolute ones. A database that has had a
/// slow tier is refused by versions of BraidDB without tiers.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
struct Add {
    #[command(flatten)]
    place: Place,
    /// The directory on the slower device
    slow_dir: PathBuf,
    /// Move the coldest data there now, until at most this percentage is on the fast tier; without it, data moves as the database is used
    ///
    /// The data goes to this directory; what has no room there goes to other slow tiers. More stays on the fast tier where the data was
    /// written lately (`braidb compact` brings it down first), where small values lie beside large ones, and if the slow device has no room:
    /// the command then says so. A larger share brings nothing back: readers do, or `tier evacuate`.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    fast_share: Option<u32>,
}

/// Print the tiers: number, bytes and cells of the database, free bytes, and path
///
/// A tier is closed while nothing is written to it, because a merge could not write there lately.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
struct List {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Move everything off a slow tier, and take the tier out of the database
///
/// The data goes to other slow tiers that have room, or else to the fast one. If the command is stopped or fails, the tier stays a tier and
/// nothing is lost; run it again to go on. What came back to the tier meanwhile is moved again.
#[derive(clap::Args)]
#[command(after_help = text::EXIT_STATUS)]
struct Evacuate {
    #[command(flatten)]
    place: Place,
    /// The directory of the tier
    slow_dir: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    match &args.step {
        Step::Add(args) => add(args),
        Step::List(args) => list(args),
        Step::Evacuate(args) => evacuate(args),
    }
}

fn add(args: &Add) -> Outcome {
    let slow_dir = absolute(&args.slow_dir)?;
    let was_tier = slow_dir.join(TIER).exists();
    let options = Options::new().durability(Durability::Buffer).slow_path(&slow_dir);
    let options = match args.fast_share {
        Some(percent) => options.fast_share(percent),
        None => options.background_merges(false),
    };
    // The engine names its option, and the user gave an argument.
    let db = args.place.open_with(options).map_err(|failure| {
        failure.reworded(|why| match args.place.names_tiers() {
            false => why.replace("option `--slow-path`: ", "SLOW_DIR: "),
            true => why.replace("option `--slow-path`: ", "SLOW_DIR and --slow-path: "),
        })
    })?;
    if args.fast_share.is_some() {
        eprintln!("moving the coldest data; if this is stopped, the database is in order and keeps the tier");
        db.settle()?;
    }
    let tier = tier_at(&db, &args.place, &slow_dir)?;
    let bytes = |tier: &TierStats| bytes_text(tier.bytes);
    let tiers = db.stats().tiers;
    let mut text = format!(
        "{} {} tier {} of {}; the database remembers it\n",
        slow_dir.display(),
        if was_tier { "is, as before," } else { "is now" },
        tier.id,
        args.place.dir.display()
    );
    if let (Some(percent), [fast, ..]) = (args.fast_share, tiers.as_slice()) {
        let others = tiers[1..].iter().filter(|other| other.id != tier.id).map(|other| other.bytes);
        let others = match others.sum() {
            0 => String::new(),
            others => format!(", {} on other slow tiers", bytes_text(others)),
        };
        text += &format!(
            "{} on it, {} on the fast tier{others}; the share of {percent}% is not remembered: programs give it by `Options::fast_share`\n",
            bytes(&tier),
            bytes(fast)
        );
        let all_bytes: u64 = tiers.iter().map(|tier| tier.bytes).sum();
        if fast.bytes > (u128::from(all_bytes) * u128::from(percent) / 100) as u64 {
            text += &format!(
                "more than {percent}% stays: what was written lately (run `braidb compact` first), small values beside large ones, or what \
                 the slow device has no room for\n"
            );
        }
    }
    db.close()?;
    std::io::stdout().write_all(text.as_bytes()).map_err(printing)
}

fn list(args: &List) -> Outcome {
    let db = args.place.open_to_read()?;
    let tiers = db.stats().tiers;
    db.close()?;
    let mut text = String::new();
    match (args.json, tiers.is_empty()) {
        (true, _) => text = format!("{:#}\n", Value::from_iter(tiers.iter().map(tier_json))),
        (false, true) => text = format!("{NO_TIERS}\n"),
        (false, false) => devices_text(&tiers, &mut text),
    }
    std::io::stdout().write_all(text.as_bytes()).map_err(printing)
}

fn evacuate(args: &Evacuate) -> Outcome {
    let db = args.place.open(Durability::Buffer)?;
    let tier = tier_at(&db, &args.place, &absolute(&args.slow_dir)?)?;
    let watch = Stopwatch::start();
    let mut moved = Moved::new(tier.bytes);
    let emptied = db.evacuate(&tier.path, |left_bytes| moved.show(left_bytes));
    drop(moved);
    // The tier is one of the database, so it is the data on it that cannot be moved.
    emptied.map_err(|error| match error {
        braidb::Error::Tier { .. } => Failure::Storage(error.to_string()),
        other => other.into(),
    })?;
    db.close()?;
    writeln!(
        std::io::stdout(),
        "{} moved in {:.1} s; {} is no tier any more, and may be removed",
        bytes_text(tier.bytes),
        watch.seconds(),
        tier.path.display()
    )
    .map_err(printing)
}

/// The slow tier whose directory `slow_dir` is.
pub fn tier_at(db: &Db, place: &Place, slow_dir: &Path) -> Outcome<TierStats> {
    let is_there = |tier: &TierStats| tier.path == slow_dir || files::is_same_dir(&tier.path, slow_dir);
    let found = db.stats().tiers.into_iter().find(|tier| tier.id > 0 && is_there(tier));
    found.ok_or_else(|| {
        Failure::Use(format!(
            "{} is no slow tier of {}; `braidb tier list` names its tiers",
            slow_dir.display(),
            place.dir.display()
        ))
    })
}

/// Shows how much of a tier has been moved: a bar on a terminal, a line for each tenth elsewhere.
struct Moved {
    progress: Progress,
    /// The most bytes that were seen on the tier. Writes may bring more until the tier is given up.
    all_bytes: u64,
    tenths: u64,
}

impl Moved {
    fn new(all_bytes: u64) -> Moved {
        Moved { progress: Progress::new(Unit::Bytes, all_bytes), all_bytes, tenths: 0 }
    }

    fn show(&mut self, left_bytes: u64) {
        self.all_bytes = self.all_bytes.max(left_bytes);
        let moved = self.all_bytes - left_bytes;
        if !self.progress.is_hidden() {
            return self.progress.show(moved, self.all_bytes, "");
        }
        let tenths = (ratio(moved, self.all_bytes) * 10.0) as u64;
        if tenths > self.tenths {
            self.tenths = tenths;
            eprintln!("{}0% of {} moved", tenths, bytes_text(self.all_bytes));
        }
    }
}
