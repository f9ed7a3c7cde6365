//! The requests and their expected response bodies.

use std::hint::black_box;
use std::net::SocketAddr;

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Hello,
    Work(u64),
    /// Creates the user's project once.
    Create,
    Page,
    Load,
    Save,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Hello => "hello",
            Kind::Work(_) => "work",
            Kind::Create => "create",
            Kind::Page => "page",
            Kind::Load => "load",
            Kind::Save => "save",
        }
    }
}

/// A request as bytes, and the body of its expected response.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Exchange {
    fn with_body(&self, bytes: usize) -> Self {
        let mut request = self.request.clone();
        request.truncate(request.len() - 2);
        request.extend_from_slice(format!("Content-Length: {bytes}\r\n\r\n").as_bytes());
        request.resize(request.len() + bytes, b'b');
        Exchange { request, body: self.body.clone() }
    }
}

#[derive(Debug)]
pub(crate) struct Exchanges {
    hello: Exchange,
    works: Vec<(u64, Exchange)>,
}

impl Exchanges {
    /// Includes `/work` with these numbers of iterations and precomputed results.
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

    pub(crate) fn with_page(mut self, to: SocketAddr, target: &str, body: Vec<u8>) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
        self.hello = Exchange { request, body };
        self
    }

    pub(crate) fn with_body(mut self, bytes: usize) -> Self {
        self.hello = self.hello.with_body(bytes);
        self
    }

    /// Every kind except `/work` uses the page.
    pub(crate) fn of(&self, kind: Kind) -> &Exchange {
        match kind {
            Kind::Work(ops) => {
                let mut works = self.works.iter();
                &works.find(|work| work.0 == ops).expect("work that was announced").1
            }
            _ => &self.hello,
        }
    }
}

fn work(ops: u64) -> u64 {
    let mut state = 1u64;
    for _ in 0..ops {
        state = black_box(
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
        );
    }
    state
}
