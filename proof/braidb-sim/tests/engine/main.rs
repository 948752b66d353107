//! Tests of the engine's policies on the simulated machine, which counts bytes, files and syncs. One program has all of them: each further one takes
//! seconds to link.

mod cursors;
mod failed_syncs;
mod families;
mod forecast;
mod hot_keys;
mod log_collection;
mod log_table_limits;
mod log_tables;
mod policies;
mod samples;
mod space;
mod tries;
mod value_files;
