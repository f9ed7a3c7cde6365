//! Settings for spreading connections across lanes.

use crate::base::settings::words;

/// Policy for assigning new connections to lanes.
///
/// ```
/// assert_eq!("least-loaded".parse(), Ok(corelane::Placement::LeastLoaded));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Every lane has its own listening socket on the same address (`SO_REUSEPORT`, socket(7)). The
    /// kernel picks a socket by hashing the connection's addresses and ports.
    ///
    /// Suits a large number of connections or short connections, with requests of similar cost,
    /// because lanes share nothing and accepting a connection costs nothing extra. A small number
    /// of long-lived connections is spread unevenly: with 8 connections on 4 lanes, at least one
    /// lane has none in 38% of cases. While a handler blocks a lane, connections that are waiting
    /// in the lane's accept queue cannot move to another lane.
    #[default]
    Hashed,
    /// A dedicated thread accepts connections and gives each to the lane with the least expected
    /// work. If the difference is below a millisecond, the lane with the fewest connections wins.
    /// An idle lane steals connections that a busy lane has not started to serve within a
    /// millisecond, or within 10 ms if stealing makes lanes less even.
    ///
    /// Suits a small number of long-lived connections, such as connections from a proxy: 8 or 16
    /// idle connections are spread perfectly evenly across 2 or 4 lanes. Each connection passes
    /// through an extra thread, so this policy does not suit servers with a very large number of
    /// short connections.
    LeastLoaded,
}

words!(Placement: "hashed" => Hashed, "least-loaded" => LeastLoaded);

/// Whether a connection may move to another lane. Only HTTP/1.1 connections move, and only between
/// requests. Neither the client nor the service notices.
///
/// ```
/// assert_eq!("parked-only".parse(), Ok(corelane::Moving::ParkedOnly));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moving {
    /// A parked connection ([`Builder::park_after`](crate::Builder::park_after)) that wakes up
    /// moves to the lane with the least expected work, unless the difference is below a
    /// millisecond. Active connections stay on their lanes. Without parking, no connection moves.
    #[default]
    ParkedOnly,
    /// Active connections also move, between requests, while one lane is clearly busier than
    /// another. A few connections move at a time until the lanes are balanced.
    ///
    /// Suits a small number of busy, long-lived connections, such as connections from a proxy.
    /// Otherwise, a lane that gets most of them would remain a bottleneck for as long as they last.
    /// Requires [`Placement::Hashed`], because [`Placement::LeastLoaded`] gains nothing from it.
    Active,
}

words!(Moving: "parked-only" => ParkedOnly, "active" => Active);
