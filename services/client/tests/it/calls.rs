//! One caller: endpoints, retries and overload.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use corelane::{Limits, Problem};
use corelane_client::{ErrorKind, Settings};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use tokio::sync::Semaphore;

use crate::support::{Alive, Lab, Mortal, builder, eventually, serve, settings, text};

/// A port that is closed now, and that nothing else uses.
fn closed() -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, high.clamp(1, 254), low, 1], 1))
}

fn post(body: &'static str) -> Request<Full<Bytes>> {
    Request::post("/").body(Full::from(body)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn calls_are_spread_over_all_endpoints_and_keep_their_connections() {
    let servers: Vec<_> =
        (0..3).map(|n| serve(builder(), move |_| async move { text(n.to_string()) })).collect();
    for scheme in ["http", "h2c"] {
        let addresses: Vec<_> = servers.iter().map(|server| server.address()).collect();
        let lab = Lab::new(settings(scheme, &addresses));
        let mut shares = [0; 3];
        for _ in 0..30 {
            let reply = lab.client.get("/").await.unwrap();
            shares[usize::from(reply.body()[0] - b'0')] += 1;
        }
        assert_eq!((shares, lab.outcome("ok")), ([10; 3], 30));
        assert_eq!((lab.single("connections"), lab.single("endpoints")), (3, 3));
        assert_eq!(lab.single("request_duration_seconds_count"), 30);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_idle_connection_is_closed_before_the_server_would() {
    let server = serve(builder(), |_| async { text("hello") });
    let idle = std::time::Duration::from_millis(100);
    let lab = Lab::new(Settings { idle, ..settings("http", &[server.address()]) });
    lab.client.get("/").await.unwrap();
    eventually("closed", async || (lab.single("connections") == 0).then_some(())).await;
    lab.client.get("/").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_dead_endpoint_costs_no_call_and_is_ejected() {
    let server = serve(builder(), |request| async {
        let body = request.into_body().collect().await?.to_bytes();
        text(String::from_utf8_lossy(&body))
    });
    let lab = Lab::to(&[closed(), server.address()]);
    for _ in 0..20 {
        let reply = lab.client.fetch(post("order")).await.unwrap();
        assert_eq!(reply.body(), "order");
    }
    assert_eq!((lab.outcome("ok"), lab.single("endpoints_ejected")), (20, 1));
    assert!(lab.single("retries_total") >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_server_that_restarts_is_called_again() {
    let server = serve(builder(), |_| async { text("first") });
    let address = server.address();
    let lab = Lab::to(&[address]);
    assert_eq!(lab.client.get("/").await.unwrap().body(), "first");
    assert_eq!(server.drain().unwrap().cut, 0);
    let error = lab.client.get("/").await.unwrap_err();
    assert_eq!((error.kind(), error.endpoint()), (ErrorKind::Unreachable, Some(address)));
    assert_eq!(error.problem().into_response().status(), StatusCode::BAD_GATEWAY);
    let again = corelane::Server::builder().bind(address).signals(false).slow_lanes(None);
    let again = again.lanes(corelane::Lanes::Count(1)).build().unwrap();
    let handle = again.handle();
    let factory = |_: &corelane::Lane| crate::support::service(|_| async { text("second") });
    let thread = std::thread::spawn(move || again.serve(factory));
    eventually("up again", async || {
        lab.client.get("/").await.ok().filter(|reply| reply.body() == "second")
    })
    .await;
    handle.stop();
    drop(lab);
    assert_eq!(thread.join().unwrap().unwrap().cut, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_idempotent_methods_are_retried_after_a_broken_connection() {
    let mortal = Mortal::start();
    let lab = Lab::to(&[mortal.address]);
    let error = lab.client.fetch(post("order")).await.unwrap_err();
    assert_eq!((error.kind(), mortal.requests()), (ErrorKind::Failed, 1));
    lab.client.get("/").await.unwrap_err();
    assert_eq!((mortal.requests(), lab.single("retries_total")), (4, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_budget_bounds_retries() {
    let mortal = Mortal::start();
    let lab = Lab::to(&[mortal.address]);
    for _ in 0..200 {
        lab.client.get("/").await.unwrap_err();
    }
    // A fifth of the calls, and the ten retries that a budget starts with.
    assert_eq!((lab.outcome("failed"), lab.single("retries_total")), (200, 200 / 5 + 10));
    assert_eq!(mortal.requests(), 250);
    assert!(lab.single("retries_denied_total") > 0 && lab.single("retry_budget") == 0);
}

/// A server with one slot and no queue, which is busy with `/gate` until a permit arrives.
fn busy(gate: &Arc<Semaphore>, alive: &Alive) -> corelane::testing::TestServer {
    let (gate, alive) = (Arc::clone(gate), alive.clone());
    let limits = Limits { slots: 1, queue: 0, ..Limits::default() };
    serve(builder().limits(limits), move |request| {
        let (gate, alive) = (Arc::clone(&gate), alive.enter());
        async move {
            if request.uri().path() == "/gate" {
                gate.acquire().await?.forget();
            }
            drop(alive);
            text("served")
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_shed_call_goes_to_another_endpoint_or_is_a_typed_error() {
    let (gate, alive) = (Arc::new(Semaphore::new(0)), Alive::default());
    let server = busy(&gate, &alive);
    let holder = Lab::to(&[server.address()]);
    let held = tokio::spawn({
        let client = holder.client.clone();
        async move { client.get("/gate").await }
    });
    eventually("busy", async || (alive.now() == 1).then_some(())).await;

    let alone = Lab::to(&[server.address()]);
    let error = alone.client.fetch(post("order")).await.unwrap_err();
    let ErrorKind::Overloaded { retry_after } = error.kind() else { panic!("{error}") };
    assert!(retry_after.as_secs() >= 1);
    assert_eq!((alone.outcome("overloaded"), alone.single("retries_total")), (1, 0));
    let reply = Problem::from(error).into_response();
    assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(reply.headers().contains_key("retry-after"));

    let other = serve(builder(), |_| async { text("other") });
    let lab = Lab::to(&[server.address(), other.address()]);
    for _ in 0..4 {
        assert_eq!(lab.client.fetch(post("order")).await.unwrap().body(), "other");
    }
    assert!(lab.single("retries_total") >= 1, "the first endpoint sheds");
    gate.add_permits(1);
    assert_eq!(held.await.unwrap().unwrap().body(), "served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn dropping_a_call_or_a_body_cancels_the_callees_work() {
    for scheme in ["http", "h2c"] {
        let (gate, alive) = (Arc::new(Semaphore::new(0)), Alive::default());
        let server = {
            let (gate, alive) = (Arc::clone(&gate), alive.clone());
            serve(builder(), move |_| {
                let (gate, alive) = (Arc::clone(&gate), alive.enter());
                async move {
                    gate.acquire().await?.forget();
                    drop(alive);
                    text("through")
                }
            })
        };
        let lab = Lab::new(settings(scheme, &[server.address()]));
        let call =
            tokio::spawn(lab.client.send(Request::get("/").body(Empty::<Bytes>::new()).unwrap()));
        eventually("called", async || (alive.now() == 1).then_some(())).await;
        call.abort();
        eventually("cancelled", async || (alive.now() == 0).then_some(())).await;
        assert_eq!(lab.outcome("cancelled"), 1);
        gate.add_permits(1);
        assert_eq!(lab.client.get("/").await.unwrap().body(), "through", "{scheme}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_without_time_fails_at_once() {
    let alive = Alive::default();
    let server = serve(builder(), move |_| {
        let alive = alive.enter();
        async move {
            let _alive = alive;
            std::future::pending().await
        }
    });
    let timeout = std::time::Duration::ZERO;
    let lab = Lab::new(Settings { timeout, ..settings("http", &[server.address()]) });
    assert_eq!(lab.client.get("/").await.unwrap_err().kind(), ErrorKind::Deadline);
    assert_eq!((lab.single("connections"), lab.outcome("deadline")), (0, 1));
    let timeout = std::time::Duration::from_millis(50);
    let lab = Lab::new(Settings { timeout, ..settings("http", &[server.address()]) });
    let error = lab.client.get("/").await.unwrap_err();
    assert_eq!((error.kind(), error.endpoint()), (ErrorKind::Deadline, Some(server.address())));
}
