//! Real servers, a DNS server on loopback, and waiting.

use std::collections::HashMap;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane::prometheus_client::encoding::text::encode;
use corelane::prometheus_client::registry::Registry;
use corelane::testing::TestServer;
use corelane::{Builder, Incoming, Lane, Lanes, Server};
use corelane_client::{BoxError, Calls, Client, Settings};
use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype, ToName};
use domain::rdata::{A, Srv};
use http::{Request, Response};
use http_body_util::Full;
use tower::util::BoxCloneSyncService;

/// Maximum wait, which only a broken client exceeds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type Reply = Result<Response<Full<Bytes>>, BoxError>;
pub(crate) type Service = BoxCloneSyncService<Request<Incoming>, Response<Full<Bytes>>, BoxError>;

pub(crate) fn builder() -> Builder {
    Server::builder().lanes(Lanes::Count(1)).slow_lanes(None).request_ids(true)
}

/// A server whose handler is `handle`.
pub(crate) fn serve<F, T>(builder: Builder, handle: F) -> TestServer
where
    F: Fn(Request<Incoming>) -> T + Clone + Send + Sync + 'static,
    T: Future<Output = Reply> + Send + 'static,
{
    let factory = move |_lane: &Lane| -> Service { service(handle.clone()) };
    TestServer::start(builder, factory).expect("the server starts")
}

pub(crate) fn service<F, T>(handle: F) -> Service
where
    F: Fn(Request<Incoming>) -> T + Clone + Send + Sync + 'static,
    T: Future<Output = Reply> + Send + 'static,
{
    BoxCloneSyncService::new(tower::service_fn(handle))
}

pub(crate) fn text(text: impl Into<String>) -> Reply {
    Ok(Response::new(Full::from(text.into())))
}

pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "still not {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Settings for these addresses, with a timeout that no passing test reaches.
pub(crate) fn settings(scheme: &str, addresses: &[SocketAddr]) -> Settings {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let target = format!("{scheme}://{}", addresses.join(",")).parse().expect("a URL");
    Settings { timeout: PATIENCE, connect_timeout: PATIENCE, ..Settings::new(target) }
}

/// A client of one lane, and its metrics.
pub(crate) struct Lab {
    pub(crate) client: Client,
    registry: Registry,
}

impl Lab {
    pub(crate) fn new(settings: Settings) -> Lab {
        let calls = Calls::new();
        let client = calls.service("callee", settings).expect("valid settings").lane();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(calls));
        Lab { client, registry }
    }

    pub(crate) fn to(addresses: &[SocketAddr]) -> Lab {
        Lab::new(settings("http", addresses))
    }

    /// The value of a series of the service, such as `requests_total{callee="callee",outcome="ok"}`.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let mut all = String::new();
        encode(&mut all, &self.registry).expect("a string");
        let line = all.lines().find_map(|line| {
            line.strip_prefix("corelane_client_")?.strip_prefix(series)?.strip_prefix(' ')
        });
        let value = line.unwrap_or_else(|| panic!("no {series} in\n{all}"));
        value.parse::<f64>().expect("a number") as u64
    }

    pub(crate) fn outcome(&self, outcome: &str) -> u64 {
        self.metric(&format!("requests_total{{callee=\"callee\",outcome=\"{outcome}\"}}"))
    }

    pub(crate) fn single(&self, name: &str) -> u64 {
        self.metric(&format!("{name}{{callee=\"callee\"}}"))
    }
}

/// An endpoint that accepts connections, reads a request and closes the connection, like a process
/// that is killed during each request.
pub(crate) struct Mortal {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Mortal {
    pub(crate) fn start() -> Mortal {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&requests);
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                if connection.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                    counted.fetch_add(1, SeqCst);
                }
            }
        });
        Mortal { address, requests }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }
}

/// Counts what is alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub(crate) fn now(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// Alive until the result is dropped.
    pub(crate) fn enter(&self) -> impl Send + use<> {
        struct Guard(Arc<AtomicUsize>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.fetch_sub(1, SeqCst);
            }
        }
        self.0.fetch_add(1, SeqCst);
        Guard(Arc::clone(&self.0))
    }
}

/// A DNS server with one zone, which a test changes.
#[derive(Clone)]
pub(crate) struct Dns {
    pub(crate) address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

#[derive(Default)]
struct Zone {
    hosts: HashMap<String, Vec<Ipv4Addr>>,
    services: HashMap<String, Vec<(u16, String)>>,
    fails: bool,
}

impl Dns {
    pub(crate) fn start() -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let dns = Dns { address: socket.local_addr().expect("an address"), zone: Arc::default() };
        let zone = Arc::clone(&dns.zone);
        thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
                let answer = zone.lock().expect("no panic").answer(&buffer[..length]);
                let _ = socket.send_to(&answer, peer);
            }
        });
        dns
    }

    pub(crate) fn set_hosts(&self, name: &str, addresses: &[Ipv4Addr]) {
        let mut zone = self.zone.lock().expect("no panic");
        zone.hosts.insert(name.to_owned(), addresses.to_vec());
    }

    pub(crate) fn set_service(&self, name: &str, places: &[(u16, &str)]) {
        let places = places.iter().map(|(port, host)| (*port, (*host).to_owned())).collect();
        self.zone.lock().expect("no panic").services.insert(name.to_owned(), places);
    }

    pub(crate) fn set_failing(&self, fails: bool) {
        self.zone.lock().expect("no panic").fails = fails;
    }
}

impl Zone {
    fn answer(&self, query: &[u8]) -> Vec<u8> {
        let query = Message::from_octets(query).expect("a query");
        let question = query.first_question().expect("a question");
        let name = question.qname().to_name::<Vec<u8>>();
        let text = name.to_string();
        let (hosts, services) = (self.hosts.get(&text), self.services.get(&text));
        let code = match (self.fails, hosts.is_some() || services.is_some()) {
            (true, _) => Rcode::SERVFAIL,
            (false, true) => Rcode::NOERROR,
            (false, false) => Rcode::NXDOMAIN,
        };
        let mut answer = MessageBuilder::new_vec().start_answer(&query, code).expect("it fits");
        if code != Rcode::NOERROR {
            return answer.finish();
        }
        for host in hosts.into_iter().flatten().filter(|_| question.qtype() == Rtype::A) {
            answer.push((&name, 1, A::new(*host))).expect("it fits");
        }
        for (port, host) in
            services.into_iter().flatten().filter(|_| question.qtype() == Rtype::SRV)
        {
            let host: Name<Vec<u8>> = format!("{host}.").parse().expect("a name");
            answer.push((&name, 1, Srv::new(0, 0, *port, host))).expect("it fits");
        }
        answer.finish()
    }
}

/// The whole future, boxed.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
