//! Opens connections on chosen lanes. The server chooses the lane, and its replies name it.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use crate::exchange::Kind;
use crate::loops;
use crate::pool::{Lost, Pool};

/// Attempts per connection: with two lanes chosen at random, more are needed once in 2^32.
const TRIES: usize = 32;

/// Opens each connection of the pool again until it is on its lane: connection `index` on the lane
/// `lanes[index % lanes.len()]`. Connections on other lanes stay open meanwhile, so that a server
/// which balances its lanes uses all of them.
pub(crate) fn open(pool: &mut Pool, lanes: &[usize]) -> Result<(), Lost> {
    let mut elsewhere: Vec<TcpStream> = Vec::new();
    for (index, lane) in (0..pool.len()).zip(lanes.iter().cycle()) {
        let mut tries = TRIES;
        while lane_of(pool, index)? != *lane {
            if tries == 0 {
                let text = format!("{TRIES} connections in a row were not on lane {lane}");
                return Err(io::Error::other(text).into());
            }
            tries -= 1;
            elsewhere.push(pool.replace(index)?);
        }
    }
    Ok(())
}

/// The lane that serves a connection.
fn lane_of(pool: &mut Pool, index: usize) -> Result<usize, Lost> {
    let tally = loops::closed(pool, index..index + 1, Kind::Hello, Duration::ZERO)?;
    let no_lane = || io::Error::other("a reply names no lane").into();
    tally.lanes().next().ok_or_else(no_lane)
}
