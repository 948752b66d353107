//! The skiplist: any thread may search it, and its one writer inserts.
//!
//! Level 0 links all nodes in the order of their keys; each level above links about a quarter of the nodes of the level below. A
//! search starts in the head, at the top, and goes down wherever the next node lies beyond the goal.

use super::arena::{Arena, Bump};
use super::filter::LiveFilter;
use super::node::{Entry, Link, MAX_HEIGHT, Node, Ref, Version};
use crate::base::key::{self, prefix_u64};
use std::array;
use std::cmp::Ordering;
use std::sync::Arc;

type NodeRef<'a> = Ref<'a, Node>;

/// A node for each level; `None` stands for the head.
type Splice<'a> = [Option<NodeRef<'a>>; MAX_HEIGHT];

pub struct SkipList {
    head: Head,
    filter: Option<LiveFilter>,
    nodes: Arena,
    /// Shared with the flat segment that is made of this list.
    versions: Arc<Arena>,
}

/// Every search starts here. The head has its own cache lines, away from counts that change with each insert.
#[repr(align(64))]
struct Head([Link<Node>; MAX_HEIGHT]);

/// Where a search ended.
struct Landing<'a> {
    before: Option<NodeRef<'a>>,
    at_or_after: Option<NodeRef<'a>>,
    is_exact: bool,
}

impl SkipList {
    pub fn new(filter: Option<LiveFilter>) -> SkipList {
        SkipList {
            head: Head(array::from_fn(|_| Link::null())),
            filter,
            nodes: Arena::default(),
            versions: Arc::default(),
        }
    }

