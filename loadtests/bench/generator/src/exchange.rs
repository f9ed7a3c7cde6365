//! The requests, and their expected reply bodies.

use std::hint::black_box;
use std::net::SocketAddr;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Hello,
    /// `/work` with this many iterations.
    Work(u64),
    /// One of `count` routes, each of which replies with its number.
    Route {
        number: u32,
        of: u32,
    },
    /// The page. If `number` is 0, the request has a body.
    WithBodies {
        number: u32,
        /// One in this many requests of a connection has a body.
        every: u32,
    },
}

/// Distance between the routes that a connection requests one after another. It is a prime, so that
/// all routes are equally frequent and neighbours are not requested together.
const STRIDE: u32 = 7919;

impl Kind {
    /// The first request of a connection; `index` is the connection's.
    pub(crate) fn first(self, index: usize) -> Kind {
        match self {
            Kind::Route { of, .. } => Kind::Route { number: (index % of as usize) as u32, of },
            Kind::WithBodies { every, .. } => {
                Kind::WithBodies { number: (index % every as usize) as u32, every }
            }
            same => same,
        }
    }

    /// The request of a connection after this one.
    pub(crate) fn next(self) -> Kind {
        match self {
            Kind::Route { number, of } => Kind::Route { number: (number + STRIDE) % of, of },
            Kind::WithBodies { number, every } => {
                Kind::WithBodies { number: (number + 1) % every, every }
            }
            same => same,
        }
    }

    /// The kind as which it is counted: routes and requests with a body count as pages.
    pub(crate) fn counted(self) -> Kind {
        match self {
            Kind::Route { .. } | Kind::WithBodies { .. } => Kind::Hello,
            same => same,
        }
    }
}

/// A request as bytes, and the expected body of the reply.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Exchange {
    /// The same request with a body of this many bytes.
    fn with_body(&self, bytes: usize) -> Self {
        let mut request = self.request.clone();
        request.truncate(request.len() - 2);
        request.extend_from_slice(format!("Content-Length: {bytes}\r\n\r\n").as_bytes());
        request.resize(request.len() + bytes, b'b');
        Exchange { request, body: self.body.clone() }
    }
}

/// The request and reply of each kind.
#[derive(Debug)]
pub(crate) struct Exchanges {
    hello: Exchange,
    /// The page with a request body, if some requests have one.
    with_body: Option<Exchange>,
    works: Vec<(u64, Exchange)>,
    routes: Vec<Exchange>,
}

impl Exchanges {
    /// Requests to `to`. `/work` for each of these numbers of iterations, whose results are
    /// computed here.
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
            with_body: None,
            works: works.collect(),
            routes: Vec::new(),
        }
    }

    /// Adds this many routes, as in `peers/routes`.
    pub(crate) fn with_routes(mut self, to: SocketAddr, count: u32) -> Self {
        let exchange = |number: u32| {
            let target = format!("/area-{}/kind-{}/7", number / 100, number % 100);
            let request = format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
            Exchange { request, body: format!("route {number:07}").into_bytes() }
        };
        self.routes = (0..count).map(exchange).collect();
        self
    }

    /// Replaces `/hello` by another page.
    pub(crate) fn with_page(mut self, to: SocketAddr, target: &str, body: Vec<u8>) -> Self {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {to}\r\n\r\n").into_bytes();
        self.hello = Exchange { request, body };
        self
    }

    /// Adds a body of this many bytes to each request for the page.
    pub(crate) fn with_body(mut self, bytes: usize) -> Self {
        self.hello = self.hello.with_body(bytes);
        self
    }

    /// Adds a body of this many bytes to some of the requests for the page.
    pub(crate) fn with_bodies(mut self, bytes: usize) -> Self {
        self.with_body = Some(self.hello.with_body(bytes));
        self
    }

    pub(crate) fn of(&self, kind: Kind) -> &Exchange {
        match kind {
            Kind::WithBodies { number: 0, .. } => {
                self.with_body.as_ref().expect("a body that was announced")
            }
            Kind::Hello | Kind::WithBodies { .. } => &self.hello,
            Kind::Route { number, .. } => &self.routes[number as usize],
            Kind::Work(ops) => {
                let mut works = self.works.iter();
                &works.find(|work| work.0 == ops).expect("work that was announced").1
            }
        }
    }
}

/// The computation of the reference service.
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

    #[test]
    fn one_in_so_many_requests_of_a_connection_has_a_body() {
        let exchanges = Exchanges::new(([127, 0, 0, 1], 80).into(), None).with_bodies(16);
        let plain = exchanges.of(Kind::Hello).request.len();
        let longer = "Content-Length: 16\r\n".len() + 16;
        for (every, first) in [(1, 0), (10, 0), (10, 7)] {
            let mut kind = Kind::WithBodies { number: 0, every }.first(first);
            for number in first..first + 30 {
                let bodied = number % every as usize == 0;
                let length = plain + if bodied { longer } else { 0 };
                assert_eq!(exchanges.of(kind).request.len(), length, "{number} of {every}");
                kind = kind.next();
            }
        }
    }
}
