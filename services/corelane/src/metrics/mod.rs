//! What is counted, where, and how it is shown.
//!
//! Each lane counts in a shard of its own ([`LaneMetrics`]) that only its thread writes, so the
//! hot path has no locked instruction. Readers on the admin thread add
//! labels and render ([`exposition`]).

mod config;
mod cpu;
mod exposition;
mod family;
mod idle;
mod process;
mod reason;
mod shard;
mod tls;

pub(crate) use exposition::{CONTENT_TYPE, Exposition};
pub(crate) use idle::Plans;
pub(crate) use reason::{Handshake, Moved, Phase, Plan, Refusal, RequestRefusal, Woken};
pub(crate) use shard::{Count, LaneMetrics, METHODS, method_index};
