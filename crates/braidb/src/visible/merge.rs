//! Merging: one cursor over many. Reads and jobs walk the same merge.
//!
//! The sources play a tournament (a *tree of losers*): each inner node keeps the source that lost there. The winner of all stands
//! on top. After the winner moved, it plays only against the losers on its way up.
//!
//! A match hardly ever looks at keys. Each source stands in the tree with the code of its key ([`Code`]) against the key of the
//! last winner. All losers on the winner's way up lost to the winner, so their codes have the winner's key as base. The smaller
//! code has the key that comes first. The loser's code is right against its new winner as well. Only equal codes need the keys,
//! and only from the symbol on at which they agree. Leading bytes that all keys share cost nothing.
//!
//! While one source wins again and again, its new code is compared with one number only: the least code on its way up.
//!
//! An error of one source ends the whole merge: going on without it would show old versions as if they were the newest.

use super::offset_value::Code;
use super::{Cursor, EntryKind, LazyValue};
use crate::base::body::{BodyFile, Handle};
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::mutant::mutant;
use crate::base::value::Value;
use std::hint::select_unpredictable;
use std::mem;
use std::ops::Range;

/// A cursor over the union of its sources.
pub struct MergeCursor<C = Box<dyn Cursor>> {
    sources: Vec<C>,
    /// The tournament, empty while the cursor is not positioned: the winner of all, then the losers. To node `n` come the
    /// winners of `2n` and `2n + 1`, where source `s` stands for node `sources.len() + s`.
    tree: Vec<Head>,
    /// The winner's key, while there is one: the base of the next codes.
    key: Vec<u8>,
    /// The key of the entry from which the last movement came.
    key_before: Vec<u8>,
    /// With a code below this bound the last winner wins again. It is the least code on its way up, or `Code::EQUAL`, the least of all
    /// codes, if that is unknown.
    bound: Code,
    backward: bool,
}

/// A source in the tournament.
#[derive(Clone, Copy)]
struct Head {
    code: Code,
    source: u32,
}

impl Head {
    /// The head of a node to which no source has come yet.
    const VACANT: Head = Head { code: Code::NO_KEY, source: u32::MAX };
}

/// A merge of no sources.
impl<C: Cursor> Default for MergeCursor<C> {
    fn default() -> MergeCursor<C> {
        MergeCursor::new(Vec::new())
    }
}

impl<C: Cursor> MergeCursor<C> {
    pub fn new(sources: Vec<C>) -> MergeCursor<C> {
        assert!(sources.len() < u32::MAX as usize, "a merge has less than 2^32 - 1 sources");
        let (tree, key, key_before) = (Vec::new(), Vec::new(), Vec::new());
        MergeCursor { sources, tree, key, key_before, bound: Code::EQUAL, backward: false }
    }

    fn source(&self, head: &Head) -> &C {
        &self.sources[head.source as usize]
    }

    /// Plays a match: whether `a` comes before `b`. The code of the loser is against the winner afterwards.
    #[inline]
    fn wins(&self, a: &mut Head, b: &mut Head) -> bool {
        if a.code == b.code { self.wins_by_key(a, b) } else { a.code < b.code }
    }

    #[cold]
    #[inline(never)]
    fn wins_by_key(&self, a: &mut Head, b: &mut Head) -> bool {
        if a.code == Code::NO_KEY {
            return true;
        }
        let (x, y) = (self.source(a), self.source(b));
        let (a_code, b_code) = a.code.settle(x.key(), y.key(), self.backward);
        let wins = if a_code == b_code { (x.seq() > y.seq()) != self.backward } else { a_code < b_code };
        if wins {
            b.code = b_code
        } else {
            a.code = a_code
        }
        wins
    }

    /// Positions every source with `position`, and plays all matches.
    pub fn restart(&mut self, backward: bool, mut position: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.backward = backward;
        self.tree.clear();
        for source in &mut self.sources {
            match position(source) {
                Err(error) if !mutant!("iterator_error_swallowed") => return Err(error),
                _ => {}
            }
        }
        self.play(backward);
        Ok(())
    }

