//! What the children do with the handles that they inherit.

use crate::process::{end, fork, wait};
use crate::{HANGS, await_file};
use braidb::{
    ColumnFamily, Cursor, Db, Durability, Error, Iter, Options, Overlay, Snapshot, Transaction, Value,
    WriteBatch,
};
use std::cell::RefCell;
use std::fs;
use std::mem::{ManuallyDrop, forget};
use std::path::Path;

/// Handles that a thread of the parent changes while the parent forks.
pub struct Staging {
    pub overlay: Overlay,
    pub transaction: Transaction,
}

/// Handles of all kinds, opened before the fork.
pub struct Held<'a> {
    db: &'a ManuallyDrop<Db>,
    staging: &'a ManuallyDrop<Staging>,
    family: ColumnFamily,
    snapshot: Snapshot,
    begun: Iter,
    fresh: Iter,
    /// Of a range without keys.
    empty: Iter,
    /// On an entry after a movement forward, on one after a movement backward, behind the end, and of a range without keys.
    cursors: [Cursor; 4],
    value: Value,
    batch: WriteBatch,
}

impl<'a> Held<'a> {
    pub fn new(db: &'a ManuallyDrop<Db>, staging: &'a ManuallyDrop<Staging>) -> Held<'a> {
        let family = db.create_column_family("family").unwrap();
        family.put("key", "value").unwrap();
        let mut begun = db.iter();
        begun.next().unwrap().unwrap();
        begun.next_back().unwrap().unwrap();
        let [one, two, three] = [(); 3].map(|()| family.iter().cursor());
        let mut cursors = [one, two, three, family.range("z".."a").cursor()];
        assert!(cursors[0].next().unwrap() && cursors[1].prev().unwrap());
        assert!(cursors[1].value().unwrap().is_some());
        assert!(cursors[2].last().unwrap() && !cursors[2].next().unwrap());
        let mut batch = WriteBatch::new();
        batch.put("parent", "by a child").put_in(&family, "key", "by a child");
        let value = family.get("key").unwrap().unwrap();
        let (snapshot, fresh, empty) = (db.snapshot(), family.iter(), family.range("z".."a"));
        Held { db, staging, snapshot, fresh, empty, family, begun, cursors, value, batch }
    }

    /// Drops everything else, and returns the last handle of the database in the child.
    fn last(self) -> Db {
        let Held { db, staging, family, snapshot, begun, fresh, empty, cursors, value, batch } = self;
        // SAFETY: the thread that borrows the handles is not in this child, and this function takes the only other reference.
        let staging = unsafe { std::ptr::read(&**staging) };
        drop((staging.overlay, staging.transaction));
        drop((family, snapshot, begun, fresh, empty, cursors, value, batch));
        // SAFETY: the threads that borrow the handle are not in this child, and this function takes the only other reference.
        unsafe { std::ptr::read(&**db) }
    }
}

/// Ends the child as failed unless a call was refused.
fn refused<T>(call: &str, outcome: Result<T, Error>) {
    match outcome {
        Err(Error::Forked { path }) if path.ends_with("db") => {}
        Err(error) => fail(&format!("{call}: {error}")),
        Ok(_) => fail(&format!("{call} works in a child")),
    }
}

fn check(holds: bool, what: &str) {
    if !holds {
        fail(what);
    }
}

fn fail(what: &str) -> ! {
    eprintln!("a child: {what}");
    end(1)
}

