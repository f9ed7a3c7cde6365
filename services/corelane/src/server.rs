//! Building a server and running it.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tower::Service;

use crate::body::Incoming;
use crate::control::{Controller, ServerHandle, Stop};
use crate::cpu::{CpuView, Cpus, Lanes, MAX_LANES, Pin, plan};
use crate::error::Error;
use crate::lane::{self, Lane, LaneState};
use crate::listener::{MAX_BACKLOG, bind, bind_lanes, raise_file_limit};
use crate::load_report::LoadReports;
use crate::placement::{self, Acceptor};
use crate::reply::{BoxError, HttpService};
use crate::routes::Routes;
use crate::settings::{self, Drain, Limits, Placement, Timeouts};
use crate::shared::{Phase, Shared};
use crate::threads::{Thread, spawn, wait_for_end};
use crate::tls::{Termination, Tls, Watch};

/// Collects the settings of a [`Server`]; made by [`Server::builder`].
///
/// ```
/// use std::time::Duration;
///
/// use corelane::{Lanes, Limits, Placement, Server, Timeouts};
///
/// let builder = Server::builder()
///     .bind("127.0.0.1:0".parse().unwrap())
///     .lanes(Lanes::Count(2))
///     .placement(Placement::LeastLoaded)
///     .limits(Limits { body_bytes: 64 * 1024, ..Limits::default() })
///     .timeouts(Timeouts { request: Duration::from_secs(10), ..Timeouts::default() })
///     .routes(["/", "/div/{n}"]);
/// assert!(builder.validate().is_ok());
/// assert!(builder.backlog(0).validate().is_err());
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    pub(crate) lanes: Lanes,
    pub(crate) pin: Pin,
    pub(crate) placement: Placement,
    pub(crate) steering: bool,
    pub(crate) backlog: u32,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) drain: Drain,
    tls: Option<Tls>,
    routes: Vec<String>,
    pub(crate) replica: Option<HeaderValue>,
    pub(crate) load_reports: LoadReports,
    signals: bool,
}

impl Builder {
    /// The address to serve. Default `127.0.0.1:8080`; port 0 takes a free one, which
    /// [`Server::local_addr`] tells.
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Serves `/healthz`, `/readyz`, `/metrics` and `/lanes` on this address, from a thread that
    /// is never pinned and without authentication: keep it from clients. Default: no admin port.
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

    /// Whether a new connection goes to the lane of the CPU that received its first segment.
    /// Applies to [`Placement::Hashed`] with pinned lanes; where lanes are not pinned, and where
    /// the kernel refuses the program (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)), the hash decides,
    /// with a warning. The other placements take no notice of it. The metric `corelane_steering`
    /// tells which holds. Default false.
    ///
    /// It pays where the network card has a receive queue, and so an interrupt, for each lane's
    /// CPU: a connection is then served where its segments arrive. It hurts wherever few CPUs
    /// receive: a card with a single queue, or a client or proxy on the same machine, whose
    /// segments are received by the CPU that sends them. One lane may then get every connection.
    pub fn steering(mut self, steering: bool) -> Self {
        self.steering = steering;
        self
    }

    /// Length of the accept queue of each listener. Default 4,096; 1 to 65,535. The kernel silently
    /// lowers it to `net.core.somaxconn` (listen(2)).
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

    /// Speaks TLS with clients; the admin port stays plain. Default: no TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The templates of the service's routes, such as `/div/{n}` or `/static/{*path}`. At most 64.
    /// A path that none matches counts as `other`, as all do without this setting.
    ///
    /// The load table learns what a request costs by its method and route. From it follow the
    /// order in which requests wait (cheap ones first), the lane that [`Placement::LeastLoaded`]
    /// chooses, and which requests are refused at once because they would have to wait for longer
    /// than [`Timeouts::request`]. Where all routes are `other`, brief and long requests of a
    /// method are taken to cost the same, and none of this can tell them apart. Metrics, logs and
    /// `/lanes` name requests by their route too.
    ///
    /// Nothing here answers requests, and no `Router` is asked: name the templates that it has.
    pub fn routes<I>(mut self, templates: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.routes = templates.into_iter().map(Into::into).collect();
        self
    }