    /// Plays all matches between sources that are positioned.
    pub fn play(&mut self, backward: bool) {
        self.backward = backward;
        // The source that reaches a node first waits there for the other.
        let mut tree = mem::take(&mut self.tree);
        tree.clear();
        tree.resize(self.sources.len(), Head::VACANT);
        for (source, cursor) in self.sources.iter().enumerate() {
            let code = if cursor.valid() { Code::first(cursor.key(), backward) } else { Code::NO_KEY };
            let mut rising = Head { code, source: source as u32 };
            let mut node = (self.sources.len() + source) / 2;
            while tree[node].source != Head::VACANT.source {
                let waiting = &mut tree[node];
                if self.wins(waiting, &mut rising) {
                    mem::swap(waiting, &mut rising);
                }
                node /= 2;
            }
            tree[node] = rising;
        }
        self.tree = tree;
        self.bound = Code::EQUAL;
        self.take_key();
    }

    /// Moves the winner and finds the next one.
    #[inline]
    fn advance(&mut self, step: impl FnOnce(&mut C) -> Result<Option<&[u8]>>) -> Result<()> {
        let winner = &mut self.tree[0];
        let source = winner.source;
        mem::swap(&mut self.key, &mut self.key_before);
        match step(&mut self.sources[source as usize]) {
            Err(error) if !mutant!("iterator_error_swallowed") => {
                self.tree.clear();
                return Err(error);
            }
            Ok(Some(key)) => {
                let code = Code::new(&self.key_before, key, self.backward);
                if code < self.bound {
                    winner.code = code;
                    self.key.clear();
                    self.key.extend_from_slice(key);
                } else {
                    self.replay(Head { code, source });
                }
            }
            _ => self.replay(Head { code: Code::NO_KEY, source }),
        }
        Ok(())
    }

    /// Lets the last winner play against the losers on its way up.
    fn replay(&mut self, last: Head) {
        let mut rising = last;
        let mut least = Code::NO_KEY;
        let mut node = (self.sources.len() + last.source as usize) / 2;
        while node > 0 {
            let mut waiting = self.tree[node];
            let wins = self.wins(&mut rising, &mut waiting);
            // The winner is unpredictable for the processor too: a branch here costs more than the rest of the match.
            let loser = select_unpredictable(wins, waiting, rising);
            rising = select_unpredictable(wins, rising, waiting);
            least = least.min(loser.code);
            self.tree[node] = loser;
            node /= 2;
        }
        // Another winner has another way up.
        self.bound = if rising.source == last.source { least } else { Code::EQUAL };
        self.tree[0] = rising;
        self.take_key();
    }

    /// Whether no other source stands at the winner's key: the first one of these lost to the winner.
    fn is_above_losers(&self) -> bool {
        let mut node = (self.sources.len() + self.winner_index()) / 2;
        while node > 0 {
            if self.tree[node].code == Code::EQUAL {
                return false;
            }
            node /= 2;
        }
        true
    }

    fn take_key(&mut self) {
        self.key.clear();
        if self.valid() {
            self.key.extend_from_slice(self.sources[self.tree[0].source as usize].key());
        }
    }

    #[inline]
    pub fn winner(&self) -> &C {
        self.source(&self.tree[0])
    }

    /// Which source has the current entry.
    #[inline]
    pub fn winner_index(&self) -> usize {
        self.tree[0].source as usize
    }

    /// The key of the entry from which the last movement came, also if the movement failed or came to the end.
    #[inline]
    pub fn key_before(&self) -> &[u8] {
        &self.key_before
    }

    /// Whether the entry from which the last movement came has the key of the current entry.
    #[inline]
    pub fn continues_key(&self) -> bool {
        // The winner's code is against the winner before it.
        self.tree[0].code == Code::EQUAL
    }

    /// Frees buffers of keys that have more than `most_bytes`. The cursor is not valid until it was positioned.
    pub fn free_large_keys(&mut self, most_bytes: usize) {
        self.tree.clear();
        for key in [&mut self.key, &mut self.key_before] {
            if key.capacity() > most_bytes {
                *key = Vec::new();
            }
        }
    }

    pub fn sources(&self) -> &[C] {
        &self.sources
    }

