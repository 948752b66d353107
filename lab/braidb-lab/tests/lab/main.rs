//! Tests of the command `braidb-lab`, run as a developer runs it. One program has all of them: each further one takes seconds to link.

mod bench;
mod common;
mod device;
mod model;
mod pair;
mod papers;
mod regress;
mod simulate;
mod trouble;
