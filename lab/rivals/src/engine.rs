//! BraidDB's memory component without the rest of BraidDB. The crate `braidb` exports none of its modules. So this crate compiles the
//! modules that memory needs from their own sources. [`Pipeline`] calls them as the commit queue and the jobs do.

macro_rules! modules_of_the_engine {
    ($($name:ident at $path:literal),+) => {$(
        #[path = $path]
        #[allow(dead_code, unused_imports, reason = "the engine uses more of it")]
        #[allow(clippy::nonminimal_bool, clippy::eq_op, reason = "a mutant that is not compiled in is a constant")]
        mod $name;
    )+};
}

modules_of_the_engine! {
    base at "../../../crates/braidb/src/base/mod.rs",
    visible at "../../../crates/braidb/src/visible/mod.rs",
    cache at "../../../crates/braidb/src/cache/mod.rs",
    log at "../../../crates/braidb/src/log/mod.rs",
    value at "../../../crates/braidb/src/value/mod.rs",
    table at "../../../crates/braidb/src/table/mod.rs",
    version at "../../../crates/braidb/src/version/mod.rs",
    memory at "../../../crates/braidb/src/memory/mod.rs",
    plan at "../../../crates/braidb/src/plan/mod.rs"
}

mod pipeline;

pub use base::key;
pub use base::key::hash;
pub use memory::{Immutable, Records, Segment, SegmentWriter, merge};
pub use pipeline::{MemoryCompaction, Pipeline};
pub use visible::{Cursor, EntryKind};
