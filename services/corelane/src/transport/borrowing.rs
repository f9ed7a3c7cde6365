//! The task of a lane for connections that [lanes lend](super::lending).

use std::rc::Rc;

use bytes::Bytes;

use crate::request::service::HttpService;
use crate::transport::connections::Registration;
use crate::transport::host::LaneService;
use crate::transport::lending::{Arrivals, Guest};
use crate::transport::plain::{go_on, wake};

/// Serves connections that are lent to a lane, and wakes its own that are back, while it runs.
pub(crate) async fn run<S: HttpService>(host: Rc<LaneService<S>>) {
    let (connections, lane) = (&host.connections, host.lane.index);
    let Some(lending) = &connections.lending else { return };
    loop {
        lending.arrived(lane).await;
        let Arrivals { lent, back } = lending.arrivals(lane);
        lent.into_iter().for_each(|guest| serve(&host, guest));
        let open = connections.open.borrow();
        back.into_iter().filter_map(|key| open.get(key)).for_each(|connection| connection.wake());
    }
}

fn serve<S: HttpService>(host: &Rc<LaneService<S>>, guest: Guest) {
    let (socket, history, loan) = guest.into_parts();
    // Otherwise its own lane finds what is wrong with it.
    let Some((peer, descriptor, socket)) = wake(host, socket) else { return };
    let registration = Registration::borrow(&host.connections, loan, history, peer, descriptor);
    go_on(host, registration, socket, Bytes::new());
}
