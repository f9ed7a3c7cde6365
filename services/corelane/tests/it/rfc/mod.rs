//! RFC 9110 and RFC 9112 as tables of request bytes and expected responses.
//!
//! Every case has a section and a level, and `docs/conformance.md` must match the cases. rustfmt
//! skips the tables, which use one or two rows per case.

mod bodies;
mod case;
mod connections;
mod messages;
mod semantics;
mod service;
mod smuggling;
mod wire;

use crate::support::{
    PATIENCE, Running, Way,
    Way::{Hyper, Plain},
};
use case::{After, Case, Step};
use rstest::rstest;
use wire::Wire;

fn cases() -> Vec<Case> {
    let parts = [
        messages::cases(),
        bodies::cases(),
        smuggling::cases(),
        connections::cases(),
        semantics::cases(),
    ];
    parts.into_iter().flatten().collect()
}

#[rstest]
fn every_case_holds(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), service::factory);
    let failures: Vec<_> = cases()
        .iter()
        .filter_map(|case| {
            let failure = run(case, &server).err()?;
            Some(format!("RFC {} {:?}: {}\n    {failure}", case.section, case.level, case.what))
        })
        .collect();
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    server.wait_until("all requests done", || {
        server.metric("corelane_requests_in_flight{lane=\"0\"}") == 0.0
    });
    assert_eq!(server.metric("corelane_panics_total{lane=\"0\"}"), 0.0);
}

fn run(case: &Case, server: &Running) -> Result<(), String> {
    let mut wire = Wire::connect(server.address, PATIENCE);
    for step in &case.steps {
        match step {
            Step::Send(bytes) => wire.send(bytes),
            Step::End => wire.end(),
            Step::Reply(expected) => expected.check(wire.read_reply(expected.bodiless)?)?,
        }
    }
    match case.after {
        After::Closed => wire.expect_close(),
        After::Open => {
            wire.send("GET /ping HTTP/1.1\r\nHost: test\r\n\r\n");
            let pong = wire.read_reply(false).map_err(|error| format!("not open: {error}"))?;
            case::reply(200)
                .body("pong")
                .check(pong)
                .map_err(|error| format!("afterwards: {error}"))
        }
    }
}

#[test]
fn the_table_is_large_and_no_case_is_there_twice() {
    let cases = cases();
    assert!(cases.len() >= 100, "{} cases", cases.len());
    let mut seen = std::collections::HashMap::new();
    for case in &cases {
        let bytes: Vec<_> = case.steps.iter().filter_map(Step::bytes).collect();
        if let Some(other) = seen.insert(bytes, case.what) {
            panic!("{other:?} and {:?} send the same", case.what);
        }
    }
}

#[test]
fn the_documentation_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");
    let text = std::fs::read_to_string(path).expect("docs/conformance.md");
    for block in [case::sections(&cases()), case::departures(&cases())] {
        assert!(text.contains(&block), "docs/conformance.md lacks\n\n{block}");
    }
}
