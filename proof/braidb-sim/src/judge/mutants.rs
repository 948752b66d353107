//! The judge of the judges: bugs planted in the engine, which the general methods must find.
//!
//! A mutant breaks one rule of docs/crash-safety.md, on this thread only. The judges examine it in rounds of growing effort, each with
//! fresh seeds, until one of them reports a failure. A mutant that survives the last round shows that the judges are blind to its rule.
//! Without a mutant the same rounds must find no failure. Otherwise a failure would not show that the mutant was caught.
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

/// The mutants that break a rule of slow tiers. They do nothing in a database without one.
const OF_TIERS: [&str; 6] = [
    "epoch_not_raised",
    "foreign_tier_accepted",
    "slow_cell_lifted",
    "slow_cell_with_two_runs",
    "slow_dir_not_synced",
    "slow_source_deleted_early",
];

/// The mutants that break the rule of forks. They do nothing in a process that was not forked.
const OF_FORKS: [&str; 2] = ["forked_drop_seals", "forked_drop_unlocks"];

/// The mutants that break a rule of transactions, or that show only where a writer runs within an excise. No other judge has either on one thread.
const OF_TRANSACTIONS: [&str; 6] = [
    "change_of_tables_unseen",
    "excise_takes_newer_puts",
    "excise_unseen_by_transactions",
    "own_write_unread",
    "phantom_unseen",
    "write_ring_overrun_unseen",
];

/// The mutants that break a rule of checkpoints, which no other judge makes.
const OF_CHECKPOINTS: [&str; 4] = [
    "checkpoint_named_first",
    "checkpoint_named_before_tiers",
    "checkpoint_not_synced",
    "linked_file_punched",
];

/// The mutant of groups: only threads commit in groups. The judge activates it on its threads too.
const OF_GROUPS: &str = "conflict_within_a_group_unseen";

/// The cases of one round.
struct Round {
    /// The seed of the round. Cases of different presets have seeds of their own.
    seed: u64,
    /// How large the cases are: 1 in the first round, and 1 more in each further round.
    effort: u64,
}

impl Round {
    fn new(seed: u64, number: u64) -> Round {
        Round { seed: seed + 1_000 * number, effort: number + 1 }
    }

    /// The cases for a mutant. Cases with slow tiers take nearly half of the time of all cases, so only the mutants of tiers get them. Only
    /// the mutants of forks get the cases with forks.
    fn cases_for(&self, mutant: &str) -> Vec<Case> {
        match mutant {
            _ if OF_TIERS.contains(&mutant) => self.with_tiers(),
            _ if OF_FORKS.contains(&mutant) => self.with_forks(),
            _ if OF_TRANSACTIONS.contains(&mutant) => self.with_transactions(),
            _ if OF_CHECKPOINTS.contains(&mutant) => self.with_checkpoints(),
            OF_GROUPS => self.with_groups(),
            _ => self.without_tiers(),
        }
    }

    /// Cases in databases without slow tiers, cheap ones first.
    fn without_tiers(&self) -> Vec<Case> {
        vec![
            self.model(0, Preset::TinyFiles),
            self.model(1, Preset::Guards),
            self.model(2, Preset::Random),
            self.model(3, Preset::SmallMemory),
            self.model(4, Preset::ShortLogs),
            self.crash(0, Preset::TinyFiles),
            self.crash(2, Preset::Random),
            self.crash(3, Preset::SmallMemory),
            self.errors(Preset::TinyFiles),
            self.flips(Preset::Random),
            self.crash(1, Preset::Guards),
            self.crash(4, Preset::ShortLogs),
        ]
    }

    /// Cases in databases with slow tiers, cheap ones first.
    fn with_tiers(&self) -> Vec<Case> {
        let copies =
            Case { stride: 12 / self.effort.min(12), ..Case::new(Judge::Tiers, self.seed, Preset::Guards) };
        vec![
            copies,
            self.model(5, Preset::Tiers),
            self.errors(Preset::Tiers),
            self.flips(Preset::Tiers),
            self.crash(5, Preset::Tiers),
        ]
    }

    /// Cases whose process is forked.
    fn with_forks(&self) -> Vec<Case> {
        let of = |preset| Case { ops: 100 * self.effort, ..Case::new(Judge::Forks, self.seed, preset) };
        vec![of(Preset::Guards), of(Preset::Tiers)]
    }

    /// Cases of interleaved transactions on one thread.
    fn with_transactions(&self) -> Vec<Case> {
        let of =
            |preset| Case { ops: 600 * self.effort, ..Case::new(Judge::Transactions, self.seed, preset) };
        vec![of(Preset::Random), of(Preset::Guards), of(Preset::SmallMemory), of(Preset::TinyFiles)]
    }

    /// Cases with checkpoints.
    fn with_checkpoints(&self) -> Vec<Case> {
        let of = |preset| Case { ops: 200 * self.effort, ..Case::new(Judge::Checkpoints, self.seed, preset) };
        vec![
            of(Preset::TinyFiles),
            of(Preset::Guards),
            of(Preset::Random),
            of(Preset::ShortLogs),
            of(Preset::Tiers),
        ]
    }

    /// Cases of transactions on threads, which meet in groups.
    fn with_groups(&self) -> Vec<Case> {
        let of = |nth| Case {
            ops: 2_000 * self.effort,
            ..Case::new(Judge::Isolation, self.seed + nth, Preset::Default)
        };
        vec![of(0), of(1), of(2)]
    }

    fn model(&self, nth: u64, preset: Preset) -> Case {
        Case { ops: 600 * self.effort, ..Case::new(Judge::Model, self.seed + nth, preset) }
    }

    fn crash(&self, nth: u64, preset: Preset) -> Case {
        Case { ops: 150 * self.effort, ..Case::new(Judge::Crash, self.seed + nth, preset) }
    }

    fn errors(&self, preset: Preset) -> Case {
        Case { stride: 40 / self.effort.min(20) + 1, ..Case::new(Judge::Errors, self.seed, preset) }
    }

    fn flips(&self, preset: Preset) -> Case {
        Case { stride: 60 / self.effort.min(20) + 1, ..Case::new(Judge::Flips, self.seed, preset) }
    }
}

/// Plants one mutant and runs up to `rounds` rounds. `None` means that no judge caught it.
pub fn judge_mutant(mutant: (&'static str, &'static str), seed: u64, rounds: u64) -> Option<Caught> {
    let planted = Planted::new(mutant.0);
    let mut cases = 0;
    for number in 0..rounds {
        for case in Round::new(seed, number).cases_for(mutant.0) {
            cases += 1;
            if let Err(failure) = case.run() {
                drop(planted);
                return Some(Caught { mutant: mutant.0, rule: mutant.1, by: case.judge, cases, failure });
            }
        }
    }
    None
}

/// Runs `rounds` rounds, with and without slow tiers and forks, without a mutant. Returns the number of cases.
pub fn judge_control(seed: u64, rounds: u64) -> Verdict<u64> {
    let mut cases = 0;
    for number in 0..rounds {
        let round = Round::new(seed, number);
        let cases_of_round = [
            round.without_tiers(),
            round.with_tiers(),
            round.with_forks(),
            round.with_transactions(),
            round.with_groups(),
        ]
        .concat();
        for case in cases_of_round {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_with_cases_of_their_own_are_mutants() {
        let is_mutant = |name: &str| braidb::mutants::ALL.iter().any(|(known, _)| *known == name);
        assert!(OF_TIERS.into_iter().chain(OF_TRANSACTIONS).chain([OF_GROUPS]).all(is_mutant));
    }
}
