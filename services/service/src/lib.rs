//! The chassis of a service on Corelane.
//!
//! [`App`] runs the entire process around a `tower::Service`: an axum `Router`, tonic, or anything
//! that accepts `Request<corelane::Incoming>`. It provides
//!
//! - configuration from a TOML file, environment variables and flags: platform keys such as
//!   `listen`, `lanes`, `limits.connections` or `tls.certificate`, and the service's own. `--help`
//!   lists them, `--check` validates them and shows where each comes from, `--schema` prints the
//!   file's JSON Schema;
//! - logs as text or JSON, with a level that can change at run time, a log line per request, and
//!   spans and metrics for an OTLP collector;
//! - an admin port with `/healthz`, `/readyz`, `/metrics`, `/lanes`, `/config` and `/log-level`;
//! - signals, the drain, and exit codes.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use corelane::prometheus_client::metrics::counter::Counter;
//! use corelane::Incoming;
//! use corelane_service::{App, settings, value};
//! use http::{Request, Response};
//!
//! settings! {
//!     /// The shop's own keys.
//!     struct Shop {
//!         "shop.greeting" => greeting: String = "welcome", value::text, "Text of the front page";
//!         "shop.orders" => orders: u64 = "10", value::number(1, 1000), "Orders of a customer";
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     let app = App::<Shop>::new("shop", env!("CARGO_PKG_VERSION"), "Sells things").routes(["/"]);
//!     app.run(|shop, start| {
//!         let visits = Counter::<u64>::default();
//!         start.registry().register("shop_visits", "Visits of the front page", visits.clone());
//!         Ok(start.serve(move |_lane| {
//!             let (greeting, visits) = (shop.greeting.clone(), visits.clone());
//!             tower::service_fn(move |_request: Request<Incoming>| {
//!                 visits.inc();
//!                 let reply = Response::new(greeting.clone());
//!                 async move { Ok::<_, std::convert::Infallible>(reply) }
//!             })
//!         })?)
//!     })
//! }
//! ```
//!
//! `examples/shop.rs` does the same with axum. Set its key with `shop --config shop.toml` or
//! `CORELANE_CONFIG=shop.toml`, with `CORELANE_SHOP_GREETING=hello`, or with `shop --shop.greeting
//! hello`.
//!
//! # Cargo features
//!
//! | feature | adds |
//! |---|---|
//! | `server` (default) | [`App`]; without it, only the parts below, for programs without lanes |
//! | `auth` | bearer tokens: `auth` |
//! | `jwt` | JSON Web Tokens as bearer tokens: `auth` |
//! | `faults` | faults for drills: `faults` |
//! | `kubernetes` | a client for the Kubernetes API server: `kubernetes` |
//! | `openapi` | an OpenAPI document and its page: `openapi` |
//! | `openapi-viewer` | Swagger UI as that page, from the program itself |
//!
//! # Parts
//!
//! - [`config`]: a table of keys, filled from a TOML file, the environment and flags;
//! - [`flags`]: flags and environment variables for programs without a file;
//! - [`value`]: parsers for values with units and bounds, for keys and flags;
//! - [`log`]: log lines as text or JSON;
//! - [`http`]: a small server for probes and metrics, and single HTTP/1.1 requests;
//! - [`process`]: exit codes, signals, output, and a runtime for small programs.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/service-parts.md")]
#[doc = include_str!("../../../docs/large-and-slow.md")]
struct Guides;

// Declared before the modules that use its macro.
#[macro_use]
pub mod config;

#[cfg(feature = "server")]
mod app;
#[cfg(feature = "auth")]
pub mod auth;
#[cfg(feature = "faults")]
pub mod faults;
pub mod flags;
pub mod http;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod log;
#[cfg(feature = "openapi")]
pub mod openapi;
#[cfg(any(feature = "auth", feature = "faults"))]
mod per_lane;
pub mod process;
#[cfg(feature = "server")]
mod settings;
#[cfg(feature = "server")]
mod start;
#[cfg(feature = "server")]
mod telemetry;
pub mod value;

#[cfg(feature = "server")]
pub use app::App;
#[cfg(feature = "server")]
pub use start::{BoxError, Start};
