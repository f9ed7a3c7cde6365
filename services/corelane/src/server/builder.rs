//! Server settings.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;

use crate::balance::settings::{Moving, Placement};
use crate::base::listen::Listen;
use crate::base::settings::{Drain, ForwardedHeader, Limits, Timeouts, Traces};
use crate::load::lane::Lane;
use crate::load::report::LoadReports;
use crate::message::forwarded::TrustedProxy;
use crate::os::cpu::{Lanes, Pin};
use crate::request::finished::{Finished, Observers};
use crate::server::page::Page;
use crate::server::run::Server;
use crate::server::settings::Settings;
use crate::slow::settings::{Cost, SlowLanes};
#[cfg(feature = "tls")]
use crate::transport::tls::Tls;

/// The settings of a [`Server`]. [`Server::builder`] creates it.
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
pub struct Builder(pub(super) Settings);

impl Server {
    /// Creates a builder with default settings.
    pub fn builder() -> Builder {
        Builder(Settings::default())
    }
}

impl Builder {
    /// Adds a TCP address to listen on, like [`Builder::listen`] with [`Listen::tcp`].
    pub fn bind(self, address: SocketAddr) -> Self {
        self.listen(Listen::tcp(address))
    }

    /// Adds a listener: a TCP address, a Unix socket, or an inherited socket. A server can have at
    /// most 64 listeners. Without a listener, the server listens on `127.0.0.1:8080`.
    ///
    /// All listeners share lanes, limits, TLS and the drain. With [`Placement::Hashed`], each lane
    /// has its own socket per TCP address. Unix and inherited sockets are shared by all lanes, and
    /// an idle lane accepts their connections.
    pub fn listen(mut self, listen: Listen) -> Self {
        self.0.listens.push(listen);
        self
    }

    /// Proxies in front of the server whose header the server trusts for the client's address,
    /// which [`client_addr`](crate::client_addr) returns. Default: none.
    ///
    /// List every proxy that a request may pass through, and nothing else: a client at a trusted
    /// address can claim any address.
    pub fn trusted_proxies(mut self, proxies: impl IntoIterator<Item = TrustedProxy>) -> Self {
        self.0.trust.proxies = proxies.into_iter().collect();
        self
    }

    /// The header in which trusted proxies pass on their client's address. Choose the header that
    /// all of them set, because a client can send the other header with any content. Default:
    /// [`ForwardedHeader::XForwardedFor`].
    pub fn forwarded_header(mut self, header: ForwardedHeader) -> Self {
        self.0.trust.header = header;
        self
    }

    /// Whether observers receive the client's address ([`Finished::client`]). Default: false, which
    /// costs nothing.
    pub fn client_addresses(mut self, wanted: bool) -> Self {
        self.0.lane.requests.client_addresses = wanted;
        self
    }

    /// Serves `/healthz`, `/readyz`, `/metrics`, `/lanes` and an index of all pages on this
    /// address, from a thread that is never pinned. The admin port has no authentication, so do not
    /// expose it to clients. Default: no admin port.
    pub fn admin(mut self, address: SocketAddr) -> Self {
        self.0.admin = Some(address);
        self
    }

    /// Number of lanes. Default: [`Lanes::Auto`].
    pub fn lanes(mut self, lanes: Lanes) -> Self {
        self.0.lanes = lanes;
        self
    }

    /// Whether lanes are pinned. Default: [`Pin::Auto`].
    pub fn pin(mut self, pin: Pin) -> Self {
        self.0.pin = pin;
        self
    }

    /// Sets the policy for assigning new connections to lanes. Default: [`Placement::Hashed`].
    pub fn placement(mut self, placement: Placement) -> Self {
        self.0.placement = placement;
        self
    }

    /// Length of each listener's accept queue. Default: 4,096. Range: 1 to 65,535. The kernel
    /// silently lowers it to `net.core.somaxconn` (listen(2)).
    pub fn backlog(mut self, backlog: u32) -> Self {
        self.0.backlog = backlog;
        self
    }

