//! Settings of how connections are spread over lanes.

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
    /// Suits many connections, or short ones, with requests of similar cost: nothing is shared, and a
    /// connection costs nothing extra. Few long-lived connections spread unevenly: 8 over 4 lanes leave a
    /// lane without any in 38% of cases. Connections queued behind a handler that holds its lane cannot
    /// go to another lane.
    #[default]
    Hashed,
    /// A separate thread accepts and hands each connection to the lane with the least expected work.
    /// Among lanes whose work differs by less than a millisecond it chooses the one with the fewest
    /// connections. An idle lane steals connections that a busy lane has not started after a
    /// millisecond, or after 10 where stealing makes the connections less even.
    ///
    /// Suits few long-lived connections, such as those of a proxy: 8 or 16 idle connections over 2 or
    /// 4 lanes are spread exactly evenly. Each connection passes through an additional thread, so it
    /// does not suit servers with very many short connections.
    LeastLoaded,
}

words!(Placement: "hashed" => Hashed, "least-loaded" => LeastLoaded);

/// Whether a connection may move to another lane. HTTP/1.1 only, and only between two requests:
/// neither the client nor the service notices.
///
/// ```
/// assert_eq!("parked-only".parse(), Ok(corelane::Moving::ParkedOnly));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moving {
    /// A parked connection ([`Builder::park_after`](crate::Builder::park_after)) that wakes moves to
    /// the lane with the least expected work; where lanes differ by less than a millisecond it stays.
    /// Active connections stay. Without parking, none moves.
    #[default]
    ParkedOnly,
    /// Active connections move too, between two requests, while one lane is clearly busier than
    /// another: as many as it takes to balance the lanes, a few at a time.
    ///
    /// Suits few busy, long-lived connections, such as those of a proxy: a lane that got most of them
    /// is a bottleneck for as long as they last. Only with [`Placement::Hashed`]:
    /// [`Placement::LeastLoaded`] leaves nothing to gain.
    Active,
}

words!(Moving: "parked-only" => ParkedOnly, "active" => Active);
