//! Accepts or receives a lane's connections, and admits them until the lane is drained.

use std::io;
use std::net;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::{spawn_local, yield_now};

use crate::balance::assignment::Assignment;
use crate::balance::inbox::Inboxes;
use crate::balance::mailbox::Mailbox;
use crate::balance::settings::Placement;
use crate::base::phase::{Lifecycle, Phase};
use crate::base::tally::Tally;
use crate::load::peers::PeerPlace;
use crate::message::problem::Problem;
use crate::metrics::Refusal;
use crate::os::listener::{Accepted, BackOff, Listener, Listeners, Port, REFUSING};
use crate::request::client::{Client, Introduced};
use crate::request::connection::Order;
use crate::request::lane_state::LaneState;
use crate::request::service::HttpService;
use crate::transport::connections::{Connections, Registration};
use crate::transport::final_response::dismiss;
use crate::transport::host::LaneService;
use crate::transport::open::serve;
use crate::transport::resting::Resting;

/// Time that a lane with more connections leaves the common listener to other lanes.
const GIVE_WAY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) enum ConnectionSource {
    /// The lane's own listeners, and duplicates of shared listeners.
    Listeners(Vec<Listener>),
    Inbox(Arc<Inboxes>),
}

#[derive(Debug)]
pub(crate) enum WatchedSource {
    Listeners(Listeners),
    Inbox(Arc<Inboxes>),
}

impl ConnectionSource {
    pub(crate) fn watch(self) -> io::Result<WatchedSource> {
        Ok(match self {
            ConnectionSource::Listeners(listeners) => {
                WatchedSource::Listeners(Listeners::watch(listeners)?)
            }
            ConnectionSource::Inbox(inboxes) => WatchedSource::Inbox(inboxes),
        })
    }
}

/// Admits connections until the server closes, then drains the accept queue.
pub(crate) async fn accept_until_drained<S: HttpService>(
    admission: Admitter<S>,
    source: WatchedSource,
    mut phase: PhaseWatch,
    mailbox: &Mailbox<Resting>,
) {
    let connections = Rc::clone(&admission.connections);
    match source {
        WatchedSource::Listeners(listeners) => {
            let gate = Gate { admission };
            gate.accept_until_closing(&listeners, &mut phase).await;
            if connections.lane.phase.get() == Phase::Closing {
                gate.empty_queues(listeners, &phase).await;
            }
        }
        WatchedSource::Inbox(inboxes) => {
            let mut finished = inboxes.watch_finished();
            spawn_local(empty_inbox(admission, inboxes));
            while !*finished.borrow_and_update() && phase.seen() < Phase::Stopped {
                tokio::select! {
                    () = phase.next() => {}
                    _ = finished.changed() => {}
                }
            }
        }
    }
    finish_connections(&connections, &mut phase, mailbox).await;
}

/// Waits until the last connection has closed.
async fn finish_connections(
    connections: &Connections,
    phase: &mut PhaseWatch,
    mailbox: &Mailbox<Resting>,
) {
    while phase.seen() < Phase::Stopped {
        if !connections.is_empty() {
            tokio::select! {
                () = phase.next() => {}
                () = connections.emptied.notified() => {}
            }
        } else if mailbox.close() {
            return;
        } else {
            // Connections that other lanes sent here are admitted now.
            yield_now().await;
        }
    }
    mailbox.abandon();
}

/// Admits connections from the lane's inbox, and connections that the lane may steal.
async fn empty_inbox<S: HttpService>(admission: Admitter<S>, inboxes: Arc<Inboxes>) {
    let lane = &admission.connections.lane;
    loop {
        while let Some(received) = inboxes.take(lane.group(), lane.index) {
            lane.metrics().accepted.add(1);
            match received.admitted {
                Ok((assignment, place)) => {
                    admission.serve(received.accepted, Some(assignment), place);
                }
                Err(reason) => admission.refuse(received.accepted, reason),
            }
            // The lane admits one connection per event-loop turn, so that idle lanes can steal the
            // rest.
            yield_now().await;
        }
        inboxes.lanes[lane.index].wake.notified().await;
    }
}

