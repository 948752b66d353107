//! Batches: writes that happen together or not at all.

use crate::database::{Database, durability, usable};
use crate::failure::{Failure, Result};
use crate::family::{Family, family_of};
use crate::guard::{ErrorOut, guard, quiet};
use crate::packed::Packed;
use crate::pointers::{Slice, give, need};
use braidb::{BatchEntry, ColumnFamily, Error, MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES, WriteBatch};
use braidb_bindings::code::Code;
use std::ffi::{c_int, c_void};
use std::ptr;

/// Bytes that a write takes in a batch besides key and value, at most: its kind, family, lengths and checksum.
const MOST_HEAD_BYTES: usize = 18;
/// Bytes besides key and value that the engine wants to be free for one more write, as `WriteBatch::put` does.
const FREE_BYTES: usize = 64;

/// What [`braidb_batch_iterate`] calls for a put: with the context, the name of the family, key and value.
type OnPut = Option<extern "C-unwind" fn(*mut c_void, Slice, Slice, Slice) -> c_int>;
/// What it calls for a delete.
type OnDelete = Option<extern "C-unwind" fn(*mut c_void, Slice, Slice) -> c_int>;

/// `braidb_batch_t`. The engine takes refused writes into a batch, and returns the refusal when the batch is written. Here each call
/// returns its own refusal, and the batch stays as it was.
#[derive(Debug, Default)]
pub struct Batch {
    batch: WriteBatch,
    /// The database of the families in the batch.
    database: Option<u64>,
    /// The families that the batch writes to, besides the default family.
    families: Vec<ColumnFamily>,
}

/// The bytes that a batch of `bytes_before` has with one more write, at most. Refuses what is over the limits.
fn check(bytes_before: usize, key: &[u8], value: Option<&[u8]>) -> Result<usize> {
    let check = |what, bytes, limit| match bytes > limit {
        true => Err(Error::TooLarge { what, bytes, limit }),
        false => Ok(()),
    };
    let value_bytes = value.map_or(0, <[u8]>::len);
    check("the key", key.len(), MAX_KEY_BYTES)?;
    check("the value", value_bytes, MAX_VALUE_BYTES)?;
    let bytes = bytes_before + key.len() + value_bytes;
    check("the batch", bytes + FREE_BYTES, MAX_BATCH_BYTES)?;
    Ok(bytes + MOST_HEAD_BYTES)
}

impl Batch {
    /// Notes that the batch writes to `family`. Refuses a family of another database than the others are of.
    fn bind(&mut self, family: &Family) -> Result<()> {
        if let Some(database) = self.database {
            family.check_of(database)?;
        }
        self.database = Some(family.shared.id);
        if !self.families.iter().any(|known| known.name() == family.family.name()) {
            self.families.push(family.family.clone());
        }
        Ok(())
    }

    /// Adds a write that was checked, to a family to which the batch is bound.
    fn push(&mut self, family: Option<&ColumnFamily>, key: &[u8], value: Option<&[u8]>) {
        match (family, value) {
            (None, Some(value)) => self.batch.put(key, value),
            (None, None) => self.batch.delete(key),
            (Some(family), Some(value)) => self.batch.put_in(family, key, value),
            (Some(family), None) => self.batch.delete_in(family, key),
        };
    }

    fn add(&mut self, family: Option<&Family>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check(self.batch.bytes(), key, value)?;
        if let Some(family) = family {
            self.bind(family)?;
        }
        self.push(family_of(family), key, value);
        Ok(())
    }

    /// Adds all writes of `packed`, which has `count` of them, or none.
    fn add_packed(&mut self, family: Option<&Family>, packed: &[u8], count: usize) -> Result<()> {
        let (mut bytes, mut found) = (self.batch.bytes(), 0);
        for write in Packed::new(packed) {
            let (key, value) = write?;
            bytes = check(bytes, key, value)?;
            found += 1;
        }
        if found != count {
            return Err(Failure::invalid(format!(
                "{count} packed writes are announced, and {found} are there"
            )));
        }
        if let Some(family) = family
            && count > 0
        {
            self.bind(family)?;
        }
        for write in Packed::new(packed) {
            let (key, value) = write?;
            self.push(family_of(family), key, value);
        }
        Ok(())
    }

