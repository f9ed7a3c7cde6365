//! Startup: async and failing service factories.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::support::{Client, Handlers, TestService, builder, end_of};
use corelane::testing::TestServer;
use corelane::{Drain, Drained, Error, Lane, Lanes, Placement, Server};
use tokio::sync::Semaphore;

const PLACEMENTS: [Placement; 2] = [Placement::Hashed, Placement::LeastLoaded];

fn two_lanes(placement: Placement) -> (Server, SocketAddr, SocketAddr) {
    let server = builder().lanes(Lanes::Count(2)).placement(placement).build().expect("it binds");
    let address = server.local_addr().expect("an address");
    let admin = server.admin_addr().expect("an admin address");
    (server, address, admin)
}

fn hello(lane: &Lane) -> TestService {
    Handlers::new().factory()(lane)
}

#[test]
fn no_lane_serves_before_all_have_their_services() {
    for placement in PLACEMENTS {
        let (server, address, admin) = two_lanes(placement);
        let handle = server.handle();
        let gate = Arc::new(Semaphore::new(0));
        let (late, begun) = (Arc::clone(&gate), Arc::new(Semaphore::new(0)));
        let begins = Arc::clone(&begun);
        let thread = thread::spawn(move || {
            server.try_serve(move |lane| {
                let (late, begins) = (Arc::clone(&late), Arc::clone(&begins));
                async move {
                    begins.add_permits(1);
                    // Lane 0 is ready long before lane 1. Local tasks run on both lanes.
                    if lane.index() == 1 {
                        let waits = async move { late.acquire().await.expect("open").forget() };
                        tokio::task::spawn_local(waits).await?;
                    }
                    Ok::<_, tokio::task::JoinError>(hello(&lane))
                }
            })
        });
        let mut early: Vec<_> = (0..32).map(|_| Client::connect(address)).collect();
        early.iter_mut().for_each(|client| client.send_get("/"));
        while begun.available_permits() < 2 {
            thread::yield_now();
        }
        assert_eq!(Client::connect(admin).get("/readyz").status, 503, "{placement}");
        let metrics = Client::connect(admin).get("/metrics").text();
        assert!(metrics.contains("\ncorelane_connections_accepted_total{lane=\"0\"} 0\n"));
        gate.add_permits(1);
        early.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
        // The lanes are serving slightly before the probe reports it.
        while Client::connect(admin).get("/readyz").status != 200 {
            thread::yield_now();
        }
        handle.drain();
        assert_eq!(end_of(thread).expect("a clean end"), Drained { cut: 0 });
    }
}

#[test]
fn the_first_factory_that_fails_ends_the_start() {
    for placement in PLACEMENTS {
        let (server, address, _) = two_lanes(placement);
        let mut client = Client::connect(address);
        client.send_get("/");
        let thread = thread::spawn(move || {
            server.try_serve(|lane| async move {
                match lane.index() {
                    0 => Ok(hello(&lane)),
                    _ => Err(std::io::Error::other("no such database")),
                }
            })
        });
        let error = end_of(thread).expect_err("lane 1 has no service");
        assert!(matches!(error, Error::Factory { lane: 1, .. }), "{placement}: {error:?}");
        let source = std::error::Error::source(&error).expect("the factory's error");
        assert!(source.is::<std::io::Error>(), "{source:?}");
        assert_eq!(
            error.to_string(),
            "the service of lane 1 could not be created: no such database"
        );
        assert!(!error.is_setting());
        assert!(client.read_to_close().is_empty(), "{placement}: no lane has served");
    }
}

#[test]
fn a_factory_that_panics_is_an_error_of_the_start() {
    let (server, ..) = two_lanes(Placement::Hashed);
    let thread = thread::spawn(move || {
        server.try_serve(|lane| async move {
            tokio::task::yield_now().await;
            assert_ne!(lane.index(), 0, "lane 0 panics");
            std::future::pending::<Result<TestService, std::io::Error>>().await
        })
    });
    let error = end_of(thread).expect_err("lane 0 has no service");
    assert!(matches!(error, Error::Factory { lane: 0, .. }), "{error:?}");
    assert!(error.to_string().contains("lane 0 panics"), "{error}");
}

#[test]
fn a_drain_ends_a_start_that_waits() {
    for placement in PLACEMENTS {
        let (server, ..) = two_lanes(placement);
        let (handle, begun) = (server.handle(), Arc::new(Semaphore::new(0)));
        let begins = Arc::clone(&begun);
        let thread = thread::spawn(move || {
            server.try_serve(move |_lane| {
                begins.add_permits(1);
                std::future::pending::<Result<TestService, std::io::Error>>()
            })
        });
        while begun.available_permits() < 2 {
            thread::yield_now();
        }
        handle.drain();
        assert_eq!(end_of(thread).expect("a clean end"), Drained { cut: 0 }, "{placement}");
    }
}

#[test]
fn a_server_of_a_test_serves_and_gives_its_outcome() {
    let server = TestServer::start(Server::builder(), hello).expect("it starts");
    assert_eq!(Client::connect(server.address()).get("/").text(), "hello");
    assert_eq!(Client::connect(server.admin()).get("/readyz").status, 200);
    assert_eq!(server.drain().expect("a clean end"), Drained { cut: 0 });
    let failed = TestServer::try_start(Server::builder(), |_lane| async {
        Err::<TestService, _>(std::io::Error::other("no such database"))
    });
    assert!(matches!(failed, Err(Error::Factory { .. })), "{failed:?}");
}

#[test]
fn a_test_fails_that_leaves_a_request_behind() {
    let drain = Drain { deadline: Duration::from_millis(100), ..Drain::default() };
    let drain = Drain { settle: Duration::ZERO, ..drain };
    let handlers = Handlers::new();
    let settings = Server::builder().lanes(Lanes::Count(1)).drain(drain);
    let server = TestServer::start(settings, handlers.factory()).expect("it starts");
    let mut client = Client::connect(server.address());
    client.send_get("/gate");
    while handlers.alive() == 0 {
        thread::yield_now();
    }
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(server)));
    assert!(dropped.is_err(), "a request was cut");
}
