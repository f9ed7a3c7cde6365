//! How connections come to a lane, until it is drained.

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
use crate::reply::HttpService;
use crate::shared::Phase;

/// How long a lane that is ahead leaves the common listener to the others.
const GIVE_WAY: Duration = Duration::from_millis(1);

/// Where a lane's connections come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A listener of its own.
    Own(TcpListener),
    /// A second descriptor of the listener of all lanes.
    Common(TcpListener),
    /// The inbox that the acceptor fills.
    Inbox,
}

/// A source that the lane's event loop watches.
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
    /// Has the event loop of the calling thread watch the source.
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

/// Takes connections in until the server closes, and then what has already come.
pub(crate) async fn accept_until_drained<S: HttpService>(admission: Admission<S>, source: Watched) {
    let state = Rc::clone(&admission.state);
    let mut phase = state.shared.watch_phase();
    // A drain may have begun before this lane did.
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
            // What other lanes left here is taken in now.
            yield_now().await;
        }
    }
    mailbox.abandon();
}

/// Takes what comes into the lane's inbox, and what it may steal from others.
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
            // One in each turn of the event loop: idle lanes may take what is not begun.
            yield_now().await;
        }
        inboxes.lanes[state.index].wake.notified().await;
    }
}

/// Lets connections of a listener in.
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

    /// Accepts what waits and closes the listener: closing resets what its queue still holds.
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
            // One in each turn of the event loop, so that no lane takes a burst alone.
            yield_now().await;
            if self.admission.state.phase.get() < Phase::Closing && self.is_ahead() {
                tokio::time::sleep(GIVE_WAY).await;
            }
        }
    }

    /// Whether this lane has clearly more connections than another that has time for one. The
    /// same event wakes all lanes, so the first to wake would take every connection that stays.
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
