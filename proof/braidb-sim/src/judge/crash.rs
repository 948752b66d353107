//! The crash explorer: stops a workload before chosen storage operations and judges what a crash there leaves.
//!
//! A *point* is one storage operation that changes something. At a chosen point the explorer takes three images: the process
//! killed, power lost with everything unsynced, power lost with unsynced changes torn. After the interrupted call, each image
//! is opened on its own machine. It must open, be whole by `verify`, and equal the model at one position that the moment
//! allows. One image in 4 is opened to read first, which must find the same and change no byte. Then the image must go on to
//! work: some more synced writes must survive a power failure. For some images the opening itself is stopped at points too.
//! Recovery must then find the same position again.
//!
//! On a machine with slow tiers, half of the images give each device a crash of its own: one may lose power while another keeps its
//! unsynced data. The crash of the device with the logs decides which positions are allowed.
//!
//! Points are classified by what the engine was doing. Rare kinds are chosen more often than plain commits.

use super::Case;
use crate::draw::{OptionSet, Preset};
use crate::failure::{Failure, Verdict, no_panic};
use crate::machine::{Begun, Doing, SLOW_DEVICES};
use crate::model::Model;
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::{Form, May, Moment, Outage, Runner, SLOW_STEPS};
use crate::workload::{Bytes, CRASHES, Limits, Op, Workload};
use braidb_storage::Lane;
use braidb_storage::sim::{Crash, Op as FileOp, OpKind, SimFs};
use parking_lot::Mutex;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// What a crash interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Commit,
    Flush,
    /// A flush appends the entries that stay in memory to the newest log.
    WriteBack,
    /// A log collection appends the live entries of old logs to the newest one, so that old logs go without a flush.
    LogRewrite,
    Merge,
    /// A merge that reads values out of logs.
    LogTableMerge,
    /// A merge or copy that writes to a slow tier.
    SlowMerge,
    Rotation,
    ManifestSnapshot,
    Recovery,
    Deletion,
    /// An edit outside of jobs: the database or a column family is created.
    Edit,
}

impl Phase {
    pub const ALL: [Phase; 12] = [
        Phase::Commit,
        Phase::Flush,
        Phase::WriteBack,
        Phase::LogRewrite,
        Phase::Merge,
        Phase::LogTableMerge,
        Phase::SlowMerge,
        Phase::Rotation,
        Phase::ManifestSnapshot,
        Phase::Recovery,
        Phase::Deletion,
        Phase::Edit,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Phase::Commit => "points in plain commits",
            Phase::Flush => "points in flushes",
            Phase::WriteBack => "points in write-backs",
            Phase::LogRewrite => "points in log rewrites",
            Phase::Merge => "points in other merges",
            Phase::LogTableMerge => "points in log-table merges",
            Phase::SlowMerge => "points in merges to slow tiers",
            Phase::Rotation => "points in log rotations",
            Phase::ManifestSnapshot => "points in manifest snapshots",
            Phase::Recovery => "points in recovery",
            Phase::Deletion => "points in deletions of files",
            Phase::Edit => "points in other edits",
        }
    }

    /// One in this many operations of the phase becomes a point.
    fn one_in(self) -> u64 {
        match self {
            Phase::Commit => 10,
            Phase::Recovery => 15,
            Phase::WriteBack | Phase::LogRewrite | Phase::SlowMerge => 2,
            Phase::Flush
            | Phase::Merge
            | Phase::LogTableMerge
            | Phase::Rotation
            | Phase::Deletion
            | Phase::Edit => 4,
            Phase::ManifestSnapshot => 3,
        }
    }
}

/// Points of one phase in one case, at most. The bound keeps one phase from taking all points.
const MOST_OF_A_PHASE: u64 = 40;

/// Classifies each operation, by its file and by earlier operations.
#[derive(Debug, Default)]
struct Phases {
    /// A new manifest was created, and `CURRENT` does not name it yet.
    new_manifest: bool,
    /// A new log was created, and its name is not stable yet.
    new_log: bool,
    job: JobSeen,
}

