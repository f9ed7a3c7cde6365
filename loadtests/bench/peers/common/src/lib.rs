//! Code that the peers share: their command line, and the replies that need no framework.

mod div;
mod options;
mod work;

use std::time::Duration;

pub use div::half;
pub use options::Options;
pub use work::Work;

/// The body of `GET /hello`, as in the reference service.
pub const HELLO: &str = "Hello, World!";

/// Idle timeout for peers with such a setting: Corelane's default.
pub const IDLE: Duration = Duration::from_secs(75);

/// Length of the accept queue: Corelane's default.
pub const BACKLOG: u16 = 4096;
