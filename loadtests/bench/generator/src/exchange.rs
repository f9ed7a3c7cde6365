//! The requests, and the bodies that answer them.

use std::hint::black_box;
use std::net::SocketAddr;

/// Which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Hello,
    /// `/work` of so many iterations.
    Work(u64),
    /// One of so many routes, each of which answers its number.
    Route {
        number: u32,
        of: u32,
    },
}

/// How far apart routes are that a connection asks one after the other: a prime, so that all come up equally
/// often, and neighbours not together.
const STRIDE: u32 = 7919;

impl Kind {
    /// What a connection asks first; `index` is the connection's.
    pub(crate) fn first(self, index: usize) -> Kind {
        match self {
            Kind::Route { of, .. } => Kind::Route { number: (index % of as usize) as u32, of },
            same => same,
        }
    }

    /// What a connection asks after this.
    pub(crate) fn next(self) -> Kind {
        match self {
            Kind::Route { number, of } => Kind::Route { number: (number + STRIDE) % of, of },
            same => same,
        }
    }

    /// As what it is counted: routes are so many pages.
    pub(crate) fn counted(self) -> Kind {
        match self {
            Kind::Route { .. } => Kind::Hello,
            same => same,
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
pub(crate) struct Exchanges {
    hello: Exchange,
    works: Vec<(u64, Exchange)>,
    routes: Vec<Exchange>,
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
        Exchanges {
            hello: get("/hello", "Hello, World!"),
            works: works.collect(),
            routes: Vec::new(),
        }
    }

    /// The same with so many routes: `peers/routes` says the same of them.
    pub(crate) fn with_routes(mut self, to: SocketAddr, count: u32) -> Self {
        let exchange = |number: u32| {
            let target = format!("/area-{}/kind-{}/7", number / 100, number % 100);
            let request = format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
            Exchange { request, body: format!("route {number:07}").into_bytes() }
        };
        self.routes = (0..count).map(exchange).collect();
        self
    }

    /// The same with another page in the place of `/hello`.
    pub(crate) fn with_page(mut self, to: SocketAddr, target: &str, body: Vec<u8>) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
        self.hello = Exchange { request, body };
        self
    }

    /// The same with a body of so many bytes in each request for the page.
    pub(crate) fn with_body(mut self, bytes: usize) -> Self {
        let request = &mut self.hello.request;
        request.truncate(request.len() - 2);
        request.extend_from_slice(format!("Content-Length: {bytes}\r\n\r\n").as_bytes());
        request.resize(request.len() + bytes, b'b');
        self
    }

    pub(crate) fn of(&self, kind: Kind) -> &Exchange {
        match kind {
            Kind::Hello => &self.hello,
            Kind::Route { number, .. } => &self.routes[number as usize],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_asks_each_route_as_often_as_the_others() {
        for of in [1, 10, 1000] {
            let mut asked = vec![0; of as usize];
            let mut kind = Kind::Route { number: 0, of }.first(64);
            for _ in 0..3 * of {
                let Kind::Route { number, .. } = kind else { panic!("{kind:?}") };
                asked[number as usize] += 1;
                kind = kind.next();
            }
            assert!(asked.iter().all(|times| *times == 3), "{of}: {asked:?}");
        }
    }
}