/// What the running job has done so far.
#[derive(Debug, Default)]
struct JobSeen {
    number: u64,
    /// Whether the job has created a table file.
    has_table: bool,
    /// Whether the job has created a log before any table. A job of [`Lane::Flush`] does so if it collects logs, or if its flush leaves all
    /// entries in memory, which writes the same to the log.
    rewrites_logs: bool,
    reads_logs: bool,
    /// Whether the job has created a file on a slow tier.
    is_slow: bool,
}

impl JobSeen {
    fn see(&mut self, fs: &SimFs, op: &FileOp, begun: Begun, name: &str) {
        if self.number != begun.number {
            *self = JobSeen { number: begun.number, ..JobSeen::default() };
        }
        if op.kind == OpKind::Create {
            self.has_table |= name.ends_with(".table");
            self.rewrites_logs |= name.ends_with(".log") && !self.has_table;
            self.is_slow |= is_slow(&op.path);
        }
        self.reads_logs = fs.log_reads() > begun.log_reads;
    }
}

impl Phases {
    fn of(&mut self, fs: &SimFs, op: &FileOp, doing: Doing) -> Phase {
        let name = op.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_manifest = name.ends_with(".manifest") || name.starts_with("CURRENT");
        let is_log = name.ends_with(".log");
        if let Doing::Job(_, begun) = doing {
            self.job.see(fs, op, begun, &name);
        }
        match op.kind {
            OpKind::Create if name.ends_with(".manifest") => self.new_manifest = true,
            OpKind::Create if name.ends_with(".log") => self.new_log = true,
            _ => {}
        }
        // Logs and manifests have nothing to do with the directories of slow tiers.
        let in_fast = !is_slow(&op.path);
        let (in_manifest, in_log) = (in_fast && self.new_manifest, in_fast && self.new_log);
        if op.kind == OpKind::SyncDir && in_fast {
            self.new_log = false;
        }
        if op.kind == OpKind::Rename && in_fast {
            self.new_manifest = false;
        }
        let job = &self.job;
        match (doing, op.kind) {
            (Doing::Opening, _) => Phase::Recovery,
            (Doing::Job(Lane::Flush, _), OpKind::Append) if is_log && job.rewrites_logs => Phase::LogRewrite,
            (Doing::Job(Lane::Flush, _), OpKind::Append) if is_log && job.has_table => Phase::WriteBack,
            _ if in_manifest && (is_manifest || op.kind == OpKind::SyncDir) => Phase::ManifestSnapshot,
            _ if in_log && (is_log || op.kind == OpKind::SyncDir) => Phase::Rotation,
            (_, OpKind::Unlink) => Phase::Deletion,
            (Doing::Job(Lane::Flush, _), _) if job.rewrites_logs => Phase::LogRewrite,
            (Doing::Job(Lane::Flush, _), _) => Phase::Flush,
            (Doing::Job(Lane::Merge, _), _) if job.is_slow => Phase::SlowMerge,
            (Doing::Job(Lane::Merge, _), _) if job.reads_logs => Phase::LogTableMerge,
            (Doing::Job(Lane::Merge, _), _) => Phase::Merge,
            (Doing::Job(Lane::Memory, _), _) => {
                panic!("memory compaction touches no file, but {} was touched", op.path.display())
            }
            (Doing::Call, OpKind::Truncate) if is_log => Phase::Rotation,
            (Doing::Call, _) if is_log => Phase::Commit,
            (Doing::Call, _) if name.ends_with(".table") || name.ends_with(".values") => Phase::Flush,
            (Doing::Call, _) => Phase::Edit,
        }
    }
}

/// Whether a path is on the device of a slow tier.
fn is_slow(path: &Path) -> bool {
    SLOW_DEVICES.into_iter().any(|device| path.starts_with(device))
}

/// A moment at which a crash was tried.
struct Point {
    phase: Phase,
    op: FileOp,
    may: May,
    images: Vec<(Outage, SimFs)>,
}

