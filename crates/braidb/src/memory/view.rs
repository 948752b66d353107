//! A view: memory pointers and a version, taken at one moment. A read sees nothing else.
//!
//! One immutable [`View`] holds all families. Readers load it without a lock. A switch, an edit or a new family builds the next
//! view from the current one under the swap lock, so no change is lost. A flush removes its segments and adds its table in
//! ONE swap: no reader can miss the data or meet it twice.

use super::Memory;
use crate::base::ids::SeqNo;
use crate::base::sync::{ArcSwap, Guard, Mutex};
use crate::version::Version;
use crate::visible::gaps::Gaps;
use crate::visible::past_excises::PastExcises;
use crate::visible::snapshots::Snapshots;
use braidb_storage::foreground;
use std::sync::Arc;

/// One family in a view.
#[derive(Clone, Debug)]
pub struct FamilyView {
    pub memory: Memory,
    pub version: Arc<Version>,
    /// Ranges of keys that scans jump over. Unlike the rest, they change while the view stays.
    pub gaps: Arc<Gaps>,
    /// Ranges that snapshots from before their excise must not read.
    pub past_excises: Arc<PastExcises>,
}

/// What a read sees of all families; the index is the family's id.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub families: Vec<FamilyView>,
    /// How many excises of this open the view shows.
    pub excises: u64,
}

/// The current view.
#[derive(Debug)]
pub struct ViewCell {
    current: ArcSwap<View>,
    /// Held while the next view is built. Taken last of all locks.
    swap: Mutex<()>,
}

impl ViewCell {
    pub fn new(view: View) -> ViewCell {
        ViewCell { current: ArcSwap::from_pointee(view), swap: Mutex::new(()) }
    }

    /// The current view, for a short read.
    pub fn load(&self) -> Guard<Arc<View>> {
        self.current.load()
    }

    /// The current view, to be kept.
    pub fn load_full(&self) -> Arc<View> {
        self.current.load_full()
    }

    /// The current view, to be kept, and a number whose reader finds in it all that the number covers (rule 8).
    ///
    /// If no job changes the view while the number is read, the reader registers nothing: every write up to the number lies in the view, and
    /// the jobs that made the view dropped what the number hides at most. Otherwise the reader registers its number and takes the next view.
    pub fn load_with_number(&self, snapshots: &Snapshots) -> (Arc<View>, SeqNo) {
        let view = self.load_full();
        let number = snapshots.visible();
        if Arc::ptr_eq(&self.current.load(), &view) {
            return (view, number);
        }
        drop(view);
        loop {
            let excises = self.current.load().excises;
            let number = snapshots.register();
            let view = self.load_full();
            snapshots.release(number);
            // Otherwise an excise came between: the view shows it, and the number may lack a write that came before it.
            if view.excises == excises {
                return (view, number);
            }
        }
    }

    /// Replaces the view by what `change` makes of it. Returns the old view, whose drop may free much memory and close files: the caller
    /// drops it after all locks that puts or gets wait for.
    #[must_use = "the old view is dropped after the locks"]
    pub fn update(&self, change: impl FnOnce(&mut View)) -> Arc<View> {
        let _building = (self.swap.lock(), foreground::enter());
        let mut next = View::clone(&self.current.load());
        change(&mut next);
        self.current.swap(Arc::new(next))
    }
}
