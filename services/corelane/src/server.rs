//! Building a server and running it.

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tower::Service;

use crate::body::Incoming;
use crate::control::{ServerHandle, Stop, forward_signals};
use crate::cpu::{CpuView, Lanes, Pin, plan};
use crate::error::Error;
use crate::lane::{self, Lane, LaneState};
use crate::listener::{bind, bind_lanes, raise_file_limit};
use crate::reply::BoxError;
use crate::routes::Routes;
use crate::settings::{self, Drain, Limits, Placement, Timeouts};
use crate::shared::{Phase, Shared};
use crate::{admin, control};

/// Collects the settings of a [`Server`]; made by [`Server::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    lanes: Lanes,
    pin: Pin,
    placement: Placement,
    backlog: u32,
    limits: Limits,
    timeouts: Timeouts,
    drain: Drain,
    routes: Vec<String>,
    signals: bool,
}

impl Builder {
    /// The address to serve. Default `127.0.0.1:8080`; port 0 takes a free one, which
    /// [`Server::local_addr`] tells.
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` on this address, from a thread that is never
    /// pinned. Default: no admin port.
    pub fn admin(mut self, address: SocketAddr) -> Self {
        self.admin = Some(address);
        self
    }

    /// The number of lanes. Default [`Lanes::Auto`].
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.lanes = lanes;
        self
    }

    /// Whether lanes are pinned. Default [`Pin::Auto`].
    pub fn pin(mut self, pin: Pin) -> Self {
        self.pin = pin;
        self
    }

    /// How a connection finds its lane. Default [`Placement::Hashed`].
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Length of the accept queue of each listener. Default 4,096. The kernel silently lowers it
    /// to `net.core.somaxconn` (listen(2)).
    pub fn backlog(mut self, backlog: u32) -> Self {
        self.backlog = backlog;
        self
    }

    /// What a client may ask before it is refused. See [`Limits`] for the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long a client may take. See [`Timeouts`] for the defaults.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// How the server ends. See [`Drain`] for the defaults.
    pub fn drain(mut self, drain: Drain) -> Self {
        self.drain = drain;
        self
    }

    /// The route templates that metrics name, such as `/div/{n}` or `/static/{*path}`. A path
    /// that none matches counts as `other`, as all do without this setting. At most 64.
    pub fn routes<I>(mut self, templates: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.routes = templates.into_iter().map(Into::into).collect();
        self
    }

    /// Whether SIGTERM and SIGINT begin the drain, and a second one ends the server at once.
    /// Default true. With false the program calls [`ServerHandle::drain`].
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// Checks the settings alone, whatever the machine: bounds and route templates.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its bounds, by name.
    pub fn validate(&self) -> Result<(), Error> {
        settings::check(&self.limits, &self.timeouts, &self.drain).map_err(Error::Setting)?;
        Routes::new(&self.routes).map(drop).map_err(Error::Setting)
    }

    /// Checks the settings, raises the soft limit of open files and binds all listeners. Clients
    /// may connect from here on; they are answered once [`Server::serve`] runs.
    ///
    /// # Errors
    ///
    /// A setting is out of its bounds, the CPUs do not allow the lanes, the limit of open files
    /// is too low, or an address cannot be bound.
    pub fn build(self) -> Result<Server, Error> {
        self.validate()?;
        let routes = Routes::new(&self.routes).map_err(Error::Setting)?;
        let view = CpuView::read().map_err(Error::system("reading the affinity mask"))?;
        let plan = plan(&view, self.lanes, self.pin).map_err(Error::Lanes)?;
        raise_file_limit(self.limits.connections)?;
        let Placement::Hashed = self.placement;
        let listeners = bind_lanes(self.address, self.backlog, plan.lanes.len())?;
        let admin = self.admin.map(|address| bind(address, 128, false)).transpose()?;
        let (sender, requests) = unbounded_channel();
        let handle = ServerHandle { requests: sender, shared: Shared::new(plan, routes) };
        Ok(Server { settings: self, listeners, admin, requests, handle })
    }
}

/// A server whose listeners are bound.
///
/// ```no_run
/// use corelane::{Incoming, Lanes, Server};
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use bytes::Bytes;
///
/// fn main() -> Result<(), corelane::Error> {
///     Server::builder()
///         .bind("0.0.0.0:8080".parse().expect("an address"))
///         .lanes(Lanes::Auto)
///         .build()?
///         .serve(|lane| {
///             let text = format!("hello from lane {}\n", lane.index());
///             tower::service_fn(move |_request: Request<Incoming>| {
///                 let reply = Response::new(Full::<Bytes>::from(text.clone()));
///                 async move { Ok::<_, std::convert::Infallible>(reply) }
///             })
///         })?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Server {
    settings: Builder,
    listeners: Vec<TcpListener>,
    admin: Option<TcpListener>,
    requests: UnboundedReceiver<Stop>,
    handle: ServerHandle,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Requests that were still in flight when the deadline or a second signal came. They were
    /// cut; 0 is a clean end.
    pub cut: u64,
}

