//! Which ranges of which levels running jobs work on, and which jobs may run beside each other. A flush claims nothing: it only
//! adds a run on top of L0, newer than all runs that a job took from there.
//!
//! | beside | take | append | own |
//! |---|---|---|---|
//! | take | no | yes | no |
//! | append | yes | no | no |
//! | own | no | no | no |
//!
//! A job that *takes* replaces existing runs. A job that *appends* adds newer runs; a job that takes meanwhile holds older
//! ones, and goes on. A job that *owns* puts its output among existing slices, as a leveled merge does.
//!
//! An excise may *wait*: it claims ranges that running jobs hold, and begins once these jobs have ended. Excises begin in the order in which
//! they first claimed. An excise may widen its claims to further levels and keeps its place: a later excise with wider ranges, which waits
//! for a long merge elsewhere, does not hold it up.

use super::Plan;
use crate::base::ids::FamilyId;
use crate::base::key::Span;

/// What a job does to a range of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Take,
    Append,
    Own,
}

/// A range of one level of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub family: FamilyId,
    pub level: usize,
    pub span: Span,
    pub kind: Use,
}

impl Claim {
    pub fn conflicts(&self, other: &Claim) -> bool {
        let is_peaceful =
            matches!((self.kind, other.kind), (Use::Take, Use::Append) | (Use::Append, Use::Take));
        !is_peaceful && self.touches(other)
    }

    /// Whether the two claims have a place in common.
    pub fn touches(&self, other: &Claim) -> bool {
        self.family == other.family && self.level == other.level && self.span.overlaps(&other.span)
    }
}

/// Identifies the claims of one job.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// A claim that a job holds.
#[derive(Clone, Debug)]
struct Held {
    /// The number of the job. Later jobs have larger numbers.
    job: u64,
    claim: Claim,
    /// Whether the job claimed what other jobs may have held.
    waits: bool,
}

/// The claims of all running jobs, and what no job shall take or own.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    held: Vec<Held>,
    avoided: Vec<Claim>,
    next: u64,
}

impl Claims {
    /// Whether a running job excludes this claim, or it takes or owns what is avoided.
    pub fn conflicts(&self, claim: &Claim) -> bool {
        self.all().any(|other| other.conflicts(claim))
    }

    /// Whether the claim takes or owns what is avoided. Then it does not help to wait for running jobs.
    pub fn touches_avoided(&self, claim: &Claim) -> bool {
        self.avoided.iter().any(|avoided| avoided.conflicts(claim))
    }

    fn all(&self) -> impl Iterator<Item = &Claim> {
        self.held.iter().map(|held| &held.claim).chain(&self.avoided)
    }

    /// Whether a running job replaces runs that reach into `span`. A new slice there must not join these runs: their
    /// replacement may reach over the gap that the slice would fill.
    pub fn is_taken(&self, family: FamilyId, level: usize, span: &Span) -> bool {
        let claim = Claim { family, level, span: span.clone(), kind: Use::Append };
        self.held.iter().any(|held| held.claim.kind == Use::Take && held.claim.touches(&claim))
    }

    /// The claims of running jobs on one level, and what is avoided there.
    pub fn on(&self, family: FamilyId, level: usize) -> impl Iterator<Item = &Claim> {
        self.all().filter(move |claim| claim.family == family && claim.level == level)
    }

    /// Whether no running job excludes the plan, and it takes and owns nothing that is avoided.
    pub fn allow(&self, plan: &Plan) -> bool {
        !plan.claims().iter().any(|claim| self.conflicts(claim))
    }

    /// Claims what the plan touches, which must be free.
    pub fn take(&mut self, plan: &Plan) -> Ticket {
        assert!(self.allow(plan), "a plan is started only when its ranges are free");
        self.add(plan.claims().to_vec())
    }

    /// Claims what running jobs may still hold. From here on no other plan is allowed there. The job begins once [`Claims::are_free`] holds.
    pub fn wait_for(&mut self, claims: Vec<Claim>) -> Ticket {
        self.hold_next(claims, true)
    }

    /// Gives a job that waits other claims. The job keeps its place among the jobs that wait. So the new claims may conflict only with those
    /// waiting jobs that the old claims conflicted with: they have the same ranges, on more levels.
    pub fn widen(&mut self, ticket: &Ticket, claims: Vec<Claim>) {
        self.held.retain(|held| held.job != ticket.0);
        self.hold(ticket.0, claims, true);
    }

    /// Whether no job excludes the claims of this one, which waits. A later job that waits excludes nothing; all others run.
    pub fn are_free(&self, ticket: &Ticket) -> bool {
        let (own, others): (Vec<_>, Vec<_>) = self.held.iter().partition(|held| held.job == ticket.0);
        let mut in_front = others.into_iter().filter(|other| !other.waits || other.job < ticket.0);
        in_front.all(|other| own.iter().all(|own| !own.claim.conflicts(&other.claim)))
    }

