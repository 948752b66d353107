//! The forms in which a runner commits batches.
//!
//! The judges of crashes and errors commit one batch in 6 by a transaction, and one by an overlay. So crash points and faults fall into these
//! commits too. The number of the batch decides its form. A draw would give all later operations of the case other draws.
//!
//! A transaction first reads each key of its batch, and must find what the model says. An overlay must keep its writes after a commit that
//! failed, and drop them after one that did not. A commit that a full device refused left nothing, and is tried once again: that of an overlay
//! by the same overlay, that of a transaction by a new one. The last overlay that was refused twice commits after the repair.

use super::*;

/// How a batch is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Batch,
    Transaction,
    Overlay,
}

/// The names in the tally of what became of transactions and overlays.
pub const FORM_COUNTS: [&str; 6] = [
    "transactions",
    "overlay commits",
    "failed transactions",
    "failed overlay commits",
    "commits tried again after a full device",
    "refused overlays that committed later",
];

impl Form {
    /// The form of the batch with this number.
    fn of(number: u64) -> Form {
        match number % 6 {
            1 => Form::Transaction,
            4 => Form::Overlay,
            _ => Form::Batch,
        }
    }

    /// The names in the tally of commits that succeeded, and of those that failed.
    fn counts(self) -> Option<[&'static str; 2]> {
        match self {
            Form::Batch => None,
            Form::Transaction => Some(["transactions", "failed transactions"]),
            Form::Overlay => Some(["overlay commits", "failed overlay commits"]),
        }
    }
}

impl Runner {
    /// Commits some batches by transactions and overlays from now on.
    pub fn mix_forms(&mut self) {
        self.mixes_forms = true;
    }

    /// The form of the batch that the last operation wrote, if it wrote one.
    pub fn form(&self) -> Option<Form> {
        self.form
    }

    /// Commits the batch under way in its form. `None` if a transaction's read failed, so that no commit was tried.
    pub(super) fn commit(
        &mut self,
        changes: &[Change],
        durability: Option<Durability>,
    ) -> Verdict<Option<Result<(), Error>>> {
        let form = if self.mixes_forms { Form::of(self.model.last_number()) } else { Form::Batch };
        self.form = Some(form);
        let overlay = match form {
            Form::Batch => return Ok(Some(opened(&self.client).write(changes, durability))),
            Form::Transaction => None,
            Form::Overlay => Some(opened(&self.client).db.overlay()),
        };
        if let Some(overlay) = &overlay {
            let client = opened(&self.client);
            stage(changes, |Change { family, key, value }| match value {
                Some(value) => overlay.put_in(client.family(*family), key, value),
                None => overlay.delete_in(client.family(*family), key),
            })?;
        }
        let mut tries = 0;
        loop {
            let outcome = match &overlay {
                Some(overlay) => self.commit_overlay(overlay, changes, durability)?,
                None => match self.commit_transaction(changes, durability)? {
                    Some(outcome) => outcome,
                    None => return Ok(None),
                },
            };
            tries += 1;
            self.count_commit(form, &outcome, tries);
            let Err(error @ Error::Full { .. }) = &outcome else { return Ok(Some(outcome)) };
            if tries == 2 {
                self.refused = overlay.map(|overlay| (overlay, changes.to_vec()));
                return Ok(Some(outcome));
            }
            self.forgive(error, "a commit")?;
            self.has_nothing_of(changes)?;
            self.machine.call();
        }
    }

    /// Commits the last overlay that a full device has refused, if its database is still open. Now there is room.
    pub fn commit_refused(&mut self) -> Verdict {
        let Some((overlay, mut changes)) = self.refused.take() else { return Ok(()) };
        self.machine.call();
        changes.retain(|change| &*change.key != COUNTER_KEY);
        let changes = self.model.begin(changes, true);
        self.publish();
        // The number of the refused batch is gone. The overlay takes a new one.
        let number = changes.iter().find(|change| &*change.key == COUNTER_KEY).expect("a batch has a number");
        let value = number.value.as_deref().expect("a number is put");
        stage(&changes[..1], |_| overlay.put(COUNTER_KEY, value))?;
        match self.commit_overlay(&overlay, &changes, None)? {
            Ok(()) => {
                self.model.acknowledge(self.set.durability);
                self.tally.add("refused overlays that committed later", 1);
            }
            // A fault has ended all writing before the repair.
            Err(Error::Poisoned { .. }) => self.model.refuse(),
            Err(error) => {
                return Err(Failure::new(format!("an overlay that was refused fails with room: {error}")));
            }
        }
        self.publish();
        Ok(())
    }

    fn count_commit(&mut self, form: Form, outcome: &Result<(), Error>, tries: u32) {
        if let Some([succeeded, failed]) = form.counts() {
            self.tally.add(if outcome.is_ok() { succeeded } else { failed }, 1);
        }
        if tries > 1 {
            self.tally.add("commits tried again after a full device", 1);
        }
    }

    fn commit_transaction(
        &mut self,
        changes: &[Change],
        durability: Option<Durability>,
    ) -> Verdict<Option<Result<(), Error>>> {
        let transaction = opened(&self.client).db.transaction();
        let Some(transaction) = self.succeeded(transaction, "a transaction")? else { return Ok(None) };
        for Change { family, key, .. } in changes {
            let got = transaction.get_in(opened(&self.client).family(*family), key);
            let Some(got) = self.succeeded(got, "a get of a transaction")? else { return Ok(None) };
            let wanted = self.model.state()[*family].get(key);
            if got.as_deref() != wanted.map(|value| &**value) {
                return Err(Failure::new(format!(
                    "a transaction's get of {} {:?} should give {} and gives {}",
                    FAMILIES[*family],
                    crate::model::show_bytes(key),
                    show(wanted),
                    show(got.map(|value| Bytes::from(&value[..])).as_ref())
                )));
            }
        }
        let client = opened(&self.client);
        stage(changes, |Change { family, key, value }| match value {
            Some(value) => transaction.put_in(client.family(*family), key, value),
            None => transaction.delete_in(client.family(*family), key),
        })?;
        Ok(Some(match durability {
            Some(durability) => transaction.commit_with(durability),
            None => transaction.commit(),
        }))
    }

    fn commit_overlay(
        &self,
        overlay: &Overlay,
        changes: &[Change],
        durability: Option<Durability>,
    ) -> Verdict<Result<(), Error>> {
        let outcome = match durability {
            Some(durability) => overlay.commit_with(durability),
            None => overlay.commit(),
        };
        if outcome.is_ok() {
            return match overlay.is_empty() {
                true => Ok(outcome),
                false => Err(Failure::new("an overlay keeps its writes after its commit")),
            };
        }
        let staged: BTreeMap<_, _> =
            changes.iter().map(|change| ((change.family, &change.key), &change.value)).collect();
        let mut is_whole = overlay.len() == staged.len();
        for ((family, key), value) in staged {
            let got = overlay.get_in(opened(&self.client).family(family), key);
            is_whole &= got.is_ok_and(|got| got.as_deref() == value.as_deref());
        }
        match is_whole {
            true => Ok(outcome),
            false => Err(Failure::new("an overlay lost writes in a commit that failed")),
        }
    }
}

/// Stages all changes. This touches no file, so it must succeed.
fn stage(changes: &[Change], set: impl Fn(&Change) -> Result<(), Error>) -> Verdict {
    let staged = changes.iter().try_for_each(set);
    staged.map_err(|error| Failure::new(format!("staging a write fails: {error}")))
}