    /// The node of `key`, whose hash is `hash`.
    #[inline]
    pub fn find(&self, key: &[u8], hash: u64) -> Option<NodeRef<'_>> {
        if self.filter.as_ref().is_some_and(|filter| !filter.may_contain(hash)) {
            return None;
        }
        let landing = self.search(key, |_, _| ());
        if landing.is_exact { landing.at_or_after } else { None }
    }

    pub fn filter(&self) -> Option<&LiveFilter> {
        self.filter.as_ref()
    }

    /// The arena that all records lie in.
    pub fn versions(&self) -> &Arc<Arena> {
        &self.versions
    }

    pub fn first(&self) -> Option<NodeRef<'_>> {
        self.link(None, 0).next()
    }

    pub fn last(&self) -> Option<NodeRef<'_>> {
        self.descend(|_| Ordering::Less, |_, _| ()).before
    }

    /// The first node whose key is at or after `key`.
    pub fn at_or_after(&self, key: &[u8]) -> Option<NodeRef<'_>> {
        self.search(key, |_, _| ()).at_or_after
    }

    /// The last node whose key is before `key`.
    pub fn before(&self, key: &[u8]) -> Option<NodeRef<'_>> {
        let prefix = prefix_u64(key);
        // The search goes down in front of the node of `key`, and does not stop at it.
        let order = |node: NodeRef<'_>| node.order(prefix, key).then(Ordering::Greater);
        self.descend(order, |_, _| ()).before
    }

    /// The hashes of all keys.
    fn hashes(&self) -> impl Iterator<Item = u64> {
        std::iter::successors(self.first(), |node| node.link(0).next()).map(|node| key::hash(node.key()))
    }

    #[inline]
    fn link<'a>(&'a self, node: Option<NodeRef<'a>>, level: usize) -> &'a Link<Node> {
        match node {
            Some(node) => node.link(level),
            None => &self.head.0[level],
        }
    }

    #[inline]
    fn search<'a>(&'a self, key: &[u8], note: impl FnMut(usize, Option<NodeRef<'a>>)) -> Landing<'a> {
        let prefix = prefix_u64(key);
        self.descend(|node| node.order(prefix, key), note)
    }

    /// Goes right while nodes are `Less`, down while they are `Greater`, and stops at the first node that is `Equal`. Calls
    /// `note` with the last node before the goal on each level that it went down from.
    #[inline]
    fn descend<'a>(
        &'a self,
        order: impl Fn(NodeRef<'a>) -> Ordering,
        mut note: impl FnMut(usize, Option<NodeRef<'a>>),
    ) -> Landing<'a> {
        let mut before = None;
        let mut beyond = None;
        for level in (0..MAX_HEIGHT).rev() {
            // A node beyond the goal on one level is often the next node on the level below, too.
            while let next @ Some(node) = self.link(before, level).next()
                && next != beyond
            {
                match order(node) {
                    Ordering::Less => before = next,
                    Ordering::Equal => return Landing { before, at_or_after: next, is_exact: true },
                    Ordering::Greater => {
                        beyond = next;
                        break;
                    }
                }
            }
            note(level, before);
        }
        Landing { before, at_or_after: beyond, is_exact: false }
    }

    /// Adds a version: to the chain of its key, or with a node of its own.
    ///
    /// # Safety
    /// `inserter` was made for this list, and this list has no other.
    pub unsafe fn insert(&self, inserter: &mut Inserter, entry: Entry<'_>) {
        let key = entry.key;
        let mut splice = [None; MAX_HEIGHT];
        if let Some(node) = self.locate(inserter, key, &mut splice) {
            let link = node.place(entry.seq);
            let version = self.write_version(&mut inserter.versions, entry, link.next());
            // SAFETY: the version is in an arena of this list, leads to what the link leads to, and there is one writer.
            unsafe { link.publish(version) };
            return;
        }
        if let Some(filter) = &self.filter {
            if filter.is_due(inserter.bytes_in_use()) {
                filter.make(self.hashes());
            }
            filter.add(key::hash(key));
        }
        let version = self.write_version(&mut inserter.versions, entry, None);
        let height = inserter.heights.draw();
        let next: Splice<'_> =
            array::from_fn(
                |level| if level < height { self.link(splice[level], level).next() } else { None },
            );
        let at = inserter.nodes.allocate(&self.nodes, Node::layout(height, key.len()));
        // SAFETY: a fresh piece of an arena of this list, of the right size.
        let node = unsafe { Node::write(at, key, version, &next[..height]) };
        for (level, before) in splice[..height].iter_mut().enumerate() {
            // SAFETY: the node is in an arena of this list, and leads on this level to the target of the link. There is one
            // writer.
            unsafe { self.link(*before, level).publish(node) };
            *before = Some(node);
        }
        // SAFETY: the inserter uses these references in this function alone, so while the list lives.
        inserter.last =
            Some(unsafe { (node.detached(), splice.map(|node| node.map(|node| node.detached()))) });
    }

    /// The node of `key`. If there is none, `splice` gets the last node before `key` on each level.
    fn locate<'a>(&'a self, inserter: &Inserter, key: &[u8], splice: &mut Splice<'a>) -> Option<NodeRef<'a>> {
        // Keys often come in order, or repeat. If `key` lies between the last inserted node and its successor, the last splice
        // holds for `key` as well. No node was inserted since, so on each level the splice still names the last node at or before
        // the inserted one. The node behind it lies at or after the successor.
        if let Some((last, last_splice)) = &inserter.last {
            let prefix = prefix_u64(key);
            match last.order(prefix, key) {
                Ordering::Equal => return Some(*last),
                Ordering::Greater => {}
                Ordering::Less => {
                    if last.link(0).next().is_none_or(|next| next.order(prefix, key).is_gt()) {
                        *splice = *last_splice;
                        return None;
                    }
                }
            }
        }
        let landing = self.search(key, |level, before| splice[level] = before);
        if landing.is_exact { landing.at_or_after } else { None }
    }

    fn write_version<'a>(
        &'a self,
        bump: &mut Bump,
        entry: Entry<'_>,
        older: Option<Ref<'a, Version>>,
    ) -> Ref<'a, Version> {
        let at = bump.allocate(&self.versions, Version::layout(entry.key.len(), entry.value.len()));
        // SAFETY: a fresh piece of the arena of this list's versions, of the right size.
        unsafe { Version::write(at, entry, older) }
    }
}

/// The state of the one writer of a list.
pub struct Inserter {
    nodes: Bump,
    versions: Bump,
    heights: Heights,
    /// The node inserted last, and on each level the last node at or before it.
    last: Option<(NodeRef<'static>, Splice<'static>)>,
}

impl Inserter {
    pub fn new(seed: u64) -> Inserter {
        Inserter { nodes: Bump::new(), versions: Bump::new(), heights: Heights { state: seed }, last: None }
    }

    pub fn bytes_in_use(&self) -> usize {
        self.nodes.bytes_in_use() + self.versions.bytes_in_use()
    }

    pub fn version_bytes(&self) -> usize {
        self.versions.bytes_in_use()
    }
}

/// Draws the heights of towers: each next level with a chance of 1 in 4. Chance comes from a SplitMix64 sequence.
struct Heights {
    state: u64,
}

impl Heights {
    fn draw(&mut self) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        MAX_HEIGHT.min(1 + bits.trailing_zeros() as usize / 2)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_nodes_is_taller() {
        let mut heights = Heights { state: 0 };
        let mut counts = [0; MAX_HEIGHT + 1];
        (0..4096).for_each(|_| counts[heights.draw()] += 1);
        assert_eq!(counts[0], 0);
        assert!((2900..3250).contains(&counts[1]), "{counts:?}");
        assert!((680..860).contains(&counts[2]), "{counts:?}");
    }
}
