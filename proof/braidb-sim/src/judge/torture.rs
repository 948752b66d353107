//! Torture: all judges but that of forks, in turn, on fresh seeds, until the time is over or a judge finds a failure.

use super::{Case, Judge, crash};
use crate::draw::Preset;
use crate::failure::Verdict;
use crate::report::Tally;
use crate::rng::Rng;
use std::collections::BTreeMap;

/// The counts of what was covered, by judge.
pub type Covered = BTreeMap<&'static str, Tally>;

/// Judges cases while `time_left` returns true. The first failure ends the run.
pub fn torture(seed: u64, mut time_left: impl FnMut(&Covered) -> bool) -> (Covered, Verdict) {
    let mut rng = Rng::new(seed);
    let mut covered = Covered::new();
    while time_left(&covered) {
        let case = draw_case(&mut rng);
        match case.run() {
            Ok(tally) => covered.entry(case.judge.name()).or_default().merge(&tally),
            Err(failure) => return (covered, Err(failure)),
        }
    }
    // Full coverage is required only after more than 5,000 points. A run of a few seconds need not reach it.
    let crashed = covered.get(Judge::Crash.name()).cloned().unwrap_or_default();
    let verdict = if crashed.get("points") > 5_000 { crash::check_coverage(&crashed) } else { Ok(()) };
    (covered, verdict)
}

/// Draws a case. The weights give each judge about the same time.
fn draw_case(rng: &mut Rng) -> Case {
    let judge = rng.weighted(&[
        (8, Judge::Model),
        (4, Judge::Writers),
        (8, Judge::Crash),
        (3, Judge::Errors),
        (3, Judge::Flips),
        (1, Judge::Tiers),
        (4, Judge::Transactions),
        (2, Judge::Isolation),
        (4, Judge::Checkpoints),
        (3, Judge::Slots),
    ]);
    let preset = rng.weighted(&[
        (1, Preset::Default),
        (2, Preset::SmallMemory),
        (3, Preset::TinyFiles),
        (4, Preset::Guards),
        (4, Preset::Random),
        (2, Preset::ShortLogs),
        (5, Preset::Tiers),
    ]);
    let stride = match judge {
        Judge::Errors => rng.between(5, 15),
        Judge::Flips => rng.between(10, 40),
        Judge::Tiers => rng.between(1, 4),
        Judge::Model
        | Judge::Writers
        | Judge::Crash
        | Judge::Forks
        | Judge::Transactions
        | Judge::Isolation
        | Judge::Checkpoints
        | Judge::Slots => 1,
    };
    // Short seeds make the replay command easier to copy.
    let case = Case { stride, ..Case::new(judge, rng.bits() >> 24, preset) };
    Case { ops: case.ops * rng.between(1, 6) / 3 + 10, ..case }
}
