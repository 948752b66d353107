//! The seams of BraidDB.
//!
//! Everything that makes one run of the engine differ from the next passes through the traits here. They cover files
//! ([`FileSystem`], [`File`]), time ([`Clock`]), chance ([`Random`]) and threads ([`Runtime`]). [`real`] has the real
//! ones. [`inline`] steps jobs, clock and chance by hand, and `sim`
//! (a feature for tests) has a file system that crashes and fails. So a test replays a run, with its crashes and
//! errors, from a seed. [`Descriptors`] shares out the open files that a process may have.
//! [`ReadOnly`] keeps all changes in memory. [`Routed`] puts directories of several devices behind one file system, and [`DeviceTimes`]
//! measures a device. [`foreground`] checks that no slow call is made under a lock that writers and readers wait for.
//! [`locks`] has the engine's mutex, which works in forked children. [`heap`] takes memory for a growing cache. Clippy
//! forbids the back doors (`std::fs`, `Instant::now`, `thread::spawn`) everywhere else.

mod descriptors;
pub mod foreground;
pub mod heap;
pub mod inline;
pub mod locks;
mod read_only;
pub mod real;
mod routed;
mod seams;
#[cfg(feature = "sim")]
pub mod sim;
mod times;

pub use descriptors::{Closing, Descriptors, PATIENCE, Pool, Share, is_shortage};
pub use read_only::ReadOnly;
pub use routed::Routed;
pub use seams::*;
pub use times::{DeviceTimes, MEASURE_FILE};
