//! Tests of the modelled devices. One program has all of them: each further one takes seconds to link.

mod common;
mod device_times;
mod devices;
mod files;
mod golden;
mod rates;
mod time;
