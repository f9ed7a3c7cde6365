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
//! Cargo features: `http2` and `tls` are on by default; `axum` adds layers for axum, and `testing` a
//! server for tests.
//!
//! | items | purpose |
//! |---|---|
//! | [`Server`], [`Builder`], [`Error`] | configure and run a server; errors of the start |
//! | [`Lanes`], [`Pin`], [`Placement`] | number of lanes, their CPUs, and how connections are assigned to lanes |
//! | [`Moving`] | whether a connection may move to another lane between two requests |
//! | [`Lane`] | the lane that a service is created for |
//! | [`Limits`], [`Timeouts`] | limits and timeouts for clients |
//! | [`RouteLimits`] | limits of one route |
//! | [`set_route`], `axum::LearnRoutes` | the route of a request, for metrics and the load table |
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
//! | `testing::TestServer` | a server for the tests of a service (feature `testing`) |
//! | [`Problem`] | error replies (RFC 9457) |
//! | [`BRIEF`], [`HANDICAP`] | how lanes order requests that wait |

// Without a protocol, what only it uses is unused.
#![cfg_attr(not(all(feature = "http2", feature = "tls")), allow(dead_code))]

#[cfg(feature = "axum")]
pub mod axum;
mod base;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod lane;
mod load;
mod message;
mod metrics;
mod os;
mod request;
mod server;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;

pub use base::error::Error;
pub use base::phase::Phase;
pub use base::settings::{Drain, Limits, Moving, Placement, Timeouts, Traces};
pub use load::lane::Lane;
pub use load::report::LoadReports;
pub use message::problem::Problem;
pub use message::request_id::RequestId;
pub use message::trace_context::TraceContext;
pub use os::cpu::{Lanes, Pin};
pub use prometheus_client;
pub use request::blocking::{Blocking, BlockingError, blocking};
pub use request::body::{BodyError, Incoming};
pub use request::current::{deadline, request_id, set_route, trace_context};
pub use request::finished::{Finished, Span, Times};
pub use request::queue::{BRIEF, HANDICAP};
pub use request::route_limits::{LimitedReply, LimitedRoute, RouteLimits};
pub use server::builder::Builder;
pub use server::control::ServerHandle;
pub use server::dependency::Dependency;
pub use server::run::Server;
pub use server::threads::Drained;
#[cfg(feature = "chaos")]
#[doc(hidden)]
pub use transport::chaos::{Chaos, Rule};
#[cfg(feature = "tls")]
pub use transport::tls::Tls;
