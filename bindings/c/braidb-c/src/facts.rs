//! Facts about an open database: statistics, single metrics, and estimates of ranges.

use crate::database::{Database, usable};
use crate::failure::{Failure, Result};
use crate::family::Family;
use crate::guard::{ErrorOut, guard};
use crate::place::Place;
use crate::pointers::{Out, Text, elements, give_text, out, places};
use crate::ranges::Range;
use braidb::stats::RangeEstimate;
use braidb_bindings::code::Code;
use braidb_bindings::reports;
use std::ffi::c_char;
use std::ptr;

/// `braidb_estimate_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    entries: u64,
    tombstones: u64,
    bytes: u64,
    value_bytes: u64,
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_stats(db: Option<&Database>, json: Out<'_, *mut c_char>, err: ErrorOut<'_>) -> Code {
    guard("braidb_stats", err, || {
        let json = out(json, "json", ptr::null_mut())?;
        *json = give_text(&reports::statistics(&usable(db)?.db.stats()).to_string());
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_metric(
    db: Option<&Database>,
    name: Text,
    value: Out<'_, f64>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_metric", err, || {
        let value = out(value, "value", 0.0)?;
        let name = name.str("name")?;
        let figures = reports::figures(&usable(db)?.db.stats());
        let found = figures.iter().find(|(known, _)| known == name);
        let (_, number) = found.ok_or_else(|| {
            Failure::invalid(format!(
                "there is no metric `{name}`; `braidb_metrics` lists those that there are"
            ))
        })?;
        *value = *number as f64;
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_metrics(
    db: Option<&Database>,
    text: Out<'_, *mut c_char>,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_metrics", err, || {
        let place = out(text, "text", ptr::null_mut())?;
        *place = give_text(&reports::metrics(&usable(db)?.db.stats()));
        Ok(Code::OK)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn braidb_estimate(
    db: Option<&Database>,
    family: Option<&Family>,
    ranges: *const Range,
    count: usize,
    estimates: *mut Estimate,
    err: ErrorOut<'_>,
) -> Code {
    guard("braidb_estimate", err, || {
        let estimates = places(estimates, count, "estimates", Estimate::default())?;
        let (place, ranges) = (Place::new(db, family, None)?, elements(ranges, count, "ranges")?);
        let estimated = ranges.iter().map(|range| {
            let (lower, upper) = range.bounds()?;
            place.estimate(lower, upper)
        });
        let estimated = estimated.collect::<Result<Vec<RangeEstimate>>>()?;
        for (found, estimate) in estimated.into_iter().zip(estimates) {
            *estimate = Estimate {
                entries: found.entries,
                tombstones: found.tombstones,
                bytes: found.bytes,
                value_bytes: found.value_bytes,
            };
        }
        Ok(Code::OK)
    })
}