    /// Client limits. See [`Limits`] for the defaults.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.lane.requests.limits = limits;
        self
    }

    /// Client timeouts. See [`Timeouts`] for the defaults.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.0.lane.requests.timeouts = timeouts;
        self
    }

    /// How the server shuts down. See [`Drain`] for the defaults.
    pub fn drain(mut self, drain: Drain) -> Self {
        self.0.lane.drain = drain;
        self
    }

    /// Serves clients over TLS. The admin port stays plaintext. Default: no TLS. Requires the `tls`
    /// feature.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.0.tls = Some(tls);
        self
    }

    /// The service's route templates, such as `/div/{n}` or `/static/{*path}`, at most 64. Paths
    /// that match no template are recorded as `other`.
    ///
    /// The load table learns the cost of a request from its method and route. The cost determines
    /// the order in which queued requests start (cheap requests first) and the lane that
    /// [`Placement::LeastLoaded`] chooses. It also determines which requests are rejected at once
    /// because they would wait longer than [`Timeouts::request`]. If every route is `other`, all
    /// requests with the same method are assumed to cost the same. Metrics, logs and `/lanes` also
    /// show requests by route.
    ///
    /// This setting does not route requests. You do not need it if the service names its routes
    /// itself: with axum, through the `corelane::axum::LearnRoutes` layer (feature `axum`), and
    /// otherwise through [`set_route`](crate::set_route). Templates listed here take precedence.
    pub fn routes<I>(mut self, templates: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.0.routes = templates.into_iter().map(Into::into).collect();
        self
    }

    /// Maximum number of templates that the server learns from [`set_route`](crate::set_route), in
    /// addition to [`Builder::routes`]. Requests with further templates are recorded as `other`,
    /// and a warning names the first of these templates. Each template needs about 4 KiB per lane.
    /// The first template reserves memory for all of them. Default: 64. Range: 0 to 512.
    pub fn learnt_routes(mut self, most: usize) -> Self {
        self.0.learnt_routes = most;
        self
    }

    /// Whether each lane has a slow lane: a lower-priority thread on the same CPU, with its own
    /// event loop and its own instance of the service. Kinds of requests that would block their
    /// lane for a long time run on the slow lane, so that they do not delay other requests. The
    /// lane learns which kinds these are. `None` disables slow lanes. Default:
    /// [`SlowLanes::default`], which creates slow lanes if lanes are pinned.
    ///
    /// Handlers behave the same on lanes and slow lanes. Upgrade requests stay on the lane.
    pub fn slow_lanes(mut self, slow_lanes: Option<SlowLanes>) -> Self {
        self.0.lane.slow_lanes = slow_lanes;
        self
    }

    /// Declares the cost of a route's requests by its template, so that lanes need not learn it.
    /// Templates outside [`Builder::routes`] count as learnt. The declaration has no effect without
    /// slow lanes.
    ///
    /// ```
    /// use corelane::{Cost, Server};
    ///
    /// let builder = Server::builder().cost("/report/{id}", Cost::Expensive);
    /// assert!(builder.validate().is_ok());
    /// ```
    pub fn cost(mut self, template: impl Into<String>, cost: Cost) -> Self {
        self.0.lane.costs.push((template.into(), cost));
        self
    }

    /// Adds two headers to each response: `corelane-replica` with this name, and `corelane-lane`
    /// with the index of the lane that served the request. Default: neither header.
    pub fn replica(mut self, name: HeaderValue) -> Self {
        self.0.lane.requests.replica = Some(name);
        self
    }

    /// Whether responses carry load reports for a load balancer in front of the server. Default:
    /// [`LoadReports::Off`], which costs nothing.
    pub fn load_reports(mut self, form: LoadReports) -> Self {
        self.0.lane.requests.load_reports = form;
        self
    }

    /// Whether plain HTTP/1.1 requests take the plain path. A plain request has either no body or a
    /// `Content-Length`, and leaves no room for two parsers to disagree. The first request that is
    /// not plain moves its connection to hyper. The responses are the same, and only the cost
    /// differs. Default: true. If false, hyper serves every request.
    pub fn plain_requests(mut self, plain: bool) -> Self {
        self.0.lane.plain_requests = plain;
        self
    }

    /// How long an HTTP/1.1 connection must be idle, or wait for the rest of a header, before it is
    /// parked. A parked connection costs little more than its socket until its first byte wakes it.
    /// Clients do not notice, and timeouts still apply. `None` disables parking. Default: 5 s.
    /// Minimum: 100 ms.
    ///
    /// One sweep per lane checks this time, like deadlines ([`Timeouts`]), so parking may happen up
    /// to a second late.
    pub fn park_after(mut self, idle: Option<Duration>) -> Self {
        self.0.lane.park_after = idle;
        self
    }

    /// Whether a connection may move to another lane. Default: [`Moving::ParkedOnly`].
    pub fn moving(mut self, moving: Moving) -> Self {
        self.0.moving = moving;
        self
    }

    /// Parks and moves idle connections at random.
    #[cfg(feature = "chaos")]
    #[doc(hidden)]
    pub fn chaos(mut self, chaos: crate::Chaos) -> Self {
        self.0.lane.chaos = Some(chaos);
        self
    }

    /// Whether each request has an id: its `x-request-id` header if that consists of 1 to 128
    /// printable ASCII characters without spaces, or a random UUID otherwise. The response carries
    /// the id in the same header, and [`request_id`](crate::request_id) returns it to handlers.
    /// Input rejected before it becomes a request, such as an oversized header, has no id. Default:
    /// false, which costs nothing.
    pub fn request_ids(mut self, ids: bool) -> Self {
        self.0.lane.requests.ids = ids;
        self
    }

    /// Sets this server's role in distributed traces. Default: [`Traces::Off`], which costs
    /// nothing.
    pub fn traces(mut self, traces: Traces) -> Self {
        self.0.lane.requests.traces = traces;
        self
    }

    /// Calls an observer for each finished request, including rejected requests. `factory` creates
    /// one observer per lane, on the lane's thread, so observers may contain `Rc` and `RefCell`.
    /// Default: none, which costs nothing.
    ///
    /// An observer runs on its lane, so it must not block or take long. An observer's panics are
    /// counted like a handler's panics and do not end the lane.
    pub fn observer<F, O>(mut self, factory: F) -> Self
    where
        F: Fn(&Lane) -> O + Send + Sync + 'static,
        O: Fn(&Finished<'_>) + 'static,
    {
        self.0.lane.requests.observers = Some(Observers::new(factory));
        self
    }

    /// Whether SIGTERM and SIGINT start the drain, and whether a second signal stops the server at
    /// once. Default: true. If false, call [`ServerHandle::drain`](crate::ServerHandle::drain) and
    /// [`ServerHandle::stop`](crate::ServerHandle::stop).
    pub fn signals(mut self, signals: bool) -> Self {
        self.0.signals = signals;
        self
    }

    /// Adds a page to the admin port: `handler` serves exactly `path`, and the index page `/` links
    /// to it with `about` as the description. [`Builder::validate`] rejects the server's own paths,
    /// such as `/metrics`.
    ///
    /// The handler must not block, because it runs on the admin thread, which also serves probes.
    /// It receives every method with the complete body. Bodies larger than 64 KiB get `413`.
    pub fn admin_route<F>(mut self, path: &'static str, about: &'static str, handler: F) -> Self
    where
        F: Fn(Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync + 'static,
    {
        self.0.pages.push(Page { path, about, handler: Arc::new(handler) });
        self
    }

    /// Adds the service's own metrics to `/metrics`, after the server's metrics. The collector runs
    /// on the admin thread at each scrape, so it must not block. Its metric names must differ from
    /// the server's metric names.
    pub fn collector(mut self, collector: impl Collector) -> Self {
        self.0.collectors.push(Arc::new(collector));
        self
    }

    /// Adds a registry's metrics to `/metrics`, after the metrics of the server and of each
    /// [`Builder::collector`]. Each scrape locks and reads the registry on the admin thread, so the
    /// service may register more metrics while it runs. May be called several times.
    ///
    /// Names starting with `corelane_` are reserved: [`Builder::validate`] rejects them, and
    /// scrapes omit such metrics if they are registered later.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use corelane::Server;
    /// use corelane::prometheus_client::metrics::counter::Counter;
    /// use corelane::prometheus_client::registry::Registry;
    ///
    /// let (mut registry, orders) = (Registry::default(), Counter::<u64>::default());
    /// registry.register("shop_orders", "Orders that were placed", orders.clone());
    /// let builder = Server::builder().registry(Arc::new(Mutex::new(registry)));
    /// assert!(builder.validate().is_ok());
    /// orders.inc(); // in a handler
    /// ```
    pub fn registry(mut self, registry: Arc<Mutex<Registry>>) -> Self {
        self.0.registries.push(registry);
        self
    }

    /// Uses free local ports, does not handle signals, and drains without waiting for a load
    /// balancer.
    #[cfg(feature = "testing")]
    pub(crate) fn for_test(mut self) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        self.0.lane.drain.settle = Duration::ZERO;
        self.bind(free).admin(free).signals(false)
    }
}
