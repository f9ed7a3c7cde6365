//! Tests with real servers and real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod dns;
mod hops;
mod support;
mod tls;
