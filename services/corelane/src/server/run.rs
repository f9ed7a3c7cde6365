//! Runs a server.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::balance::acceptor::Acceptor;
use crate::base::error::{BoxError, Error};
use crate::base::phase::Phase;
use crate::lane;
use crate::lane::accept;
use crate::lane::accept::ConnectionSource;
use crate::load::lane::Lane;
use crate::os::listener::Port;
use crate::request::service::HttpService;
use crate::server::control::{Controller, ServerHandle, Stop};
use crate::server::exposition::Exposition;
use crate::server::settings::Settings;
use crate::server::shared::Shared;
use crate::server::threads::{Drained, Event, Thread, spawn, wait_for_end};
use crate::transport::tls::Watch;

/// A server with bound listeners.
///
/// When a client disconnects, its requests are cancelled. If an HTTP/1.1 client closes the
/// connection, or only its own side of it, a request in the queue or in its handler is dropped. The
/// request is recorded with status 499, as in nginx. Detecting the close takes up to two seconds,
/// unless a handler is blocking the lane. No request is dropped before it has waited for 0.4 s, so
/// a client that closes its side early still gets a response that will be ready soon. A reset takes
/// effect at once. Responses that are being sent are completed. HTTP/2 streams are dropped when the
/// client resets them or their connection ends. Dropping a handler drops everything it owns, so a
/// guard in it observes the cancellation. A close that follows more than 2 KiB of unread input is
/// detected only when the request finishes.
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
    pub(crate) settings: Settings,
    pub(crate) ports: Vec<Port>,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) certificates: Option<Watch>,
    pub(crate) requests: UnboundedReceiver<Stop>,
    pub(crate) handle: ServerHandle,
}