    fn append(&mut self, other: &Batch) -> Result<()> {
        if let (Some(own), Some(others), Some(family)) =
            (self.database, other.database, other.families.first())
            && own != others
        {
            return Err(Error::ForeignFamily { name: family.name().to_owned() }.into());
        }
        let bytes = self.batch.bytes() + other.batch.bytes();
        if bytes > MAX_BATCH_BYTES {
            return Err(Error::TooLarge { what: "the batch", bytes, limit: MAX_BATCH_BYTES }.into());
        }
        self.database = self.database.or(other.database);
        for family in &other.families {
            if !self.families.iter().any(|known| known.name() == family.name()) {
                self.families.push(family.clone());
            }
        }
        self.batch.append(&other.batch);
        Ok(())
    }

    /// The name of the family to which an entry of the batch goes.
    fn family_name(&self, entry: &BatchEntry<'_>) -> &str {
        let family = self.families.iter().find(|family| entry.is_in(family));
        family.map_or("default", ColumnFamily::name)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_create() -> *mut Batch {
    quiet("braidb_batch_create", ptr::null_mut(), || give(Batch::default()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_free(batch: Option<Box<Batch>>) {
    quiet("braidb_batch_free", (), || drop(batch));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_clear(batch: Option<&mut Batch>, err: ErrorOut<'_>) -> Code {
    guard("braidb_batch_clear", err, || {
        let batch = need(batch, "batch")?;
        batch.batch.clear();
        batch.database = None;
        batch.families.clear();
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_put(
    batch: Option<&mut Batch>,
    family: Option<&Family>,
    key: Slice,
    value: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_batch_put", err, || {
        need(batch, "batch")?.add(family, key.bytes("key")?, Some(value.bytes("value")?))?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_delete(
    batch: Option<&mut Batch>,
    family: Option<&Family>,
    key: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_batch_delete", err, || {
        need(batch, "batch")?.add(family, key.bytes("key")?, None)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_put_packed(
    batch: Option<&mut Batch>,
    family: Option<&Family>,
    packed: Slice,
    count: usize,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_batch_put_packed", err, || {
        need(batch, "batch")?.add_packed(family, packed.bytes("packed")?, count)?;
        Ok(Code::OK)
    })
}

/// `batch` and `other` may be one batch, so they are pointers here.
#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_append(batch: *mut Batch, other: *const Batch, err: ErrorOut<'_>) -> Code {
    guard("braidb_batch_append", err, || {
        let copy;
        // SAFETY: the caller promises two batches, or one, which no other thread uses during the call. A copy is made of one batch before
        // it is borrowed to change it, so no other reference to it is left then.
        let (batch, other) = unsafe {
            let other = need(other.as_ref(), "other")?;
            let other = if ptr::eq(batch, other) {
                copy = Batch { batch: other.batch.clone(), database: None, families: Vec::new() };
                &copy
            } else {
                other
            };
            (need(batch.as_mut(), "batch")?, other)
        };
        batch.append(other)?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_iterate(
    batch: Option<&Batch>,
    on_put: OnPut,
    on_delete: OnDelete,
    context: *mut c_void,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_batch_iterate", err, || {
        let batch = need(batch, "batch")?;
        let (on_put, on_delete) = (need(on_put, "on_put")?, need(on_delete, "on_delete")?);
        for entry in batch.batch.iter() {
            let family = Slice::of(batch.family_name(&entry).as_bytes());
            let key = Slice::of(entry.key());
            let stop = match entry.value() {
                Some(value) => on_put(context, family, key, Slice::of(value)),
                None => on_delete(context, family, key),
            };
            if stop != 0 {
                break;
            }
        }
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_count(batch: Option<&Batch>) -> usize {
    quiet("braidb_batch_count", 0, || batch.map_or(0, |batch| batch.batch.len()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_batch_bytes(batch: Option<&Batch>) -> usize {
    quiet("braidb_batch_bytes", 0, || batch.map_or(0, |batch| batch.batch.bytes()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_write(
    db: Option<&Database>,
    batch: Option<&Batch>,
    durability: i32,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_write", err, || {
        let (shared, batch) = (usable(db)?, need(batch, "batch")?);
        match self::durability(durability)? {
            None => shared.db.write(&batch.batch)?,
            Some(durability) => shared.db.write_with(&batch.batch, durability)?,
        }
        Ok(Code::OK)
    })
}