struct Gate<S: HttpService> {
    admission: Admitter<S>,
}

impl<S: HttpService> Gate<S> {
    fn lane(&self) -> &LaneState {
        &self.admission.connections.lane
    }

    async fn accept_until_closing(&self, listeners: &Listeners, phase: &mut PhaseWatch) {
        let mut back_off = BackOff::default();
        while phase.seen() < Phase::Closing {
            tokio::select! {
                biased;
                () = phase.next() => {}
                accepted = listeners.accept() => match accepted {
                    Ok(accepted) => {
                        back_off.accepted();
                        self.admit(accepted).await;
                    }
                    Err(error) => self.rest(&mut back_off, &error).await,
                },
            }
        }
    }

    /// Accepts all queued connections and closes the listeners, which resets any connection still
    /// queued.
    async fn empty_queues(&self, listeners: Listeners, phase: &PhaseWatch) {
        let mut back_off = BackOff::default();
        while phase.current() < Phase::Stopped {
            match listeners.accept_now() {
                Some(Ok(accepted)) => self.admit(accepted).await,
                Some(Err(error)) => self.rest(&mut back_off, &error).await,
                None => return,
            }
        }
    }

    async fn admit(&self, accepted: Accepted) {
        let common = accepted.common;
        self.admission.admit(accepted);
        if common {
            // The lane admits one connection per event-loop turn, so that no lane takes an entire
            // burst.
            yield_now().await;
            if self.lane().phase.get() < Phase::Closing && self.is_ahead() {
                tokio::time::sleep(GIVE_WAY).await;
            }
        }
    }

    /// Whether this lane has clearly more connections than another lane that has time to spare. All
    /// lanes wake up for the same event, and the first lane would otherwise accept every long-lived
    /// connection.
    fn is_ahead(&self) -> bool {
        let (own, now) = (self.lane(), Instant::now());
        let others = own.group().iter().enumerate().filter(|(index, lane)| {
            *index != own.index && lane.is_listening() && lane.running.get(now).is_none()
        });
        let least = others.map(|(_, lane)| lane.metrics.open.get()).min();
        least.is_some_and(|least| own.metrics().open.get() > least + 1 + least / 8)
    }

    async fn rest(&self, back_off: &mut BackOff, error: &io::Error) {
        self.lane().metrics().refuse(Refusal::AcceptError);
        if let Some(pause) = back_off.failed(error) {
            tokio::time::sleep(pause).await;
        }
    }
}

pub(crate) fn listeners(placement: Placement, lanes: usize) -> usize {
    match placement {
        Placement::Hashed => lanes,
        Placement::LeastLoaded => 1,
    }
}

/// Connection source of each lane, and the acceptor's listeners. The server has an acceptor if
/// there are `inboxes` to fill.
pub(crate) fn sources(
    inboxes: Option<&Arc<Inboxes>>,
    ports: Vec<Port>,
    lanes: usize,
) -> io::Result<(Vec<ConnectionSource>, Vec<Listener>)> {
    let mut of_lanes: Vec<_> = (0..lanes).map(|_| Vec::new()).collect();
    let mut of_acceptor = Vec::new();
    for port in ports {
        let proxied = port.listen.proxy_protocol;
        let own = |socket| Listener { socket, proxied, common: false };
        if inboxes.is_some() {
            of_acceptor.extend(port.sockets.into_iter().map(own));
        } else if port.sockets.len() == lanes {
            let each = of_lanes.iter_mut().zip(port.sockets);
            each.for_each(|(lane, socket)| lane.push(own(socket)));
        } else {
            for lane in &mut of_lanes {
                let socket = port.sockets[0].try_clone()?;
                lane.push(Listener { socket, proxied, common: true });
            }
        }
    }
    let sources = match inboxes {
        Some(inboxes) => (0..lanes).map(|_| ConnectionSource::Inbox(Arc::clone(inboxes))).collect(),
        None => of_lanes.into_iter().map(ConnectionSource::Listeners).collect(),
    };
    Ok((sources, of_acceptor))
}