impl Server {
    /// The first TCP address that the server listens on.
    ///
    /// # Errors
    ///
    /// The server listens only on Unix sockets, or the system call failed.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        let none = || Error::System {
            what: "reading the TCP address of a server without one",
            source: io::ErrorKind::AddrNotAvailable.into(),
        };
        self.local_addrs()?.into_iter().next().ok_or_else(none)
    }

    /// TCP addresses that the server listens on, including the addresses of inherited sockets, in
    /// the order of their settings.
    ///
    /// # Errors
    ///
    /// The system call failed.
    pub fn local_addrs(&self) -> Result<Vec<SocketAddr>, Error> {
        let addresses = self.ports.iter().filter_map(|port| port.address().transpose());
        addresses.collect::<Result<_, _>>().map_err(Error::system("reading a listener's address"))
    }

    /// The admin port's address, if the server has an admin port.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Returns a function that renders `/metrics` in the OpenMetrics text format on the calling
    /// thread. Use it to push metrics. Also works after the server has stopped.
    pub fn metrics(&self) -> impl Fn() -> String + Send + use<> {
        let exposition = Exposition::new(Arc::clone(&self.handle.shared), &self.settings);
        move || exposition.render().unwrap_or_default()
    }

    /// A handle for draining the server from another thread.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Serves until the drain is complete. Blocks the calling thread.
    ///
    /// `factory` runs once on the thread of each lane and each slow lane
    /// ([`Builder::slow_lanes`](crate::Builder::slow_lanes)), so the service need not be `Send` and
    /// may contain `Rc` and `RefCell`. Each connection gets a clone of the service, and each
    /// request gets a clone of that clone. A panicking handler results in a 500, and the lane
    /// continues.
    ///
    /// Each lane is a single-threaded tokio runtime with local tasks: `tokio::time`, `tokio::net`,
    /// `tokio::spawn` and `tokio::task::spawn_local` work in `factory` and in handlers, and
    /// everything they start stays on the lane. A task that a handler spawns outlives its request
    /// and has no deadline. A drain does not wait for the task, which is dropped when the lane
    /// ends.
    ///
    /// Neither `factory` nor a handler may block, because that blocks the lane and all its clients.
    /// `tokio::runtime::Handle::block_on` and `tokio::task::block_in_place` panic there, and the
    /// client gets `500`. Calling `block_on` on another runtime blocks forever if its future needs
    /// this lane. Await operations instead, or use [`blocking`](crate::blocking).
    ///
    /// For a factory that awaits or fails, use [`Server::try_serve`].
    ///
    /// # Errors
    ///
    /// A thread or an event loop cannot be started, `factory` panicked, or a lane exited
    /// unexpectedly.
    pub fn serve<F, S>(self, factory: F) -> Result<Drained, Error>
    where
        F: Fn(&Lane) -> S + Send + Sync + 'static,
        S: HttpService,
    {
        self.try_serve(move |lane| ready(Ok::<_, Infallible>(factory(&lane))))
    }

    /// Like [`Server::serve`], for a factory that may await and fail.
    ///
    /// The future returned by `factory` runs on the lane's own event loop with local tasks.
    /// Everything that it connects or spawns therefore belongs to the lane, and it need not be
    /// `Send`. Until the futures of all lanes are ready, no lane serves requests, `/readyz` fails,
    /// and clients wait in the accept queues. There is no timeout, so use `tokio::time::timeout`
    /// for operations that may hang.
    ///
    /// A drain that starts in the meantime, for example on SIGTERM, drops pending futures, and the
    /// server returns without having served any requests.
    ///
    /// ```
    /// use std::io;
    /// use std::rc::Rc;
    ///
    /// use bytes::Bytes;
    /// use corelane::{Incoming, Server};
    /// use http::{Request, Response};
    /// use http_body_util::Full;
    ///
    /// # fn main() -> Result<(), corelane::Error> {
    /// let server = Server::builder().bind("127.0.0.1:0".parse().unwrap()).build()?;
    /// # server.handle().stop();
    /// server.try_serve(|lane| async move {
    ///     // A connection to a database, for instance, which belongs to this lane.
    ///     let text = Rc::new(format!("lane {} is ready\n", lane.index()));
    ///     Ok::<_, io::Error>(tower::service_fn(move |_request: Request<Incoming>| {
    ///         let reply = Response::new(Full::<Bytes>::from((*text).clone()));
    ///         async move { Ok::<_, io::Error>(reply) }
    ///     }))
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Error::Factory`] with the lane's index if `factory` failed or panicked. Other
    /// errors are the same as for [`Server::serve`].
    pub fn try_serve<F, T, S, E>(self, factory: F) -> Result<Drained, Error>
    where
        F: Fn(Lane) -> T + Send + Sync + 'static,
        T: Future<Output = Result<S, E>> + 'static,
        E: Into<BoxError>,
        S: HttpService,
    {
        self.log_start();
        let shared = Arc::clone(&self.handle.shared);
        let outcome = self.run(factory);
        // Closes the port regardless of the error.
        shared.advance(Phase::Stopped);
        outcome
    }

    fn run<F, T, S, E>(mut self, factory: F) -> Result<Drained, Error>
    where
        F: Fn(Lane) -> T + Send + Sync + 'static,
        T: Future<Output = Result<S, E>> + 'static,
        E: Into<BoxError>,
        S: HttpService,
    {
        let shared = Arc::clone(&self.handle.shared);
        let (events, inbox) = mpsc::channel();
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
        for port in &mut self.ports {
            shared.listeners.add(port).map_err(Error::system("copying a listener"))?;
        }
        let lanes = shared.plan.lanes.len();
        let inboxes = shared.parts.inboxes.as_ref();
        let (sources, listeners) = accept::sources(inboxes, self.ports, lanes)
            .map_err(Error::system("copying a listener"))?;
        let controller = spawn(Thread::Admin, &events, move || controller.run())?;
        // Wait before serving, because a signal that arrives before its handler is installed would
        // terminate the process without a drain. If the thread fails to start, `recv` fails, and
        // the thread's end is reported as usual.
        let _ = is_armed.recv();
        let (started, mut refused) =
            start_lanes(sources, &self.settings, &shared, &Arc::new(factory), &events);
        let mut acceptor_thread = None;
        if let (Some(inboxes), None) = (inboxes, &refused) {
            let acceptor = Acceptor {
                listeners,
                inboxes: Arc::clone(inboxes),
                lanes: Arc::clone(&shared.lanes),
                lifecycle: Arc::clone(&shared.parts.lifecycle),
                start: Arc::clone(&shared.parts.start),
                limit: self.settings.limits().connections,
            };
            match spawn(Thread::Acceptor, &events, || acceptor.run()) {
                Ok(thread) => acceptor_thread = Some(thread),
                Err(error) => refused = Some(error),
            }
        }
        if refused.is_some() {
            // Threads that have started must not continue without the remaining threads.
            shared.advance(Phase::Stopped);
        }
        let outcome = wait_for_end(&inbox, &shared, started);
        // The admin thread may have exited, which also stops the lanes.
        let _ = finish.send(());
        let _ = controller.join();
        // The acceptor thread ends with the lanes and closes its listener.
        let _ = acceptor_thread.map(JoinHandle::join);
        refused.map_or(outcome, Err)
    }

    fn log_start(&self) {
        let shared = &self.handle.shared;
        if let Some(reason) = &shared.plan.unpinned_because {
            tracing::warn!(reason, "lanes are not pinned");
        }
        // The socket's address, or the setting if it has no address.
        let address = |port: &Port| match port.address() {
            Ok(Some(address)) => address.to_string(),
            _ => port.listen.to_string(),
        };
        let addresses: Vec<_> = self.ports.iter().map(address).collect();
        tracing::info!(
            address = addresses.join(", "),
            admin = self.admin_addr().map(tracing::field::display),
            tls = shared.tls().is_some(),
            placement = %self.settings.placement,
            lanes = shared.plan.lanes.len(),
            cpus = ?shared.plan.lanes.iter().flatten().collect::<Vec<_>>(),
            "listening"
        );
    }
}

/// Starts a thread per lane. Returns the number of threads that started, and the error if a thread
/// did not start.
fn start_lanes<F, T, S, E>(
    sources: Vec<ConnectionSource>,
    settings: &Settings,
    shared: &Arc<Shared>,
    factory: &Arc<F>,
    events: &Sender<Event>,
) -> (usize, Option<Error>)
where
    F: Fn(Lane) -> T + Send + Sync + 'static,
    T: Future<Output = Result<S, E>> + 'static,
    E: Into<BoxError>,
    S: HttpService,
{
    let mut started = 0;
    for (index, source) in sources.into_iter().enumerate() {
        let lane = Lane::new(index, &shared.lanes);
        let (settings, parts) = (settings.lane.clone(), shared.parts.clone());
        let factory = Arc::clone(factory);
        let thread = spawn(Thread::Lane(index), events, move || {
            lane::run::run(lane, source, settings, parts, &factory)
        });
        if let Err(error) = thread {
            return (started, Some(error));
        }
        started += 1;
    }
    (started, None)
}
