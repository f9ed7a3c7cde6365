//! Tests of connections that the kernel does not accept into an epoll.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::Full;

use super::parking_lot::PAUSE;
use super::resting::Unread;
use super::*;
use crate::body::Incoming;
use crate::lane::LaneState;
use crate::server::Server;
use crate::socket::StillSocket;

fn lane() -> Rc<LaneState> {
    let server = Server::builder().bind(([127, 0, 0, 1], 0).into()).build().expect("a server");
    let shared = server.handle().shared;
    Rc::new(LaneState::new(0, server.settings.clone(), shared))
}

fn resting(lane: &LaneState, socket: impl Into<OwnedFd>) -> Resting {
    assert!(lane.shared.try_open(10));
    let history = History {
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
        guard: ConnectionGuard::new(&lane.shared, lane.index, None),
    }
}

/// A file that epoll does not accept (epoll_ctl(2): `EPERM`).
fn refused() -> File {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/null");
    file.expect("a file")
}

#[tokio::test]
async fn a_lot_parks_none_for_a_while_once_the_kernel_has_refused_one() {
    let lane = lane();
    lane.parking_lot.open().expect("an epoll");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let socket = TcpStream::connect(address).expect("a connection");
    assert!(
        lane.parking_lot.park(&lane, resting(&lane, socket)).is_none()
            && lane.parking_lot.takes(&lane)
    );
    assert!(lane.parking_lot.park(&lane, resting(&lane, refused())).is_some(), "it is given back");
    assert_eq!((lane.parking_lot.len(), lane.parking_lot.takes(&lane)), (1, false));
    lane.clock.set(lane.clock.get() + PAUSE + Duration::from_secs(1));
    assert!(lane.parking_lot.takes(&lane));
}

#[tokio::test]
async fn a_lane_that_waits_for_its_last_connection_hears_of_one_that_cannot_go_on() {
    let lane = lane();
    let answer = |_request: Request<Incoming>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    };
    let host = Rc::new(LaneService::new(Rc::clone(&lane), tower::service_fn(answer)));
    resting(&lane, refused()).resume(&host, None);
    assert!(lane.emptied.notified().now_or_never().is_some());
    assert_eq!(lane.metrics().open.get(), 0);
}

/// A parking lot has one entry per connection, in a table without gaps.
#[test]
fn a_parked_connection_takes_little() {
    assert!(size_of::<Resting>() <= 104, "{}", size_of::<Resting>());
}
