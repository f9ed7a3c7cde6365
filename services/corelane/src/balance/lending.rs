//! Lends the connections of a blocked lane to other lanes, which serve the requests that arrive on
//! them.
//!
//! A handler that does not return blocks its lane, and only that lane's thread reads its
//! connections. Each connection that is waiting for a request therefore [offers](Offer) its socket.
//! While its lane is blocked, another thread [lends](Lending::lend) readable connections to an idle
//! lane. The idle lane serves them until they are waiting again and then gives them back. In the
//! meantime, the home lane does not use them: [`SharedSocket`] tracks which lane owns the socket.

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

/// Connections checked per search, which takes tens of microseconds.
const SEARCHED: usize = 512;

#[derive(Debug)]
pub(crate) struct Lending(Box<[LoansOfLane]>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct LoansOfLane {
    offers: Mutex<Offers>,
    /// Connections lent to this lane that it has not started to serve, and its own connections that
    /// have come back. `None` once the lane has exited.
    arrivals: Mutex<Option<Arrivals>>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Offers {
    by_key: BTreeMap<usize, Arc<Offer>>,
    next: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) lent: Vec<LentConnection>,
    pub(crate) back: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Offer {
    socket: Arc<SharedSocket>,
    introduced: Introduced,
    /// Allocated only when the connection is lent, because most connections are never lent.
    returned: Mutex<Option<Box<Returned>>>,
}

/// The state that the home lane gets back when a loan ends.
#[derive(Debug, Default)]
pub(crate) struct Returned {
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

    /// Lends up to `most` readable connections of `home` to lane `to`. Returns the number of lent
    /// connections.
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

    /// Continues after the connections of the previous search.
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
        // No events are set after an error.
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

    pub(crate) fn coming(&self, to: usize) -> usize {
        locked(&self.0[to].arrivals).as_ref().map_or(0, |arrivals| arrivals.lent.len())
    }

    pub(crate) async fn arrived(&self, lane: usize) {
        self.0[lane].wake.notified().await;
    }

    pub(crate) fn arrivals(&self, lane: usize) -> Arrivals {
        locked(&self.0[lane].arrivals).as_mut().map(mem::take).unwrap_or_default()
    }

    /// Stops the lane from taking connections when the result is dropped.
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

#[derive(Debug)]
pub(crate) struct LentConnection {
    socket: net::TcpStream,
    loan: Loan,
}

impl LentConnection {
    pub(crate) fn into_parts(self) -> (StillSocket, History, Loan) {
        let history = History::lent(self.loan.offer.introduced.clone(), SERVED);
        (StillSocket::Plain(self.socket), history, self.loan)
    }
}

/// The obligation to return a connection. Dropping it closes the connection if the borrower has
/// started to serve it.
#[derive(Debug)]
pub(crate) struct Loan {
    lending: Arc<Lending>,
    home: usize,
    key: usize,
    offer: Arc<Offer>,
    begun: bool,
}

impl Loan {
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Gives back the connection, which is waiting for a request or for the rest of a request.
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

/// Initial request count of a borrowed connection: it is not new, and its home lane enforces the
/// limit on requests per connection.
const SERVED: u64 = 1;
