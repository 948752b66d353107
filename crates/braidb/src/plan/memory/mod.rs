//! Policies of memory: what happens when segments, memory or logs are full, and which keys stay.

pub mod hot_keys;
pub mod limits;
pub mod logs;
pub mod segments;
pub mod tuner;
