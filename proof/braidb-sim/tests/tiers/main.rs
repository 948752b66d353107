//! Tests of slow tiers on simulated devices: how tiers join, how cells move, and what attacks on their directories do.

mod attacks;
mod moves;
mod opens;
