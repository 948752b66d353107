//! Merging: one cursor over many. Reads and jobs walk the same merge.
//!
//! The sources stand in a binary heap, ordered by key, then by number from the newest. Each source's current key is
//! cached as eight bytes, which decide most comparisons without touching the keys. An error of one source ends the whole merge:
//! going on without it would show old versions as if they were the newest.

use super::{Cursor, EntryKind};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::key::prefix_u64;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use std::cmp::Ordering;

/// A cursor over the union of its sources.
pub struct MergeCursor {
    sources: Vec<Source>,
    /// Indices of the valid sources; the next entry is that of `heap[0]`.
    heap: Vec<usize>,
    backward: bool,
}

struct Source {
    cursor: Box<dyn Cursor>,
    /// The cached prefix of the current key, while the cursor is valid.
    prefix: u64,
}

impl MergeCursor {
    pub fn new(sources: Vec<Box<dyn Cursor>>) -> MergeCursor {
        let sources: Vec<Source> = sources.into_iter().map(|cursor| Source { cursor, prefix: 0 }).collect();
        MergeCursor { heap: Vec::with_capacity(sources.len()), sources, backward: false }
    }

    /// Whether source `a` comes before source `b` in the direction of the walk.
    fn before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.sources[a], &self.sources[b]);
        let order = a
            .prefix
            .cmp(&b.prefix)
            .then_with(|| a.cursor.key().cmp(b.cursor.key()))
            .then_with(|| b.cursor.seq().cmp(&a.cursor.seq()));
        if self.backward { order == Ordering::Greater } else { order == Ordering::Less }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut first = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.before(self.heap[child], self.heap[first]) {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }

    /// Positions every source with `position`, and builds the heap.
    fn restart(
        &mut self,
        backward: bool,
        mut position: impl FnMut(&mut dyn Cursor) -> Result<()>,
    ) -> Result<()> {
        self.backward = backward;
        self.heap.clear();
        let mut failed = None;
        for (index, source) in self.sources.iter_mut().enumerate() {
            if let Err(error) = position(source.cursor.as_mut()) {
                if !mutant!("iterator_error_swallowed") {
                    failed = Some(error);
                    break;
                }
                continue;
            }
            if source.cursor.valid() {
                source.prefix = prefix_u64(source.cursor.key());
                self.heap.push(index);
            }
        }
        if let Some(error) = failed {
            self.heap.clear();
            return Err(error);
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        Ok(())
    }

    /// Moves the source at the top and restores the heap.
    fn advance(&mut self, step: impl FnOnce(&mut dyn Cursor) -> Result<()>) -> Result<()> {
        let top = self.heap[0];
        let source = &mut self.sources[top];
        let stepped = step(source.cursor.as_mut());
        if stepped.is_ok() && source.cursor.valid() {
            source.prefix = prefix_u64(source.cursor.key());
        } else {
            self.heap.swap_remove(0);
        }
        match stepped {
            Err(error) if !mutant!("iterator_error_swallowed") => {
                self.heap.clear();
                Err(error)
            }
            _ => {
                self.sift_down(0);
                Ok(())
            }
        }
    }

    fn top(&self) -> &dyn Cursor {
        self.sources[self.heap[0]].cursor.as_ref()
    }
}

