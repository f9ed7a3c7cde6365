//! What the small programs of Corelane share: flags and environment, and one HTTP request.

mod arguments;
mod exchange;

pub use arguments::{duration, number, read, refuse};
pub use exchange::{ExchangeError, exchange};
