//! Named routes and per-route limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::log::Log;
use crate::support::process::run_alone;
use crate::support::worker::{http2, with_worker};
use crate::support::{
    Client, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    builder,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::{get, post};
use bytes::Bytes;
use corelane::axum::LearnRoutes;
use corelane::{Incoming, Lane, LearnCalls, Limits, RouteLimits, Timeouts};
use http::{Request, Response};
use http_body_util::Full;
use rstest::rstest;
use tokio::sync::Semaphore;
use tower::Layer;

fn requests(server: &Running, route: &str, code: u16) -> f64 {
    server.metric(&format!(
        "corelane_requests_total{{lane=\"0\",route=\"{route}\",method=\"GET\",code=\"{code}\"}}"
    ))
}

fn has(server: &Running, text: &str) -> bool {
    server.admin_get("/metrics").text().contains(text)
}

fn named() -> Router {
    let inner = Router::new().route("/{id}", get(async || "one"));
    let router = Router::new().route("/greet/{name}", get(async || "hello")).nest("/things", inner);
    router.layer(LearnRoutes)
}

#[rstest]
fn a_router_names_its_routes(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), |_lane: &Lane| named());
    for path in ["/greet/Ada", "/greet/Bob", "/things/7"] {
        assert_eq!(server.get(path).status, 200);
    }
    for path in ["/nothing", "/greet/", "/things/7/8"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(requests(&server, "/greet/{name}", 200), 2.0);
    assert_eq!(requests(&server, "/things/{id}", 200), 1.0);
    assert_eq!(requests(&server, "other", 404), 3.0);
    let family = "corelane_load_table_observations_total";
    assert_eq!(
        server.metric(&format!("{family}{{route=\"/greet/{{name}}\",method=\"GET\"}}")),
        2.0
    );
    assert!(server.admin_get("/lanes").text().contains("/greet/{name}"));
    assert!(has(&server, "corelane_stalls_total{lane=\"0\",route=\"/greet/{name}\"} 0"));
}

#[test]
fn a_learnt_route_is_estimated_before_the_call() {
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let limits = Limits { slots: 1, ..Limits::default() };
    let server = Running::start(builder().limits(limits), move |_lane: &Lane| {
        async fn wait(State(gate): State<Arc<Semaphore>>) -> &'static str {
            gate.acquire().await.expect("open").forget();
            "through"
        }
        let spin = async || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(30) {}
            "spun"
        };
        let router = Router::new().route("/spin/{n}", get(spin)).route("/wait", get(wait));
        router.route("/quick", get(async || "quick")).layer(LearnRoutes).with_state(open.clone())
    });
    let mut client = server.connect();
    assert_eq!(client.get("/spin/1").status, 200);
    (0..20).for_each(|_| assert_eq!(client.get("/quick").status, 200));
    // The only slot is busy, so the next request queues.
    let mut first = server.connect();
    first.send_get("/wait");
    server.wait_for_in_flight(1);
    let mut second = server.connect();
    second.send_get("/spin/2");
    server.wait_for_metric("corelane_requests_queued{lane=\"0\"}", 1.0);
    let expected = server.metric("corelane_lane_expected_seconds{lane=\"0\"}");
    assert!(expected > 0.02, "{expected}: it counts as a request of any kind");
    gate.add_permits(1);
    assert_eq!((first.read_answer().status, second.read_answer().status), (200, 200));
}

#[test]
fn a_template_of_the_settings_takes_precedence_and_the_rest_is_bounded() {
    let log = Log::open();
    let settings = builder().routes(["/greet/{anyone}"]).learnt_routes(1);
    let server = Running::start(settings, |_lane: &Lane| {
        named().route("/late", get(async || "late")).layer(LearnRoutes)
    });
    for path in ["/greet/Ada", "/things/7", "/late", "/late"] {
        assert_eq!(server.get(path).status, 200);
    }
    assert_eq!(requests(&server, "/greet/{anyone}", 200), 1.0);
    assert_eq!(requests(&server, "/things/{id}", 200), 1.0);
    assert_eq!(requests(&server, "other", 200), 2.0);
    assert!(!has(&server, "/greet/{name}"));
    // The handler's thread logs this before the response.
    assert_eq!(log.lines_so_far(&["WARN", "no room for more routes", "/late"]).len(), 1);
    assert!(builder().learnt_routes(513).validate().is_err());
}

#[test]
fn any_service_names_its_routes() {
    let server = Running::start(builder(), |_lane: &Lane| {
        tower::service_fn(|request: Request<Incoming>| async move {
            corelane::set_route("/never/{seen}");
            if let Some(("", "div")) = request.uri().path().rsplit_once('/') {
                corelane::set_route("/{op}");
            }
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        })
    });
    assert_eq!((server.get("/div").status, server.get("/a/b").status), (200, 200));
    assert_eq!(requests(&server, "/{op}", 200), 1.0, "the last name counts");
    assert_eq!(requests(&server, "/never/{seen}", 200), 1.0);
    corelane::set_route("/outside");
}

