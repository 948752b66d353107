//! Reads and writes of single keys.

use crate::bytes;
use crate::failure::{Failure, Result};
use crate::guard::native;
use crate::home::Home;
use braidb::Value;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jint, jlong};

/// The length in front of each key and value of a list: 4 bytes, little-endian.
const LENGTH_BYTES: usize = 4;
/// The length that stands for no value. No value is as long: the limit is 1 GiB.
const NO_VALUE: u32 = u32::MAX;

native! {
    fn Java_io_github_braidb_Native_put<'local>(
        env,
        home: jlong,
        key: JByteArray<'local>,
        value: JByteArray<'local>,
        durability: jint,
    ) -> () {
        let home = Home::lent(home)?;
        let (key, value) = (bytes::take_key(env, &key)?, bytes::take_value(env, &value)?);
        Ok(home.write(&key, Some(&value), bytes::durability(durability)?)?)
    }
}

native! {
    fn Java_io_github_braidb_Native_delete<'local>(
        env,
        home: jlong,
        key: JByteArray<'local>,
        durability: jint,
    ) -> () {
        let home = Home::lent(home)?;
        let key = bytes::take_key(env, &key)?;
        Ok(home.write(&key, None, bytes::durability(durability)?)?)
    }
}

native! {
    /// The value of a key, or null.
    fn Java_io_github_braidb_Native_get<'local>(
        env,
        home: jlong,
        key: JByteArray<'local>,
    ) -> JByteArray<'local> {
        let home = Home::lent(home)?;
        let key = bytes::take(env, &key)?;
        let value = home.family.get(&key)?;
        bytes::give_value(env, value)
    }
}

native! {
    fn Java_io_github_braidb_Native_contains<'local>(
        env,
        home: jlong,
        key: JByteArray<'local>,
    ) -> jboolean {
        let home = Home::lent(home)?;
        let key = bytes::take(env, &key)?;
        Ok(home.family.contains_key(&key)?)
    }
}

native! {
    /// The values of a list of keys, all of one moment. Both lists are a length and bytes for each element.
    fn Java_io_github_braidb_Native_getMany<'local>(
        env,
        home: jlong,
        keys: JByteArray<'local>,
    ) -> JByteArray<'local> {
        let home = Home::lent(home)?;
        let packed = bytes::take(env, &keys)?;
        let values = home.family.get_many(&unpack(&packed)?)?;
        let packed = pack(&values)?;
        Ok(bytes::give(env, &packed)?)
    }
}

/// The elements of a list that Java passed.
pub fn unpack(mut packed: &[u8]) -> Result<Vec<&[u8]>> {
    let mut elements = Vec::new();
    while !packed.is_empty() {
        let split = packed
            .split_first_chunk::<LENGTH_BYTES>()
            .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let Some((element, rest)) = split else {
            return Err(Failure::invalid("a list is malformed, which is a bug of the Java package"));
        };
        elements.push(element);
        packed = rest;
    }
    Ok(elements)
}

/// A list of values for Java.
pub fn pack(values: &[Option<Value>]) -> Result<Vec<u8>> {
    let bytes: usize =
        values.iter().map(|value| LENGTH_BYTES + value.as_ref().map_or(0, |value| value.len())).sum();
    if i32::try_from(bytes).is_err() {
        return Err(Failure::invalid(format!(
            "the values have {bytes} bytes together, and an array of Java holds 2,147,483,647; get fewer keys at once"
        )));
    }
    let mut packed = Vec::with_capacity(bytes);
    for value in values {
        let length = value.as_ref().map_or(NO_VALUE, |value| value.len() as u32);
        packed.extend_from_slice(&length.to_le_bytes());
        packed.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    Ok(packed)
}
