//! Tools that the tests of the command share: a directory for each test, and the real binary.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

pub mod run;
pub mod terminal;
pub mod tiered;

pub use run::{Place, Run, names};
use std::process::Child;

/// The command.
pub const BRAIDB: &str = env!("CARGO_BIN_EXE_braidb");

/// Starts the command, with pipes.
pub fn start(arguments: &[&str]) -> Child {
    run::start(BRAIDB, arguments)
}

/// Runs the command with nothing on standard input.
pub fn braidb(arguments: &[&str]) -> Run {
    braidb_with(arguments, b"")
}

/// Runs the command with `input` on standard input.
pub fn braidb_with(arguments: &[&str], input: &[u8]) -> Run {
    run::run(BRAIDB, arguments, input)
}

/// Random bytes that depend on the seed alone.
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Up to `longest` bytes of any kind.
    pub fn bytes(&mut self, longest: u64) -> Vec<u8> {
        let length = self.next() % (longest + 1);
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// `length` bytes of any kind.
    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}
