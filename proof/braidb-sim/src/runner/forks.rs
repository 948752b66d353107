//! Forks: what a child does with the handles of its parent.

use super::*;
use std::fmt::Debug;

/// Demands that a call was refused because the handle is the parent's.
fn refused<T: Debug>(call: &str, outcome: Result<T, Error>) -> Verdict {
    match outcome {
        Err(Error::Forked { .. }) => Ok(()),
        other => Err(Failure::new(format!("{call} in a child gives {other:?}"))),
    }
}

impl Runner {
    /// Forks the process. The child tries every kind of call, drops all handles and tries to open the database. Then the parent is killed.
    pub fn fork(&mut self) -> Verdict {
        self.begin_operation();
        self.tally.add("forks", 1);
        self.fs.fork();
        self.fs.record_ops();
        self.use_handles_of_the_parent()?;
        self.snapshots.clear();
        self.client = None;
        if let Some(op) = self.fs.take_recorded_ops().first() {
            return Err(Failure::new(format!("a child makes {op:?}")));
        }
        match self.machine.open(&self.set) {
            Err(Error::Locked { .. }) => {}
            other => {
                return Err(Failure::new(format!("a child opens the database of its parent: {other:?}")));
            }
        }
        self.crash(Crash::Process)
    }

    fn use_handles_of_the_parent(&mut self) -> Verdict {
        let client = opened(&self.client);
        let db = &client.db;
        for key in self.probes.iter().take(3) {
            refused("get", db.get(key))?;
            refused("contains_key", db.contains_key(key))?;
            refused("put", db.put(key, "by a child"))?;
            refused("delete", db.delete(key))?;
            for Taken { snapshot, .. } in self.snapshots.iter() {
                refused("a get of a snapshot", snapshot.get(key))?;
            }
        }
        let change =
            |family| Change { family, key: COUNTER_KEY.into(), value: Some("by a child".as_bytes().into()) };
        let families = (0..FAMILIES.len()).filter(|&family| client.has(family));
        for family in families {
            refused("write", client.write(&[change(family)], Some(Durability::Sync)))?;
            refused("a put", client.write_plainly(&change(family)))?;
        }
        refused("column_family", db.column_family("default"))?;
        refused("next", db.iter().next().transpose())?;
        refused("keys", db.iter().keys().next().transpose())?;
        refused("persist", db.persist(Durability::Sync))?;
        refused("flush", db.flush())?;
        refused("compact", db.compact())?;
        refused("compact_range", db.compact_range(..))?;
        refused("excise", db.excise([..]))?;
        refused("settle", db.settle())?;
        refused("verify", db.verify())?;
        refused("close", db.close())?;
        drop(db.snapshot());
        refused("transaction", db.transaction())?;
        let overlay = db.overlay();
        refused("a put into an overlay", overlay.put("key", "value"))?;
        refused("a get of an overlay", overlay.get("key"))?;
        refused("an iterator of an overlay", overlay.iter().next().transpose())?;
        refused("a commit of an overlay", overlay.commit())?;
        refused("update", db.update("key", |_| Some("value")))?;
        let why = db.stats().poisoned;
        if !db.tree().is_empty() || why.is_none() {
            return Err(Failure::new(format!("stats and tree look into the parent's database: {why:?}")));
        }
        self.iterators.expect_ended(|error| matches!(error, Error::Forked { .. }), "in a child")?;
        Ok(())
    }
}
