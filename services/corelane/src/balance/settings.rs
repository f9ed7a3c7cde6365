//! Settings for spreading connections across lanes.

use crate::base::settings::words;

/// How new connections are assigned to lanes.
///
/// ```
/// assert_eq!("least-loaded".parse(), Ok(corelane::Placement::LeastLoaded));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Every lane has its own listening socket on the same address (`SO_REUSEPORT`, socket(7)). The
    /// kernel chooses one by a hash of the connection's addresses and ports.
    ///
    /// Suits many connections, or short ones, with requests of similar cost: nothing is shared, and
    /// a connection costs nothing extra. Few long-lived connections spread unevenly: with 8
    /// connections on 4 lanes, some lane has none in 38% of cases. Connections queued behind a
    /// handler that holds its lane cannot go to another lane.
    #[default]
    Hashed,
    /// A separate thread accepts connections and hands each to the lane with the least expected
    /// work. Among lanes whose work differs by less than a millisecond it chooses the lane with the
    /// fewest connections. An idle lane steals connections that a busy lane has not started after a
    /// millisecond, or after 10 ms if stealing makes the distribution less even.
    ///
    /// Suits few long-lived connections, such as those from a proxy: 8 or 16 idle connections are
    /// spread exactly evenly across 2 or 4 lanes. Each connection passes through an additional
    /// thread, so this does not suit servers with very many short connections.
    LeastLoaded,
}

words!(Placement: "hashed" => Hashed, "least-loaded" => LeastLoaded);

/// Whether a connection may move to another lane. Only HTTP/1.1 connections move, and only between
/// two requests: neither the client nor the service notices.
///
/// ```
/// assert_eq!("parked-only".parse(), Ok(corelane::Moving::ParkedOnly));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moving {
    /// A parked connection ([`Builder::park_after`](crate::Builder::park_after)) that wakes moves
    /// to the lane with the least expected work. If lanes differ by less than a millisecond, it
    /// stays. Active connections stay. Without parking, no connection moves.
    #[default]
    ParkedOnly,
    /// Active connections move too, between two requests, while one lane is clearly busier than
    /// another. As many move as it takes to balance the lanes, a few at a time.
    ///
    /// Suits few busy, long-lived connections, such as those from a proxy: a lane that received
    /// most of them is a bottleneck for as long as they last. Only with [`Placement::Hashed`]; with
    /// [`Placement::LeastLoaded`] there is nothing to gain.
    Active,
}

words!(Moving: "parked-only" => ParkedOnly, "active" => Active);
