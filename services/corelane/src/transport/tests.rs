//! Tests connections that the kernel refuses to add to an epoll.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::Full;

use super::connections::Connections;
use super::host::LaneService;
use super::parking_lot::PAUSE;
use super::plain::resume;
use super::resting::{ConnectionGuard, Resting, Unread};
use crate::balance::mailbox::Mailbox;
use crate::balance::moves::Moves;
use crate::base::phase::Lifecycle;
use crate::load::lane::{Lane, LaneGroup};
use crate::os::socket::StillSocket;
use crate::request::body::Incoming;
use crate::request::client::Introduced;
use crate::request::connection::History;
use crate::request::lane_state::{LaneState, RequestSettings, RequestShared};
use crate::request::routes::Routes;

/// A server with one lane, so connections cannot move.
fn connections() -> Rc<Connections> {
    let routes = Arc::new(Routes::new(&[], 0).expect("no templates"));
    let lane = Lane::new(0, &LaneGroup::new(&[None], routes.rows(), None, None));
    let shared =
        RequestShared { routes, load_report: Arc::default(), secure: false, trust: Arc::default() };
    let lane = Rc::new(LaneState::new(lane, &RequestSettings::default(), shared, None));
    let moves = Moves::new(&lane, Arc::new(Lifecycle::new()), Arc::new([Mailbox::new()]));
    Rc::new(Connections::new(lane, Rc::new(moves), None, true, None))
}

fn resting(lane: &LaneState, socket: impl Into<OwnedFd>) -> Resting {
    let place = lane.group().admit(10, None);
    let history = History {
        introduced: Introduced::default(),
        waited: None,
        in_header: false,
        retires_in: None,
        requests: 1,
        had_body: false,
        last: false,
        reported: 0,
    };
    Resting {
        socket: StillSocket::Plain(socket.into().into()),
        unread: Unread::new(Bytes::new()),
        history,
        guard: ConnectionGuard::new(lane.group(), lane.index, None, place.expect("room")),
    }
}

/// A file that epoll rejects (epoll_ctl(2): `EPERM`).
fn refused() -> File {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/null");
    file.expect("a file")
}

#[tokio::test]
async fn a_lot_parks_none_for_a_while_once_the_kernel_has_refused_one() {
    let connections = connections();
    let (lane, parking_lot) = (&*connections.lane, &connections.parking_lot);
    parking_lot.open().expect("an epoll");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let socket = TcpStream::connect(address).expect("a connection");
    assert!(parking_lot.park(lane, resting(lane, socket)).is_none() && parking_lot.takes(lane));
    assert!(parking_lot.park(lane, resting(lane, refused())).is_some(), "it is given back");
    assert_eq!((parking_lot.len(), parking_lot.takes(lane)), (1, false));
    lane.clock.set(lane.clock.get() + PAUSE + Duration::from_secs(1));
    assert!(parking_lot.takes(lane));
}

#[tokio::test]
async fn a_lane_that_waits_for_its_last_connection_hears_of_one_that_cannot_go_on() {
    let connections = connections();
    let answer = |_request: Request<Incoming>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    };
    let host = Rc::new(LaneService::new(Rc::clone(&connections), tower::service_fn(answer)));
    resume(&host, resting(&connections.lane, refused()), None);
    assert!(connections.emptied.notified().now_or_never().is_some());
    assert_eq!(connections.lane.metrics().open.get(), 0);
}

/// A parking lot has one entry per connection, in a table without gaps.
#[test]
fn a_parked_connection_takes_little() {
    assert!(size_of::<Resting>() <= 120, "{}", size_of::<Resting>());
}
