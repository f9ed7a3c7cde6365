//! Code that the programs of Corelane share.
//!
//! - [`config`]: a table of keys, filled from a TOML file, the environment and flags;
//! - [`flags`]: flags and environment variables of programs without a file;
//! - [`value`]: parsers of values with units and bounds, for both;
//! - [`log`]: log lines as text or JSON;
//! - [`http`]: probes and metrics on a small server, and one HTTP/1.1 request;
//! - [`process`]: exit codes, signals, output, the runtime of a small program.

pub mod config;
pub mod flags;
pub mod http;
pub mod log;
pub mod process;
pub mod value;
