//! What the small programs of Corelane share: flags and environment, one HTTP request, and answers to
//! probes.

mod arguments;
mod exchange;
mod serve;

pub use arguments::{duration, number, read, refuse};
pub use exchange::{ExchangeError, exchange};
pub use serve::{Answer, serve};
