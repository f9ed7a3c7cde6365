//! A lane: one thread, one event loop, its listener, its connections, its service.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use slab::Slab;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;

use crate::connection::{Connection, Due, Order, Registration};
use crate::error::Error;
use crate::http_connection::{HttpSettings, refuse, serve};
use crate::metrics::{LaneMetrics, Refusal};
use crate::reply::HttpService;
use crate::server::Builder;
use crate::settings::{Limits, Timeouts};
use crate::shared::{Phase, Shared};

/// The lane that a service is made for: passed to the closure of
/// [`Server::serve`](crate::Server::serve), once on each lane's own thread.
#[derive(Clone, Debug)]
pub struct Lane {
    pub(crate) index: usize,
    pub(crate) cpu: Option<usize>,
}

impl Lane {
    /// Index of the lane, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The CPU that the lane is pinned to; `None` when lanes are not pinned.
    pub fn cpu(&self) -> Option<usize> {
        self.cpu
    }
}

const REPLICA: HeaderName = HeaderName::from_static("corelane-replica");
const LANE: HeaderName = HeaderName::from_static("corelane-lane");

/// What belongs to one lane and never leaves its thread.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) index: usize,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    replica: Option<HeaderValue>,
    pub(crate) shared: Arc<Shared>,
    /// The server's phase as this lane has noticed it.
    pub(crate) phase: Cell<Phase>,
    pub(crate) connections: RefCell<Slab<Rc<Connection>>>,
    /// Told when the last connection closes.
    pub(crate) emptied: Notify,
    /// Told when idle connections have to go at once.
    hurry: Notify,
    /// Connections being refused at this moment.
    pub(crate) refusing: Cell<usize>,
}

impl LaneState {
    pub(crate) fn new(index: usize, settings: Builder, shared: Arc<Shared>) -> Self {
        LaneState {
            index,
            limits: settings.limits,
            timeouts: settings.timeouts,
            replica: settings.replica,
            shared,
            phase: Cell::new(Phase::Serving),
            connections: RefCell::default(),
            emptied: Notify::new(),
            hurry: Notify::new(),
            refusing: Cell::new(0),
        }
    }

    /// Names the replica and this lane in a reply.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        if let Some(replica) = &self.replica {
            headers.insert(REPLICA, replica.clone());
            headers.insert(LANE, HeaderValue::from(self.index));
        }
    }

    pub(crate) fn metrics(&self) -> &LaneMetrics {
        &self.shared.lanes[self.index].metrics
    }
}

/// Runs a lane on the calling thread until it is drained or stopped; the requests that were cut.
pub(crate) fn run<F, S>(
    lane: Lane,
    listener: TcpListener,
    state: LaneState,
    factory: &F,
) -> Result<u64, Error>
where
    F: Fn(&Lane) -> S,
    S: HttpService,
{
    if let Some(cpu) = lane.cpu {
        crate::cpu::pin_current_thread(cpu).map_err(Error::system("pinning a lane to its CPU"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name(format!("lane-{}-blocking", lane.index))
        .build_local(Default::default())
        .map_err(Error::system("starting a lane's event loop"))?;
    // The first to be set is this one: each lane has one thread.
    let _ = state.shared.lanes[lane.index].runtime.set(runtime.handle().metrics());
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)
            .map_err(Error::system("watching a listener"))?;
        let service = factory(&lane);
        let state = Rc::new(state);
        state.shared.set_listening(lane.index);
        spawn_local(sweep(Rc::clone(&state)));
        accept_until_drained(&state, listener, service).await;
        let unanswered = state.connections.borrow().iter().map(|(_, c)| c.unanswered()).sum();
        Ok(unanswered)
    })
}

