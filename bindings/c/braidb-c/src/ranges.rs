//! Whole ranges at once: taking all their entries away, and compacting them.

use crate::database::Database;
use crate::failure::{Failure, Result};
use crate::family::Family;
use crate::guard::{ErrorOut, guard};
use crate::place::Place;
use crate::pointers::{Slice, elements};
use braidb_bindings::code::Code;

/// `braidb_range_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Range {
    lower: Slice,
    upper: Slice,
}

/// The lower bound of a range, which belongs to it, and the upper one, which does not.
pub type Ends<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl Range {
    pub fn bounds(&self) -> Result<Ends<'_>> {
        Ok((self.lower.bound("lower")?, self.upper.bound("upper")?))
    }

    /// The bounds of a range to take away. Refuses a range with neither: it is what an array of zeros has, or two empty texts of C++.
    fn bounds_to_excise(&self) -> Result<Ends<'_>> {
        match self.bounds()? {
            (None, None) => Err(Failure::invalid(
                "a range has neither bound, so it would take the whole family away; if that is wanted, pass the empty key as `lower`: a \
                 pointer that is not NULL, with the length 0",
            )),
            ends => Ok(ends),
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_excise(
    db: Option<&Database>,
    family: Option<&Family>,
    ranges: *const Range,
    count: usize,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_excise", err, || {
        let place = Place::new(db, family, None)?;
        let ranges = elements(ranges, count, "ranges")?.iter().map(Range::bounds_to_excise);
        place.excise(ranges.collect::<Result<Vec<Ends<'_>>>>()?.into_iter())?;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_compact_range(
    db: Option<&Database>,
    family: Option<&Family>,
    lower: Slice,
    upper: Slice,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_compact_range", err, || {
        Place::new(db, family, None)?.compact(lower.bound("lower")?, upper.bound("upper")?)?;
        Ok(Code::OK)
    })
}