impl Cursor for MergeCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        self.restart(false, |cursor| cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.restart(true, |cursor| cursor.seek_to_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.restart(false, |cursor| cursor.seek(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.restart(true, |cursor| cursor.seek_before(key))
    }

    fn next(&mut self) -> Result<()> {
        debug_assert!(!self.backward, "a cursor moves in one direction after it was positioned");
        self.advance(|cursor| cursor.next())
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.backward, "a cursor moves in one direction after it was positioned");
        self.advance(|cursor| cursor.prev())
    }

    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn key(&self) -> &[u8] {
        self.top().key()
    }

    fn seq(&self) -> SeqNo {
        self.top().seq()
    }

    fn kind(&self) -> EntryKind {
        self.top().kind()
    }

    fn value(&self) -> &[u8] {
        self.top().value()
    }

    fn pin_value(&self) -> Value {
        self.top().pin_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;

    type Entry = (Vec<u8>, SeqNo);

    /// A cursor over a list, which fails at its `fails_at`-th step.
    struct List {
        entries: Vec<Entry>,
        at: usize,
        steps: usize,
        fails_at: usize,
    }

    impl List {
        fn go(&mut self, to: usize) -> Result<()> {
            self.steps += 1;
            if self.steps == self.fails_at {
                self.at = usize::MAX;
                return Err(Error::Closed);
            }
            self.at = to;
            Ok(())
        }
    }

    impl Cursor for List {
        fn seek_to_first(&mut self) -> Result<()> {
            self.go(0)
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.go(self.entries.len().wrapping_sub(1))
        }
        fn seek(&mut self, key: &[u8]) -> Result<()> {
            self.go(self.entries.partition_point(|entry| entry.0.as_slice() < key))
        }
        fn seek_before(&mut self, key: &[u8]) -> Result<()> {
            self.go(self.entries.partition_point(|entry| entry.0.as_slice() < key).wrapping_sub(1))
        }
        fn next(&mut self) -> Result<()> {
            self.go(self.at + 1)
        }
        fn prev(&mut self) -> Result<()> {
            self.go(self.at.wrapping_sub(1))
        }
        fn valid(&self) -> bool {
            self.at < self.entries.len()
        }
        fn key(&self) -> &[u8] {
            &self.entries[self.at].0
        }
        fn seq(&self) -> SeqNo {
            self.entries[self.at].1
        }
        fn kind(&self) -> EntryKind {
            EntryKind::Put
        }
        fn value(&self) -> &[u8] {
            b""
        }
        fn pin_value(&self) -> Value {
            Value::copied(b"")
        }
    }

    /// Three lists whose entries interleave, and their union in order.
    fn lists(fails_at: usize) -> (MergeCursor, Vec<Entry>) {
        let mut all = Vec::new();
        let mut sources: Vec<Box<dyn Cursor>> = Vec::new();
        for part in 0..3u64 {
            let entries: Vec<Entry> = (0..20u64)
                .map(|n| (format!("key-{:02}", (n * (part + 1)) % 20).into_bytes(), 100 + n * 3 + part))
                .collect();
            let mut entries = entries;
            entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            all.extend(entries.clone());
            let fails_at = if part == 1 { fails_at } else { usize::MAX };
            sources.push(Box::new(List { entries, at: usize::MAX, steps: 0, fails_at }));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        (MergeCursor::new(sources), all)
    }

    fn collect(merge: &mut MergeCursor, backward: bool) -> Result<Vec<Entry>> {
        let mut seen = Vec::new();
        while merge.valid() {
            seen.push((merge.key().to_vec(), merge.seq()));
            if backward { merge.prev()? } else { merge.next()? }
        }
        Ok(seen)
    }

    #[test]
    fn the_union_comes_in_order_both_ways() {
        let (mut merge, mut all) = lists(usize::MAX);
        merge.seek_to_first().unwrap();
        assert_eq!(collect(&mut merge, false).unwrap(), all);
        merge.seek(b"key-07").unwrap();
        let tail: Vec<Entry> = all.iter().filter(|entry| entry.0.as_slice() >= b"key-07").cloned().collect();
        assert_eq!(collect(&mut merge, false).unwrap(), tail);
        merge.seek_before(b"key-07").unwrap();
        let mut head: Vec<Entry> =
            all.iter().filter(|entry| entry.0.as_slice() < b"key-07").cloned().collect();
        head.reverse();
        assert_eq!(collect(&mut merge, true).unwrap(), head);
        merge.seek_to_last().unwrap();
        all.reverse();
        assert_eq!(collect(&mut merge, true).unwrap(), all);
    }

    #[test]
    fn an_error_of_one_source_ends_the_merge() {
        for fails_at in 1..20 {
            let (mut merge, _) = lists(fails_at);
            let outcome = merge.seek_to_first().and_then(|()| collect(&mut merge, false));
            assert!(outcome.is_err(), "the error of step {fails_at} was lost");
            assert!(!merge.valid());
        }
    }
}