impl Server {
    /// A builder with all defaults.
    pub fn builder() -> Builder {
        Builder {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin: None,
            lanes: Lanes::default(),
            pin: Pin::default(),
            placement: Placement::default(),
            backlog: 4096,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            drain: Drain::default(),
            routes: Vec::new(),
            signals: true,
        }
    }

    /// The address that is served.
    ///
    /// # Errors
    ///
    /// The system cannot tell it.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        let read = Error::system("reading a listener's address");
        self.listeners[0].local_addr().map_err(read)
    }

    /// The address of the admin port, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// A handle to drain the server from another thread.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Serves until the drain has ended; blocks the calling thread.
    ///
    /// `factory` is called once on each lane's thread, so the service it makes need not be `Send`
    /// and may hold `Rc` and `RefCell`. A clone of the service handles each connection, and a
    /// clone of that each request. A handler that panics is answered 500, and the lane lives on.
    ///
    /// # Errors
    ///
    /// A thread or an event loop cannot be started, or a lane ended by itself.
    pub fn serve<F, S, B>(self, factory: F) -> Result<Drained, Error>
    where
        F: Fn(&Lane) -> S + Send + Sync + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + 'static,
        S::Error: Into<BoxError>,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        self.log_start();
        let shared = Arc::clone(&self.handle.shared);
        let (events, inbox) = mpsc::channel();
        let factory = Arc::new(factory);
        for (index, listener) in self.listeners.into_iter().enumerate() {
            let lane = Lane { index, cpu: shared.plan.lanes[index] };
            let (limits, timeouts) = (self.settings.limits.clone(), self.settings.timeouts.clone());
            let (shared, factory) = (Arc::clone(&shared), Arc::clone(&factory));
            spawn(format!("lane-{index}"), &events, move || {
                lane::run(
                    lane,
                    listener,
                    LaneState::new(index, limits, timeouts, shared),
                    &*factory,
                )
            })?;
        }
        let (finish, finished) = oneshot::channel();
        let controller = Controller {
            shared: Arc::clone(&shared),
            drain: self.settings.drain,
            admin: self.admin,
            signals: self.settings.signals.then(|| self.handle.requests.clone()),
            requests: self.requests,
            finished,
            events: events.clone(),
        };
        let controller = spawn(CONTROLLER.to_owned(), &events, move || controller.run())?;
        let outcome = wait_for_end(&inbox, &shared);
        // It has ended already if it was what ended the lanes.
        let _ = finish.send(());
        let _ = controller.join();
        outcome
    }

    fn log_start(&self) {
        let shared = &self.handle.shared;
        if let Some(reason) = &shared.plan.unpinned_because {
            tracing::warn!(reason, "lanes are not pinned");
        }
        let address = self.listeners[0].local_addr().ok();
        tracing::info!(
            address = address.map(tracing::field::display),
            admin = self.admin_addr().map(tracing::field::display),
            lanes = shared.plan.lanes.len(),
            cpus = ?shared.plan.lanes.iter().flatten().collect::<Vec<_>>(),
            "listening"
        );
    }
}

