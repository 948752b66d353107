//! Excises beside transactions on threads.
//!
//! A transaction copies an original only if it finds one, and an excise takes originals and copies of a range with one call. So no moment has
//! a copy without its original. A transaction that read an original before an excise, and put the copy behind it, would make one.

use super::{Done, Shared, failed};
use crate::failure::{Failure, Verdict};
use crate::rng::Rng;
use braidb::Error;

/// Originals. There are few, so that excises meet the transactions that copy.
const ORIGINALS: u64 = 8;

fn key(kind: &str, number: u64) -> Vec<u8> {
    format!("{kind}/{number}").into_bytes()
}

/// One step of a thread: puts an original, copies one, looks at all, or excises some.
pub(super) fn step(shared: &Shared, rng: &mut Rng, done: &mut Done) -> Verdict {
    let number = rng.below(ORIGINALS);
    match rng.below(12) {
        0..4 => shared.copies.put(key("original", number), number.to_be_bytes()).map_err(failed),
        4..9 => copy(shared, rng, number, done),
        9..11 => look(shared),
        _ => {
            let end = number + 1 + rng.below(ORIGINALS - number);
            let range = |kind| key(kind, number)..key(kind, end);
            done.tally.add("excises", 1);
            shared.copies.excise([range("copy"), range("original")]).map_err(failed)
        }
    }
}

fn copy(shared: &Shared, rng: &mut Rng, number: u64, done: &mut Done) -> Verdict {
    let transaction = shared.db.transaction().map_err(failed)?;
    let original = match transaction.get_in(&shared.copies, key("original", number)) {
        Ok(Some(original)) => original,
        Ok(None) | Err(Error::Conflict) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    transaction.put_in(&shared.copies, key("copy", number), &original).map_err(failed)?;
    // An excise may begin, or take effect, during the flush.
    if rng.one_in(2) {
        shared.db.flush().map_err(failed)?;
    }
    match transaction.commit() {
        Ok(()) => done.tally.add("copies", 1),
        Err(Error::Conflict) => done.tally.add("conflicts", 1),
        Err(error) => return Err(failed(error)),
    }
    Ok(())
}

/// Demands that each copy has its original.
pub(super) fn look(shared: &Shared) -> Verdict {
    let keys = shared.db.transact(|transaction| {
        let entries = transaction.range_in(&shared.copies, ..);
        entries.map(|entry| entry.map(|(key, _)| key)).collect::<Result<Vec<_>, Error>>()
    });
    let keys = keys.map_err(failed)?;
    let is_orphan =
        |number: &u64| keys.contains(&key("copy", *number)) && !keys.contains(&key("original", *number));
    match (0..ORIGINALS).find(is_orphan) {
        None => Ok(()),
        Some(orphan) => Err(Failure::new(format!("copy {orphan} outlived an excise of its original"))),
    }
}
