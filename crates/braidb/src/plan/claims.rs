//! Which ranges of which levels running jobs work on. Two jobs that touch overlapping ranges of one level exclude each
//! other. A flush claims nothing: it only adds a run on top of L0, newer than whatever a job took from there.

use super::Plan;
use crate::base::ids::FamilyId;
use crate::base::key::KeyRange;

/// A range of one level of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub family: FamilyId,
    pub level: usize,
    pub range: KeyRange,
}

impl Claim {
    pub fn conflicts(&self, other: &Claim) -> bool {
        self.family == other.family && self.level == other.level && self.range.overlaps(&other.range)
    }
}

/// Names what one job holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// The claims of all running jobs.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    held: Vec<(u64, Claim)>,
    next: u64,
}

impl Claims {
    /// Whether a running job excludes this claim.
    pub fn conflicts(&self, claim: &Claim) -> bool {
        self.held.iter().any(|(_, held)| held.conflicts(claim))
    }

    /// Whether no running job excludes the plan.
    pub fn allow(&self, plan: &Plan) -> bool {
        !plan.claims().iter().any(|claim| self.conflicts(claim))
    }

    /// Claims what the plan touches, which must be free.
    pub fn take(&mut self, plan: &Plan) -> Ticket {
        assert!(self.allow(plan), "a plan is started only when its ranges are free");
        self.add(plan.claims())
    }

    /// Lets go of what one job held.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket serves once")]
    pub fn release(&mut self, ticket: Ticket) {
        self.held.retain(|(id, _)| *id != ticket.0);
    }

    pub(super) fn add(&mut self, claims: Vec<Claim>) -> Ticket {
        self.next += 1;
        self.held.extend(claims.into_iter().map(|claim| (self.next, claim)));
        Ticket(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_of_one_level_exclude_each_other() {
        let claim = |family, level, low: &str, high: &str| Claim {
            family: FamilyId(family),
            level,
            range: KeyRange::new(low, high),
        };
        let mut claims = Claims::default();
        let first = claims.add(vec![claim(0, 1, "b", "d"), claim(0, 2, "a", "f")]);
        let second = claims.add(vec![claim(0, 1, "x", "y")]);
        assert!(claims.conflicts(&claim(0, 1, "d", "e")));
        assert!(claims.conflicts(&claim(0, 1, "a", "z")));
        assert!(!claims.conflicts(&claim(0, 1, "e", "w")));
        assert!(!claims.conflicts(&claim(0, 3, "a", "z")));
        assert!(!claims.conflicts(&claim(1, 1, "a", "z")));
        claims.release(first);
        assert!(!claims.conflicts(&claim(0, 1, "b", "d")) && claims.conflicts(&claim(0, 1, "x", "x")));
        claims.release(second);
        assert!(!claims.conflicts(&claim(0, 1, "a", "z")));
    }
}