/// Name of the thread beside the lanes.
const CONTROLLER: &str = "admin";

/// What the threads of a server tell the one that called [`Server::serve`].
enum Event {
    /// The thread of this name ended; without a result it panicked.
    Ended { name: String, result: Option<Result<(), Error>> },
    /// The drain was cut short; this many requests were in flight.
    Cut(u64),
}

/// Reports the end of a thread when dropped, so that a panic is reported too.
struct Ended {
    name: String,
    result: Option<Result<(), Error>>,
    events: mpsc::Sender<Event>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let (name, result) = (std::mem::take(&mut self.name), self.result.take());
        // Nobody listens any more when `serve` has returned.
        let _ = self.events.send(Event::Ended { name, result });
    }
}

/// Starts a thread whose end is reported.
fn spawn(
    name: String,
    events: &mpsc::Sender<Event>,
    run: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<thread::JoinHandle<()>, Error> {
    let mut ended = Ended { name: name.clone(), result: None, events: events.clone() };
    thread::Builder::new()
        .name(name)
        .spawn(move || {
            let ended = &mut ended;
            ended.result = Some(run());
        })
        .map_err(Error::system("starting a thread"))
}

/// How long lanes may take to stop once they are told; a handler that blocks its lane is left.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Waits until every lane has ended, or the rest had to be cut.
fn wait_for_end(inbox: &mpsc::Receiver<Event>, shared: &Shared) -> Result<Drained, Error> {
    let mut running = shared.lanes.len();
    let mut cut = None;
    let mut failure = None;
    while running > 0 {
        let stopping = cut.is_some() || failure.is_some();
        let event = match stopping {
            true => inbox.recv_timeout(STOP_GRACE).ok(),
            false => inbox.recv().ok(),
        };
        match event {
            Some(Event::Cut(n)) => cut = Some(n),
            Some(Event::Ended { name, result }) => {
                let is_lane = name != CONTROLLER;
                running -= usize::from(is_lane);
                match result.unwrap_or(Err(Error::ThreadEnded { name })) {
                    Ok(()) => {}
                    Err(error) => {
                        failure.get_or_insert(error);
                        shared.advance(Phase::Stopped);
                    }
                }
            }
            None => break,
        }
    }
    shared.advance(Phase::Stopped);
    if let Some(error) = failure {
        return Err(error);
    }
    let cut = cut.unwrap_or(0);
    tracing::info!(cut, "drain: ended");
    Ok(Drained { cut })
}

/// The unpinned thread beside the lanes: admin port, signals, drain.
struct Controller {
    shared: Arc<Shared>,
    drain: Drain,
    admin: Option<TcpListener>,
    signals: Option<UnboundedSender<Stop>>,
    requests: UnboundedReceiver<Stop>,
    finished: oneshot::Receiver<()>,
    events: mpsc::Sender<Event>,
}

impl Controller {
    fn run(self) -> Result<(), Error> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default())
            .and_then(|runtime| runtime.block_on(self.control()))
            .map_err(Error::system("running the admin port or signals"))
    }

    async fn control(self) -> std::io::Result<()> {
        let admin = async {
            match self.admin {
                Some(listener) => admin::run(listener, Arc::clone(&self.shared)).await,
                None => pending().await,
            }
        };
        let signals = async {
            match self.signals {
                Some(requests) => forward_signals(requests).await,
                None => pending().await,
            }
        };
        let drain = async {
            let cut = control::run(&self.shared, &self.drain, self.requests).await;
            // Told first: the lanes end as soon as the phase changes.
            let _ = self.events.send(Event::Cut(cut));
            self.shared.advance(Phase::Stopped);
            pending::<()>().await;
        };
        tokio::select! {
            result = admin => result,
            result = signals => result,
            () = drain => Ok(()),
            _ = self.finished => Ok(()),
        }
    }
}
