//! Many connections that send one request and then stay idle.

use std::time::Duration;

use crate::closed;
use crate::exchange::Kind;
use crate::pool::{Lost, Pool};
use crate::tally::Tally;

/// Connections opened at a time; far below the length of any accept queue.
const BATCH: usize = 64;

/// Fills the pool up to `count` connections. Every new one sends a request.
pub(crate) fn run(pool: &mut Pool, count: usize) -> Result<Tally, Lost> {
    let mut tally = Tally::default();
    while pool.len() < count {
        let first = pool.len();
        while pool.len() < count.min(first + BATCH) {
            pool.add()?;
        }
        tally.merge(closed::run(pool, first..pool.len(), Kind::Hello, Duration::ZERO)?);
    }
    Ok(tally)
}
