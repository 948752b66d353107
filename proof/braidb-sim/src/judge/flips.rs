//! The flip sweep: flips every single bit of every file of a small database, one at a time. It also tries coarser damage.
//!
//! One workload builds three databases. After any damage, opening, reading everything in every way and verifying must end in
//! one of these results, and never in a panic:
//!
//! * *reported*: some step fails, and says that the data is damaged (or of an unknown version);
//! * *harmless*: everything that is read is exact;
//! * *cut*: some last writes are missing, nothing else. Allowed only where the end of the log cannot be told from a torn one.
//!   The opening reports where the cut is, and how many whole frames lie behind it.
//!
//! | database | may be cut |
//! |---|---|
//! | closed cleanly | nothing |
//! | killed, each write in `Sync` | the last write |
//! | killed, writes in `Buffer` after one in `Sync` | what lies behind the last synced mark in the log |
//!
//! A frame carries how far its log was synced when the frame was written. So the last frame's mark counts: it covers the write
//! in `Sync` once a later write exists.
//!
//! Coarser damage to the closed database: a file is truncated, at every length, or missing. In any database, the bytes of one
//! write also replace another write of its size in the log. A misdirected write of the disk does this. In any database, the directory of
//! a slow tier is empty, as if its device were not mounted. Such an open is refused and changes nothing.

use super::Case;
use crate::client::{Client, Trouble};
use crate::draw::OptionSet;
use crate::failure::{Failure, Verdict, no_panic};
use crate::machine::{Machine, SLOW_DIRS, is_named, tier_files};
use crate::model::{Model, State, differences};
use crate::report::Tally;
use crate::rng::Rng;
use crate::workload::{Bytes, COUNTER_KEY, Change, Limits, Op, Workload};
use braidb::{Durability, Error};
use braidb_storage::FileSystem;
use braidb_storage::sim::{Crash, SimFs};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// How the life of a database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    KilledInSync,
    KilledInBuffer,
}

impl End {
    const ALL: [End; 3] = [End::Closed, End::KilledInSync, End::KilledInBuffer];

    fn name(self) -> &'static str {
        match self {
            End::Closed => "closed cleanly",
            End::KilledInSync => "killed in Sync",
            End::KilledInBuffer => "killed in Buffer",
        }
    }
}

/// Judges a case: every `stride`-th bit.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut tally = Tally::default();
    for end in End::ALL {
        let database = Database::build(case, end)?;
        tally.add("databases with values in logs", u64::from(database.has_log_tables));
        tally.add("databases with slow tables", u64::from(database.has_slow_tables()));
        database.judge(None, &mut tally).map_err(|failure| failure.at("with nothing damaged"))?;
        for damage in database.damages(case, end)? {
            if case.trace {
                println!("{}, {damage}", end.name());
            }
            let judged = no_panic(|| database.judge(Some(&damage), &mut tally));
            judged.map_err(|failure| failure.at(format!("{}, {damage}", end.name())))?;
            tally.add(damage.name(), 1);
            tally.add("damaged tier files", u64::from(damage.is_of_tier()));
        }
    }
    Ok(tally)
}

/// Damage to a file.
enum Damage {
    Flipped {
        path: PathBuf,
        bit: u64,
    },
    Truncated {
        path: PathBuf,
        len: u64,
    },
    Missing {
        path: PathBuf,
    },
    /// The directory of a slow tier is empty.
    Unmounted {
        dir: PathBuf,
    },
    Misdirected {
        path: PathBuf,
        from: Range<u64>,
        to: Range<u64>,
    },
}

impl Damage {
    fn path(&self) -> &Path {
        match self {
            Damage::Flipped { path, .. } | Damage::Truncated { path, .. } => path,
            Damage::Missing { path } | Damage::Misdirected { path, .. } => path,
            Damage::Unmounted { dir } => dir,
        }
    }

    /// Whether the damage hits the file `TIER`, which tells an open which tier a directory is.
    fn is_of_tier(&self) -> bool {
        self.hides_tier() || is_named(self.path(), "TIER")
    }

