//! A small HTTP/1.1 server for probes and metrics, and a client for one request.
//!
//! ```
//! use corelane_service::http::{exchange, serve};
//! use corelane_service::process;
//! use http::{Request, StatusCode};
//! use tokio::net::TcpListener;
//!
//! let reply = process::block_on(
//!     async {
//!         let listener = TcpListener::bind("127.0.0.1:0").await?;
//!         let address = listener.local_addr()?;
//!         tokio::spawn(serve(listener, |path| (StatusCode::OK, "text/plain", format!("{path}\n"))));
//!         let request = Request::get("/healthz").header("host", "here").body(String::new());
//!         Ok::<_, std::io::Error>(exchange(address, request.expect("valid")).await)
//!     },
//!     true,
//! )??;
//! assert_eq!(reply.expect("a reply").body(), "/healthz\n");
//! # Ok::<(), std::io::Error>(())
//! ```

mod client;
mod serve;
mod url;

pub use client::{ExchangeError, exchange};
pub use serve::{Answer, serve};
pub use url::Url;
