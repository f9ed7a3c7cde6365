//! Requests that slow lanes serve.

use corelane::{Cost, SlowLanes};

use crate::support::{Running, builder, stuck::Stuck};

#[test]
fn an_expensive_handler_does_not_delay_cheap_requests() {
    let stuck = Stuck::default();
    let builder = builder().routes(["/block"]).cost("/block", Cost::Expensive);
    let server = Running::start(builder, stuck.factory());
    let mut expensive = server.connect();
    expensive.send_get("/block");
    server.wait_until("blocked", || !stuck.blocked().is_empty());
    let mut cheap = server.connect();
    for _ in 0..100 {
        assert_eq!(cheap.get("/").status, 200);
    }
    stuck.release(0);
    assert_eq!(expensive.read_answer().status, 200);
}

#[test]
fn without_slow_lanes_nothing_is_handed_over() {
    let none: Option<SlowLanes> = None;
    let stuck = Stuck::default();
    stuck.release(0);
    let builder = builder().routes(["/block"]).cost("/block", Cost::Expensive).slow_lanes(none);
    let server = Running::start(builder, stuck.factory());
    assert_eq!(server.get("/block").status, 200);
}
