//! Starts, parks, moves or resumes a waiting connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;

use bytes::Bytes;
use tokio::task::spawn_local;

use super::Plain;
use crate::os::socket::{Socket, StillSocket};
use crate::request::connection::{Order, ServedBy};
use crate::request::service::HttpService;
use crate::transport::connections::Registration;
use crate::transport::host::LaneService;
use crate::transport::resting::{Leave, Resting};

/// Serves an HTTP/1.1 connection between requests. `unread` was already read from the socket.
pub(crate) fn go_on<S: HttpService>(
    host: &Rc<LaneService<S>>,
    registration: Registration,
    socket: Socket,
    unread: Bytes,
) {
    if host.connections.plain_requests {
        registration.connection.set_served_by(ServedBy::PlainPath);
        spawn_local(Plain::new(Rc::clone(host), registration, socket, unread));
    } else {
        host.fall_back(registration, socket, unread);
    }
}

/// Parks or moves an idle connection that has left its task. `unread` was read from the socket and
/// starts with a message.
pub(super) fn leave<S: HttpService>(
    host: &Rc<LaneService<S>>,
    registration: Registration,
    mut socket: Socket,
    unread: Bytes,
    to: Leave,
) {
    #[cfg(feature = "chaos")]
    let unread = match &host.connections.chaos {
        Some(chaos) => chaos.unread(unread),
        None => unread,
    };
    if to == Leave::Return {
        return registration.give_back(unread);
    }
    if !socket.is_quiet() {
        registration.connection.stay();
        return go_on(host, registration, socket, unread);
    }
    let Some((history, guard)) = registration.leave() else { return };
    let resting = match Resting::new(history, guard, socket, unread) {
        Ok(resting) => resting,
        Err(error) => {
            tracing::warn!(lane = host.lane.index, %error, "cannot move a connection to another lane");
            return;
        }
    };
    let stays = match to {
        Leave::Park => host.connections.parking_lot.park(&host.lane, resting),
        Leave::Move { lane, why } => host.connections.moves.depart(resting, lane, why).err(),
        Leave::Return => None,
    };
    if let Some(resting) = stays {
        resume(host, resting, None);
    }
}

/// Resumes a connection on the calling lane, which first carries out `order`, if any.
pub(crate) fn resume<S: HttpService>(
    host: &Rc<LaneService<S>>,
    resting: Resting,
    order: Option<Order>,
) {
    let Resting { socket, unread, history, guard } = resting;
    let Some((peer, descriptor, socket)) = wake(host, socket) else {
        drop(guard);
        return host.connections.lost_one();
    };
    let registration = Registration::resume(&host.connections, guard, history, peer, descriptor);
    if let Some(order) = order {
        registration.connection.tell(order);
    }
    go_on(host, registration, socket, unread.into_bytes());
}

/// Registers a socket with the lane's event loop. Returns the socket with its peer address and
/// descriptor, or `None` if it is unusable.
pub(crate) fn wake<S: HttpService>(
    host: &LaneService<S>,
    socket: StillSocket,
) -> Option<(Option<SocketAddr>, RawFd, Socket)> {
    let descriptor = socket.as_fd().as_raw_fd();
    // This system call costs less than storing the peer address of every resting connection.
    match socket.peer().and_then(|peer| Ok((peer, descriptor, socket.wake()?))) {
        Ok(woken) => Some(woken),
        // This means that the client has reset the connection since the lane last checked it.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
        Err(error) => {
            tracing::warn!(lane = host.lane.index, %error, "cannot poll a connection");
            None
        }
    }
}