    fn is_of_manifest(&self) -> bool {
        self.path().extension().is_some_and(|extension| extension == "manifest")
    }

    /// Whether the damage takes the file `TIER` from a directory.
    fn hides_tier(&self) -> bool {
        match self {
            Damage::Unmounted { .. } => true,
            Damage::Missing { path } => is_named(path, "TIER"),
            _ => false,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Damage::Flipped { .. } => "bits",
            Damage::Truncated { .. } => "truncations",
            Damage::Missing { .. } => "missing files",
            Damage::Unmounted { .. } => "tiers that are not mounted",
            Damage::Misdirected { .. } => "misdirected writes",
        }
    }

    fn inflict(&self, fs: &SimFs) -> std::io::Result<()> {
        match self {
            Damage::Flipped { path, bit } => fs.flip_bit(path, *bit),
            Damage::Truncated { path, len } => {
                let bytes = fs.read_file(path)?;
                fs.write_file(path, &bytes[..*len as usize])
            }
            Damage::Missing { path } => fs.unlink(path),
            Damage::Unmounted { dir } => {
                fs.files().iter().filter(|path| path.starts_with(dir)).try_for_each(|path| fs.unlink(path))
            }
            Damage::Misdirected { path, from, to } => {
                let mut bytes = fs.read_file(path)?;
                bytes.copy_within(from.start as usize..from.end as usize, to.start as usize);
                fs.write_file(path, &bytes)
            }
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.path().display();
        match self {
            Damage::Flipped { bit, .. } => write!(f, "bit {bit} of {file} flipped (byte {})", bit / 8),
            Damage::Truncated { len, .. } => write!(f, "{file} truncated to {len} bytes"),
            Damage::Missing { .. } => write!(f, "{file} missing"),
            Damage::Unmounted { .. } => write!(f, "nothing in {file}, as if its device were not mounted"),
            Damage::Misdirected { from, to, .. } => write!(f, "bytes {from:?} of {file} also at {to:?}"),
        }
    }
}

/// How many of the zero bytes behind the end of a log have their bits flipped.
const ZEROS_JUDGED: usize = 20;

/// A small database at its end.
struct Database {
    image: SimFs,
    set: OptionSet,
    /// The log and the byte range of each write, for logs that still exist.
    frames: Vec<(PathBuf, Range<u64>)>,
    /// The state after each write, from the empty database to the last one.
    states: Vec<State>,
    /// The first position that a cut may leave.
    lowest_cut: usize,
    probes: Vec<Bytes>,
    has_log_tables: bool,
    seed: u64,
}

impl Database {
    /// Builds a database: some writes that are flushed to tables, a merge, and more writes that stay in the log.
    fn build(case: &Case, end: End) -> Verdict<Database> {
        let mut rng = Rng::new(case.seed);
        let bits = rng.bits();
        let mut set = OptionSet::draw(case.preset, &mut rng);
        // Small values are not left in logs, so log tables need larger ones.
        let value_bytes = if set.log_table_percent > 0 { 200 } else { 60 };
        let mut workload = Workload::new(bits, Limits { crashes: false, value_bytes });
        // The log must not rotate by itself: the damaged log is one log with known frames.
        set.log_bytes = None;
        set.memtable_bytes = set.memtable_bytes.max(1 << 20);
        if set.slow_tiers > 0 {
            // Everything that may be on a slow tier goes there.
            (set.fast_share, set.fast_bytes) = (0, None);
        }
        let fs = SimFs::new();
        let seed = rng.bits();
        let machine = Machine::new(&fs, seed);
        let mut client = machine.open(&set).and_then(Client::new).map_err(broken)?;
        let mut model = Model::new();
        let mut states = vec![model.state().clone()];
        let (mut written, mut frames) = (0, Vec::new());
        while written < case.ops {
            let Op::Write(changes, _) = workload.next_op() else { continue };
            for change in &changes {
                if !client.has(change.family) {
                    client.create(change.family).map_err(broken)?;
                }
            }
            written += 1;
            let changes: Vec<Change> = changes.into_iter().take(3).collect();
            let changes = model.begin(changes, true);
            let synced = end == End::KilledInSync || written == case.ops * 3 / 4;
            let durability = if synced { Durability::Sync } else { Durability::Buffer };
            let before = log_lengths(&fs);
            client.write(&changes, Some(durability)).map_err(broken)?;
            model.acknowledge(durability);
            for (path, len) in log_lengths(&fs) {
                if let Some(&start) = before.get(&path).filter(|start| **start < len) {
                    frames.push((path, start..len));
                }
            }
            states.push(model.state().clone());
            match written * 6 / case.ops {
                step @ (1 | 2) if written == (case.ops * step).div_ceil(6) => {
                    client.db.flush().map_err(broken)?
                }
                3 if written == (case.ops * 3).div_ceil(6) => {
                    client.db.compact().map_err(broken)?;
                    if set.slow_tiers > 0 {
                        client.db.settle().map_err(broken)?;
                    }
                }
                // A flush after the compaction, because a compaction leaves no table that points into logs.
                4 if set.log_table_percent > 0 && written == (case.ops * 4).div_ceil(6) => {
                    client.db.flush().map_err(broken)?;
                }
                _ => {}
            }
        }
        let has_log_tables = client.db.stats().log_tables > 0;
        if end == End::Closed {
            client.db.close().map_err(broken)?;
        }
        let image = fs.crash_image(Crash::Process, 0);
        for (path, len) in log_lengths(&fs) {
            // The zeros behind the end of a log are all alike, so a few are enough.
            let mut bytes = image.read_file(&path).map_err(|error| Failure::new(error.to_string()))?;
            bytes.truncate(len as usize + ZEROS_JUDGED);
            image.write_file(&path, &bytes).map_err(|error| Failure::new(error.to_string()))?;
        }
        let last = states.len() - 1;
        let lowest_cut = match end {
            End::Closed => last,
            End::KilledInSync => last - 1,
            End::KilledInBuffer => (case.ops * 3 / 4) as usize,
        };
        frames.retain(|(path, _)| image.file_len(path).is_ok());
        let probes = workload.keys().to_vec();
        Ok(Database { image, set, frames, states, lowest_cut, probes, has_log_tables, seed })
    }