    /// Names this replica in its replies: each carries `corelane-replica` with this name and
    /// `corelane-lane` with the index of the lane that made it. Default: neither.
    pub fn replica(mut self, name: HeaderValue) -> Self {
        self.replica = Some(name);
        self
    }

    /// Whether replies tell a load balancer in front how busy this server is. Default
    /// [`LoadReports::Off`], which costs nothing.
    pub fn load_reports(mut self, form: LoadReports) -> Self {
        self.load_reports = form;
        self
    }

    /// Whether SIGTERM and SIGINT begin the drain, and a second one ends the server at once.
    /// Default true. With false the program calls [`ServerHandle::drain`] and
    /// [`ServerHandle::stop`].
    pub fn signals(mut self, signals: bool) -> Self {
        self.signals = signals;
        self
    }

    /// Checks the settings alone, whatever the machine: bounds and route templates. What the
    /// files of TLS hold, [`Tls::check`] tells.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its bounds, by name.
    pub fn validate(&self) -> Result<(), Error> {
        settings::check(&self.limits, &self.timeouts, &self.drain).map_err(Error::Setting)?;
        if let Some(tls) = &self.tls {
            tls.check_bounds().map_err(Error::Setting)?;
        }
        if !(1..=MAX_BACKLOG).contains(&self.backlog) {
            return Err(Error::Setting(format!("backlog: 1 to {MAX_BACKLOG}")));
        }
        if let Lanes::Count(n) = self.lanes
            && !(1..=MAX_LANES).contains(&n)
        {
            return Err(Error::Setting(format!("lanes: 1 to {MAX_LANES}")));
        }
        Routes::new(&self.routes).map(drop).map_err(Error::Setting)
    }

    /// Checks the settings, raises the soft limit of open files and binds all listeners. Clients
    /// may connect from here on; they are answered once [`Server::serve`] runs.
    ///
    /// # Errors
    ///
    /// A setting is out of its bounds, a certificate or its key cannot be used, the CPUs do not
    /// allow the lanes, the limit of open files is too low, or an address cannot be bound.
    pub fn build(self) -> Result<Server, Error> {
        self.validate()?;
        let routes = Routes::new(&self.routes).map_err(Error::Setting)?;
        let (tls, certificates) = self.tls.as_ref().map(Termination::load).transpose()?.unzip();
        let view = CpuView::read().map_err(Error::system("reading the affinity mask"))?;
        let plan = plan(&view, self.lanes, self.pin).map_err(Error::Lanes)?;
        raise_file_limit(self.limits.connections, plan.lanes.len())?;
        let listeners = match placement::listeners(self.placement, plan.lanes.len()) {
            1 => vec![bind(self.address, self.backlog, false)?],
            many => bind_lanes(self.address, self.backlog, many)?,
        };
        let admin = self.admin.map(|address| bind(address, 128, false)).transpose()?;
        let (sender, requests) = unbounded_channel();
        let cpus = Cpus::new(self.lanes, self.pin, view);
        let shared = Shared::new(plan, cpus, routes, tls, self.placement, self.steering);
        let handle = ServerHandle { requests: sender, shared };
        Ok(Server { settings: self, listeners, admin, certificates, requests, handle })
    }
}

/// A server whose listeners are bound.
///
/// A client that leaves takes its work with it: when an HTTP/1.1 client closes the connection, or
/// only its own side of it, a request that waits (for its turn, or for something in its handler)
/// is dropped, and counts as code 499, nginx's for it: within two seconds while the lane is not held
/// by a handler, and not before it has waited for 0.4 s, so that a client which ended its side early
/// gets what is soon ready. A reset is acted on at once. A reply that flows is finished. An
/// HTTP/2 stream that its client resets, and all streams of a connection that ends, are dropped
/// likewise. What a handler holds is dropped with it, so a guard in it sees the end. A close behind
/// more than 2 KiB that nobody has asked for yet, of the request's body or of further requests, is
/// noticed only when the request ends.
///
/// ```no_run
/// use corelane::{Incoming, Lanes, Server};
/// use http::{HeaderValue, Request, Response};
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
    certificates: Option<Watch>,
    requests: UnboundedReceiver<Stop>,
    handle: ServerHandle,
}

