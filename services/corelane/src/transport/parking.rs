//! A lane's tasks for parked connections, which wake them on events and end overdue connections.

use std::rc::Rc;

use rustix::event::epoll::{Event, EventFlags};
use rustix::net::{RecvFlags, recv};
use tokio::task::yield_now;

use crate::base::phase::Phase;
use crate::metrics::{Moved, Woken};
use crate::request::connection::{Order, order_for};
use crate::request::service::HttpService;
use crate::transport::host::LaneService;
use crate::transport::plain::resume;
use crate::transport::resting::Resting;

/// Maximum connections woken or closed per event-loop turn, so that other tasks also run.
const IN_A_TURN: usize = 64;

pub(crate) async fn run<S: HttpService>(host: Rc<LaneService<S>>) {
    let parking_lot = &host.connections.parking_lot;
    let Some(epoll) = parking_lot.epoll() else { return };
    let mut events = Vec::with_capacity(IN_A_TURN);
    loop {
        tokio::select! {
            readable = epoll.readable() => {
                let Ok(mut readable) = readable else { return };
                if !wake_ready(&host, &mut events) {
                    readable.clear_ready();
                }
            }
            () = parking_lot.swept.notified() => sweep_parked(&host, &mut events).await,
        }
        yield_now().await;
    }
}

/// Returns whether more connections may be ready.
fn wake_ready<S: HttpService>(host: &Rc<LaneService<S>>, events: &mut Vec<Event>) -> bool {
    let lane = &host.lane;
    let more = host.connections.parking_lot.ready(events);
    for event in events.iter() {
        let (key, flags) = (event.data.u64() as usize, event.flags);
        let Some(resting) = host.connections.parking_lot.take(lane, key, Woken::Bytes) else {
            continue;
        };
        if resting.has_ended(flags) {
            close(host, resting);
        } else {
            wake(host, resting, None);
        }
    }
    more
}

/// Ends overdue connections. Each turn first handles requests waiting in their sockets. Therefore,
/// a lane that was blocked does not time out clients whose input has already arrived, and no client
/// has to wait for the whole sweep.
async fn sweep_parked<S: HttpService>(host: &Rc<LaneService<S>>, events: &mut Vec<Event>) {
    let lane = &host.lane;
    let mut from = 0;
    loop {
        while wake_ready(host, events) {
            yield_now().await;
        }
        let closing = lane.phase.get() == Phase::Closing;
        let (overdue, next) = host.connections.parking_lot.overdue(lane, from, IN_A_TURN);
        let why = if closing { Woken::Drain } else { Woken::Deadline };
        for (key, due) in overdue {
            let Some(resting) = host.connections.parking_lot.take(lane, key, why) else { continue };
            let order = order_for(lane, due, !resting.history.in_header);
            if order == Order::Finish && resting.goes_without_words() {
                close(host, resting);
            } else {
                wake(host, resting, Some(order));
            }
        }
        let Some(next) = next else { return };
        from = next;
        yield_now().await;
    }
}

/// Resumes a parked connection on this lane if there is an `order`, or otherwise on the lane that
/// has time for it.
fn wake<S: HttpService>(host: &Rc<LaneService<S>>, resting: Resting, order: Option<Order>) {
    let moves = &host.connections.moves;
    let elsewhere = if order.is_none() { moves.choose_lane() } else { None };
    let stays = match elsewhere {
        Some(lane) => moves.depart(resting, lane, Moved::Wake).err(),
        None => Some(resting),
    };
    if let Some(resting) = stays {
        resume(host, resting, order);
    }
}

fn close<S: HttpService>(host: &Rc<LaneService<S>>, resting: Resting) {
    drop(resting);
    host.connections.lost_one();
}

impl Resting {
    /// Whether the client disconnected: it closed its side, and all earlier input was read.
    fn has_ended(&self, flags: EventFlags) -> bool {
        let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        // hyper must respond to an incomplete head.
        if !flags.intersects(end) || !self.unread.is_empty() {
            return false;
        }
        let mut first = [0];
        match recv(&self.socket, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, received)) => received == 0,
            Err(_) => true,
        }
    }

    /// Whether to close without sending anything. With TLS, each side sends an alert (RFC 8446
    /// section 6.1).
    fn goes_without_words(&self) -> bool {
        !self.socket.is_tls()
    }
}
