//! The tables of the database: the shape of the tree, the edits that change it, and the manifest. The manifest makes an
//! edit stable before any job relies on it.
//!
//! A job builds an [`Edit`]. [`Manifest::commit`] applies the edit to a copy of the [`State`], writes and syncs it, and
//! returns the new state to install. Readers hold an `Arc` of a [`Version`], which never changes.
//!
//! ```text
//! manifest      the log of edits
//! state         what the manifest records, and the edits that change it
//! shape         levels, cells, runs and slices, and the walks over them
//! table_file    a table as the tree holds it: opened, shared, punched, buried
//! usage         what readers leave behind at slices: rent and heat
//! directory     LOCK, CURRENT and TIER
//! ```
//!
//! Each of these modules uses only modules that come later in the list.

pub mod directory;
pub mod manifest;
pub mod shape;
pub mod state;
pub mod table_file;
pub mod usage;

#[cfg(test)]
mod tests;

pub use directory::current::{self, Found, examine};
pub use directory::dir_lock::DirLock;
pub use directory::tier_file::{TierFile, next_epoch};
pub use manifest::{CommitError, Manifest, ManifestConfig, Opened};
pub use shape::beneath::Beneath;
pub use shape::sorted::Sorted;
pub use shape::{Cell, Level, Run, RunId, Slice, Version};
pub use state::edit::{Change, Edit};
pub use state::{FoundFile, State};
pub use table_file::{NewTable, TableStore};
