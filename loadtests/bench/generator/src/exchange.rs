//! The requests, and the bodies that answer them.

use std::hint::black_box;
use std::net::SocketAddr;

/// Which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Hello,
    /// `/work` of so many iterations.
    Work(u64),
}

/// A request as it is sent, and the body of its right reply.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// What each kind sends and expects.
#[derive(Debug)]
pub(crate) struct Exchanges {
    hello: Exchange,
    works: Vec<(u64, Exchange)>,
}

impl Exchanges {
    /// Requests to `to`; `/work` of each of these numbers of iterations, whose results are computed here.
    pub(crate) fn new(to: SocketAddr, works: impl IntoIterator<Item = u64>) -> Self {
        let get = |target: &str, body: &str| Exchange {
            request: format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes(),
            body: body.as_bytes().to_owned(),
        };
        let works = works
            .into_iter()
            .map(|ops| (ops, get(&format!("/work?ops={ops}"), &format!("{:016x}\n", work(ops)))));
        Exchanges { hello: get("/hello", "Hello, World!"), works: works.collect() }
    }

    /// The same with another page in the place of `/hello`.
    pub(crate) fn with_page(mut self, to: SocketAddr, target: &str, body: Vec<u8>) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
        self.hello = Exchange { request, body };
        self
    }

    pub(crate) fn of(&self, kind: Kind) -> &Exchange {
        match kind {
            Kind::Hello => &self.hello,
            Kind::Work(ops) => {
                let mut works = self.works.iter();
                &works.find(|work| work.0 == ops).expect("work that was announced").1
            }
        }
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
