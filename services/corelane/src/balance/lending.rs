//! Lends the connections of a held lane: other lanes serve the requests that arrive on them.
//!
//! A handler that does not return holds its lane, and only the lane's thread reads its connections.
//! Therefore a connection that waits for a request [offers](Offer) its socket. While the lane is
//! held, another thread [lends](Lending::lend) its readable connections to an idle lane. That lane
//! serves them as its own until they wait again, then gives them back. Meanwhile their own lane
//! leaves them alone. [`SharedSocket`] tracks which lane may use the socket.

use std::collections::BTreeMap;
use std::mem;
use std::net;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::Notify;

use crate::os::socket::{SharedSocket, StillSocket};
use crate::request::client::Introduced;
use crate::request::connection::{Connection, History};

/// Number of connections that one search checks. A search takes some tens of microseconds.
const SEARCHED: usize = 512;

/// The lendable connections of all lanes.
#[derive(Debug)]
pub(crate) struct Lending(Box<[LoansOfLane]>);

/// The lendable connections of one lane.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LoansOfLane {
    offers: Mutex<Offers>,
    /// Connections lent to this lane that it has not started to serve, and its own connections that
    /// were returned. `None` once the lane has ended.
    arrivals: Mutex<Option<Arrivals>>,
    /// Wakes the lane.
    wake: Notify,
}

#[derive(Debug, Default)]
struct Offers {
    /// Offers by their keys among the lane's connections.
    by_key: BTreeMap<usize, Arc<Offer>>,
    /// Where the next search begins.
    next: usize,
}

/// Connections for a lane.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Connections that other lanes lend to this lane.
    pub(crate) lent: Vec<LentConnection>,
    /// Keys of its own connections that were returned.
    pub(crate) back: Vec<usize>,
}

/// A connection that can be lent, as seen by other lanes.
#[derive(Debug)]
pub(crate) struct Offer {
    socket: Arc<SharedSocket>,
    introduced: Introduced,
    /// Created when the connection is lent. Most connections never are.
    returned: Mutex<Option<Box<Returned>>>,
}

/// The state that the home lane receives when a loan ends.
#[derive(Debug, Default)]
pub(crate) struct Returned {
    /// Number of requests that were served during the loan.
    pub(crate) requests: u64,
    pub(crate) had_body: bool,
    /// Input that was read but not processed.
    pub(crate) unread: Bytes,
    pub(crate) has_ended: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lending {
    pub(crate) fn new(lanes: usize) -> Arc<Self> {
        let lane = || LoansOfLane {
            arrivals: Mutex::new(Some(Arrivals::default())),
            ..LoansOfLane::default()
        };
        Arc::new(Lending((0..lanes).map(|_| lane()).collect()))
    }

    /// Lends up to `most` connections of `home` that have input to lane `to`. Returns their number.
    pub(crate) fn lend(self: &Arc<Self>, home: usize, to: usize, most: usize) -> usize {
        if most == 0 {
            return 0;
        }
        let guests = self.readable(home, most);
        let lent = guests.len();
        // Dropped before the guests, because returning a guest takes the same locks.
        let mut arrivals = locked(&self.0[to].arrivals);
        let Some(open) = &mut *arrivals else { return 0 };
        open.lent.extend(guests);
        drop(arrivals);
        if lent > 0 {
            self.0[to].wake.notify_one();
        }
        lent
    }

    /// Lends connections that have input, starting after those that the last search checked.
    fn readable(self: &Arc<Self>, home: usize, most: usize) -> Vec<LentConnection> {
        let mut offers = locked(&self.0[home].offers);
        let Offers { by_key, next } = &mut *offers;
        let all = by_key.range(*next..).chain(by_key.range(..*next)).take(SEARCHED);
        let all: Vec<_> = all.map(|(&key, offer)| (key, offer)).collect();
        let idle = all.iter().filter(|(_, offer)| offer.socket.is_idle());
        let idle: Vec<_> = idle.collect();
        let mut polled: Vec<_> =
            idle.iter().map(|(_, offer)| PollFd::new(&*offer.socket, PollFlags::IN)).collect();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // After an error, no events are set.
        let _ = poll(&mut polled, Some(&at_once));
        let ready = idle.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        let guests = ready.filter_map(|((key, offer), _)| {
            let (socket, lending) = (offer.socket.lend()?, Arc::clone(self));
            let loan = Loan { lending, home, key: *key, offer: Arc::clone(offer), begun: false };
            Some(LentConnection { socket, loan })
        });
        let guests: Vec<_> = guests.take(most).collect();
        let last = match guests.last() {
            Some(guest) if guests.len() == most => Some(guest.loan.key),
            _ => all.last().map(|(key, _)| *key),
        };
        *next = last.map_or(0, |key| key + 1);
        guests
    }

    /// Number of connections lent to a lane that it has not started to serve.
    pub(crate) fn coming(&self, to: usize) -> usize {
        locked(&self.0[to].arrivals).as_ref().map_or(0, |arrivals| arrivals.lent.len())
    }

    /// Waits until there may be [`Lending::arrivals`].
    pub(crate) async fn arrived(&self, lane: usize) {
        self.0[lane].wake.notified().await;
    }

    /// The connections that have arrived at a lane since the last call.
    pub(crate) fn arrivals(&self, lane: usize) -> Arrivals {
        locked(&self.0[lane].arrivals).as_mut().map(mem::take).unwrap_or_default()
    }

    /// Stops the lane from accepting connections once the result is dropped.
    pub(crate) fn closing(self: &Arc<Self>, lane: usize) -> impl Drop + use<> {
        EndLoans(Arc::clone(self), lane)
    }

    fn give_back(&self, home: usize, key: usize) {
        if let Some(arrivals) = &mut *locked(&self.0[home].arrivals) {
            arrivals.back.push(key);
        }
        self.0[home].wake.notify_one();
    }
}

struct EndLoans(Arc<Lending>, usize);

impl Drop for EndLoans {
    fn drop(&mut self) {
        let left = locked(&self.0.0[self.1].arrivals).take();
        drop(left);
    }
}

/// The offer of an open connection. Dropping it withdraws the offer, which must happen before the
/// socket is closed.
#[derive(Debug)]
pub(crate) struct Offered {
    lending: Arc<Lending>,
    lane: u32,
    key: u32,
    offer: Arc<Offer>,
}

impl Offered {
    pub(crate) fn new(
        lending: &Arc<Lending>,
        lane: usize,
        key: usize,
        socket: Arc<SharedSocket>,
        introduced: Introduced,
    ) -> Self {
        let offer = Arc::new(Offer { socket, introduced, returned: Mutex::default() });
        locked(&lending.0[lane].offers).by_key.insert(key, Arc::clone(&offer));
        Offered { lending: Arc::clone(lending), lane: lane as u32, key: key as u32, offer }
    }

