//! An in-process server and a raw client.

#![allow(dead_code, reason = "the chaos suite uses a part of this module")]

mod client;
pub(crate) mod far_end;
pub(crate) mod log;
pub(crate) mod pair;
pub(crate) mod process;
pub(crate) mod stuck;
pub(crate) mod tls;
pub(crate) mod worker;

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
pub(crate) use client::{Answer, Client};
use corelane::{
    Builder, Drain, Drained, Error, HttpService, Incoming, Lane, Lanes, Phase, Server, ServerHandle,
};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::Semaphore;
use tower::Service;
use tower::util::BoxCloneSyncService;

/// Maximum wait, which only a broken server exceeds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A drain deadline that no passing test reaches.
pub(crate) const DISTANT: Duration = PATIENCE.saturating_mul(100);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Reply = Result<Response<Full<Bytes>>, BoxError>;
pub(crate) type TestService =
    BoxCloneSyncService<Request<Incoming>, Response<Full<Bytes>>, BoxError>;

type LocalBody = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError>>>;
type LocalReply = Result<Response<LocalBody>, BoxError>;
type LocalFactory = Box<dyn Fn(&Lane) -> Local + Send + Sync>;

/// Type-erased, so that the server is compiled only once.
struct Local(Box<dyn LocalService>);

/// Object-safe service.
trait LocalService {
    fn copy(&self) -> Local;
    fn ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>>;
    fn answer(&mut self, request: Request<Incoming>) -> Pin<Box<dyn Future<Output = LocalReply>>>;
}

impl<S: HttpService> LocalService for S {
    fn copy(&self) -> Local {
        Local(Box::new(self.clone()))
    }

    fn ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.poll_ready(cx).map_err(Into::into)
    }

    fn answer(&mut self, request: Request<Incoming>) -> Pin<Box<dyn Future<Output = LocalReply>>> {
        let reply = self.call(request);
        Box::pin(async move {
            let body = |body: S::Body| Box::pin(body.map_err(Into::into)) as LocalBody;
            reply.await.map(|reply| reply.map(body)).map_err(Into::into)
        })
    }
}

impl Clone for Local {
    fn clone(&self) -> Self {
        self.0.copy()
    }
}

impl Service<Request<Incoming>> for Local {
    type Response = Response<LocalBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = LocalReply>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.ready(cx)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        self.0.answer(request)
    }
}

/// Stopped on drop.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) handle: ServerHandle,
    thread: Option<JoinHandle<Result<Drained, Error>>>,
}

/// Code that serves plain HTTP/1.1 requests. Behaviour is the same, so most tests run with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Plain,
    Hyper,
}

impl Way {
    pub(crate) fn builder(self) -> Builder {
        builder().plain_requests(self == Way::Plain)
    }
}

/// One lane, free ports, no signal handlers, and a drain without a settling time. Slow lanes are
/// off, because many test handlers block.
pub(crate) fn builder() -> Builder {
    builder_on(Ipv4Addr::LOCALHOST)
}

pub(crate) fn builder_on(address: Ipv4Addr) -> Builder {
    let drain = Drain { settle: Duration::ZERO, deadline: DISTANT, ..Drain::default() };
    let builder = Server::builder().bind((address, 0).into()).lanes(Lanes::Count(1));
    let builder = builder.admin((Ipv4Addr::LOCALHOST, 0).into());
    builder.signals(false).drain(drain).slow_lanes(None)
}

/// A loopback address unique to this process and `number`. Tests that expect a closed port need
/// such an address, because other tests reuse ports of 127.0.0.1.
pub(crate) fn own_address(number: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    // Neither 127.0.0.1 nor a broadcast address.
    Ipv4Addr::new(127, high.clamp(1, 254), low, number)
}

impl Running {
    pub(crate) fn start<F, S>(builder: Builder, factory: F) -> Running
    where
        F: Fn(&Lane) -> S + Send + Sync + 'static,
        S: HttpService,
    {
        Running::serve(builder, Box::new(move |lane| Local(Box::new(factory(lane)))))
    }

    fn serve(builder: Builder, factory: LocalFactory) -> Running {
        let server = builder.build().expect("the server starts");
        let address = server.local_addr().expect("an address");
        let admin = server.admin_addr().expect("an admin address");
        let handle = server.handle();
        let thread = std::thread::spawn(move || server.serve(factory));
        let running = Running { address, admin, handle, thread: Some(thread) };
        running.wait_until("ready", || running.admin_get("/readyz").status == 200);
        running
    }

    pub(crate) fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "still not {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A lane that is not blocked acts on the phase before it acts on anything that arrives later,
    /// because the admin thread wakes all lanes before it answers probes.
    pub(crate) fn wait_for_phase(&self, phase: Phase) {
        self.wait_until(&format!("{phase:?}"), || self.handle.phase() == phase);
        assert_eq!(self.admin_get("/healthz").status, 200);
    }

