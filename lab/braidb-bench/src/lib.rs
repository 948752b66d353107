//! Workloads as data for any ordered store, and the measurements of a workload.
//!
//! This crate does not depend on BraidDB. `braidb-lab bench` runs the workloads over the engine, `rivals` over other stores, and
//! `braidb-lab pair` over the engine of any commit. So every store gets equal keys and values in equal order.

pub mod draws;
pub mod drive;
pub mod host;
pub mod keys;
pub mod lane;
pub mod paired;
pub mod report;
pub mod results;
pub mod run;
pub mod settings;
pub mod store;
pub mod timer;
pub mod workload;

pub use run::{Beside, Measured, run};
pub use settings::{Distribution, Settings};
pub use store::{Outcome, See, Store};
pub use timer::{Timer, WallTimer};
pub use workload::{WORKLOADS, Workload};
