//! A thread-per-core HTTP server.
//!
//! A *lane* is one core's worth of server: a thread with its own event loop, its own connections, its
//! own instance of the service and its own counters. It is pinned to a CPU where the process has its
//! CPUs to itself. A request never leaves its lane, so its memory stays in that core's cache, and
//! serving it takes no lock and touches no shared atomic.
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
//! | items | purpose |
//! |---|---|
//! | [`Server`], [`Builder`], [`Error`] | configure and run a server; errors of the start |
//! | [`Lanes`], [`Pin`], [`Placement`] | number of lanes, their CPUs, and how connections are assigned to lanes |
//! | [`Moving`] | whether a connection may move to another lane between two requests |
//! | [`Lane`] | the lane that a service is created for |
//! | [`Limits`], [`Timeouts`] | limits and timeouts for clients |
//! | [`Drain`], [`Phase`], [`ServerHandle`], [`Drained`] | graceful shutdown |
//! | [`Incoming`], [`BodyError`] | request bodies |
//! | [`blocking`], [`BlockingError`] | run blocking code from a handler |
//! | [`deadline`] | the deadline of the current request |
//! | [`request_id`], [`RequestId`] | request ids |
//! | [`Traces`], [`trace_context`], [`TraceContext`] | distributed tracing |
//! | [`Finished`], [`Times`], [`Span`] | what an observer receives for each finished request |
//! | [`Dependency`] | health of what the service depends on, such as a database |
//! | [`Tls`] | certificates and how they are reloaded |
//! | [`LoadReports`] | load reports for a load balancer in front |
//! | [`Problem`] | error replies (RFC 9457) |
//! | [`BRIEF`], [`HANDICAP`] | how lanes order requests that wait |

mod admin;
mod blocking;
mod body;
mod body_watch;
mod builder;
mod busy;
mod clock;
mod conformance;
mod connection;
mod control;
mod cpu;
mod current;
mod dependency;
mod error;
mod exposition;
mod final_response;
mod finished;
mod framing;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod http_connection;
mod idle;
mod in_flight;
mod kind;
mod lane;
mod listener;
mod load_report;
mod load_table;
mod metrics;
mod pending;
mod phase;
mod placement;
mod plain;
mod problem;
mod queue;
mod random;
mod reply;
mod reply_body;
mod request_id;
mod request_record;
mod routes;
mod running;
mod server;
mod service;
mod settings;
mod shared;
mod socket;
mod stalls;
mod stream;
mod stream_task;
mod sweep;
mod threads;
mod tls;
mod trace_context;
mod upload;
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
pub use phase::Phase;
pub use problem::Problem;
pub use prometheus_client;
pub use queue::{BRIEF, HANDICAP};
pub use request_id::RequestId;
pub use server::{Drained, Server};
pub use settings::{Drain, Limits, Moving, Placement, Timeouts, Traces};
pub use tls::Tls;
pub use trace_context::TraceContext;
