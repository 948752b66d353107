//! Tests of the command `braidb`, run as a user runs it. One program has all of them: each further one takes seconds to link.

mod common;
mod progress;
mod rows;
mod stats;
mod tier_devices;
mod tier_verbs;
mod trouble;
mod verbs;
