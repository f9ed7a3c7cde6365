//! Two servers of one service, which differ in who answers plain requests, and what a client hears
//! of each.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use corelane::{Incoming, Lanes, Pin as Pinning, Server};
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// Longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(20);

const PROBLEM: &str = "{\"type\":\"urn:corelane:problem:";

/// The servers: with the short way of plain requests, and without.
pub(crate) struct Pair([SocketAddr; 2]);

impl Pair {
    /// Starts both; they serve until the process ends.
    pub(crate) fn start() -> Pair {
        Pair([true, false].map(|plain| {
            let builder = Server::builder().bind(SocketAddr::from(([127, 0, 0, 1], 0)));
            let builder = builder.lanes(Lanes::Count(1)).pin(Pinning::Off).signals(false);
            let server = builder.plain_requests(plain).build().expect("a server");
            let address = server.local_addr().expect("an address");
            std::thread::spawn(|| server.serve(|_lane| tower::service_fn(answer)));
            address
        }))
    }

    /// What each says to a client that sends these pieces and closes its side: lines without those
    /// of the date and the words of problems, and fields in the order of the alphabet.
    pub(crate) fn replies(&self, pieces: &[&[u8]]) -> [String; 2] {
        self.0.map(|address| in_order(&exchange(address, pieces)))
    }
}

fn exchange(address: SocketAddr, pieces: &[&[u8]]) -> String {
    let mut client = TcpStream::connect(address).expect("connect");
    client.set_nodelay(true).expect("a socket option");
    client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    for piece in pieces {
        // It may have said its last word.
        let _ = client.write_all(piece);
    }
    let _ = client.shutdown(Shutdown::Write);
    let mut said = Vec::new();
    if let Err(error) = client.read_to_end(&mut said) {
        let late = error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!late, "no end after {:?}", String::from_utf8_lossy(&said));
    }
    String::from_utf8_lossy(&said).into_owned()
}

fn in_order(said: &str) -> String {
    let parts = said.split("\r\n\r\n").map(|part| {
        let mut lines: Vec<_> = part.split("\r\n").collect();
        // What is said of a head that is refused depends on how much of it had come, and whether
        // it is said, on a HEAD that came in the same read: hyper may not have parsed that yet.
        let refusal = lines.contains(&"content-type: application/problem+json");
        lines.retain(|line| {
            let words = line.starts_with(PROBLEM) || refusal && line.starts_with("content-length");
            !words && !line.starts_with("date: ")
        });
        lines.sort_unstable();
        lines.join("\n")
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// A body that is given in parts.
pub(crate) struct Parts {
    parts: Vec<Bytes>,
    known: Option<u64>,
    /// It waits before each of them.
    waits: bool,
    waited: bool,
}

impl Parts {
    /// These parts, and a length that is announced.
    pub(crate) fn announcing(parts: Vec<Bytes>, known: Option<u64>) -> Parts {
        Parts { parts, known, waits: false, waited: false }
    }
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.waits && !self.waited {
            self.waited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.waited = false;
        if self.parts.is_empty() {
            return Poll::Ready(None);
        }
        let part = self.parts.remove(0);
        self.known = self.known.map(|known| known.saturating_sub(part.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.known == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.known.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

/// Tells what it was asked, in the way that the path names.
async fn answer(request: Request<Incoming>) -> Result<Response<Parts>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.map_err(|_| "broken off");
    let (method, uri, version) = (&head.method, &head.uri, head.version);
    let mut fields: Vec<_> =
        head.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    fields.sort();
    let text = format!("{method} {uri} {version:?} {fields:?} {body:?}");
    let path = uri.path();
    if path.starts_with("/wait") {
        tokio::task::yield_now().await;
    }
    let long = if path.ends_with("long") { "long ".repeat(20_000) } else { String::new() };
    let parts = match path {
        _ if path.ends_with("parts") => vec![text[..1].to_owned(), text[1..].to_owned()],
        _ if path.ends_with("none") => vec![],
        _ => vec![text + &long],
    };
    let parts: Vec<_> = parts.into_iter().map(Bytes::from).collect();
    let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
    let known = (!path.contains("/unknown")).then_some(length);
    let waits = path.contains("/slow");
    let mut reply = Response::new(Parts { waits, ..Parts::announcing(parts, known) });
    let status = path.get(1..4).and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok());
    *reply.status_mut() = status.filter(|status| !status.is_informational()).unwrap_or_default();
    if path.contains("/close") {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(reply)
}
