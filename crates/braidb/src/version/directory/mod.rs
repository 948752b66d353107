//! The small files that keep a directory to one database and one process: its lock, the name of the manifest in force, the mark of a slow tier.

pub mod current;
pub mod dir_lock;
pub mod tier_file;
