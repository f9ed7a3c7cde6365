//! Clocks, random numbers, counters, lists, errors, plain settings, and server phases.

pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod listen;
pub(crate) mod phase;
pub(crate) mod random;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod tally;
