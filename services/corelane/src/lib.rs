//! A thread-per-core HTTP server.
//!
//! A *lane* is a thread that uses one core and has its own event loop, connections, service
//! instance and counters. The thread is pinned to a CPU if the process has its CPUs to itself. A
//! cheap request stays on its lane, so its memory stays in that core's cache and serving it takes
//! no lock. Each pinned lane also has a second thread, which runs requests that would block the
//! lane for a long time ([`Builder::slow_lanes`]). While a handler is blocking a lane, other lanes
//! serve the requests on its connections. To make this possible, each connection claims its socket
//! with one atomic operation.
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
//! Any `tower::Service<Request<Incoming>>` that is `Clone` works, including an axum `Router`. With
//! the `axum` cargo feature, the `axum` module provides layers for axum extractors.
//!
//! # Upgrades and streams
//!
//! A handler takes over an HTTP/1.1 connection by responding with status 101, through
//! [`hyper::upgrade::on`]. Over HTTP/2, a successful response to an extended CONNECT (RFC 8441)
//! takes over one stream. axum's `WebSocketUpgrade` supports both protocols on an `any` route.
//! `examples/websocket.rs` is a chat room, and `examples/sse.rs` streams an endless response.
//!
//! - An upgraded HTTP/1.1 stream works only on its lane's thread, where `tokio::spawn` runs tasks.
//!   On any other thread, every operation returns an error. The stream may be dropped anywhere: the
//!   lane closes it at its next sweep, within half a second.
//! - For [`Timeouts::request`], [`deadline`], metrics, observers and the load table, the request
//!   itself ends with its response head. After that, time spent on the stream counts only towards
//!   the lane's busy share.
//! - [`Timeouts::write`] still applies, except to an HTTP/2 stream whose client closes only that
//!   stream's window. No other timeout applies. The stream's input ends when the client
//!   disconnects. The connection counts towards [`Limits::connections`], and it neither parks nor
//!   moves.
//! - A drain waits for the stream until [`Drain::deadline`]. [`Lane::draining`] notifies the
//!   handler, so that it can close the protocol cleanly before then.
//!
//! As RFC 9110 allows, the server ignores Upgrade if Connection does not list it or the request has
//! a body. If the handler then responds with status 101, the client gets a 500.
//!
//! # Items
//!
//! Cargo features: `http2` and `tls` are on by default, `axum` adds layers for axum, and `testing`
//! adds a server for tests.
//!
//! | items | purpose |
//! |---|---|
//! | [`Server`], [`Builder`], [`Error`] | configure and run a server, and report why it cannot start |
//! | [`Lanes`], [`Pin`], [`Placement`] | number of lanes, their CPUs, and how connections are assigned to lanes |
//! | [`Moving`] | whether a connection may move to another lane between two requests |
//! | [`Lane`], [`HttpService`] | the lane that a service is created for, and the requirements for a service |
//! | [`SlowLanes`], [`Cost`], [`turn`] | requests that would block their lane for a long time |
//! | [`Listen`] | addresses that a server listens on: TCP, Unix sockets, inherited sockets, PROXY protocol |
//! | [`Limits`], [`Timeouts`] | limits and timeouts for clients |
//! | [`RouteLimits`] | per-route limits |
//! | [`set_route`], `axum::LearnRoutes`, [`LearnCalls`] | a request's route, for metrics and the load table |
//! | [`Drain`], [`Draining`], [`Phase`], [`ServerHandle`], [`Drained`] | graceful shutdown |
//! | [`Incoming`], [`BodyError`] | request bodies |
//! | [`blocking`], [`BlockingError`] | run blocking code from a handler |
//! | [`connection`], [`ConnectionInfo`], [`Protocol`], [`TlsInfo`] | the current request's connection: addresses, TLS |
//! | [`client_addr`], [`TrustedProxy`], [`ForwardedHeader`] | the client's address behind trusted proxies |
//! | [`deadline`] | the current request's deadline |
//! | [`request_id`], [`RequestId`] | request ids |
//! | [`Traces`], [`trace_context`], [`TraceContext`] | distributed tracing |
//! | [`Finished`], [`Times`], [`Span`], [`Cut`] | the data that an observer receives for each finished request |
//! | [`Dependency`] | health of the service's dependencies, such as a database |
//! | [`Tls`], [`TlsClients`], [`ClientIdentity`] | certificates, how they are reloaded, and which clients may connect |
//! | [`LoadReports`] | load reports for a load balancer in front of the server |
//! | `testing::TestServer` | a server for testing a service (feature `testing`) |
//! | [`Problem`] | error responses (RFC 9457) |
//! | [`BRIEF`], [`HANDICAP`] | how lanes order waiting requests |

// If a protocol is disabled, the code that only this protocol needs is dead code.
#![cfg_attr(not(all(feature = "http2", feature = "tls")), allow(dead_code))]

#[cfg(feature = "axum")]
pub mod axum;
mod balance;
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
mod slow;
#[cfg(feature = "testing")]
pub mod testing;
mod transport;

pub use balance::settings::{Moving, Placement};
pub use base::error::Error;
pub use base::listen::Listen;
pub use base::phase::Phase;
pub use base::settings::{Drain, ForwardedHeader, Limits, Timeouts, Traces};
pub use load::lane::{Draining, Lane};
pub use load::report::LoadReports;
pub use message::forwarded::TrustedProxy;
pub use message::problem::Problem;
pub use message::request_id::RequestId;
pub use message::trace_context::TraceContext;
pub use os::cpu::{Lanes, Pin};
pub use prometheus_client;
pub use request::blocking::{Blocking, BlockingError, blocking};
pub use request::body::{BodyError, Incoming};
pub use request::calls::{CallLearner, LearnCalls, LearntCall};
pub use request::client::{ClientIdentity, ConnectionInfo, Protocol, TlsInfo};
pub use request::current::{
    client_addr, connection, deadline, request_id, route, set_route, trace_context, turn,
};
pub use request::finished::{Cut, Finished, Span, Times};
pub use request::panics::panics_are_logged;
pub use request::route_limits::{LimitedReply, LimitedRoute, RouteLimits};
pub use request::service::HttpService;
// Used by the capacity model in `corelane-cli`.
#[doc(hidden)]
pub use request::queue::Turns;
pub use request::queue::{BRIEF, HANDICAP};
pub use server::builder::Builder;
pub use server::control::ServerHandle;
pub use server::dependency::Dependency;
pub use server::run::Server;
pub use server::threads::Drained;
pub use slow::settings::{Cost, SlowLanes};
#[cfg(feature = "chaos")]
#[doc(hidden)]
pub use transport::chaos::{Chaos, Rule};
#[cfg(feature = "tls")]
pub use transport::tls::{Tls, TlsClients};