/// How a server ended.
#[must_use = "requests may have been cut"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// What was cut when the deadline or a second signal came: requests in flight, replies whose
    /// end the client had not taken, and [`blocking`](crate::blocking) calls that had not returned
    /// a second later though their requests had ended. (The call of a request in flight is a part
    /// of it.) 0 is a clean end, unless a handler held its lane to the last: what had come by then
    /// and no lane had read is lost too, and cannot be counted.
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
            steering: false,
            backlog: 4096,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            drain: Drain::default(),
            tls: None,
            routes: Vec::new(),
            replica: None,
            load_reports: LoadReports::default(),
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
    /// Each lane is a tokio runtime of one thread that runs local tasks: in `factory` and in
    /// handlers `tokio::time`, `tokio::net`, `tokio::spawn` and `tokio::task::spawn_local` work, and
    /// what they start stays on the lane. A task that a handler spawns outlives its request and
    /// knows no deadline; a drain does not wait for it, and it is dropped when the lane ends.
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
        let outcome = self.run(factory);
        // Whatever went wrong, nothing keeps the port.
        shared.advance(Phase::Stopped);
        outcome
    }

    fn run<F, S>(self, factory: F) -> Result<Drained, Error>
    where
        F: Fn(&Lane) -> S + Send + Sync + 'static,
        S: HttpService,
    {
        let shared = Arc::clone(&self.handle.shared);
        let (events, inbox) = mpsc::channel();
        let factory = Arc::new(factory);
        let (finish, finished) = oneshot::channel();
        let (armed, is_armed) = mpsc::channel();
        let controller = Controller {
            shared: Arc::clone(&shared),
            settings: self.settings.clone(),
            admin: self.admin,
            signals: self.settings.signals.then(|| self.handle.requests.clone()),
            requests: self.requests,
            certificates: self.certificates,
            armed,
            finished,
            events: events.clone(),
        };
        shared.listeners.open(&self.listeners).map_err(Error::system("copying a listener"))?;
        shared.listeners.set_cpus(&shared.plan.lanes);
        let steered = Arc::downgrade(&shared);
        shared.cpus.on_change(move |cpus| {
            if let Some(shared) = steered.upgrade() {
                shared.listeners.set_cpus(cpus);
            }
        });
        let lanes = shared.plan.lanes.len();
        let (sources, listener) =
            placement::sources(self.settings.placement, self.listeners, lanes)
                .map_err(Error::system("copying a listener"))?;
        let controller = spawn(Thread::Admin, &events, move || controller.run())?;
        // Before the first answer: a signal that came then would end the process without a drain.
        // Without the thread nobody tells; its end is reported like any other.
        let _ = is_armed.recv();
        let mut refused = None;
        let mut started = 0;
        for (index, source) in sources.into_iter().enumerate() {
            let lane = Lane { index, shared: Arc::clone(&shared) };
            let (settings, shared_with_lane) = (self.settings.clone(), Arc::clone(&shared));
            let factory = Arc::clone(&factory);
            let thread = spawn(Thread::Lane(index), &events, move || {
                let state = LaneState::new(index, settings, shared_with_lane);
                lane::run(lane, source, state, &*factory)
            });
            if let Err(error) = thread {
                refused = Some(error);
                break;
            }
            started += 1;
        }
        let mut acceptor_thread = None;
        if let Some(listener) = listener
            && refused.is_none()
        {
            let limit = self.settings.limits.connections;
            let acceptor = Acceptor { listener, shared: Arc::clone(&shared), limit };
            match spawn(Thread::Acceptor, &events, || acceptor.run()) {
                Ok(thread) => acceptor_thread = Some(thread),
                Err(error) => refused = Some(error),
            }
        }
        if refused.is_some() {
            // The threads that have begun must not go on without the others.
            shared.advance(Phase::Stopped);
        }
        let outcome = wait_for_end(&inbox, &shared, started);
        // It has ended already if it was what ended the lanes.
        let _ = finish.send(());
        let _ = controller.join();
        // It ends with the lanes, and the listener with it.
        let _ = acceptor_thread.map(JoinHandle::join);
        refused.map_or(outcome, Err)
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
            tls = shared.tls.is_some(),
            placement = %self.settings.placement,
            lanes = shared.plan.lanes.len(),
            cpus = ?shared.plan.lanes.iter().flatten().collect::<Vec<_>>(),
            "listening"
        );
    }
}
