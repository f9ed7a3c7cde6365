//! Pages, metrics and dependency health that a service adds to the admin port.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::support::{Client, Handlers, Running, builder};
use bytes::Bytes;
use corelane::prometheus_client::collector::Collector;
use corelane::prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use corelane::prometheus_client::metrics::counter::Counter;
use corelane::prometheus_client::metrics::family::Family;
use corelane::prometheus_client::metrics::gauge::ConstGauge;
use corelane::prometheus_client::registry::Registry;
use corelane::{Error, Server};
use http::{Request, Response};
use http_body_util::Full;

type Labels = Vec<(String, String)>;

#[derive(Debug)]
struct Books;

impl Collector for Books {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let books = ConstGauge::new(7_i64);
        let metric =
            out.encode_descriptor("shop_books", "Books in the shop", None, books.metric_type())?;
        books.encode(metric)
    }
}

fn echo(request: Request<Bytes>) -> Response<Full<Bytes>> {
    let text = [request.method().as_str().as_bytes(), b" ", request.body()].concat();
    Response::new(Full::from(text))
}

#[test]
fn a_page_gets_every_method_and_the_whole_body() {
    let server = Running::start(
        builder().admin_route("/echo", "Repeats <a request>", echo),
        Handlers::new().factory(),
    );
    let mut client = Client::connect(server.admin);
    for (sent, text) in [
        ("PUT /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nlog", "PUT log"),
        (
            "POST /echo?x HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nlog\r\n0\r\n\r\n",
            "POST log",
        ),
        ("GET /echo HTTP/1.1\r\nHost: test\r\n\r\n", "GET "),
    ] {
        client.send(sent);
        let answer = client.read_answer();
        assert_eq!((answer.status, answer.text().as_str()), (200, text));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    client.send("GET /echo/ HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.read_answer().status, 404);
    let index = client.get("/").text();
    assert!(index.contains("href=\"echo\"") && index.contains("href=\"metrics\""), "{index}");
    assert!(index.contains("Repeats &lt;a request&gt;"), "{index}");
    client.send("PUT /lanes HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.read_answer().status, 405);
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let server = Running::start(
        builder().admin_route("/echo", "Repeats <a request>", echo),
        Handlers::new().factory(),
    );
    let mut client = Client::connect(server.admin);
    let length = 64 * 1024 + 1;
    client.send(format!("PUT /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n"));
    assert_eq!(client.read_answer().status, 413);
}

#[test]
fn the_servers_own_pages_cannot_be_replaced() {
    let valid = Server::builder().admin_route("/metrics", "", echo).validate();
    assert!(matches!(valid, Err(Error::Setting(text)) if text.contains("/metrics")));
}

#[test]
fn the_services_metrics_follow_those_of_the_server() {
    let server = Running::start(builder().collector(Books), Handlers::new().factory());
    assert_eq!(server.metric("shop_books"), 7.0);
    let text = server.admin_get("/metrics").text();
    let place = |name: &str| text.find(name).expect("it is shown");
    assert!(place("corelane_build_info") < place("shop_books"));
}

#[test]
fn a_registry_of_the_service_is_served_with_what_it_gets_later() {
    let registry = Arc::new(Mutex::new(Registry::default()));
    let (orders, sizes) = (Counter::<u64>::default(), Family::<Labels, Counter>::default());
    let register = |name: &str, metric: Counter| {
        registry.lock().expect("no panic").register(name, "Of the test", metric);
    };
    register("shop_orders", orders.clone());
    registry.lock().expect("no panic").register("shop_sizes", "By size", sizes.clone());
    let settings = builder().collector(Books).registry(Arc::clone(&registry));
    let server = Running::start(settings, Handlers::new().factory());
    orders.inc_by(3);
    sizes.get_or_create(&vec![("size".to_owned(), "large".to_owned())]).inc();
    register("shop_late", Counter::default());
    // A duplicate family would break the scrape.
    register("corelane_ready", Counter::default());
    assert_eq!((server.metric("shop_books"), server.metric("shop_orders_total")), (7.0, 3.0));
    assert_eq!(server.metric("shop_sizes_total{size=\"large\"}"), 1.0);
    assert_eq!(server.metric("shop_late_total"), 0.0);
    let text = server.admin_get("/metrics").text();
    assert_eq!(text.matches("# HELP corelane_ready ").count(), 1);
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
}

#[test]
fn names_of_the_server_are_an_error_of_the_start() {
    let mut registry = Registry::with_prefix("corelane");
    registry.register("orders", "Of the test", Counter::<u64>::default());
    let valid = Server::builder().registry(Arc::new(Mutex::new(registry))).validate();
    assert!(matches!(valid, Err(Error::Setting(text)) if text.contains("corelane_orders")));
}

#[test]
fn readiness_says_what_is_down() {
    let server = Running::start(builder(), Handlers::new().factory());
    let ready = || {
        let answer = server.admin_get("/readyz");
        (answer.status, answer.text())
    };
    let up = || server.metric("corelane_dependency_up{dependency=\"database\"}");
    let database = server.handle.dependency("database");
    assert_eq!((ready(), up()), ((200, "ready\n".to_owned()), 1.0));

    database.pending("not connected yet");
    let text = "not ready: serving\ndatabase: not connected yet\n".to_owned();
    assert_eq!((ready(), up()), ((503, text), 0.0));

    database.down("connection refused");
    let (status, text) = ready();
    assert_eq!((status, up()), (200, 0.0));
    assert!(text.starts_with("ready\ndatabase: down for "), "{text}");
    assert!(text.ends_with(" s: connection refused\n"), "{text}");

    let database = database.required();
    let (status, text) = ready();
    assert_eq!(status, 503);
    assert!(text.starts_with("not ready: serving\ndatabase: down for "), "{text}");
    assert_eq!(server.metric("corelane_ready"), 0.0);

    database.up();
    assert_eq!((ready(), up()), ((200, "ready\n".to_owned()), 1.0));
}
