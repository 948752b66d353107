//! Column families: their handles and their names.

use crate::database::{Database, Shared, usable};
use crate::failure::{Result, without_nul};
use crate::guard::{ErrorOut, guard, quiet};
use crate::pointers::{Block, Out, Text, give, need, out};
use braidb::{ColumnFamily, Db, Error};
use braidb_bindings::code::Code;
use std::ffi::{CString, c_char};
use std::mem;
use std::ptr;
use std::sync::Arc;

/// `braidb_family_t`.
#[derive(Debug)]
pub struct Family {
    pub shared: Arc<Shared>,
    pub family: ColumnFamily,
    name: CString,
}

impl Family {
    /// Refuses a family of another database.
    #[inline]
    pub fn check_of(&self, database: u64) -> Result<()> {
        match self.shared.id == database {
            true => Ok(()),
            false => Err(Error::ForeignFamily { name: self.family.name().to_owned() }.into()),
        }
    }
}

/// The column family of a handle. NULL is the default family.
#[inline]
pub fn family_of(family: Option<&Family>) -> Option<&ColumnFamily> {
    family.map(|family| &family.family)
}

/// Gives a handle of the family that `find` finds or creates.
fn give_family(
    db: Option<&Database>,
    name: Text,
    family: Out<'_, *mut Family>,
    find: impl FnOnce(&Db, &str) -> braidb::Result<ColumnFamily>,
) -> Result<Code> {
    let place = out(family, "family", ptr::null_mut())?;
    let shared = usable(db)?.clone();
    let family = find(&shared.db, name.str("name")?)?;
    let name = without_nul(family.name().as_bytes());
    *place = give(Family { shared, family, name });
    Ok(Code::OK)
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_family_open(
    db: Option<&Database>,
    name: Text,
    family: Out<'_, *mut Family>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_family_open", err, || give_family(db, name, family, Db::column_family))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_family_create(
    db: Option<&Database>,
    name: Text,
    family: Out<'_, *mut Family>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_family_create", err, || give_family(db, name, family, Db::create_column_family))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_family_name(family: Option<&Family>) -> *const c_char {
    quiet("braidb_family_name", ptr::null(), || family.map_or(ptr::null(), |family| family.name.as_ptr()))
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_family_free(family: Option<Box<Family>>) {
    quiet("braidb_family_free", (), || drop(family));
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_family_list(
    db: Option<&Database>,
    names: Out<'_, *mut *const c_char>,
    count: Out<'_, usize>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_family_list", err, || {
        let (place, count) = (names.neutral(ptr::null_mut()), count.neutral(0));
        let (place, count) = (need(place, "names")?, need(count, "count")?);
        let names = usable(db)?.db.column_families();
        *place = give_texts(&names);
        *count = names.len();
        Ok(Code::OK)
    })
}

/// An array of texts, with the texts behind it in the same block of memory.
fn give_texts(texts: &[String]) -> *mut *const c_char {
    let pointer_bytes = mem::size_of::<usize>();
    let text_bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    let mut block = Block::new(texts.len() * pointer_bytes + text_bytes);
    let mut end = texts.len() * pointer_bytes;
    for (index, text) in texts.iter().enumerate() {
        let place = block.put(end, text.as_bytes());
        block.put(end + text.len(), &[0]);
        end += text.len() + 1;
        block.put(index * pointer_bytes, &place.expose_provenance().to_ne_bytes());
    }
    block.give().cast()
}
