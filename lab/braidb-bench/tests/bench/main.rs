//! Tests of the workloads and their reports. One program has all of them: each further one takes seconds to link.

mod adapter;
mod report;
mod workloads;
