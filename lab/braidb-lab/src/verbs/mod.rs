//! The verbs. A verb has its arguments (`Args`) and `run`, which executes it.

pub mod bench;
pub mod device;
pub mod model;
pub mod pair;
pub mod paper;
pub mod regress;
pub mod simulate;
