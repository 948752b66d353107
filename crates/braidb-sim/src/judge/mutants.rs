//! The judge of the judges: bugs planted in the engine, which the general methods must find.
//!
//! A mutant breaks one rule of docs/crash-safety.md, on this thread only. The judges examine it in rounds of growing effort,
//! each with fresh seeds, until one of them reports a failure. A mutant that survives the last round shows that the judges are
//! blind to its rule. Without a mutant the same rounds must find nothing, or the findings mean nothing.
//!
//! The judge of writers on threads is left out, because a mutant is active on one thread only.

use super::{Case, Judge};
use crate::draw::Preset;
use crate::failure::{Failure, Verdict};

/// Rounds after which a mutant counts as not caught.
pub const ROUNDS: u64 = 8;

/// How a mutant was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    pub mutant: &'static str,
    pub rule: &'static str,
    pub by: Judge,
    /// Cases run, including the one that caught the mutant.
    pub cases: u64,
    pub failure: Failure,
}

/// The cases of one round, cheap ones first. Effort grows from round to round.
fn round(seed: u64, number: u64) -> Vec<Case> {
    let seed = seed + 1_000 * number;
    let effort = number + 1;
    let mut cases = Vec::new();
    let presets = [
        Preset::TinyFiles,
        Preset::Guards,
        Preset::Random,
        Preset::SmallMemory,
        Preset::ShortLogs,
        Preset::Tiers,
    ];
    for (i, preset) in presets.into_iter().enumerate() {
        let seed = seed + i as u64;
        cases.push(Case { ops: 600 * effort, ..Case::new(Judge::Model, seed, preset) });
        cases.push(Case { ops: 150 * effort, ..Case::new(Judge::Crash, seed, preset) });
    }
    cases.push(Case { stride: 12 / effort.min(12), ..Case::new(Judge::Tiers, seed, Preset::Guards) });
    cases.push(Case { stride: 60 / effort.min(20) + 1, ..Case::new(Judge::Flips, seed, Preset::Random) });
    cases.push(Case { stride: 40 / effort.min(20) + 1, ..Case::new(Judge::Errors, seed, Preset::TinyFiles) });
    cases.push(Case { stride: 60 / effort.min(20) + 1, ..Case::new(Judge::Flips, seed, Preset::Tiers) });
    cases.push(Case { stride: 40 / effort.min(20) + 1, ..Case::new(Judge::Errors, seed, Preset::Tiers) });
    cases
}

/// Plants one mutant and runs up to `rounds` rounds. `None` means that no judge caught it.
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

/// Runs `rounds` rounds without a mutant. Returns the number of cases.
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

/// Keeps a mutant active until it is dropped.
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