    /// All damages that are tried: every `stride`-th bit and length.
    fn damages(&self, case: &Case, end: End) -> Verdict<Vec<Damage>> {
        let mut damages = Vec::new();
        for path in self.image.files() {
            let len = self.image.file_len(&path).map_err(|error| Failure::new(error.to_string()))?;
            let bits = (case.seed % case.stride..len * 8).step_by(case.stride as usize);
            damages.extend(bits.map(|bit| Damage::Flipped { path: path.clone(), bit }));
            // Only a sealed log has a known length.
            if end == End::Closed && len > 0 {
                let lens = (case.seed % case.stride..len).step_by(case.stride as usize);
                damages.extend(lens.map(|len| Damage::Truncated { path: path.clone(), len }));
                damages.push(Damage::Missing { path });
            }
        }
        let tiers = tier_files(&self.image).into_iter().filter_map(|file| Some(file.parent()?.to_owned()));
        damages.extend(tiers.map(|dir| Damage::Unmounted { dir }));
        // Damage at the boundaries of whole writes is the hardest to detect.
        for (path, to) in &self.frames {
            if end == End::Closed {
                damages.push(Damage::Truncated { path: path.clone(), len: to.start });
            }
            for (_, from) in self.frames.iter().filter(|(other, _)| other == path) {
                if from != to && from.end - from.start == to.end - to.start {
                    let (from, to) = (from.clone(), to.clone());
                    damages.push(Damage::Misdirected { path: path.clone(), from, to });
                }
            }
        }
        Ok(damages)
    }