/// Chooses points, and keeps their images until they are judged.
struct Explorer {
    rng: Rng,
    phases: Phases,
    chosen: [u64; Phase::ALL.len()],
    /// Factor by which points are more likely than usual.
    eagerness: u64,
    points: Vec<Point>,
}

impl Explorer {
    fn new(rng: Rng, eagerness: u64) -> Arc<Mutex<Explorer>> {
        Arc::new(Mutex::new(Explorer {
            rng,
            phases: Phases::default(),
            chosen: [0; Phase::ALL.len()],
            eagerness,
            points: Vec::new(),
        }))
    }

    fn see(&mut self, fs: &SimFs, op: &FileOp, moment: Moment) {
        let phase = self.phases.of(fs, op, moment.doing);
        let chosen = &mut self.chosen[phase as usize];
        if *chosen == MOST_OF_A_PHASE || self.rng.below(phase.one_in()) >= self.eagerness {
            return;
        }
        *chosen += 1;
        let images = CRASHES.map(|crash| {
            let outage = Outage::draw(fs, crash, &mut self.rng);
            let image = outage.image(fs, self.rng.bits());
            (outage, image)
        });
        self.points.push(Point { phase, op: op.clone(), may: moment.may, images: images.into() });
    }
}

/// Judges a case: a workload, and every chosen point in it.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let mut workload = Workload::new(rng.bits(), Limits { crashes: true, value_bytes: 6_000 });
    let mut runner = Runner::new(case.preset, rng.fork(), workload.keys());
    let explorer = Explorer::new(rng.fork(), 1);
    let mut images = Images {
        preset: case.preset,
        rng: rng.fork(),
        readers: Rng::new(!case.seed),
        trace: case.trace,
        tally: Tally::default(),
    };
    let seen = explorer.clone();
    runner.observe(Arc::new(Mutex::new(move |fs: &SimFs, op: &FileOp, moment: Moment| {
        seen.lock().see(fs, op, moment);
    })));
    let mut judge_points = |runner: &Runner| {
        let points = std::mem::take(&mut explorer.lock().points);
        points.into_iter().try_for_each(|point| images.judge_point(point, runner))
    };
    runner.trace(case.trace);
    runner.mix_forms();
    runner.start()?;
    judge_points(&runner)?;
    for number in 1..=case.ops {
        runner.run(&workload.next_op())?;
        judge_points(&runner).map_err(|failure| failure.at(format!("operation {number}")))?;
    }
    runner.unobserve();
    runner.finish().map_err(|failure| failure.at("at the end"))?;
    let mut tally = images.tally;
    tally.merge(runner.tally());
    Ok(tally)
}

/// Judges images.
struct Images {
    preset: Preset,
    rng: Rng,
    /// Chooses the images that are opened to read first. A generator of its own leaves the draws of all other choices as they were.
    readers: Rng,
    trace: bool,
    tally: Tally,
}

/// One image in 4 is opened to read before it is opened to write.
const READ_ONE_IN: u64 = 4;

impl Images {
    fn judge_point(&mut self, point: Point, runner: &Runner) -> Verdict {
        let Point { phase, op, may, images } = point;
        self.tally.add("points", 1);
        self.tally.add(phase.name(), 1);
        match runner.form() {
            Some(Form::Transaction) => self.tally.add("points in transactions", 1),
            Some(Form::Overlay) => self.tally.add("points in commits of overlays", 1),
            _ => {}
        }
        for (i, (outage, image)) in images.into_iter().enumerate() {
            self.tally.add("images of devices apart", u64::from(outage.is_apart()));
            let place = || {
                let file = op.path.display();
                format!(
                    "a crash ({outage}) in storage operation {} ({:?} of {file}, {})",
                    op.number,
                    op.kind,
                    phase.name()
                )
            };
            if self.trace {
                println!("    {}, allowed {:?}", place(), may.allowed[i]);
            }
            let mut model = runner.model().clone();
            model.set_families(may.families);
            let judged = no_panic(|| {
                let context = (&model, runner.set(), runner.probes());
                let first = (outage.first, *may.allowed[1].start());
                self.judge_image(image, first, &may.allowed[i], context, true)
            });
            judged.map_err(|failure| failure.at(place()))?;
        }
        Ok(())
    }

