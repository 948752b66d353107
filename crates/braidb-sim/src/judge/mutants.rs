//! The judge of the judges: bugs planted in the engine, each of which must be found by the general methods.
//!
//! A mutant breaks one rule of docs/crash-safety.md, on this thread only. The judges go at it in rounds of growing
//! effort, each round with fresh seeds, until one of them complains; a mutant that outlives the last round shows that the
//! judges are blind to that rule. Without a mutant the same rounds must find nothing, or the findings mean nothing.
//!
//! Writers on threads are left out: a mutant is active on one thread.

use super::{Case, Judge};
use crate::draw::Preset;
use crate::failure::{Failure, Verdict};

/// Rounds after which a mutant has won.
pub const ROUNDS: u64 = 8;

/// How a mutant was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    pub mutant: &'static str,
    pub rule: &'static str,
    pub by: Judge,
    /// Cases that it took, the last one included.
    pub cases: u64,
    pub failure: Failure,
}

/// The cases of one round, cheap ones first. Effort grows from round to round.
fn round(seed: u64, number: u64) -> Vec<Case> {
    let seed = seed + 1_000 * number;
    let effort = number + 1;
    let mut cases = Vec::new();
    let presets = [Preset::TinyFiles, Preset::Guards, Preset::Random, Preset::SmallMemory];
    for (i, preset) in presets.into_iter().enumerate() {
        let seed = seed + i as u64;
        cases.push(Case { ops: 600 * effort, ..Case::new(Judge::Model, seed, preset) });
        cases.push(Case { ops: 150 * effort, ..Case::new(Judge::Crash, seed, preset) });
    }
    cases.push(Case { stride: 60 / effort.min(20) + 1, ..Case::new(Judge::Flips, seed, Preset::Random) });
    cases.push(Case { stride: 40 / effort.min(20) + 1, ..Case::new(Judge::Errors, seed, Preset::TinyFiles) });
    cases
}

/// Plants one mutant and lets the judges at it for so many rounds. `None`: it was not caught.
pub fn judge_mutant(mutant: (&'static str, &'static str), seed: u64, rounds: u64) -> Option<Caught> {
    let planted = Planted::new(mutant.0);
    let mut cases = 0;
    for number in 0..rounds {
        for case in round(seed, number) {
            cases += 1;
            if let Err(failure) = case.run() {
                drop(planted);
                return Some(Caught { mutant: mutant.0, rule: mutant.1, by: case.judge, cases, failure });
            }
        }
    }
    None
}

/// The same rounds without a mutant.
pub fn judge_control(seed: u64, rounds: u64) -> Verdict<u64> {
    let mut cases = 0;
    for number in 0..rounds {
        for case in round(seed, number) {
            case.run()?;
            cases += 1;
        }
    }
    Ok(cases)
}

/// A mutant that is active as long as this lives.
struct Planted;

impl Planted {
    fn new(mutant: &'static str) -> Planted {
        braidb::mutants::activate(Some(mutant));
        Planted
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        braidb::mutants::activate(None);
    }
}