async fn accept_until_drained<S: HttpService>(
    state: &Rc<LaneState>,
    listener: tokio::net::TcpListener,
    service: S,
) {
    let settings = HttpSettings::new(&state.limits);
    let mut phase = state.shared.watch_phase();
    while state.phase.get() < Phase::Closing {
        tokio::select! {
            () = next_phase(state, &mut phase) => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => admit(state, socket, &settings, &service),
                Err(error) => back_off(state, &error).await,
            },
        }
    }
    if state.phase.get() == Phase::Closing {
        if let Err(error) =
            empty_queue(listener, |socket| admit(state, socket, &settings, &service))
        {
            tracing::warn!(lane = state.index, %error, "the accept queue could not be emptied");
        }
        while !state.connections.borrow().is_empty() && state.phase.get() < Phase::Stopped {
            tokio::select! {
                () = next_phase(state, &mut phase) => {}
                () = state.emptied.notified() => {}
            }
        }
    }
}

/// Accepts what waits and closes the listener: closing resets what its queue still holds. The
/// socket is asked directly, because the event loop may not have heard of what came last.
fn empty_queue(
    listener: tokio::net::TcpListener,
    mut admit: impl FnMut(TcpStream),
) -> io::Result<()> {
    let listener = listener.into_std()?;
    loop {
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                admit(TcpStream::from_std(socket)?);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for the server to change its phase and acts on it.
async fn next_phase(state: &LaneState, phase: &mut watch::Receiver<Phase>) {
    if phase.changed().await.is_err() {
        return; // the sender lives in `shared`, which `state` holds
    }
    let now = *phase.borrow_and_update();
    state.phase.set(now);
    if now == Phase::Closing {
        state.hurry.notify_one();
    }
    for (_, connection) in state.connections.borrow().iter() {
        // HTTP/1.1 clients are told with their next reply; HTTP/2 has GOAWAY for it.
        if now == Phase::Settling && connection.is_multiplexed() {
            connection.tell(Order::Finish);
        }
    }
}

/// Takes a new connection in, or refuses it when there are too many.
fn admit<S: HttpService>(
    state: &Rc<LaneState>,
    socket: TcpStream,
    settings: &HttpSettings,
    service: &S,
) {
    state.metrics().accepted.add(1);
    if !state.shared.try_open(state.limits.connections) {
        state.metrics().refuse(Refusal::Limit);
        refuse(state, socket);
        return;
    }
    let registration = Registration::new(Rc::clone(state));
    // A reply in several writes must not wait for the acknowledgement of the first (RFC 9293
    // section 3.7.4, Nagle's algorithm). Fails only for a socket that is gone already.
    let _ = socket.set_nodelay(true);
    spawn_local(serve(Rc::clone(state), registration, socket, settings.clone(), service.clone()));
}

/// Waits a little when the system is out of files or memory: the queue is still readable, so
/// accepting again at once would spin. Other errors concern one connection (accept(2)).
async fn back_off(state: &LaneState, error: &io::Error) {
    state.metrics().refuse(Refusal::AcceptError);
    tracing::warn!(lane = state.index, %error, "accept failed");
    if error.kind() != io::ErrorKind::ConnectionAborted {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Ends connections that are overdue. One pass over all connections costs a few nanoseconds
/// each, where a timer per request would cost every request two timer operations.
async fn sweep(state: Rc<LaneState>) {
    let shortest = state.timeouts.header.min(state.timeouts.idle);
    let usual = (shortest / 4).clamp(Duration::from_millis(25), Duration::from_secs(1));
    let hurried = Duration::from_millis(10);
    loop {
        let pause = if state.phase.get() == Phase::Closing { hurried } else { usual };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Not at once: requests that wait in their sockets are read first.
            () = state.hurry.notified() => tokio::time::sleep(hurried).await,
        }
        let now = Instant::now();
        for (_, connection) in state.connections.borrow().iter() {
            let order = match connection.due(&state, now) {
                None => continue,
                Some(Due::HeaderTimeout) => {
                    state.metrics().refuse(Refusal::HeaderTimeout);
                    Order::Expire
                }
                Some(Due::IdleTimeout) => {
                    state.metrics().refuse(Refusal::IdleTimeout);
                    Order::Finish
                }
                Some(Due::Drain) => Order::Finish,
                Some(Due::Unheeded) => Order::Expire,
            };
            connection.tell(order);
        }
    }
}