    /// Takes the state that came back with the connection.
    pub(crate) fn returned(&self) -> Returned {
        locked(&self.offer.returned).take().map(|returned| *returned).unwrap_or_default()
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        let lane = &self.lending.0[self.lane as usize];
        locked(&lane.offers).by_key.remove(&(self.key as usize));
    }
}

/// A connection in transit to the lane that borrows it.
#[derive(Debug)]
pub(crate) struct LentConnection {
    socket: net::TcpStream,
    loan: Loan,
}

impl LentConnection {
    /// The parts of the connection, which must stay together.
    pub(crate) fn into_parts(self) -> (StillSocket, History, Loan) {
        let history = History::lent(self.loan.offer.introduced.clone(), SERVED);
        (StillSocket::Plain(self.socket), history, self.loan)
    }
}

/// The obligation to give a connection back. If it is dropped without that, the connection has
/// ended, unless the borrower had not started to serve it.
#[derive(Debug)]
pub(crate) struct Loan {
    lending: Arc<Lending>,
    home: usize,
    key: usize,
    offer: Arc<Offer>,
    begun: bool,
}

impl Loan {
    /// Records that the borrower starts to read.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Gives back the connection, which waits for a request or for the rest of one.
    pub(crate) fn give_back(mut self, connection: &Connection, unread: Bytes) {
        let History { requests, had_body, .. } = connection.history();
        self.begun = false;
        let mut returned = locked(&self.offer.returned);
        let returned = returned.get_or_insert_default();
        returned.requests += requests.saturating_sub(SERVED);
        returned.had_body |= had_body;
        returned.unread = unread;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut returned = locked(&self.offer.returned);
        let returned = returned.get_or_insert_default();
        returned.has_ended = self.begun;
        let waits = !returned.has_ended && returned.unread.is_empty();
        self.offer.socket.give_back(waits);
        self.lending.give_back(self.home, self.key);
    }
}

/// Number of requests that a borrowed connection is assumed to have served. The connection is not
/// new, and its own lane applies the limit of requests per connection.
const SERVED: u64 = 1;
