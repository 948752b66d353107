//! Batches: what becomes of one that is written, refused, or left to another writer.

use super::*;

fn batch_of(keys: &[&str]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(key, [9; 100]);
    }
    batch
}

/// A batch that met a full device has all its writes, and is written whole once there is room. A successful write empties a batch that is
/// passed as `&mut batch`, and leaves one that is passed as `&batch`.
#[test]
fn a_batch_that_met_a_full_device_can_be_written_again() {
    let (env, fs, _) = sim_env(1);
    fs.set_capacity(Some(2 << 20));
    let db = Options::new().memtable_bytes(8 << 20).env(env).open(DIR).unwrap();
    let other = db.create_column_family("other").unwrap();
    (0u32..).find(|number| db.put(number.to_be_bytes(), [7; 1000]).is_err()).unwrap();
    let mut batch = batch_of(&["a", "b", "c"]);
    batch.put_in(&other, "d", [9; 20_000]);
    for durability in [Durability::Buffer, Durability::Sync] {
        for outcome in [db.write_with(&batch, durability), db.write_with(&mut batch, durability)] {
            assert!(matches!(outcome, Err(Error::Full { .. })), "{outcome:?}");
        }
    }
    assert_eq!(batch.len(), 4);
    assert_eq!(db.get("a").unwrap(), None);
    fs.set_capacity(None);
    db.write(&batch).unwrap();
    assert_eq!(batch.len(), 4);
    db.write(&mut batch).unwrap();
    assert!(batch.is_empty() && batch.bytes() == 0);
    assert_eq!(db.range("a"..="c").count(), 3);
    assert_eq!(other.get("d").unwrap().unwrap().len(), 20_000);
}

/// A batch with a write over the limits is refused in each form, until it is cleared. An emptied batch belongs to no database.
#[test]
fn a_refused_batch_is_refused_until_it_is_cleared() {
    let db = small(sim_env(1).0).open(DIR).unwrap();
    let other = small(sim_env(1).0).open(DIR).unwrap();
    let mut batch = batch_of(&["a"]);
    batch.put(vec![0; braidb::MAX_KEY_BYTES + 1], "").put("b", "");
    for outcome in [db.write(&batch), db.write(&mut batch), db.write(batch.clone())] {
        assert!(matches!(outcome, Err(Error::TooLarge { .. })), "{outcome:?}");
    }
    assert_eq!(db.iter().count(), 0);
    batch.clear();
    batch.put_in(&db.create_column_family("family").unwrap(), "k", "v");
    assert!(matches!(other.write(&mut batch), Err(Error::ForeignFamily { .. })));
    db.write(&mut batch).unwrap();
    batch.put_in(&other.create_column_family("family").unwrap(), "k", "v");
    other.write(&mut batch).unwrap();
}

/// A clone of a batch, and a batch that is written and grows afterwards, share no writes.
#[test]
fn a_batch_that_grows_leaves_its_clones_alone() {
    let db = small(sim_env(1).0).open(DIR).unwrap();
    let mut batch = batch_of(&["a"]);
    let clone = batch.clone();
    batch.put("b", "");
    assert_eq!((clone.len(), batch.len()), (1, 2));
    db.write(&clone).unwrap();
    assert_eq!(db.iter().count(), 1);
    let kept = batch.clone();
    batch.clear();
    assert_eq!((kept.len(), batch.len()), (2, 0));
    batch.put("c", "");
    db.write(kept).unwrap();
    assert_eq!(db.iter().count(), 2);
}

/// Several threads write one shared batch, and also batches of their own that they fill again. Another thread, the leader of the commit
/// queue, commits some of them.
#[test]
fn batches_that_leaders_commit_are_kept_or_emptied_as_others() {
    const ROUNDS: u32 = 300;
    let (mut env, _, _) = sim_env(1);
    env.runtime = Arc::new(Threads::new(1).unwrap());
    let db = Options::new().env(env).open(DIR).unwrap();
    let shared = batch_of(&["s", "t"]);
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (db, shared) = (&db, &shared);
            scope.spawn(move || {
                let mut own = WriteBatch::new();
                for round in 0..ROUNDS {
                    let durability = if round % 8 == 0 { Durability::Sync } else { Durability::Buffer };
                    own.put([thread, round].map(u32::to_be_bytes).concat(), round.to_be_bytes());
                    db.write_with(&mut own, durability).unwrap();
                    assert!(own.is_empty());
                    db.write_with(shared, durability).unwrap();
                }
            });
        }
    });
    assert_eq!(shared.len(), 2);
    assert_eq!(db.iter().count() as u32, 4 * ROUNDS + 2);
    assert_eq!(db.stats().counts.user_ops, u64::from(4 * ROUNDS * 3));
}
