//! Batches. Java packs the writes into one array, so a batch crosses the border once.
//!
//! ```text
//! batch = write*
//! write = family u32 │ key length u32 │ value length u32 │ key │ value
//! ```
//!
//! Numbers are little-endian. The family is a place in the array of homes that Java passes too. FF FF FF FF as value length is a delete,
//! without a value.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use braidb::{ColumnFamily, WriteBatch};
use jni::objects::{JByteArray, JLongArray};
use jni::sys::{jint, jlong};

/// Bytes in front of the key of a write.
const HEAD_BYTES: usize = 12;
/// The length of a value that stands for a delete.
const DELETE: u32 = u32::MAX;

native! {
    /// Writes the first `length` bytes of a packed batch.
    fn Java_io_github_braidb_Native_write<'local>(
        env,
        home: jlong,
        packed: JByteArray<'local>,
        length: jint,
        homes: JLongArray<'local>,
        durability: jint,
    ) -> () {
        let home = Home::lent(home)?;
        let durability = bytes::durability(durability)?;
        let packed = bytes::take_first(env, &packed, length as usize)?;
        let mut handles = vec![0; homes.len(env)?];
        homes.get_region(env, 0, &mut handles)?;
        let families: Vec<&ColumnFamily> =
            handles.into_iter().map(|handle| &handles::lent::<Home>(handle).family).collect();
        let batch = decode(&packed, &families)?;
        let db = &home.opened.db;
        Ok(match durability {
            None => db.write(batch),
            Some(durability) => db.write_with(batch, durability),
        }?)
    }
}

/// One write of a packed batch. A delete has no value.
struct Write<'a> {
    family: u32,
    key: &'a [u8],
    value: Option<&'a [u8]>,
}

/// The batch of packed writes.
fn decode(packed: &[u8], families: &[&ColumnFamily]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    let malformed = || Failure::invalid("a batch is malformed, which is a bug of the Java package");
    let (mut writes, mut key_bytes, mut value_bytes) = (0, 0, 0);
    let mut rest = packed;
    while !rest.is_empty() {
        let (write, behind) = split_write(rest).ok_or_else(malformed)?;
        writes += 1;
        key_bytes += write.key.len();
        value_bytes += write.value.map_or(0, <[u8]>::len);
        rest = behind;
    }
    // A batch that grows write by write spends a fifth of its time in the allocator.
    batch.reserve(writes, key_bytes, value_bytes);
    rest = packed;
    while let Some((write, behind)) = split_write(rest) {
        let family = families.get(write.family as usize).ok_or_else(malformed)?;
        match write.value {
            Some(value) => batch.put_in(family, write.key, value),
            None => batch.delete_in(family, write.key),
        };
        rest = behind;
    }
    Ok(batch)
}

/// The first write, and what lies behind it; `None` if it is malformed, or if there is none.
#[inline]
fn split_write(packed: &[u8]) -> Option<(Write<'_>, &[u8])> {
    let (head, body) = packed.split_first_chunk::<HEAD_BYTES>()?;
    let [family, key_length, value_length] =
        [0, 4, 8].map(|at| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes")));
    let (key, body) = body.split_at_checked(key_length as usize)?;
    if value_length == DELETE {
        return Some((Write { family, key, value: None }, body));
    }
    let (value, body) = body.split_at_checked(value_length as usize)?;
    Some((Write { family, key, value: Some(value) }, body))
}
