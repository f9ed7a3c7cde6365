//! A lane's tasks for connections from other lanes: lent, returned or moved.

use std::rc::Rc;

use bytes::Bytes;
use tokio::task::yield_now;

use crate::balance::lending::{Arrivals, LentConnection};
use crate::balance::mailbox::IN_A_TURN;
use crate::request::service::HttpService;
use crate::transport::connections::Registration;
use crate::transport::host::LaneService;
use crate::transport::plain::{go_on, resume, wake};

/// Serves connections lent to this lane and wakes its own returned connections, for as long as the
/// lane runs.
pub(crate) async fn serve_lent<S: HttpService>(host: Rc<LaneService<S>>) {
    let (connections, lane) = (&host.connections, host.lane.index);
    let Some(lending) = &connections.lending else { return };
    loop {
        lending.arrived(lane).await;
        let Arrivals { lent, back } = lending.arrivals(lane);
        lent.into_iter().for_each(|lent| serve(&host, lent));
        let open = connections.open.borrow();
        back.into_iter().filter_map(|key| open.get(key)).for_each(|connection| connection.wake());
    }
}

/// Resumes connections that have moved to this lane, for as long as the lane runs.
pub(crate) async fn serve_moved<S: HttpService>(host: Rc<LaneService<S>>) {
    let moves = &host.connections.moves;
    loop {
        moves.arrived().await;
        let mut received = 0;
        while let Some(resting) = moves.receive() {
            resume(&host, resting, None);
            received += 1;
            if received % IN_A_TURN == 0 {
                yield_now().await;
            }
        }
    }
}

fn serve<S: HttpService>(host: &Rc<LaneService<S>>, lent: LentConnection) {
    let (socket, history, loan) = lent.into_parts();
    // If waking the socket fails, the connection's own lane handles the error.
    let Some((peer, descriptor, socket)) = wake(host, socket) else { return };
    let registration = Registration::borrow(&host.connections, loan, history, peer, descriptor);
    go_on(host, registration, socket, Bytes::new());
}