    /// Damages the database, opens it, reads everything and verifies.
    fn judge(&self, damage: Option<&Damage>, tally: &mut Tally) -> Verdict {
        let fs = self.image.crash_image(Crash::Process, 0);
        if let Some(damage) = damage {
            damage.inflict(&fs).map_err(|error| Failure::new(error.to_string()))?;
        }
        // Verifies the files before the opening too: `verify` of a closed database must work on damage.
        let before = self.verify_closed(&fs, damage)?;
        let machine = Machine::new(&fs, self.seed);
        let client = match machine.open(&self.set).and_then(Client::new) {
            Ok(_) if damage.is_some_and(Damage::is_of_tier) => {
                return Err(Failure::new("it opens, though a slow tier cannot be told"));
            }
            Ok(client) => client,
            Err(error) => {
                reported(&error, damage).map_err(|failure| failure.at("opening"))?;
                if before == Some(0) {
                    return Err(Failure::new(format!("verify found nothing, but it does not open: {error}")));
                }
                if let Some(Damage::Unmounted { dir }) = damage {
                    self.judge_mounted_again(&fs, dir)?;
                }
                tally.add("reported by opening", 1);
                return Ok(());
            }
        };
        let read = match client.read_all(None, &self.probes) {
            Ok(state) => state,
            Err(Trouble::Failed(error)) => {
                reported(&error, None).map_err(|failure| failure.at("reading"))?;
                return self.judge_partial(&client, tally);
            }
            Err(Trouble::Wrong(what)) => return Err(Failure::new(format!("silently wrong: {what}"))),
        };
        let last = self.states.len() - 1;
        if read == self.states[last] {
            let damages = client.db.verify().map_err(broken)?.damages.len();
            tally.add(if damages > 0 { "reported by verify" } else { "harmless" }, 1);
        } else {
            self.judge_cut(&client, &read, damage)?;
            tally.add("cut", 1);
        }
        // To judge the next life takes as long as to judge this one, so only one of 11 flips does it.
        match damage {
            Some(Damage::Flipped { bit, .. }) if bit % 11 > 0 => Ok(()),
            _ => self.judge_next_life(&fs, client, read, tally),
        }
    }

    fn has_slow_tables(&self) -> bool {
        let is_slow = |path: &PathBuf| SLOW_DIRS.into_iter().any(|dir| path.starts_with(dir));
        self.image.files().iter().any(|path| is_slow(path) && path.extension() == Some("table".as_ref()))
    }

    /// Judges a refused open of a database whose slow tier was empty. It has left nothing there but a lock, and once the tier has its
    /// files again, the database opens whole.
    fn judge_mounted_again(&self, fs: &SimFs, dir: &Path) -> Verdict {
        let is_left = |path: &PathBuf| path.starts_with(dir) && !is_named(path, "LOCK");
        if let Some(left) = fs.files().into_iter().find(is_left) {
            return Err(Failure::new(format!("the refused open leaves {}", left.display())));
        }
        for path in self.image.files().iter().filter(|path| path.starts_with(dir)) {
            let written = self.image.read_file(path).and_then(|bytes| fs.write_file(path, &bytes));
            written.map_err(|error| Failure::new(error.to_string()))?;
        }
        let opened = Machine::new(fs, self.seed + 1).open(&self.set).and_then(Client::new);
        let read = opened.map_err(broken)?.read_all(None, &self.probes);
        let state = read.map_err(|trouble| Failure::new(trouble.to_string()).at("mounted again"))?;
        let last = &self.states[self.states.len() - 1];
        match state == *last {
            true => Ok(()),
            false => Err(Failure::new(format!("mounted again, {}", differences(last, &state)))),
        }
    }

    /// Verifies without opening. `None` means that verifying failed and reported damage.
    fn verify_closed(&self, fs: &SimFs, damage: Option<&Damage>) -> Verdict<Option<usize>> {
        match Machine::new(fs, self.seed).verify(&self.set) {
            Ok(report) => Ok(Some(report.damages.len())),
            Err(error) => {
                reported(&error, damage).map(|()| None).map_err(|failure| failure.at("verify before opening"))
            }
        }
    }

