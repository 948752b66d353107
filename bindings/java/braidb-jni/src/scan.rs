//! The native part of the Java class `Scan`: entries of a range as an overlay or a transaction sees them, in one order.
//!
//! A scan of an overlay shows the moment when it began, and reads ahead.
//!
//! A transaction conflicts with later writes where its scans have read. So a page of its scan has one entry at first, and then twice as many
//! each time, up to 64. Its own later writes show: after one, Java drops the rest of a page and names the key behind which the scan goes on.

use crate::bytes::{self, Edges};
use crate::failure::{Failure, Result};
use crate::guard::native;
use crate::handles;
use crate::home::Home;
use crate::page::{self, Filled, Page, Pushed};
use crate::staged::{self, Staged, Writes};
use braidb::{ColumnFamily, OverlayIter, Value};
use braidb_bindings::opened::Opened;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jint, jlong};
use std::ops::Bound as Edge;
use std::sync::{Arc, Mutex, PoisonError};

type Entry = (Vec<u8>, Value);

/// Entries of the largest page of a transaction: 64. More save little time, and each entry read ahead may be a conflict.
const MOST_RUN: usize = 64;

/// What a Java scan owns.
#[derive(Debug)]
struct Shell {
    opened: Arc<Opened>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    source: Source,
    is_backward: bool,
    /// An entry that was read and is in no page yet.
    waiting: Option<Entry>,
    /// What the next page returns: entries before the error were handed out.
    failed: Option<Failure>,
}

#[derive(Debug)]
enum Source {
    Overlay(Box<OverlayIter>),
    /// What a transaction has not read yet.
    Transaction {
        staged: Arc<Staged>,
        family: ColumnFamily,
        left: Edges,
        /// Entries of the next page.
        run: usize,
    },
}

native! {
    /// A scan over a range of a family.
    fn Java_io_github_braidb_Native_scan<'local>(
        env,
        staged: jlong,
        home: jlong,
        range: JByteArray<'local>,
        is_backward: jboolean,
    ) -> jlong {
        let staged = Staged::lent(staged)?;
        let home = Home::lent(home)?;
        home.check_of(&staged.opened)?;
        let family = &home.family;
        let range = bytes::range(&bytes::take(env, &range)?)?;
        let source = match &staged.writes {
            Writes::Overlay(overlay) => Source::Overlay(Box::new(overlay.range_in(family, range))),
            Writes::Transaction(_) => {
                Source::Transaction { staged: staged.clone(), family: family.clone(), left: range, run: 1 }
            }
        };
        let state = State { source, is_backward, waiting: None, failed: None };
        Ok(handles::give(Shell { opened: staged.opened.clone(), state: Mutex::new(state) }))
    }
}

native! {
    /// Fills the first `room` bytes of a buffer. Returns what `page` says. A scan of a transaction goes on behind `key`, unless it is null.
    fn Java_io_github_braidb_Native_scanFill<'local>(
        env,
        scan: jlong,
        key: JByteArray<'local>,
        buffer: JByteArray<'local>,
        room: jint,
    ) -> jint {
        let shell: &Shell = handles::lent(scan);
        shell.opened.check()?;
        let mut state = shell.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !key.is_null() {
            let key = bytes::take(env, &key)?;
            state.go_on_behind(&key);
        }
        page::fill(env, &buffer, room, |page| state.fill(page))
    }
}

native! {
    fn Java_io_github_braidb_Native_freeScan<'local>(_env, scan: jlong) -> () {
        handles::free::<Shell>(scan);
        Ok(())
    }
}

impl State {
    /// Has a scan of a transaction read again what lies behind a key.
    fn go_on_behind(&mut self, key: &[u8]) {
        if let Source::Transaction { left, run, .. } = &mut self.source {
            // A loop that writes between two entries drops what was read ahead each time.
            *run = 1;
            let edge = if self.is_backward { &mut left.1 } else { &mut left.0 };
            *edge = Edge::Excluded(key.to_vec());
        }
    }

    fn fill(&mut self, page: &mut Page<'_>) -> Result<Filled> {
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        match &mut self.source {
            Source::Overlay(iter) => {
                let (waiting, is_backward) = (&mut self.waiting, self.is_backward);
                let next = || match waiting.take() {
                    Some(entry) => Ok(Some(entry)),
                    None => Ok(step(&mut **iter, is_backward)?),
                };
                let (filled, rest) = fill_page(page, usize::MAX, next);
                match rest {
                    Rest::Nothing => {}
                    Rest::Entry(entry) => self.waiting = Some(entry),
                    Rest::Failure(failure) if page.is_empty() => return Err(failure),
                    Rest::Failure(failure) => self.failed = Some(failure),
                }
                Ok(filled)
            }
            Source::Transaction { staged, family, left, run } => {
                let filled = fill_of(staged, family, left, *run, self.is_backward, page)?;
                *run = (2 * *run).min(MOST_RUN);
                Ok(filled)
            }
        }
    }
}

/// What a page did not take.
enum Rest {
    Nothing,
    Entry(Entry),
    Failure(Failure),
}

/// Adds at most `most` entries to a page.
fn fill_page(
    page: &mut Page<'_>,
    most: usize,
    mut next: impl FnMut() -> Result<Option<Entry>>,
) -> (Filled, Rest) {
    for _ in 0..most {
        let (key, value) = match next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(failure) => return (Filled::Done, Rest::Failure(failure)),
        };
        match page.push(&key, &value) {
            Pushed::Taken => {}
            Pushed::Full => return (Filled::Done, Rest::Entry((key, value))),
            Pushed::TooLarge(bytes) => return (Filled::Needs(bytes), Rest::Entry((key, value))),
        }
    }
    (Filled::Done, Rest::Nothing)
}

/// Fills a page with at most `run` entries of a transaction. What the page did not take is read again for the next one.
fn fill_of(
    staged: &Staged,
    family: &ColumnFamily,
    left: &mut Edges,
    run: usize,
    is_backward: bool,
    page: &mut Page<'_>,
) -> Result<Filled> {
    let Writes::Transaction(transaction) = &staged.writes else {
        return Err(Failure::invalid("an overlay is no transaction, which is a bug of the Java package"));
    };
    let mut last = None;
    let (filled, rest) = staged::with(transaction, |running| {
        let mut iter = running.range_in(family, left.clone());
        Ok(fill_page(page, run, || {
            let entry = step(&mut iter, is_backward)?;
            if let Some((key, _)) = &entry {
                last.replace(key.clone());
            }
            Ok(entry)
        }))
    })?;
    match rest {
        Rest::Failure(failure) if page.is_empty() => return Err(failure),
        // The next page begins at the entry that failed or found no room, so the edge is the last key of this page.
        Rest::Failure(_) | Rest::Nothing => {}
        Rest::Entry(_) => last = page.last_key().map(<[u8]>::to_vec),
    }
    if let Some(key) = last {
        let edge = if is_backward { &mut left.1 } else { &mut left.0 };
        *edge = Edge::Excluded(key);
    }
    Ok(filled)
}

/// The next entry in the order of a scan.
fn step(
    iter: &mut impl DoubleEndedIterator<Item = braidb::Result<Entry>>,
    is_backward: bool,
) -> braidb::Result<Option<Entry>> {
    if is_backward { iter.next_back() } else { iter.next() }.transpose()
}
