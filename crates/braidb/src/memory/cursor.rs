//! Walks all versions of a segment, in both directions, also while the writer inserts.
//!
//! The cursor meets all that was there when it was positioned. It may or may not meet what is inserted behind it.

use super::node::{Node, Record, Ref, Version};
use super::segment::Segment;
use crate::base::error::Result;
use crate::base::ids::SeqNo;
use crate::base::value::Value;
use crate::visible::{Cursor, EntryKind};
use std::fmt;
use std::sync::Arc;

/// A position in a segment, which it keeps alive.
pub struct SegmentCursor {
    segment: Arc<Segment>,
    at: Option<(Ref<'static, Node>, Ref<'static, Version>)>,
    /// Whether the cursor walks backwards. Then `newer` holds the versions of the key that come next, the next one last. A chain
    /// leads only from new to old, so the cursor walks it once, when it reaches the key.
    is_backward: bool,
    newer: Vec<Ref<'static, Version>>,
}

impl SegmentCursor {
    pub(super) fn new(segment: Arc<Segment>) -> SegmentCursor {
        SegmentCursor { segment, at: None, is_backward: false, newer: Vec::new() }
    }

    #[inline]
    fn at(&self) -> (Ref<'static, Node>, Ref<'static, Version>) {
        self.at.expect("the cursor is valid")
    }

    /// The entry that the cursor stands on.
    pub(super) fn record(&self) -> Ref<'static, Record> {
        self.at().1.record()
    }

    /// Moves to the newest version of the node that `find` finds.
    fn go_forward<'a>(&'a mut self, find: impl FnOnce(&'a Segment) -> Option<Ref<'a, Node>>) {
        self.is_backward = false;
        // SAFETY: used only through the cursor, which keeps the segment alive.
        self.at = find(&self.segment).map(|node| unsafe { (node.detached(), node.newest().detached()) });
    }

    /// Moves to the oldest version of the node that `find` finds.
    fn go_backward<'a>(&'a mut self, find: impl FnOnce(&'a Segment) -> Option<Ref<'a, Node>>) {
        self.is_backward = true;
        self.newer.clear();
        self.at = find(&self.segment).map(|node| {
            // SAFETY: used only through the cursor, which keeps the segment alive.
            let (node, mut version) = unsafe { (node.detached(), node.newest().detached()) };
            while let Some(older) = version.older() {
                self.newer.push(version);
                version = older;
            }
            (node, version)
        });
    }
}

/// Nodes and versions lie anywhere. A walk at `node` soon needs the version of the next node, and the node after the next.
#[inline]
fn fetch_ahead(node: Ref<'_, Node>) {
    if let Some(next) = node.link(0).next() {
        next.newest().prefetch_entry();
        if let Some(second) = next.link(0).next() {
            second.prefetch();
        }
    }
}

impl Cursor for SegmentCursor {
    fn seek_to_first(&mut self) -> Result<()> {
        self.go_forward(|segment| segment.list().first());
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.go_backward(|segment| segment.list().last());
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go_forward(|segment| segment.list().at_or_after(key));
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go_backward(|segment| segment.list().before(key));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        assert!(!self.is_backward, "seek again before turning round");
        let (node, version) = self.at();
        match version.older() {
            Some(older) => self.at = Some((node, older)),
            None => self.go_forward(|_| node.link(0).next().inspect(|&node| fetch_ahead(node))),
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        assert!(self.is_backward, "seek again before turning round");
        let (node, _) = self.at();
        match self.newer.pop() {
            Some(newer) => self.at = Some((node, newer)),
            // Nodes lead only forward, so the one before is searched for.
            None => self.go_backward(|segment| segment.list().before(node.key())),
        }
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.at().0.key()
    }

    #[inline]
    fn seq(&self) -> SeqNo {
        self.at().1.seq()
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.record().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.record().value()
    }

    fn pin_value(&self) -> Value {
        let record = self.record();
        Value::pin(Arc::clone(&self.segment), |_| record.value())
    }
}

impl fmt::Debug for SegmentCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.map(|(node, version)| (node.key().escape_ascii().to_string(), version.seq()));
        f.debug_struct("SegmentCursor").field("at", &at).finish_non_exhaustive()
    }
}
