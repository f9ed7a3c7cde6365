//! The settings of a server, and what is checked and bound before it runs.

use std::net::SocketAddr;

use http::HeaderValue;
use tokio::sync::mpsc::unbounded_channel;

use crate::control::ServerHandle;
use crate::cpu::{CpuView, Cpus, Lanes, MAX_LANES, Pin, plan};
use crate::error::Error;
use crate::listener::{MAX_BACKLOG, bind, bind_lanes, raise_file_limit};
use crate::load_report::LoadReports;
use crate::placement;
use crate::routes::Routes;
use crate::server::Server;
use crate::settings::{self, Drain, Limits, Placement, Timeouts};
use crate::shared::Shared;
use crate::tls::{Termination, Tls};

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
    pub(crate) signals: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
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
