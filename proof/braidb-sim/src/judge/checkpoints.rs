//! Checkpoints under a workload: what each one holds, at once and after much later work in the database and in itself.
//!
//! The workload closes, kills and cuts the power of the database. Between its operations the judge makes checkpoints. It takes images of
//! crashes while one is made: on each image the database must be at an allowed position, and the checkpoint must be refused, or whole. Up to
//! three checkpoints live at a time. The judge writes into them, merges them, compares them, and deletes them, while the database goes on.

use super::Case;
use crate::failure::{Failure, Verdict};
use crate::report::Tally;
use crate::rng::Rng;
use crate::runner::{COPIES, Copy, Moment, Runner};
use crate::workload::{CRASHES, Limits, Workload};
use braidb_storage::sim::{Op as FileOp, SimFs};
use parking_lot::Mutex;
use std::sync::Arc;

/// Checkpoints that live at a time.
const MOST_COPIES: usize = 3;
/// One operation in 25 is followed by a checkpoint, and one in 12 by work on one.
const CHECKPOINT_ONE_IN: u64 = 25;
const WORK_ONE_IN: u64 = 12;
/// One storage operation in 5 of a checkpoint becomes an image.
const IMAGE_ONE_IN: u64 = 5;

/// Images of crashes during a checkpoint.
#[derive(Default)]
struct Images {
    rng: Option<Rng>,
    taken: Vec<(usize, SimFs, Moment)>,
}

/// Judges a case.
pub fn judge(case: &Case) -> Verdict<Tally> {
    let mut rng = Rng::new(case.seed);
    let mut workload = Workload::new(rng.bits(), Limits { crashes: true, value_bytes: 3_000 });
    let mut runner = Runner::new(case.preset, rng.fork(), workload.keys());
    runner.trace(case.trace);
    runner.start()?;
    let (mut copies, mut tally): (Vec<Copy>, _) = (Vec::new(), Tally::default());
    for number in 1..=case.ops {
        runner.run(&workload.next_op())?;
        let at = |failure: Failure| failure.at(format!("after operation {number}"));
        if copies.len() < MOST_COPIES && rng.one_in(CHECKPOINT_ONE_IN) {
            let made =
                make(&mut runner, &format!("{COPIES}/{number}"), &mut rng, case, &mut tally).map_err(at)?;
            copies.extend(made);
        }
        if !copies.is_empty() && rng.one_in(WORK_ONE_IN) {
            let which = rng.below(copies.len() as u64) as usize;
            runner.check_copy(runner.fs(), &copies[which], rng.bits()).map_err(at)?;
            match rng.below(4) {
                0 => runner.destroy_copy(&copies.swap_remove(which)).map_err(at)?,
                1 => runner.use_copy(&mut copies[which]).map_err(at)?,
                _ => {}
            }
        }
    }
    for copy in &copies {
        runner.check_copy(runner.fs(), copy, rng.bits()).map_err(|failure| failure.at("at the end"))?;
    }
    runner.finish().map_err(|failure| failure.at("at the end"))?;
    for copy in &copies {
        runner.check_copy(runner.fs(), copy, rng.bits()).map_err(|failure| failure.at("behind the end"))?;
    }
    tally.merge(runner.tally());
    Ok(tally)
}

/// Makes a checkpoint, and judges the images of crashes on the way.
fn make(
    runner: &mut Runner,
    dir: &str,
    rng: &mut Rng,
    case: &Case,
    tally: &mut Tally,
) -> Verdict<Option<Copy>> {
    let images = Arc::new(Mutex::new(Images { rng: Some(rng.fork()), taken: Vec::new() }));
    let seen = images.clone();
    runner.observe(Arc::new(Mutex::new(move |fs: &SimFs, _: &FileOp, moment: Moment| {
        let Images { rng: Some(rng), taken } = &mut *seen.lock() else { return };
        if rng.one_in(IMAGE_ONE_IN) {
            let which = rng.below(CRASHES.len() as u64) as usize;
            taken.push((which, fs.crash_image(CRASHES[which], rng.bits()), moment));
        }
    })));
    let made = runner.checkpoint(dir);
    runner.unobserve();
    let Some(copy) = made? else { return Ok(None) };
    runner.check_copy(runner.fs(), &copy, rng.bits())?;
    let taken = std::mem::take(&mut images.lock().taken);
    for (which, image, moment) in taken {
        tally.add("images during checkpoints", 1);
        let at = |failure: Failure| failure.at(format!("a crash ({:?}) during a checkpoint", CRASHES[which]));
        match runner.is_refused(&image, dir, rng.bits()) {
            true => tally.add("refused checkpoints", 1),
            false => runner.check_copy(&image, &copy, rng.bits()).map_err(at)?,
        }
        let (set, model) = (runner.set().clone(), runner.model().clone());
        let mut life = Runner::over(image, case.preset, set, rng.fork(), model, runner.probes());
        life.start_at(&moment.may.allowed[which]).map_err(at)?;
    }
    Ok(Some(copy))
}