type Act = fn(Held<'_>, &Path);

/// The children, with names.
pub const OTHERS: [(&str, Act); 14] = [
    ("puts and leaves", |held, _| refused("put", held.db.put("parent", "by a child"))),
    ("iterates", |mut held, _| {
        refused("next", held.begun.next().unwrap());
        refused("first next", held.fresh.next().unwrap());
        check(held.empty.next_back().is_some_and(|entry| entry.is_err()), "an empty range answers");
        check(held.begun.next().is_none() && held.fresh.next().is_none(), "an iterator goes on");
        held.cursors.iter_mut().for_each(move_everywhere);
        drop(held);
    }),
    ("drops everything", |held, _| drop(held.last())),
    ("drops without looking, and exits", |held, _| {
        drop(held.last());
        std::process::exit(0)
    }),
    ("closes", |held, _| {
        refused("close", held.db.close());
        drop(held.last());
    }),
    ("exits", |held, _| {
        forget(held);
        std::process::exit(0)
    }),
    ("ends", |_, _| end(0)),
    ("keeps a handle in a thread-local value", |held, _| {
        KEPT.set(Some(held.last()));
        std::process::exit(0)
    }),
    ("keeps a handle in a thread-local value of a thread", |held, _| {
        let last = held.last();
        std::thread::spawn(move || KEPT.set(Some(last))).join().unwrap();
    }),
    ("calls everything", |held, _| call_everything(held)),
    ("forks", |held, _| {
        let child = fork(|| {
            refused("get", held.db.get("parent"));
            call_everything(held);
        });
        check(wait(child, HANGS).is_some_and(|(code, _)| code == 0), "the child of the child failed");
    }),
    ("opens this database", |held, dir| {
        check(matches!(Db::open(dir.join("db")), Err(Error::Locked { .. })), "the lock is gone");
        drop(held.last());
        check(matches!(Db::open(dir.join("db")), Err(Error::Locked { .. })), "the lock is gone after a drop");
    }),
    ("opens another database", |held, dir| {
        open_another(&dir.join("other"));
        drop(held.last());
        open_another(&dir.join("other"));
    }),
    ("opens another database and forks", |held, dir| {
        let other = Db::open(dir.join("another")).unwrap();
        let child = fork(|| {
            refused("put", held.db.put("parent", "by a child of a child"));
            match other.put("other", "by a child") {
                Err(Error::Forked { path }) if path.ends_with("another") => {}
                outcome => fail(&format!("put into the database of a child: {outcome:?}")),
            }
            drop(other);
        });
        check(wait(child, HANGS).is_some_and(|(code, _)| code == 0), "the child of the child failed");
        forget(held);
    }),
];

/// Outlives the parent: waits for the file `go`, and then opens the database.
pub const LINGER: Act = |held, dir| {
    fs::write(dir.join("lives"), "").unwrap();
    await_file(&dir.join("go"));
    refused("get", held.db.get("parent"));
    drop(held.last());
    let open = || {
        let db = Options::new().open(dir.join("db"))?;
        db.write_with(WriteBatch::new().put("child", "lives on"), Durability::Sync)?;
        db.flush()?;
        db.close()
    };
    let outcome = open().map_or_else(|error: Error| error.to_string(), |()| "well".to_owned());
    // One step, so that nothing reads half of the outcome.
    fs::write(dir.join("almost"), outcome).unwrap();
    fs::rename(dir.join("almost"), dir.join("done")).unwrap();
};

thread_local! {
    static KEPT: RefCell<Option<Db>> = const { RefCell::new(None) };
}

fn open_another(dir: &Path) {
    let db = Options::new().memtable_bytes(16 << 10).open(dir).unwrap();
    for number in 0..2_000u32 {
        db.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.settle().unwrap();
    check(db.iter().filter(|entry| entry.is_ok()).count() == 2_000, "another database misses entries");
    db.close().unwrap();
}

/// Makes each call of a cursor.
fn move_everywhere(cursor: &mut Cursor) {
    refused("value", cursor.value().map(|_| ()));
    refused("next", cursor.next());
    refused("prev", cursor.prev());
    refused("first", cursor.first());
    refused("last", cursor.last());
    refused("seek", cursor.seek("key"));
    refused("seek_for_prev", cursor.seek_for_prev("key"));
}

/// Makes the calls of an overlay and of a transaction.
fn call_staging(staging: &Staging) {
    let Staging { overlay, transaction } = staging;
    refused("overlay.put", overlay.put("parent", "by a child"));
    refused("overlay.delete", overlay.delete("parent"));
    refused("overlay.get", overlay.get("parent"));
    refused("overlay.iter", overlay.iter().next().unwrap());
    refused("overlay.commit", overlay.commit());
    overlay.clear();
    check(overlay.is_empty() && overlay.bytes() == 0, "an overlay looks");
    refused("transaction.put", transaction.put("parent", "by a child"));
    refused("transaction.get", transaction.get("parent"));
    refused("transaction.contains_key", transaction.contains_key("parent"));
    refused("transaction.iter", transaction.iter().next().unwrap());
}

/// Makes each public call that touches a database.
fn call_everything(held: Held<'_>) {
    let Held { db, staging, family, snapshot, begun, fresh, empty, mut cursors, value, batch } = held;
    call_staging(staging);
    cursors.iter_mut().for_each(move_everywhere);
    move_everywhere(&mut db.iter().cursor());
    refused("column_family", db.column_family("default"));
    refused("create_column_family", db.create_column_family("new"));
    check(db.column_families().is_empty(), "column_families answers");
    refused("put", db.put("parent", "by a child"));
    refused("put of too much", db.put(vec![0; 1 << 20], "by a child"));
    refused("get", db.get("parent"));
    refused("contains_key", db.contains_key("parent"));
    refused("delete", db.delete("parent"));
    refused("first", db.first());
    refused("last", db.last());
    refused("write", db.write(batch.clone()));
    refused("write of nothing", db.write(WriteBatch::new()));
    for durability in [Durability::None, Durability::Buffer, Durability::Sync] {
        refused("write_with", db.write_with(batch.clone(), durability));
        refused("persist", db.persist(durability));
        refused("put_with", db.put_with("parent", "by a child", durability));
        refused("delete_with", db.delete_with("parent", durability));
        refused("put_with", family.put_with("key", "by a child", durability));
        refused("delete_with", family.delete_with("key", durability));
    }
    let iters = [db.iter(), db.range("a".."z"), db.range("z".."a"), db.prefix("a"), (&**db).into_iter()];
    iters
        .into_iter()
        .chain([family.iter(), family.range("a"..), family.prefix("k"), begun, fresh, empty])
        .for_each(|mut iter| {
            refused("next", iter.next().unwrap());
            check(iter.next().is_none() && iter.next_back().is_none(), "an iterator goes on");
        });
    refused("flush", db.flush());
    refused("compact", db.compact());
    refused("settle", db.settle());
    refused("evacuate", db.evacuate("/nowhere", |_| fail("a child evacuates")));
    let stats = db.stats();
    check(
        stats.families.is_empty() && stats.poisoned.is_some_and(|why| why.contains("forked")),
        "stats look",
    );
    check(db.tree().is_empty(), "tree answers");
    refused("table_reasons", db.table_reasons());
    refused("verify", db.verify());
    check(db.path().ends_with("db") && db.recovery().cut.is_none(), "what the open found is gone");
    check(format!("{db:?} {family:?} {snapshot:?}").contains("db"), "handles cannot be shown");
    refused("put", family.put("key", "by a child"));
    refused("get", family.get("key"));
    refused("contains_key", family.contains_key("key"));
    refused("delete", family.delete("key"));
    refused("first", family.first());
    refused("last", family.last());
    check(family.name() == "family" && family.clone().name() == "family", "a family has no name");
    for snapshot in [snapshot.clone(), snapshot, db.snapshot()] {
        refused("snapshot.get", snapshot.get("parent"));
        refused("snapshot.get_in", snapshot.get_in(&family, "key"));
        refused("snapshot.first", snapshot.first());
        refused("snapshot.last", snapshot.last());
        refused("snapshot.first_in", snapshot.first_in(&family));
        refused("snapshot.last_in", snapshot.last_in(&family));
        refused("snapshot.iter", snapshot.iter().next().unwrap());
        refused("snapshot.range", snapshot.range(..="z").next_back().unwrap());
        refused("snapshot.prefix", snapshot.prefix("k").next().unwrap());
        refused("snapshot.iter_in", snapshot.iter_in(&family).next().unwrap());
        refused("snapshot.range_in", snapshot.range_in(&family, "a"..).next().unwrap());
        refused("snapshot.prefix_in", snapshot.prefix_in(&family, "k").next().unwrap());
    }
    check(value == b"value" && value.clone().to_vec() == b"value", "a value is gone");
    drop((family, value));
    refused("close", db.close());
    refused("second close", db.close());
}
