//! What concerns a whole database, or whole ranges of keys.

use crate::bytes;
use crate::failure::Result;
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use braidb::ColumnFamily;
use jni::objects::{JByteArray, JLongArray};
use jni::sys::{jboolean, jint, jlong};

native! {
    /// The home of the column family `name`.
    fn Java_io_github_braidb_Native_family<'local>(
        env,
        home: jlong,
        name: JByteArray<'local>,
        is_created: jboolean,
    ) -> jlong {
        let home = Home::lent(home)?;
        let name = bytes::take(env, &name)?;
        let family = family(home, bytes::text(&name)?, is_created)?;
        Ok(handles::give(Home { opened: home.opened.clone(), family }))
    }
}

native! {
    /// The names of all column families, one a line. No name has a line break.
    fn Java_io_github_braidb_Native_families<'local>(env, home: jlong) -> JByteArray<'local> {
        let home = Home::lent(home)?;
        Ok(bytes::give(env, home.opened.db.column_families().join("\n").as_bytes())?)
    }
}

native! {
    fn Java_io_github_braidb_Native_persist<'local>(_env, home: jlong, durability: jint) -> () {
        let home = Home::lent(home)?;
        match bytes::durability(durability)? {
            Some(durability) => Ok(home.opened.db.persist(durability)?),
            None => Ok(()),
        }
    }
}

native! {
    fn Java_io_github_braidb_Native_flush<'local>(_env, home: jlong) -> () {
        Ok(Home::lent(home)?.opened.db.flush()?)
    }
}

native! {
    fn Java_io_github_braidb_Native_settle<'local>(_env, home: jlong) -> () {
        Ok(Home::lent(home)?.opened.db.settle()?)
    }
}

native! {
    fn Java_io_github_braidb_Native_compact<'local>(_env, home: jlong) -> () {
        Ok(Home::lent(home)?.opened.db.compact()?)
    }
}

native! {
    fn Java_io_github_braidb_Native_compactRange<'local>(
        env,
        home: jlong,
        range: JByteArray<'local>,
    ) -> () {
        let home = Home::lent(home)?;
        let range = bytes::range(&bytes::take(env, &range)?)?;
        Ok(home.family.compact_range(range)?)
    }
}

native! {
    fn Java_io_github_braidb_Native_excise<'local>(env, home: jlong, ranges: JByteArray<'local>) -> () {
        let home = Home::lent(home)?;
        let ranges = bytes::ranges(&bytes::take(env, &ranges)?)?;
        Ok(home.family.excise(ranges)?)
    }
}

native! {
    /// Entries, tombstones, bytes, and bytes of values apart from their keys that a range holds, about.
    fn Java_io_github_braidb_Native_estimate<'local>(
        env,
        home: jlong,
        range: JByteArray<'local>,
    ) -> JLongArray<'local> {
        let home = Home::lent(home)?;
        let range = bytes::range(&bytes::take(env, &range)?)?;
        let estimate = home.family.estimate(range)?;
        let numbers = [estimate.entries, estimate.tombstones, estimate.bytes, estimate.value_bytes];
        bytes::give_numbers(env, &numbers)
    }
}

native! {
    /// Makes a checkpoint. Returns its files, and its bytes that were linked and copied.
    fn Java_io_github_braidb_Native_checkpoint<'local>(
        env,
        home: jlong,
        dir: JByteArray<'local>,
    ) -> JLongArray<'local> {
        let home = Home::lent(home)?;
        let dir = bytes::take(env, &dir)?;
        let report = home.opened.db.checkpoint(bytes::path(&dir))?;
        bytes::give_numbers(env, &[report.files, report.linked_bytes, report.copied_bytes])
    }
}

fn family(home: &Home, name: &str, is_created: bool) -> Result<ColumnFamily> {
    let db = &home.opened.db;
    Ok(if is_created { db.create_column_family(name) } else { db.column_family(name) }?)
}
