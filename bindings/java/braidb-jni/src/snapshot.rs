//! The native part of the Java class `Snapshot`: the database at one moment.

use crate::bytes;
use crate::entries::{pack, unpack};
use crate::failure::Result;
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use braidb_bindings::opened::Opened;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jlong};
use std::sync::Arc;

/// What a Java snapshot owns.
#[derive(Debug)]
pub struct Snapshot {
    pub opened: Arc<Opened>,
    pub snapshot: braidb::Snapshot,
}

impl Snapshot {
    /// The snapshot of a handle. Fails after a close of the database.
    pub fn lent<'call>(handle: jlong) -> Result<&'call Snapshot> {
        let snapshot: &Snapshot = handles::lent(handle);
        snapshot.opened.check()?;
        Ok(snapshot)
    }
}

native! {
    fn Java_io_github_braidb_Native_snapshot<'local>(_env, home: jlong) -> jlong {
        let home = Home::lent(home)?;
        Ok(handles::give(Snapshot { opened: home.opened.clone(), snapshot: home.opened.db.snapshot() }))
    }
}

native! {
    fn Java_io_github_braidb_Native_freeSnapshot<'local>(_env, snapshot: jlong) -> () {
        handles::free::<Snapshot>(snapshot);
        Ok(())
    }
}

native! {
    fn Java_io_github_braidb_Native_snapshotGet<'local>(
        env,
        snapshot: jlong,
        home: jlong,
        key: JByteArray<'local>,
    ) -> JByteArray<'local> {
        let snapshot = Snapshot::lent(snapshot)?;
        let key = bytes::take(env, &key)?;
        let value = snapshot.snapshot.get_in(&Home::lent(home)?.family, &key)?;
        bytes::give_value(env, value)
    }
}

native! {
    fn Java_io_github_braidb_Native_snapshotContains<'local>(
        env,
        snapshot: jlong,
        home: jlong,
        key: JByteArray<'local>,
    ) -> jboolean {
        let snapshot = Snapshot::lent(snapshot)?;
        let key = bytes::take(env, &key)?;
        Ok(snapshot.snapshot.contains_key_in(&Home::lent(home)?.family, &key)?)
    }
}

native! {
    fn Java_io_github_braidb_Native_snapshotGetMany<'local>(
        env,
        snapshot: jlong,
        home: jlong,
        keys: JByteArray<'local>,
    ) -> JByteArray<'local> {
        let snapshot = Snapshot::lent(snapshot)?;
        let packed = bytes::take(env, &keys)?;
        let values = snapshot.snapshot.get_many_in(&Home::lent(home)?.family, &unpack(&packed)?)?;
        let packed = pack(&values)?;
        Ok(bytes::give(env, &packed)?)
    }
}
