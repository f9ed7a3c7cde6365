//! What the server does not do in time, or not at all.

use corelane::{Limits, Timeouts};

use super::{BRIEF, start, wait_until_freed, with_limits};
use crate::support::{
    Way,
    Way::{Hyper, Plain},
};
use rstest::rstest;

#[rstest]
fn a_request_that_takes_too_long_is_answered_503_and_its_handler_dropped(
    #[values(Plain, Hyper)] way: Way,
) {
    let timeouts = Timeouts { request: BRIEF, ..Timeouts::default() };
    let (server, handlers) = start(way, Limits { slots: 1, ..Limits::default() }, timeouts);
    let mut client = server.connect();
    let answer = client.get("/gate");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(answer.text().contains("urn:corelane:problem:deadline-exceeded"), "{answer:?}");
    assert_eq!(handlers.alive(), 0, "the handler is dropped before the reply is sent");
    assert_eq!(server.refused_requests("request_timeout"), 1.0);
    assert_eq!(client.get("/hello").status, 200, "the connection and the slot are free");
    drop(client);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_request_that_waits_for_a_slot_too_long_is_answered_503(#[values(Plain, Hyper)] way: Way) {
    let timeouts = Timeouts { request: 2 * BRIEF, ..Timeouts::default() };
    let (server, handlers) = start(way, Limits { slots: 1, ..Limits::default() }, timeouts);
    let (mut running, mut waiting) = (server.connect(), server.connect());
    running.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    waiting.send_get("/gate");
    assert_eq!((running.read_answer().status, waiting.read_answer().status), (503, 503));
    assert_eq!(server.get("/hello").status, 200);
    drop((running, waiting));
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_request_too_many_is_answered_503_at_once(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = with_limits(way, Limits { slots: 1, queue: 0, ..Limits::default() });
    let mut running = server.connect();
    running.send_get("/gate");
    server.wait_for_in_flight(1);
    let answer = server.get("/hello");
    assert_eq!(answer.status, 503);
    let wait: u32 = answer.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=60).contains(&wait));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(answer.text().contains("urn:corelane:problem:overloaded"), "{answer:?}");
    assert_eq!(server.refused_requests("queue_full"), 1.0);
    assert_eq!(handlers.alive(), 1, "the handler was not called");
    handlers.gate.add_permits(1);
    assert_eq!(running.read_answer().status, 200);
    assert_eq!(server.get("/hello").status, 200);
    drop(running);
    wait_until_freed(&server, &handlers);
}
