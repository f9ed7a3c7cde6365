//! Accepts the connections of a lane until it is drained.

use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::{spawn_local, yield_now};

use super::back_off::BackOff;
use crate::lane::{Admission, LaneState, next_phase};
use crate::listener::accept_now;
use crate::metrics::Refusal;
use crate::phase::Phase;
use crate::service::HttpService;

/// How long a lane with more connections leaves the common listener to the others.
const GIVE_WAY: Duration = Duration::from_millis(1);

/// The source of a lane's connections.
#[derive(Debug)]
pub(crate) enum Source {
    /// The lane's own listener.
    Own(TcpListener),
    /// A second descriptor of the common listener.
    Common(TcpListener),
    /// The inbox that the acceptor fills.
    Inbox,
}

/// A source that is registered with the lane's event loop.
#[derive(Debug)]
pub(crate) enum Watched {
    Listener {
        listener: tokio::net::TcpListener,
        /// Whether other lanes accept from it too.
        common: bool,
    },
    Inbox,
}

impl Source {
    /// Registers the source with the event loop of the calling thread.
    pub(crate) fn watch(self) -> io::Result<Watched> {
        let (listener, common) = match self {
            Source::Own(listener) => (listener, false),
            Source::Common(listener) => (listener, true),
            Source::Inbox => return Ok(Watched::Inbox),
        };
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(Watched::Listener { listener, common })
    }
}

/// Admits connections until the server closes, and then those that are already queued.
pub(crate) async fn accept_until_drained<S: HttpService>(admission: Admission<S>, source: Watched) {
    let state = Rc::clone(&admission.state);
    let mut phase = state.shared.watch_phase();
    // A drain may have started before this lane did.
    phase.mark_changed();
    match source {
        Watched::Listener { listener, common } => {
            let gate = Gate { admission, common };
            gate.accept_until_closing(&listener, &mut phase).await;
            if state.phase.get() == Phase::Closing {
                gate.empty_queue(listener).await;
            }
            finish_connections(&state, &mut phase).await;
        }
        Watched::Inbox => {
            let Some(inboxes) = &state.shared.inboxes else { return };
            let mut finished = inboxes.watch_finished();
            spawn_local(empty_inbox(admission));
            while !*finished.borrow_and_update() && state.phase.get() < Phase::Stopped {
                tokio::select! {
                    () = next_phase(&state, &mut phase) => {}
                    _ = finished.changed() => {}
                }
            }
            finish_connections(&state, &mut phase).await;
        }
    }
}

/// Waits until the last connection has closed.
async fn finish_connections(state: &LaneState, phase: &mut watch::Receiver<Phase>) {
    let mailbox = &state.shared().mailbox;
    while state.phase.get() < Phase::Stopped {
        if !state.is_empty() {
            tokio::select! {
                () = next_phase(state, phase) => {}
                () = state.emptied.notified() => {}
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

/// Admits connections from the lane's inbox, and those that it may steal.
async fn empty_inbox<S: HttpService>(admission: Admission<S>) {
    let state = &admission.state;
    let Some(inboxes) = &state.shared.inboxes else { return };
    loop {
        while let Some(taken) = inboxes.take(&state.shared, state.index) {
            state.metrics().accepted.add(1);
            match TcpStream::from_std(taken.socket) {
                Ok(socket) => match taken.place {
                    Some(place) => admission.serve(socket, Some(place)),
                    None => admission.refuse(socket),
                },
                Err(error) => {
                    tracing::warn!(lane = state.index, %error, "cannot poll a connection");
                    state.metrics().refuse(Refusal::AcceptError);
                    if taken.place.is_some() {
                        state.shared.close();
                    }
                }
            }
            // One per turn of the event loop, so that idle lanes can steal the others.
            yield_now().await;
        }
        inboxes.lanes[state.index].wake.notified().await;
    }
}

/// Admits connections of a listener.
struct Gate<S: HttpService> {
    admission: Admission<S>,
    common: bool,
}

impl<S: HttpService> Gate<S> {
    async fn accept_until_closing(
        &self,
        listener: &tokio::net::TcpListener,
        phase: &mut watch::Receiver<Phase>,
    ) {
        let state = &self.admission.state;
        let mut back_off = BackOff::default();
        while state.phase.get() < Phase::Closing {
            tokio::select! {
                biased;
                () = next_phase(state, phase) => {}
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => {
                        back_off.accepted();
                        self.admit(socket).await;
                    }
                    Err(error) => self.rest(&mut back_off, &error).await,
                },
            }
        }
    }

    /// Accepts all queued connections and closes the listener. Closing resets those that are left.
    async fn empty_queue(&self, listener: tokio::net::TcpListener) {
        let state = &self.admission.state;
        let mut back_off = BackOff::default();
        while state.shared.phase() < Phase::Stopped {
            match accept_now(&listener).and_then(TcpStream::from_std) {
                Ok(socket) => self.admit(socket).await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.rest(&mut back_off, &error).await,
            }
        }
    }

    async fn admit(&self, socket: TcpStream) {
        self.admission.admit(socket);
        if self.common {
            // One per turn of the event loop, so that no lane takes a whole burst.
            yield_now().await;
            if self.admission.state.phase.get() < Phase::Closing && self.is_ahead() {
                tokio::time::sleep(GIVE_WAY).await;
            }
        }
    }

    /// Whether this lane has clearly more connections than another that has time. All lanes wake
    /// for the same event, so the first to wake would accept every long-lived connection.
    fn is_ahead(&self) -> bool {
        let (state, now) = (&self.admission.state, Instant::now());
        let others = state.shared.lanes.iter().enumerate().filter(|(index, lane)| {
            *index != state.index && lane.is_listening() && lane.running.get(now).is_none()
        });
        let least = others.map(|(_, lane)| lane.metrics.open.get()).min();
        least.is_some_and(|least| state.metrics().open.get() > least + 1 + least / 8)
    }

    async fn rest(&self, back_off: &mut BackOff, error: &io::Error) {
        self.admission.state.metrics().refuse(Refusal::AcceptError);
        if let Some(pause) = back_off.failed(error) {
            tokio::time::sleep(pause).await;
        }
    }
}
