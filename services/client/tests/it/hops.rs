//! Services that call services.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane::testing::TestServer;
use corelane::{Problem, Timeouts, Traces};
use corelane_client::{Calls, Settings};
use http::{Request, Response, StatusCode};
use http_body_util::Full;

use crate::support::{
    Alive, Boxed, Lab, Mortal, Reply, builder, eventually, serve, service, settings, text,
};

/// A service that forwards every request to `callee`.
fn hop(settings: Settings, builder: corelane::Builder, seen: Seen) -> TestServer {
    let callee = Calls::new().service("callee", settings).unwrap();
    let factory = move |_lane: &corelane::Lane| {
        let (client, seen) = (callee.lane(), seen.clone());
        service(move |request: Request<corelane::Incoming>| -> Boxed<Reply> {
            seen.note(&request);
            let call = client.fetch(request.map(|_| Full::<Bytes>::default()));
            Box::pin(async move { Ok(call.await?.map(Full::new)) })
        })
    };
    TestServer::start(builder, factory).unwrap()
}

/// The time left and the headers of the requests that reached a service.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(Duration, http::HeaderMap)>>>);

impl Seen {
    fn note<B>(&self, request: &Request<B>) {
        let deadline = corelane::deadline().expect("in a handler");
        let left = deadline.saturating_duration_since(Instant::now());
        self.0.lock().unwrap().push((left, request.headers().clone()));
    }

    fn last(&self) -> (Duration, http::HeaderMap) {
        self.0.lock().unwrap().last().expect("a request").clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_belongs_to_a_request_goes_along() {
    let (first, second) = (Seen::default(), Seen::default());
    let noted = second.clone();
    let last = serve(builder(), move |request| {
        noted.note(&request);
        async { text("hello") }
    });
    let builder = builder().traces(Traces::PassOn);
    let hop = hop(settings("http", &[last.address()]), builder, first.clone());
    let request = Request::get("/orders?id=7")
        .header("x-request-id", "id-of-a-test")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("tracestate", "vendor=1")
        .header("baggage", "tenant=7");
    let lab = Lab::to(&[hop.address()]);
    let reply = lab.client.fetch(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!(reply.body(), "hello");
    let (sent, received) = (first.last(), second.last());
    for name in ["x-request-id", "traceparent", "tracestate", "baggage"] {
        assert_eq!(received.1.get(name), sent.1.get(name), "{name}");
    }
    assert_eq!(received.1["host"].as_bytes(), last.address().to_string().as_bytes());
    assert!(received.0 <= sent.0, "a callee never has more time than its caller");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_servers_metrics_show_the_calls_of_its_registry() {
    let calls = Calls::new();
    let target = "http://127.0.0.1:1".parse::<corelane_client::Target>().unwrap();
    let _callee = calls.service("orders", target).unwrap();
    let mut registry = corelane::prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(calls));
    let shown = builder().registry(Arc::new(Mutex::new(registry)));
    let server = serve(shown, |_| async { text("hello") });
    let page = Lab::to(&[server.admin()]).client.get("/metrics").await.unwrap();
    let page = String::from_utf8_lossy(page.body()).into_owned();
    assert!(
        page.contains("\ncorelane_client_retries_denied_total{callee=\"orders\"} 0\n"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deadline_holds_over_two_hops_and_ends_the_work_there() {
    let (alive, seen) = (Alive::default(), [Seen::default(), Seen::default(), Seen::default()]);
    let last = serve(builder(), {
        let (alive, seen) = (alive.clone(), seen[2].clone());
        move |request| {
            seen.note(&request);
            let alive = alive.enter();
            async move {
                let _alive = alive;
                std::future::pending().await
            }
        }
    });
    let middle = hop(settings("http", &[last.address()]), builder(), seen[1].clone());
    let limited = Timeouts { request: Duration::from_secs(5), ..Timeouts::default() };
    let edge =
        hop(settings("http", &[middle.address()]), builder().timeouts(limited), seen[0].clone());
    let lab = Lab::to(&[edge.address()]);
    let error = lab.client.get("/").await.unwrap_err();
    assert_eq!(error.problem().into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
    eventually("cancelled", async || (alive.now() == 0).then_some(())).await;
    let [edge, middle, last] = seen.each_ref().map(|seen| seen.last().0);
    assert!(last <= middle && middle <= edge, "each hop leaves a margin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_route_cannot_extend_the_callers_deadline() {
    let (first, second) = (Seen::default(), Seen::default());
    let noted = second.clone();
    let limits =
        corelane::RouteLimits { request: Some(Duration::from_secs(3600)), ..Default::default() };
    let last = TestServer::start(builder(), move |_| {
        let noted = noted.clone();
        let inner = service(move |request: Request<corelane::Incoming>| {
            noted.note(&request);
            async { text("hello") }
        });
        tower::Layer::layer(&limits, inner)
    })
    .unwrap();
    let hop = hop(settings("http", &[last.address()]), builder(), first.clone());
    Lab::to(&[hop.address()]).client.get("/").await.unwrap();
    assert!(second.last().0 <= first.last().0);
    // Without a caller's deadline, the route has its own.
    let client = std::net::TcpStream::connect(last.address()).unwrap();
    std::io::Write::write_all(
        &mut &client,
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    )
    .unwrap();
    std::io::read_to_string(&client).unwrap();
    assert!(second.last().0 > first.last().0 + Duration::from_secs(600));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_overload_two_hops_down_is_an_overload_at_the_edge() {
    let last = serve(builder(), |_| async {
        let busy = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded");
        let busy = busy.header(http::header::RETRY_AFTER, http::HeaderValue::from_static("7"));
        Ok::<Response<_>, corelane_client::BoxError>(busy.into_response())
    });
    let middle = hop(settings("http", &[last.address()]), builder(), Seen::default());
    let edge = hop(settings("http", &[middle.address()]), builder(), Seen::default());
    let lab = Lab::to(&[edge.address()]);
    let error = lab.client.get("/").await.unwrap_err();
    let retry_after = Duration::from_secs(7);
    assert_eq!(error.kind(), corelane_client::ErrorKind::Overloaded { retry_after });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn retries_of_three_layers_do_not_multiply() {
    const CALLS: usize = 500;
    let last = Mortal::start();
    let middle = hop(settings("http", &[last.address]), builder(), Seen::default());
    let edge = hop(settings("http", &[middle.address()]), builder(), Seen::default());
    let lab = Lab::to(&[edge.address()]);
    for _ in 0..CALLS {
        let reply = lab.client.get("/").await.unwrap();
        assert_eq!(reply.status(), StatusCode::BAD_GATEWAY);
    }
    // Three budgets, but only the layer next to the failure retries.
    let most = CALLS + CALLS / 5 + 10;
    assert!((CALLS..=most).contains(&last.requests()), "{} requests", last.requests());
    assert_eq!(lab.single("retries_total"), 0);
}
