//! Clocks, random numbers, counts and lists, errors, settings as plain data, and the phases of a server.

pub(crate) mod clock;
pub(crate) mod error;
pub(crate) mod listen;
pub(crate) mod phase;
pub(crate) mod random;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod tally;
