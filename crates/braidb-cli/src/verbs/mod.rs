//! The verbs, one file each. A verb has its arguments (`Args`) and `run`, which executes it.

pub mod checkpoint;
pub mod compact;
pub mod delete;
pub mod dump;
pub mod get;
pub mod load;
pub mod moved;
pub mod put;
pub mod scan;
pub mod stats;
pub mod tier;
pub mod tour;
pub mod verify;