    /// Opens an image, compares it, and continues with it. `first` is false if the image was taken during the recovery of another image.
    /// Recovery is then not crashed again.
    fn judge_image(
        &mut self,
        image: SimFs,
        (crash, power_floor): (Crash, u64),
        allowed: &RangeInclusive<u64>,
        (model, set, probes): (&Model, &OptionSet, &[Bytes]),
        first: bool,
    ) -> Verdict {
        self.tally.add("images", 1);
        let mut life = Runner::over(image, self.preset, set.clone(), self.rng.fork(), model.clone(), probes);
        let explorer = Explorer::new(self.rng.fork(), 2);
        let again = first && self.rng.one_in(25);
        if again {
            let seen = explorer.clone();
            life.observe(Arc::new(Mutex::new(move |fs: &SimFs, op: &FileOp, moment: Moment| {
                seen.lock().see(fs, op, moment);
            })));
        }
        let read = match self.readers.one_in(READ_ONE_IN) {
            true => life.read_beside(self.readers.bits())?,
            false => None,
        };
        self.tally.add("opens to read", u64::from(read.is_some()));
        life.start_at(allowed)?;
        read.map_or(Ok(()), |read| life.agrees_with(&read))?;
        let found = life.found().expect("an opening without faults that succeeds has found something");
        life.unobserve();
        let points = std::mem::take(&mut explorer.lock().points);
        for Point { op, images, .. } in points {
            self.tally.add("points", 1);
            self.tally.add(Phase::Recovery.name(), 1);
            for (second, image) in images {
                // After a crash of recovery, the next recovery must find the position that this one found. If the first crash killed only
                // the process and the second is a power failure, unsynced writes may be lost too.
                let low = match (crash, second.first) {
                    (Crash::Process, Crash::PowerAllLost | Crash::PowerTorn) => power_floor,
                    _ => found,
                };
                let judged = self.judge_image(
                    image,
                    (second.first, power_floor),
                    &(low..=found),
                    (model, set, probes),
                    false,
                );
                judged.map_err(|failure| {
                    let file = op.path.display();
                    failure
                        .at(format!("then, in recovery, a crash ({second}) before {:?} of {file}", op.kind))
                })?;
            }
        }
        self.go_on(life)
    }

    /// Continues on a recovered database, which must work like any other.
    fn go_on(&mut self, mut life: Runner) -> Verdict {
        let mut workload = Workload::new(self.rng.bits(), Limits { crashes: true, value_bytes: 2_000 });
        let run = |life: &mut Runner, op: &Op| life.run(op).map_err(|failure| failure.at("going on"));
        run(&mut life, &Op::Verify)?;
        let more = if self.rng.one_in(8) { 25 } else { 2 };
        for _ in 0..more {
            run(&mut life, &workload.next_op())?;
        }
        // Recovery has made stable what it found, so a power failure needs no synced write before it.
        if self.rng.one_in(2) {
            run(&mut life, &Op::Persist(braidb::Durability::Sync))?;
        }
        let crash = self.rng.pick(&CRASHES);
        run(&mut life, &Op::Crash(crash))?;
        life.compare_all().map_err(|failure| failure.at("after going on"))
    }
}

/// Fails if a phase had no point. If no cell was slow, no point in merges to slow tiers is required.
pub fn check_coverage(tally: &Tally) -> Verdict {
    for phase in Phase::ALL {
        let is_needed = phase != Phase::SlowMerge || tally.get(SLOW_STEPS) > 0;
        if is_needed && tally.get(phase.name()) == 0 {
            return Err(Failure::new(format!(
                "no crash fell in {}: the explorer is blind there",
                phase.name()
            )));
        }
    }
    Ok(())
}
