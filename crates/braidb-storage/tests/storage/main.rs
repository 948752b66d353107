//! Tests of file systems, real and simulated. One program has all of them: each further one takes seconds to link.

mod device_times;
mod file_system;
mod sim_crashes;
mod sim_devices;
