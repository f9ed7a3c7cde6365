//! Lane counters, and the metric families that export them.
//!
//! Each lane counts in its own shard ([`LaneMetrics`]), which only its thread writes, so the hot
//! path has no locked instructions. The admin thread adds labels and renders the counters
//! (`server::exposition`).

mod count;
mod exemplars;
mod family;
pub(crate) mod kind;
mod reason;
mod shard;

pub(crate) use count::{Count, Rows};
pub(crate) use exemplars::Exemplar;
pub(crate) use family::{Family, Value, counter, gauge};
pub(crate) use reason::{
    Handshake, Moved, PlanOutcome, Refusal, RequestPhase, RequestRefusal, Woken,
};
pub(crate) use shard::{CODES, Histogram, LaneMetrics, PlanCounts};
