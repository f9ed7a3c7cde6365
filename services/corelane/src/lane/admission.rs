//! Admits connections to a lane, and follows the phases of the server.

use std::cell::Cell;
use std::rc::Rc;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;

use crate::base::phase::{Lifecycle, Phase};
use crate::load::assignment::Assignment;
use crate::message::problem::Problem;
use crate::metrics::Refusal;
use crate::os::listener::REFUSING;
use crate::request::connection::Order;
use crate::request::service::HttpService;
use crate::transport::connections::Connections;
use crate::transport::connections::Registration;
use crate::transport::final_response::dismiss;
use crate::transport::host::LaneService;
use crate::transport::open::serve;

/// Admits connections to a lane.
pub(crate) struct Admission<S: HttpService> {
    pub(crate) connections: Rc<Connections>,
    host: Rc<LaneService<S>>,
    /// Connections that are being rejected now.
    refusing: Rc<Cell<usize>>,
}

impl<S: HttpService> Admission<S> {
    pub(crate) fn new(host: Rc<LaneService<S>>) -> Self {
        Admission { connections: Rc::clone(&host.connections), host, refusing: Rc::default() }
    }

    /// Admits a connection, or rejects it if there are too many.
    pub(crate) fn admit(&self, socket: TcpStream) {
        let lane = &self.connections.lane;
        lane.metrics().accepted.add(1);
        if lane.group().try_open(lane.limits.connections) {
            self.serve(socket, None);
        } else {
            self.refuse(socket);
        }
    }

    /// Rejects a connection above the limit: answers 503 and closes it.
    pub(crate) fn refuse(&self, socket: TcpStream) {
        let Connections { lane, tls, .. } = &*self.connections;
        lane.metrics().refuse(Refusal::Limit);
        // A reply would require a TLS handshake, whose cost the limit avoids.
        if tls.is_some() || self.refusing.get() >= REFUSING {
            return;
        }
        self.refusing.set(self.refusing.get() + 1);
        let (lane, refusing) = (Rc::clone(lane), Rc::clone(&self.refusing));
        spawn_local(async move {
            let problem = Problem::from(StatusCode::SERVICE_UNAVAILABLE)
                .header(RETRY_AFTER, HeaderValue::from_static("1"));
            dismiss(&lane, socket, problem).await;
            refusing.set(refusing.get() - 1);
        });
    }

    /// Serves an admitted connection.
    pub(crate) fn serve(&self, socket: TcpStream, assignment: Option<Assignment>) {
        let registration = Registration::new(&self.connections, assignment);
        // With Nagle's algorithm, a reply in several writes would wait for the acknowledgement of
        // the first (RFC 9293 section 3.7.4). Fails only if the socket is closed.
        let _ = socket.set_nodelay(true);
        spawn_local(serve(Rc::clone(&self.host), registration, socket));
    }
}

/// Follows the phases of the server on a lane.
#[derive(Debug)]
pub(crate) struct PhaseWatch {
    phase: watch::Receiver<Phase>,
    connections: Rc<Connections>,
    /// Notified when idle connections must end at once.
    hurry: Rc<Notify>,
}

impl PhaseWatch {
    pub(crate) fn new(
        lifecycle: &Lifecycle,
        connections: Rc<Connections>,
        hurry: Rc<Notify>,
    ) -> Self {
        let mut phase = lifecycle.watch();
        // A drain may have started before this lane did.
        phase.mark_changed();
        PhaseWatch { phase, connections, hurry }
    }

    /// The phase that the lane has acted on.
    pub(crate) fn seen(&self) -> Phase {
        self.connections.lane.phase.get()
    }

    /// The current phase of the server.
    pub(crate) fn current(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits for the server to change its phase and acts on it.
    pub(crate) async fn next(&mut self) {
        if self.phase.changed().await.is_err() {
            return; // the sender lives for as long as the lanes
        }
        let now = *self.phase.borrow_and_update();
        self.connections.lane.phase.set(now);
        if now == Phase::Closing {
            self.hurry.notify_one();
        }
        for (_, connection) in self.connections.open.borrow().iter() {
            // HTTP/1.1 clients are notified by their next reply, HTTP/2 clients by GOAWAY.
            if now == Phase::Settling && connection.is_multiplexed() {
                connection.tell(Order::Finish);
            }
        }
    }
}