    /// Judges a database in which some read failed. Every read that succeeds must still be exact.
    fn judge_partial(&self, client: &Client, tally: &mut Tally) -> Verdict {
        tally.add("reported by reading", 1);
        let state = &self.states[self.states.len() - 1];
        for (family, contents) in state.iter().enumerate().filter(|(family, _)| client.has(*family)) {
            let counter = Bytes::from(COUNTER_KEY);
            for key in self.probes.iter().chain([&counter]) {
                match client.get(family, key, None) {
                    Ok(got) if got.as_deref() == contents.get(key).map(|value| &**value) => {}
                    Ok(_) => {
                        return Err(Failure::new(format!(
                            "a get of {} is silently wrong",
                            key.escape_ascii()
                        )));
                    }
                    Err(error) => reported(&error, None)?,
                }
            }
        }
        let damages = client.db.verify().map_err(broken)?.damages;
        match damages.is_empty() {
            true => Err(Failure::new("reading reports damage and verify does not")),
            false => Ok(()),
        }
    }

    /// Judges a database that shows less than everything: the cut must be allowed, and reported correctly.
    fn judge_cut(&self, client: &Client, read: &State, damage: Option<&Damage>) -> Verdict {
        let last = self.states.len() - 1;
        let Some(position) = self.states.iter().rposition(|state| state == read) else {
            let what = differences(&self.states[last], read);
            return Err(Failure::new(format!("silently wrong: {what}")));
        };
        if position < self.lowest_cut {
            return Err(Failure::new(format!(
                "silently lost: it is cut at write {position} of {last}; the lowest cut is {}",
                self.lowest_cut
            )));
        }
        let Some(cut) = &client.db.recovery().cut else {
            return Err(Failure::new(format!(
                "silently lost: cut at write {position} of {last}, unreported"
            )));
        };
        let Some(path) = damage.map(Damage::path) else {
            return Err(Failure::new("cut, but nothing was damaged"));
        };
        if cut.path != path {
            return Err(Failure::new(format!(
                "{} was damaged and the cut is in {}",
                path.display(),
                cut.path.display()
            )));
        }
        let whole = (last - position - 1) as u64;
        if cut.whole_frames_behind != whole {
            return Err(Failure::new(format!(
                "cut at write {position} of {last}: {whole} whole frames lie behind, reported are {}",
                cut.whole_frames_behind
            )));
        }
        Ok(())
    }

    /// Judges the next life. After closing, the next opening must read the accepted state again, or report damage.
    fn judge_next_life(&self, fs: &SimFs, client: Client, read: State, tally: &mut Tally) -> Verdict {
        tally.add("opened again", 1);
        if let Err(error) = client.db.close() {
            return reported(&error, None).map_err(|failure| failure.at("closing"));
        }
        drop(client);
        let again = Machine::new(fs, self.seed + 1).open(&self.set).and_then(Client::new);
        let again = match again {
            Ok(client) => client.read_all(None, &self.probes),
            Err(error) => return reported(&error, None).map_err(|failure| failure.at("opening again")),
        };
        match again {
            Ok(again) if again == read => Ok(()),
            Ok(again) => Err(Failure::new(format!("opened again, {}", differences(&read, &again)))),
            Err(Trouble::Wrong(what)) => Err(Failure::new(what)),
            Err(Trouble::Failed(error)) => {
                reported(&error, None).map_err(|failure| failure.at("reading again"))
            }
        }
    }
}

/// The logs and their lengths.
fn log_lengths(fs: &SimFs) -> BTreeMap<PathBuf, u64> {
    let files = fs.files().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    files.filter_map(|path| fs.written_len(&path).ok().map(|len| (path, len))).collect()
}

/// Whether the error reports damage. If the file `TIER` is missing, the error must be [`Error::Tier`]. If it is damaged, the error may be.
/// The same holds for a damaged manifest: without its last edits it is older than the tiers.
fn reported(error: &Error, damage: Option<&Damage>) -> Verdict {
    let is_reported = match error {
        Error::Tier { .. } => damage.is_some_and(|damage| damage.is_of_tier() || damage.is_of_manifest()),
        _ if damage.is_some_and(Damage::hides_tier) => false,
        Error::Unsupported { .. } | Error::NotADatabase { .. } => true,
        _ => error.is_corruption(),
    };
    match is_reported {
        true => Ok(()),
        false => Err(Failure::new(format!("the damage is taken for something else: {error}"))),
    }
}

fn broken(error: Error) -> Failure {
    Failure::new(format!("without damage: {error}"))
}
