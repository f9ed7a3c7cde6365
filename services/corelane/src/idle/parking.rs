//! What a lane does for its parked connections: wakes those that something came for, and ends
//! those that are overdue.

use std::rc::Rc;

use rustix::event::epoll::{Event, EventFlags};
use rustix::net::{RecvFlags, recv};
use tokio::task::yield_now;

use super::{Resting, wake};
use crate::connection::Order;
use crate::http_connection::LaneService;
use crate::metrics::Woken;
use crate::reply::HttpService;
use crate::shared::Phase;
use crate::sweep;

/// Most connections that are woken in a turn of the event loop: then others have theirs.
const IN_A_TURN: usize = 64;

/// Parked connections that a sweep looks at in a turn of the event loop.
const SLICE: usize = 1024;

/// Looks after the lane's parked connections for as long as it runs.
pub(crate) async fn run<S: HttpService>(host: Rc<LaneService<S>>) {
    let lot = &host.lane.lot;
    let Some(epoll) = lot.epoll() else { return };
    let mut events = Vec::with_capacity(IN_A_TURN);
    loop {
        tokio::select! {
            readable = epoll.readable() => {
                let Ok(mut readable) = readable else { return };
                if wake_ready(&host, &mut events) < IN_A_TURN {
                    readable.clear_ready();
                }
            }
            () = lot.swept.notified() => sweep_parked(&host, &mut events).await,
        }
        yield_now().await;
    }
}

/// Wakes connections that something came for; how many there were.
fn wake_ready<S: HttpService>(host: &Rc<LaneService<S>>, events: &mut Vec<Event>) -> usize {
    let lane = &host.lane;
    lane.lot.ready(events);
    for event in events.iter() {
        let (key, flags) = (event.data.u64() as usize, event.flags);
        let Some(resting) = lane.lot.take(lane, key, Woken::Bytes) else { continue };
        if resting.has_ended(flags) {
            close(host, resting);
        } else {
            wake(host, resting, None);
        }
    }
    events.len()
}

/// Ends what is overdue. While the lane closes, requests that wait in their sockets are read first.
async fn sweep_parked<S: HttpService>(host: &Rc<LaneService<S>>, events: &mut Vec<Event>) {
    let lane = &host.lane;
    let mut from = 0;
    loop {
        let closing = lane.phase.get() == Phase::Closing;
        while closing && wake_ready(host, events) > 0 {
            yield_now().await;
        }
        let Some(overdue) = lane.lot.overdue(lane, from..from + SLICE) else { return };
        let why = if closing { Woken::Drain } else { Woken::Deadline };
        for (key, due) in overdue {
            let Some(resting) = lane.lot.take(lane, key, why) else { continue };
            let order = sweep::sentence(lane, due, !resting.history.in_header);
            if order == Order::Finish && resting.goes_without_words() {
                close(host, resting);
            } else {
                wake(host, resting, Some(order));
            }
        }
        from += SLICE;
        yield_now().await;
    }
}

/// Closes a connection that nothing is to be said to.
fn close<S: HttpService>(host: &Rc<LaneService<S>>, resting: Resting) {
    drop(resting);
    if host.lane.is_empty() {
        host.lane.emptied.notify_one();
    }
}

impl Resting {
    /// Whether its client is gone, by what the kernel tells of its socket: it closed its side, and
    /// nothing that it sent before is unread.
    fn has_ended(&self, flags: EventFlags) -> bool {
        let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        // Of a head that goes no further hyper has to tell.
        if !flags.intersects(end) || !self.unread.is_empty() {
            return false;
        }
        let mut first = [0];
        match recv(&self.socket, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, received)) => received == 0,
            Err(_) => true,
        }
    }

    /// Whether nothing is said to its client at its end: with TLS each side says that it ends (RFC
    /// 8446 section 6.1).
    fn goes_without_words(&self) -> bool {
        !self.socket.is_tls()
    }
}
