//! Connection input and output: TLS, the plain path, hyper for everything else, and parking.
//!
//! ```text
//!           accept, or arrival from another lane
//!                      │
//!    ┌────────────► Plain (waits, answers plain requests) ──not plain──► hyper, to the end
//!    │                 │ between two requests, or within a head:
//!    │                 ▼ park_after | a move
//!    │  wake:       Resting
//!    │  bytes,         │
//!    │  deadline,      ├─► the lane's parking lot (parked)
//!    └──drain──────────┘
//!                      └─► another lane (moved) ──► that lane's Plain
//! ```

pub(crate) mod arrivals;
pub(crate) mod buffers;
#[cfg(feature = "chaos")]
pub(crate) mod chaos;
pub(crate) mod connections;
pub(crate) mod fallback;
pub(crate) mod final_response;
pub(crate) mod host;
pub(crate) mod open;
pub(crate) mod parking;
pub(crate) mod parking_lot;
pub(crate) mod plain;
pub(crate) mod resting;
pub(crate) mod stream;
#[cfg(feature = "http2")]
pub(crate) mod stream_task;
#[cfg_attr(not(feature = "tls"), path = "tls/off.rs")]
pub(crate) mod tls;
pub(crate) mod upgrade;

#[cfg(test)]
mod tests;
