//! Metrics: counters, and their export.
//!
//! Each lane counts in its own shard ([`LaneMetrics`]), which only its thread writes, so the hot
//! path has no locked instruction. Readers on the admin thread add labels and render them
//! ([`exposition`]).

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