    /// The claims of all jobs but one.
    pub fn without(&self, ticket: &Ticket) -> Claims {
        let held = self.held.iter().filter(|held| held.job != ticket.0).cloned().collect();
        Claims { held, avoided: Vec::new(), next: self.next }
    }

    /// The claims of all jobs, where plans that take or own what `avoided` touch are not allowed.
    pub fn avoiding(&self, avoided: Vec<Claim>) -> Claims {
        Claims { avoided, ..self.clone() }
    }

    /// Releases the claims of one job.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket serves once")]
    pub fn release(&mut self, ticket: Ticket) {
        self.held.retain(|held| held.job != ticket.0);
    }

    /// The number of the job that claimed last.
    pub fn last(&self) -> u64 {
        self.next
    }

    /// Whether all jobs up to this number have released their claims.
    pub fn are_released(&self, upto: u64) -> bool {
        self.held.iter().all(|held| held.job > upto)
    }

    pub(super) fn add(&mut self, claims: Vec<Claim>) -> Ticket {
        self.hold_next(claims, false)
    }

    fn hold_next(&mut self, claims: Vec<Claim>, waits: bool) -> Ticket {
        self.next += 1;
        self.hold(self.next, claims, waits);
        Ticket(self.next)
    }

    fn hold(&mut self, job: u64, claims: Vec<Claim>, waits: bool) {
        self.held.extend(claims.into_iter().map(|claim| Held { job, claim, waits }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::KeyRange;

    fn claim(family: u32, level: usize, low: &str, high: &str, kind: Use) -> Claim {
        Claim { family: FamilyId(family), level, span: Span::from(&KeyRange::new(low, high)), kind }
    }

    #[test]
    fn overlapping_ranges_of_one_level_exclude_each_other() {
        let claim = |family, level, low, high| claim(family, level, low, high, Use::Take);
        let mut claims = Claims::default();
        let first = claims.add(vec![claim(0, 1, "b", "d"), claim(0, 2, "a", "f")]);
        let second = claims.add(vec![claim(0, 1, "x", "y")]);
        assert!(claims.last() == 2 && claims.are_released(0) && !claims.are_released(1));
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

    #[test]
    fn a_job_that_waits_keeps_later_jobs_away() {
        let claim = |low, high| claim(0, 1, low, high, Use::Own);
        let mut claims = Claims::default();
        let running = claims.add(vec![claim("a", "c")]);
        let first = claims.wait_for(vec![claim("b", "m")]);
        let second = claims.wait_for(vec![claim("k", "z")]);
        assert!(!claims.are_free(&first) && !claims.are_free(&second));
        assert!(claims.conflicts(&claim("x", "y")), "no plan begins in front of a job that waits");
        claims.release(running);
        assert!(claims.are_free(&first) && !claims.are_free(&second));
        claims.release(first);
        assert!(claims.are_free(&second));
    }

    /// A long merge, an excise beside it, and a later excise that meets both. The first one waits for no merge that it does not meet, and
    /// the second one waits until the first one has ended, also before the first one claims L0.
    #[test]
    fn a_job_that_widens_its_claims_keeps_its_place() {
        let of = |low, high, kind| claim(0, 1, low, high, kind);
        let mut claims = Claims::default();
        let merge = claims.add(vec![of("k", "z", Use::Own)]);
        let first = claims.wait_for(vec![of("a", "c", Use::Take)]);
        let second = claims.wait_for(vec![of("b", "m", Use::Take)]);
        assert!(claims.are_free(&first) && !claims.are_free(&second));
        let of_l0 = claims.add(vec![claim(0, 0, "b", "b", Use::Take)]);
        claims.widen(&first, vec![claim(0, 0, "a", "c", Use::Own), of("a", "c", Use::Own)]);
        assert!(!claims.are_free(&first), "a job of L0 began before the claims were widened");
        claims.release(of_l0);
        assert!(claims.are_free(&first) && !claims.are_free(&second));
        claims.release(merge);
        assert!(!claims.are_free(&second));
        claims.release(first);
        assert!(claims.are_free(&second));
    }

    #[test]
    fn appending_goes_on_beside_taking() {
        let mut claims = Claims::default();
        claims.add(vec![claim(0, 1, "b", "d", Use::Take)]);
        claims.add(vec![claim(0, 2, "b", "d", Use::Append)]);
        let allowed = |level, kind| !claims.conflicts(&claim(0, level, "c", "c", kind));
        assert_eq!(
            [allowed(1, Use::Take), allowed(1, Use::Append), allowed(1, Use::Own)],
            [false, true, false]
        );
        assert_eq!(
            [allowed(2, Use::Take), allowed(2, Use::Append), allowed(2, Use::Own)],
            [true, false, false]
        );
        let span = Span::from(&KeyRange::new("c", "c"));
        assert!(claims.is_taken(FamilyId(0), 1, &span) && !claims.is_taken(FamilyId(0), 2, &span));
    }
}