pub(crate) struct Admitter<S: HttpService> {
    pub(crate) connections: Rc<Connections>,
    host: Rc<LaneService<S>>,
    refusing: Rc<Tally>,
}

impl<S: HttpService> Admitter<S> {
    pub(crate) fn new(host: Rc<LaneService<S>>) -> Self {
        Admitter { connections: Rc::clone(&host.connections), host, refusing: Rc::default() }
    }

    pub(crate) fn admit(&self, accepted: Accepted) {
        let lane = &self.connections.lane;
        lane.metrics().accepted.add(1);
        match lane.group().admit(lane.limits.connections, accepted.peer) {
            Ok(place) => self.serve(accepted, None, place),
            Err(reason) => self.refuse(accepted, reason),
        }
    }

    /// Rejects a connection above a limit with 503 and closes it.
    pub(crate) fn refuse(&self, accepted: Accepted, reason: Refusal) {
        let Connections { lane, tls, .. } = &*self.connections;
        lane.metrics().refuse(reason);
        // A response would need a TLS handshake, and the limit exists to avoid such costs.
        if tls.is_some() || self.refusing.get() >= REFUSING {
            return;
        }
        let Some(socket) = self.watch(accepted.socket) else { return };
        self.refusing.add(1);
        let (lane, refusing) = (Rc::clone(lane), Rc::clone(&self.refusing));
        spawn_local(async move {
            let problem = Problem::from(StatusCode::SERVICE_UNAVAILABLE)
                .header(RETRY_AFTER, HeaderValue::from_static("1"));
            dismiss(&lane, socket, lane.not_started(problem)).await;
            refusing.sub(1);
        });
    }

    pub(crate) fn serve(
        &self,
        accepted: Accepted,
        assignment: Option<Assignment>,
        place: PeerPlace,
    ) {
        let Accepted { socket, peer, proxied, .. } = accepted;
        let client = Client::new(peer, Introduced::default(), socket.as_raw_fd());
        let registration = Registration::new(&self.connections, client, assignment, place);
        let Some(socket) = self.watch(socket) else { return };
        // The call fails for closed sockets and Unix sockets. With Nagle's algorithm, a response in
        // several writes would wait for the acknowledgement of the first write (RFC 9293 section
        // 3.7.4).
        let _ = socket.set_nodelay(true);
        spawn_local(serve(Rc::clone(&self.host), registration, socket, proxied));
    }

    fn watch(&self, socket: net::TcpStream) -> Option<TcpStream> {
        let lane = &self.connections.lane;
        let failed = |error: &io::Error| {
            tracing::warn!(lane = lane.index, %error, "cannot poll a connection");
            lane.metrics().refuse(Refusal::AcceptError);
        };
        TcpStream::from_std(socket).inspect_err(failed).ok()
    }
}

#[derive(Debug)]
pub(crate) struct PhaseWatch {
    phase: watch::Receiver<Phase>,
    connections: Rc<Connections>,
    /// Notified when idle connections must close at once.
    hurry: Rc<Notify>,
}

impl PhaseWatch {
    pub(crate) fn new(
        lifecycle: &Lifecycle,
        connections: Rc<Connections>,
        hurry: Rc<Notify>,
    ) -> Self {
        let mut phase = lifecycle.watch();
        // A drain may have started before this lane.
        phase.mark_changed();
        PhaseWatch { phase, connections, hurry }
    }

    pub(crate) fn seen(&self) -> Phase {
        self.connections.lane.phase.get()
    }

    pub(crate) fn current(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) async fn next(&mut self) {
        if self.phase.changed().await.is_err() {
            return; // the sender outlives the lanes
        }
        let now = *self.phase.borrow_and_update();
        self.connections.lane.phase.set(now);
        if now == Phase::Closing {
            self.hurry.notify_one();
        }
        for (_, connection) in self.connections.open.borrow().iter() {
            // HTTP/1.1 clients learn about the drain from their next response, and HTTP/2 clients
            // from GOAWAY.
            if now == Phase::Settling && connection.is_multiplexed() {
                connection.tell(Order::Finish);
            }
        }
    }
}
