//! The tables of the database: the shape of the tree, the edits that change it, and the manifest. The manifest makes an
//! edit stable before any job relies on it.
//!
//! A job builds an [`Edit`]. [`Manifest::commit`] applies the edit to a copy of the [`State`], writes and syncs it, and
//! returns the new state to install. Readers hold an `Arc` of a [`Version`], which never changes.

pub mod beneath;
pub mod concat;
pub mod current;
pub mod cursor;
pub mod cut;
pub mod dir_lock;
pub mod edit;
pub mod heat;
pub mod level_cursor;
pub mod manifest;
pub mod puncher;
pub mod record;
pub mod rent;
pub mod shape;
pub mod state;
pub mod table_file;
pub mod tier_file;

#[cfg(test)]
mod tests;

pub use beneath::Beneath;
pub use current::{Found, examine};
pub use dir_lock::DirLock;
pub use edit::{Change, Edit, NewTable};
pub use manifest::{CommitError, Manifest, ManifestConfig, Opened};
pub use shape::{Cell, Level, Run, RunId, Slice, Version};
pub use state::{FoundFile, State};
pub use table_file::TableStore;
pub use tier_file::{TierFile, next_epoch};