    pub(crate) fn wait_for_metric(&self, series: &str, value: f64) {
        let begun = Instant::now();
        while self.metric(series) != value {
            let late = begun.elapsed() >= PATIENCE;
            assert!(!late, "{series} is not {value} in\n{}", self.admin_get("/metrics").text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn wait_for_in_flight(&self, requests: u32) {
        self.wait_for_metric("corelane_requests_in_flight{lane=\"0\"}", f64::from(requests));
    }

    /// Connections that lane 0 refused or closed for this reason. Counted before the client
    /// notices, except for `bad_request`, `header_too_large`, `handshake` and `flood`.
    pub(crate) fn refused(&self, reason: &str) -> f64 {
        let family = "corelane_connections_refused_total";
        self.metric(&format!("{family}{{lane=\"0\",reason=\"{reason}\"}}"))
    }

    /// Counted before the response is written.
    pub(crate) fn refused_requests(&self, reason: &str) -> f64 {
        let family = "corelane_requests_refused_total";
        self.metric(&format!("{family}{{lane=\"0\",reason=\"{reason}\"}}"))
    }

    pub(crate) fn wait_for_connections(&self, connections: u32) {
        self.wait_for_metric("corelane_connections{lane=\"0\"}", f64::from(connections));
    }

    pub(crate) fn join(mut self) -> Result<Drained, Error> {
        end_of(self.thread.take().expect("joined once"))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.connect().get(target)
    }

    pub(crate) fn admin_get(&self, target: &str) -> Answer {
        Client::connect(self.admin).get(target)
    }

    /// Value of the series whose name and labels begin with `series`. A single read is enough for
    /// values that change before the awaited event:
    ///
    /// * Requests count as finished, with all phases but `write`, before the last byte of the
    ///   response. Connections are counted before their first request, including thefts, wake-ups
    ///   and moves. Their close reason is counted before they close.
    /// * The admin thread updates its own metrics (stalls, phases, plans, CPUs, certificates, lent
    ///   connections) and logs them between scrapes.
    /// * Dependency handles update metrics immediately.
    ///
    /// Other values lag behind: connection gauges, the `write` phase, and whatever handlers or
    /// connections release on drop. Use [`Running::wait_for_metric`] for these.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let text = self.admin_get("/metrics").text();
        let line = text.lines().find(|line| line.starts_with(&format!("{series} ")));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        value.unwrap_or_else(|| panic!("no {series} in\n{text}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        // A failed test should report its own error first.
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            let _ = end_of(thread);
        }
    }
}

pub(crate) fn end_of(thread: JoinHandle<Result<Drained, Error>>) -> Result<Drained, Error> {
    let begun = Instant::now();
    while !thread.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "the server does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    thread.join().expect("serve does not panic")
}

#[derive(Debug)]
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Alive {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Alive until the last clone is dropped.
struct Held {
    bytes: Vec<u8>,
    _alive: Alive,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Larger than the kernel's socket buffers, so that sending depends on the client.
pub(crate) const BIG: usize = 24 << 20;

/// Responds with [`BIG`] bytes.
pub(crate) fn big(_lane: &Lane) -> TestService {
    let bytes = Bytes::from(vec![b'x'; BIG]);
    BoxCloneSyncService::new(tower::service_fn(move |_request| {
        let bytes = bytes.clone();
        async move { Ok(Response::new(Full::new(bytes))) }
    }))
}

/// `/hello`, `/echo`, `/gate` (waits for a permit), `/big` ([`BIG`] bytes), `/panic` and `/error`.
#[derive(Clone)]
pub(crate) struct Handlers {
    pub(crate) gate: Arc<Semaphore>,
    /// Running handlers, plus `/big` responses still in memory.
    pub(crate) alive: Arc<AtomicUsize>,
}

impl Handlers {
    pub(crate) fn new() -> Handlers {
        Handlers { gate: Arc::new(Semaphore::new(0)), alive: Arc::default() }
    }

    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    pub(crate) fn factory(&self) -> impl Fn(&Lane) -> TestService + Send + Sync + 'static {
        let handlers = self.clone();
        move |_lane| {
            let handlers = handlers.clone();
            BoxCloneSyncService::new(tower::service_fn(move |request| {
                let handlers = handlers.clone();
                handlers.answer(request)
            }))
        }
    }

    async fn answer(self, request: Request<Incoming>) -> Reply {
        let alive = Alive::new(&self.alive);
        let text = |text: &str| Ok(Response::new(Full::from(text.to_owned())));
        match request.uri().path() {
            "/gate" => {
                self.gate.acquire().await?.forget();
                text("through")
            }
            "/echo" => {
                let body = request.into_body().collect().await?.to_bytes();
                Ok(Response::new(Full::new(body)))
            }
            "/big" => {
                let held = Held { bytes: vec![b'x'; BIG], _alive: alive };
                Ok(Response::new(Full::new(Bytes::from_owner(held))))
            }
            "/panic" => panic!("a handler that panics"),
            "/error" => Err("a secret of the server".into()),
            _ => text("hello"),
        }
    }
}
