//! Calls from a service on Corelane to another service, without a proxy.
//!
//! Each lane has its own [`Client`] with its own connections, so lanes share no lock. The client
//! chooses the endpoint with the fewest requests in flight. It passes on the current request's id,
//! trace and remaining time, and ends the call at the current request's deadline. It retries within
//! a budget. hyper transports the requests, and `domain` queries DNS.
//!
//! [`Calls`] has an example. *Deadlines across services* in the documentation explains deadlines
//! and retries.
//!
//! | items | purpose |
//! |---|---|
//! | [`Calls`], [`Callee`], [`StartError`] | set up the services that a process calls |
//! | [`Target`], [`Settings`], [`Tls`] | where a service is and how it is called |
//! | [`Client`], [`Body`] | a lane's calls |
//! | [`Error`], [`ErrorKind`], [`BoxError`] | why a call failed |
//!
//! The `axum` Cargo feature makes [`Error`] a response.

mod body;
mod call;
mod callee;
mod client;
mod connect;
mod error;
mod lane;
mod metrics;
mod picker;
mod resolve;
mod settings;
mod shared;
mod target;
mod tls;

pub use body::Body;
pub use callee::{Callee, Calls};
pub use client::Client;
pub use error::{BoxError, Error, ErrorKind, StartError};
pub use settings::{Settings, Tls};
pub use target::Target;