#[rstest]
fn calls_of_grpc_are_named_by_their_paths(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), |_lane: &Lane| {
        LearnCalls.layer(tower::service_fn(async |request: Request<Incoming>| {
            let path = request.uri().path();
            let reply = Response::builder();
            let reply = match path {
                "/page" => reply.header("content-type", "text/plain"),
                _ => reply.header("content-type", "application/grpc"),
            };
            let unknown = path != "/page" && path != "/shop.Orders/Place";
            let reply = if unknown { reply.header("grpc-status", "12") } else { reply };
            reply.body(Full::<Bytes>::default())
        }))
    });
    for path in ["/shop.Orders/Place", "/shop.Orders/Place?x=1", "/page", "/shop.Orders/None", "/{"]
    {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(requests(&server, "/shop.Orders/Place", 200), 2.0);
    assert_eq!(requests(&server, "other", 200), 3.0);
}

/// Tonic routes merged into a router, as in docs/porting.md.
#[test]
fn calls_and_pages_of_one_router_have_their_names() {
    let server = Running::start(builder(), |_lane: &Lane| {
        let call = async || ([("content-type", "application/grpc")], "");
        let routes = Router::new().route("/shop.Orders/{*rest}", get(call));
        LearnCalls.layer(routes.merge(named()).layer(LearnRoutes))
    });
    for path in ["/shop.Orders/Place", "/greet/Ada"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert_eq!(requests(&server, "/shop.Orders/Place", 200), 1.0);
    assert_eq!(requests(&server, "/greet/{name}", 200), 1.0);
}

#[test]
fn requests_without_any_route_are_a_warning() {
    // Other servers could log the same warning.
    run_alone("warns_of_requests_without_any_route", 1);
}

#[test]
#[ignore = "needs a log of its own: run by requests_without_any_route_are_a_warning"]
fn warns_of_requests_without_any_route() {
    const REQUESTS: u64 = 1200;
    let log = Log::open();
    let server = Running::start(builder(), |_lane: &Lane| {
        Router::new().route("/greet/{name}", get(async || "hello"))
    });
    let mut client = server.connect();
    (0..REQUESTS).for_each(|_| assert_eq!(client.get("/greet/Ada").status, 200));
    let line = log.wait_for(&["WARN", "no request has a route"]);
    let requests =
        line.split("requests=").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    // The lane checks this once a second, so any of these requests may trigger the warning.
    assert!(requests.is_some_and(|requests| (1000..=REQUESTS).contains(&requests)), "{line}");
}

/// The limit is 10 bytes, except for some routes.
fn limited(way: Way) -> Running {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let settings = way.builder().limits(limits);
    Running::start(settings, |_lane: &Lane| {
        let length = || post(async |body: Bytes| body.len().to_string());
        let bytes = |n| RouteLimits { body_bytes: Some(n), ..RouteLimits::default() };
        let axum_limit = length().layer::<_, Infallible>(DefaultBodyLimit::max(20));
        let axum_limit = axum_limit.layer(bytes(90_000));
        let header = RouteLimits { header_bytes: Some(200), ..RouteLimits::default() };
        Router::new()
            .route("/same", length())
            .route("/unread", post(async || "unread"))
            .route("/large", length().layer(bytes(90_000)))
            .route("/small", length().layer(bytes(5)))
            .route("/axum", axum_limit)
            .route("/header", get(async || "short").layer(header))
    })
}

/// Status and body of the response to this framing.
fn send(client: &mut Client, path: &str, framing: &str, body: &str) -> (u16, String) {
    client.send(format!("POST {path} HTTP/1.1\r\nHost: t\r\n{framing}\r\n\r\n{body}"));
    let answer = client.read_answer();
    (answer.status, answer.text())
}

fn whole(server: &Running, path: &str, length: usize) -> (u16, String) {
    let framing = format!("Content-Length: {length}");
    send(&mut server.connect(), path, &framing, &"x".repeat(length))
}

fn chunked(server: &Running, path: &str, length: usize) -> (u16, String) {
    let body = format!("{length:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(length));
    send(&mut server.connect(), path, "Transfer-Encoding: chunked", &body)
}

#[rstest]
fn a_route_may_raise_and_lower_the_size_of_bodies(#[values(Plain, Hyper)] way: Way) {
    let server = limited(way);
    let fits = |n: usize| (200, n.to_string());
    for send in [whole, chunked] {
        assert_eq!(send(&server, "/same", 10), fits(10));
        let (status, text) = send(&server, "/same", 11);
        assert!(status == 413 && text.contains("at most 10 bytes"), "{text}");
        // Some of these bodies are larger than one read.
        for length in [10, 11, 1000, 90_000] {
            assert_eq!(send(&server, "/large", length), fits(length));
        }
        let (status, text) = send(&server, "/large", 90_001);
        assert!(status == 413 && text.contains("at most 90000 bytes"), "{text}");
        assert_eq!(send(&server, "/small", 5), fits(5));
        let (status, text) = send(&server, "/small", 6);
        assert!(status == 413 && text.contains("at most 5 bytes"), "{text}");
        assert_eq!(send(&server, "/axum", 20), fits(20));
        let (status, text) = send(&server, "/axum", 21);
        assert!(status == 413 && !text.contains("urn:corelane"), "axum's own reply: {text}");
    }
    assert_eq!(server.refused_requests("body_too_large"), 6.0);
}

#[rstest]
fn a_body_that_is_too_large_is_not_asked_for(#[values(Plain, Hyper)] way: Way) {
    let server = limited(way);
    for (path, length, status) in [("/same", 11, 413), ("/large", 11, 100), ("/small", 6, 413)] {
        let mut client = server.connect();
        let framing = format!("Content-Length: {length}\r\nExpect: 100-continue");
        client.send(format!("POST {path} HTTP/1.1\r\nHost: t\r\n{framing}\r\n\r\n"));
        assert_eq!(client.read_answer().status, status, "{path}");
    }
    // A handler that ignores the body does not notice the limit.
    let mut client = server.connect();
    client.send("POST /unread HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\n\r\n");
    assert_eq!(client.read_answer().text(), "unread");
}

#[test]
fn a_route_has_its_limits_over_http2() {
    let server = limited(Plain);
    with_worker(async {
        let (client, _) = http2(&server).await;
        let ask = |path: &'static str, length: usize, announced: bool| {
            let client = client.clone();
            async move {
                let mut client = client.ready().await.expect("ready");
                let mut request = Request::post(format!("http://test{path}"));
                if announced {
                    request = request.header("content-length", length);
                }
                let request = request.body(()).expect("a request");
                let (reply, mut body) = client.send_request(request, false).expect("sent");
                // This call fails after a reset, but the response then shows the reason.
                let _ = body.send_data(Bytes::from(vec![b'x'; length]), true);
                tokio::time::timeout(PATIENCE, reply)
                    .await
                    .expect("in time")
                    .expect("a reply")
                    .status()
            }
        };
        for announced in [true, false] {
            assert_eq!(ask("/same", 11, announced).await, 413);
            assert_eq!(ask("/large", 60_000, announced).await, 200);
            assert_eq!(ask("/small", 5, announced).await, 200);
            assert_eq!(ask("/small", 6, announced).await, 413);
        }
    });
}

#[rstest]
fn a_route_may_lower_the_size_of_headers(#[values(Plain, Hyper)] way: Way) {
    let server = limited(way);
    let ask = |length: usize| {
        let mut client = server.connect();
        let field = "f".repeat(length);
        client.send(format!("GET /header HTTP/1.1\r\nHost: t\r\nLong: {field}\r\n\r\n"));
        client.read_answer()
    };
    assert_eq!(ask(100).status, 200);
    let answer = ask(300);
    assert_eq!(answer.status, 431);
    assert!(answer.text().contains("at most 200 bytes"), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(server.refused_requests("header_too_large"), 1.0);
}

#[rstest]
fn a_route_may_raise_and_lower_the_deadline(#[values(Plain, Hyper)] way: Way) {
    let timeouts = Timeouts { request: Duration::from_secs(3600), ..Timeouts::default() };
    let server = Running::start(way.builder().timeouts(timeouts), |_lane: &Lane| {
        let allow = |seconds: f64| {
            let request = Some(Duration::from_secs_f64(seconds));
            RouteLimits { request, ..RouteLimits::default() }
        };
        let left = async || {
            let left = corelane::deadline().map(|at| at.duration_since(Instant::now()));
            left.map_or(0, |left| left.as_secs() / 60).to_string()
        };
        let hang = async || std::future::pending::<Body>().await;
        Router::new()
            .route("/same", get(left))
            .route("/more", get(left).layer(allow(7230.0)))
            .route("/less", get(left).layer(allow(630.0)))
            .route("/hang", get(hang).layer(allow(0.2)))
    });
    let ask = |path: &str| server.get(path).text();
    assert_eq!(
        (ask("/same"), ask("/more"), ask("/less")),
        ("59".into(), "120".into(), "10".into())
    );
    let answer = server.get("/hang");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("urn:corelane:problem:deadline-exceeded"), "{answer:?}");
    assert_eq!(server.refused_requests("request_timeout"), 1.0);
}

#[test]
fn a_route_that_raises_the_deadline_outlives_the_servers() {
    let timeouts = Timeouts { request: Duration::from_millis(100), ..Timeouts::default() };
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let server = Running::start(builder().timeouts(timeouts), move |_lane: &Lane| {
        let open = Arc::clone(&open);
        let wait = async move || {
            open.acquire().await.expect("open").forget();
            "through"
        };
        let request = Some(PATIENCE);
        let more = RouteLimits { request, ..RouteLimits::default() };
        let hang = async || std::future::pending::<Body>().await;
        Router::new().route("/more", get(wait).layer(more)).route("/hang", get(hang))
    });
    let mut client = server.connect();
    client.send_get("/more");
    server.wait_for_in_flight(1);
    // This request starts later and is stopped by the server's deadline.
    assert_eq!(server.get("/hang").status, 503);
    gate.add_permits(1);
    assert_eq!(client.read_answer().text(), "through");
}
