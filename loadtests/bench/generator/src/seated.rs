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
pub(crate) fn seat(pool: &mut Pool, lanes: &[usize]) -> Result<(), Lost> {
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;
    use crate::exchange::Exchanges;

    /// A server whose connections alternate between lanes. It serves only `/hello`.
    fn server(lanes: usize) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for (number, socket) in listener.incoming().enumerate() {
                let lane = number % lanes;
                let head =
                    format!("HTTP/1.1 200 OK\r\ncorelane-lane: {lane}\r\ncontent-length: 13");
                let reply = format!("{head}\r\n\r\nHello, World!");
                thread::spawn(move || -> io::Result<()> {
                    let mut socket = socket?;
                    // Each request arrives in one piece.
                    while socket.read(&mut [0; 512])? > 0 {
                        socket.write_all(reply.as_bytes())?;
                    }
                    Ok(())
                });
            }
        });
        Ok(address)
    }

    fn pool(lanes: usize, connections: usize) -> Result<Pool, Lost> {
        let to = server(lanes)?;
        Pool::open(vec![to], connections, Exchanges::new(to, None))
    }

    #[test]
    fn connections_are_opened_again_until_they_are_on_their_lanes() -> Result<(), Lost> {
        for lanes in [vec![0], vec![0, 1], vec![2, 1, 1]] {
            let mut pool = pool(3, 6)?;
            seat(&mut pool, &lanes)?;
            for (index, lane) in (0..6).zip(lanes.iter().cycle()) {
                assert_eq!(lane_of(&mut pool, index)?, *lane, "{lanes:?}, {index}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_lane_that_is_not_there_is_told() -> Result<(), Lost> {
        let told = seat(&mut pool(2, 1)?, &[2]).expect_err("no such lane").to_string();
        assert!(told.ends_with("not on lane 2"), "{told}");
        Ok(())
    }
}
