//! The requests, and the bodies that answer them.

use std::hint::black_box;
use std::net::SocketAddr;

/// Which of the two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hello,
    Work,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Hello, Kind::Work];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Hello => "hello",
            Kind::Work => "work",
        }
    }
}

/// A request as it is sent, and the body of its right reply.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// What each kind sends and expects.
#[derive(Debug)]
pub(crate) struct Exchanges([Exchange; 2]);

impl Exchanges {
    /// Requests to `to`; `/work` of `ops` iterations, whose result is computed here.
    pub(crate) fn new(to: SocketAddr, ops: Option<u64>) -> Self {
        let get = |target: &str, body: &str| Exchange {
            request: format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes(),
            body: body.as_bytes().to_owned(),
        };
        let ops = ops.unwrap_or(0);
        Exchanges([
            get("/hello", "Hello, World!"),
            get(&format!("/work?ops={ops}"), &format!("{:016x}\n", work(ops))),
        ])
    }

    /// The same with another page in the place of `/hello`.
    pub(crate) fn with_page(mut self, to: SocketAddr, target: &str, body: Vec<u8>) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
        self.0[Kind::Hello as usize] = Exchange { request, body };
        self
    }

    pub(crate) fn of(&self, kind: Kind) -> &Exchange {
        &self.0[kind as usize]
    }
}

/// The loop of the reference service.
fn work(ops: u64) -> u64 {
    let mut state = 1u64;
    for _ in 0..ops {
        state = black_box(
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
        );
    }
    state
}
