//! A thread-per-core HTTP server.
//!
//! A *lane* is one core's worth of server: a thread, pinned to a CPU where the CPUs are ours
//! alone, with its own event loop, its own connections, its own instance of the service and its
//! own counters. A request never leaves its lane, so its memory stays in that
//! core's cache, and the way of a request takes no lock and touches no shared atomic.
//!
//! ```
//! use std::{cell::Cell, convert::Infallible, rc::Rc};
//!
//! use bytes::Bytes;
//! use corelane::{Incoming, Server};
//! use http::{Request, Response};
//! use http_body_util::Full;
//!
//! # fn main() -> Result<(), corelane::Error> {
//! let server = Server::builder().bind("127.0.0.1:0".parse().unwrap()).build()?;
//! # let handle = server.handle();
//! # handle.stop();
//! server.serve(|lane| {
//!     let lane = lane.index();
//!     let served = Rc::new(Cell::new(0)); // one per lane: no lock
//!     tower::service_fn(move |_request: Request<Incoming>| {
//!         served.set(served.get() + 1);
//!         let text = format!("request {} of lane {lane}\n", served.get());
//!         async move { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text))) }
//!     })
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! Any `tower::Service<Request<Incoming>>` that is `Clone` works, an axum `Router` included.
//!
//! | part | says |
//! |---|---|
//! | [`Server`], [`Builder`], [`Error`] | how a server is set up and run, and why it may not start |
//! | [`Lanes`], [`Pin`], [`Placement`] | how many lanes, on which CPUs, and how a connection finds its lane |
//! | [`Moving`] | whether a connection may leave its lane between two requests |
//! | [`Lane`] | what a service is told of the lane that it is made for |
//! | [`Limits`], [`Timeouts`] | what a client may ask and how long it may take |
//! | [`Drain`], [`Phase`], [`ServerHandle`], [`Drained`] | how a server ends without losing what it accepted |
//! | [`Incoming`], [`BodyError`] | the body of a request, and why it may end early |
//! | [`blocking`], [`BlockingError`] | how a handler runs code that blocks |
//! | [`deadline`] | until when a handler has to have its reply |
//! | [`request_id`], [`RequestId`] | what a request is called, here and by others |
//! | [`Traces`], [`trace_context`], [`TraceContext`] | the distributed trace of a request |
//! | [`Finished`], [`Times`], [`Span`] | what is told of each request when it has ended |
//! | [`Dependency`] | what the service needs beside its lanes, and whether it is there |
//! | [`Tls`] | certificates, and how they are reloaded |
//! | [`LoadReports`] | what a load balancer in front is told with the replies |
//! | [`Problem`] | errors to clients (RFC 9457) |
//! | [`capacity`] | how much a replica carries, and how many replicas a load needs |

mod admin;
mod blocking;
mod body;
mod body_watch;
mod builder;
mod busy;
pub mod capacity;
mod clock;
mod conformance;
mod connection;
mod control;
mod cpu;
mod current;
mod dependency;
mod error;
mod farewell;
mod finished;
mod framing;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod http_connection;
mod idle;
mod lane;
mod listener;
mod load_report;
mod load_table;
mod metrics;
mod pending;
mod placement;
mod plain;
mod problem;
mod queue;
mod random;
mod reply;
mod reply_body;
mod request_id;
mod routes;
mod running;
mod server;
mod settings;
mod shared;
mod socket;
mod stream;
mod stream_task;
mod sweep;
mod threads;
mod ticket;
mod tls;
mod trace_context;
mod trail;
mod watchdog;

pub use blocking::{Blocking, BlockingError, blocking};
pub use body::{BodyError, Incoming};
pub use builder::Builder;
pub use control::ServerHandle;
pub use cpu::{Lanes, Pin};
pub use current::{deadline, request_id, trace_context};
pub use dependency::Dependency;
pub use error::Error;
pub use finished::{Finished, Span, Times};
#[cfg(feature = "chaos")]
#[doc(hidden)]
pub use idle::{Chaos, Rule};
pub use lane::Lane;
pub use load_report::LoadReports;
pub use problem::Problem;
pub use prometheus_client;
pub use request_id::RequestId;
pub use server::{Drained, Server};
pub use settings::{Drain, Limits, Moving, Placement, Timeouts, Traces};
pub use shared::Phase;
pub use tls::Tls;
pub use trace_context::TraceContext;