    /// Some of the sources. The cursor is not valid until it was positioned, or all matches were played.
    pub fn sources_mut(&mut self, range: Range<usize>) -> &mut [C] {
        self.tree.clear();
        &mut self.sources[range]
    }

    /// Replaces some of the sources, and hands out the old ones. The cursor is not valid until it was positioned, or all matches were played.
    pub fn replace_sources(
        &mut self,
        range: Range<usize>,
        sources: impl IntoIterator<Item = C>,
        old: impl FnMut(C),
    ) {
        self.tree.clear();
        self.sources.splice(range, sources).for_each(old);
        assert!(self.sources.len() < u32::MAX as usize, "a merge has less than 2^32 - 1 sources");
    }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn keep(&self) {
        self.sources.iter().for_each(Cursor::keep);
    }

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
        self.advance(C::next_key)
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.backward, "a cursor moves in one direction after it was positioned");
        self.advance(C::prev_key)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.tree.first().is_some_and(|winner| winner.code != Code::NO_KEY)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        debug_assert!(self.valid(), "only a valid cursor has a key");
        &self.key
    }

    // A scan contains its step twice, with all methods of its sources. The compiler would inline none of these methods by itself.
    #[inline(always)]
    fn seq(&self) -> SeqNo {
        self.winner().seq()
    }

    #[inline(always)]
    fn kind(&self) -> EntryKind {
        self.winner().kind()
    }

    #[inline]
    fn is_last_of_key(&self) -> bool {
        self.winner().is_last_of_key() && (self.bound > Code::EQUAL || self.is_above_losers())
    }

    #[inline(always)]
    fn has_value_beside(&self) -> bool {
        self.winner().has_value_beside()
    }

    #[inline]
    fn fetch(&mut self) -> Result<()> {
        let source = self.tree[0].source;
        self.sources[source as usize].fetch()
    }

    #[inline]
    fn handle(&self) -> Option<(BodyFile, Handle)> {
        self.winner().handle()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.winner().value()
    }

    fn pin_value(&self) -> Value {
        self.winner().pin_value()
    }

    #[inline(always)]
    fn lazy_value(&self) -> LazyValue {
        self.winner().lazy_value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;
    use crate::base::key;
    use std::cell::Cell;

    type Entry = (Vec<u8>, SeqNo);

    /// A cursor over a list, which fails at its `fails_at`-th step.
    struct List {
        entries: Vec<Entry>,
        at: usize,
        steps: usize,
        fails_at: usize,
        /// How often the key was asked for.
        asked: Cell<usize>,
    }

    impl List {
        fn new(mut entries: Vec<Entry>, fails_at: usize) -> List {
            sort(&mut entries);
            List { entries, at: usize::MAX, steps: 0, fails_at, asked: Cell::new(0) }
        }

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
            self.asked.set(self.asked.get() + 1);
            &self.entries[self.at].0
        }
        fn seq(&self) -> SeqNo {
            self.entries[self.at].1
        }
        fn kind(&self) -> EntryKind {
            EntryKind::Put
        }
        // Asked for in walks backward.
        fn is_last_of_key(&self) -> bool {
            self.at == 0 || self.entries[self.at - 1].0 != self.entries[self.at].0
        }
        fn value(&self) -> &[u8] {
            b""
        }
        fn pin_value(&self) -> Value {
            Value::copied(b"")
        }
    }

    fn sort(entries: &mut [Entry]) {
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    }

    /// Three lists whose entries interleave; one of them fails.
    fn failing(fails_at: usize) -> MergeCursor {
        let list = |part: u64| -> Box<dyn Cursor> {
            let entry = |n| (format!("key-{:02}", (n * (part + 1)) % 20).into_bytes(), 100 + n * 3 + part);
            Box::new(List::new((0..20).map(entry).collect(), if part == 1 { fails_at } else { usize::MAX }))
        };
        MergeCursor::new((0..3).map(list).collect())
    }

    fn collect<C: Cursor>(merge: &mut MergeCursor<C>, backward: bool) -> Result<Vec<Entry>> {
        let mut seen: Vec<Entry> = Vec::new();
        while merge.valid() {
            let key = merge.key().to_vec();
            let before = seen.last().map(|(key, _)| key);
            assert_eq!(merge.continues_key(), before == Some(&key));
            seen.push((key.clone(), merge.seq()));
            let is_last = merge.is_last_of_key();
            let moved = if backward { merge.prev() } else { merge.next() };
            assert_eq!(merge.key_before(), key);
            moved?;
            if backward {
                assert_eq!(is_last, !merge.valid() || !merge.continues_key());
            }
        }
        Ok(seen)
    }

    /// `count` lists, some of them empty, and their union in order. Their keys end early, go on with zeros, share long
    /// beginnings, and stand in several lists.
    fn random_lists(count: usize, state: &mut u64) -> (MergeCursor<List>, Vec<Entry>) {
        let mut random = |below: u64| {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            key::hash(&state.to_le_bytes()) % below
        };
        let mut lists = vec![Vec::new(); count];
        let fronts = ["", "k", "a long beginning/", "a long beginning of others/"];
        let entries = if count == 0 { 0 } else { 60 };
        let mut list = 0;
        for seq in 1..=entries {
            let mut key = fronts[random(4) as usize].as_bytes().to_vec();
            for _ in 0..random(7) {
                key.push([0, 0, 1, b'k', 0xff][random(5) as usize]);
            }
            // Now and then one list gets many entries in a row.
            list = if random(3) == 0 { random(count as u64) as usize } else { list };
            lists[list].push((key, seq));
        }
        let mut all = lists.concat();
        sort(&mut all);
        (MergeCursor::new(lists.into_iter().map(|list| List::new(list, usize::MAX)).collect()), all)
    }

    #[test]
    fn the_union_comes_in_order_both_ways() {
        let mut state = 1;
        for round in 0..300 {
            let (mut merge, all) = random_lists(round % 12, &mut state);
            assert!(!merge.valid());
            merge.seek_to_first().unwrap();
            assert_eq!(collect(&mut merge, false).unwrap(), all);
            merge.seek_to_last().unwrap();
            let reversed: Vec<Entry> = all.iter().rev().cloned().collect();
            assert_eq!(collect(&mut merge, true).unwrap(), reversed);
            for at in (0..all.len()).step_by(5) {
                for probe in [all[at].0.clone(), [&all[at].0, &b"\0"[..]].concat()] {
                    let before = all.partition_point(|entry| entry.0 < probe);
                    merge.seek(&probe).unwrap();
                    assert_eq!(collect(&mut merge, false).unwrap(), all[before..]);
                    merge.seek_before(&probe).unwrap();
                    assert_eq!(collect(&mut merge, true).unwrap(), reversed[all.len() - before..]);
                }
            }
        }
    }

    #[test]
    fn keys_are_looked_at_once_or_twice() {
        // Entry `n` is in list `list(n)` of eight.
        let asked = |list: fn(usize) -> usize| {
            let mut lists = vec![Vec::new(); 8];
            for n in 0..4000 {
                lists[list(n)].push((format!("all share a long beginning {n:08}").into_bytes(), 1));
            }
            let lists = lists.into_iter().map(|list| List::new(list, usize::MAX)).collect();
            let mut merge = MergeCursor::new(lists);
            merge.seek_to_first().unwrap();
            assert_eq!(collect(&mut merge, false).unwrap().len(), 4000);
            merge.sources.iter().map(|list| list.asked.get()).sum::<usize>()
        };
        let alternating = asked(|n| n * 5 % 8);
        assert!(alternating < 2 * 4000 + 100, "{alternating}");
        let in_streaks = asked(|n| n / 100 * 3 % 8);
        assert!(in_streaks < 4000 + 200, "{in_streaks}");
    }

    #[test]
    fn an_error_of_one_source_ends_the_merge() {
        for fails_at in 1..20 {
            let mut merge = failing(fails_at);
            let outcome = merge.seek_to_first().and_then(|()| collect(&mut merge, false));
            assert!(outcome.is_err(), "the error of step {fails_at} was lost");
            assert!(!merge.valid());
            merge.seek(b"key-07").unwrap();
            let rest = collect(&mut merge, false).unwrap();
            assert_eq!(rest.len(), 38, "it can be positioned again");
        }
    }
}
