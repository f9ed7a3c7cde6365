//! Two servers with the same service, one with the plain path and one without, for comparing their
//! responses.

use std::convert::Infallible;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane::{Incoming, Lanes, Pin as Pinning, Server, Timeouts};
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::far_end::FarEnd;

/// Longer than any exchange.
const NEVER: Duration = Duration::from_secs(3600);

/// Maximum wait, which only a stuck or spinning server exceeds.
const PATIENCE: Duration = Duration::from_secs(60);

const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// Response field: the request body ended early.
const BROKEN_BODY: &str = "broken-body: yes";

/// A server with the plain path and a server without it.
pub(crate) struct Pair([Host; 2]);

struct Host {
    address: SocketAddr,
    /// The lane's thread in `/proc`.
    lane: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The client half-closed inside a request body. The plain path announces the close in the
    /// response, but hyper does not.
    CloseAfterBrokenBody,
}

impl Pair {
    pub(crate) fn start() -> Pair {
        Pair([true, false].map(|plain| {
            let builder = Server::builder().bind(SocketAddr::from(([127, 0, 0, 1], 0)));
            let builder = builder.lanes(Lanes::Count(1)).pin(Pinning::Off).signals(false);
            let timeouts = Timeouts {
                header: NEVER,
                body: NEVER,
                request: NEVER,
                write: NEVER,
                idle: NEVER,
                connection_age: None,
                ..Timeouts::default()
            };
            let builder = builder.timeouts(timeouts).park_after(None);
            let server = builder.plain_requests(plain).build().expect("a server");
            let address = server.local_addr().expect("an address");
            let (lanes, lane) = mpsc::channel();
            let begin = move |_: &_| {
                let thread = fs::read_link("/proc/thread-self").expect("this thread");
                lanes.send(Path::new("/proc").join(thread)).expect("the test waits");
                tower::service_fn(answer)
            };
            thread::spawn(|| server.serve(begin));
            Host { address, lane: lane.recv().expect("a lane") }
        }))
    }

    /// Sends the pieces to both servers, half-closes and compares the responses. Returns the known
    /// differences, or an error if there is an unknown difference.
    pub(crate) fn compare(&self, pieces: &[&[u8]]) -> Result<Vec<Known>, String> {
        let [plain_says, hyper_says] = self.hear(pieces);
        explain(&plain_says, &hyper_says)
            .ok_or_else(|| format!("{plain_says:?} and {hyper_says:?}"))
    }

    /// Responses of both servers.
    pub(crate) fn hear(&self, pieces: &[&[u8]]) -> [String; 2] {
        self.0.each_ref().map(|host| host.exchange(pieces))
    }
}

/// Known differences that explain all of the difference, or `None` if they do not.
pub(crate) fn explain(plain_says: &str, hyper_says: &str) -> Option<Vec<Known>> {
    let [plain_ends, hyper_ends] = [plain_says, hyper_says].map(without_close_after_broken_body);
    let (plain_says, hyper_says) = (in_order(plain_says), in_order(hyper_says));
    if plain_says == hyper_says {
        return Some(vec![]);
    }
    let broken_body = plain_ends == hyper_says && hyper_ends == hyper_says;
    broken_body.then(|| vec![Known::CloseAfterBrokenBody])
}

fn without_close_after_broken_body(said: &str) -> String {
    let parts = said.split("\r\n\r\n").map(|part| {
        let broken = part.split("\r\n").any(|line| line == BROKEN_BODY);
        let lines = part.split("\r\n").filter(|line| !broken || *line != "connection: close");
        lines.collect::<Vec<_>>().join("\r\n")
    });
    in_order(&parts.collect::<Vec<_>>().join("\r\n\r\n"))
}

impl Host {
    /// Sends each piece after the server has read the previous one.
    fn exchange(&self, pieces: &[&[u8]]) -> String {
        let mut client = TcpStream::connect(self.address).expect("connect");
        client.set_nodelay(true).expect("a socket option");
        client.set_nonblocking(true).expect("a socket option");
        let address = client.local_addr().expect("an address");
        let far_end = FarEnd::of(self.address, address, self.lane.clone());
        let (mut said, mut sent) = (Vec::new(), 0);
        for piece in pieces {
            let (mut rest, mut looks, begun) = (*piece, 0_u64, Instant::now());
            while !rest.is_empty() || !far_end.is_quiet(sent) {
                match client.write(rest) {
                    Ok(taken) => {
                        rest = &rest[taken..];
                        sent += taken as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // No more responses follow.
                    Err(_) => rest = &[],
                }
                // The server may wait for the client to read.
                let _ = client.read_to_end(&mut said);
                looks += 1;
                // This loop is fast unless the server is waiting for a CPU.
                if looks.is_multiple_of(4) {
                    assert!(begun.elapsed() < PATIENCE, "busy for ever after {pieces:?}");
                    thread::sleep(LOOK_AGAIN);
                }
            }
        }
        let _ = client.shutdown(Shutdown::Write);
        client.set_nonblocking(false).expect("a socket option");
        client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        // A reset also ends the exchange.
        if let Err(error) = client.read_to_end(&mut said) {
            assert!(error.kind() != ErrorKind::WouldBlock, "no end after {pieces:?}");
        }
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// Sorted fields, without the date.
fn in_order(said: &str) -> String {
    let parts = said.split("\r\n\r\n").map(|part| {
        let mut lines: Vec<_> = part.split("\r\n").collect();
        lines.retain(|line| !line.starts_with("date: "));
        lines.sort_unstable();
        lines.join("\n")
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

pub(crate) struct Parts {
    parts: Vec<Bytes>,
    known: Option<u64>,
    /// Pending once before each part.
    waits: bool,
    waited: bool,
}

impl Parts {
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

/// Echoes the bytes of an upgraded connection.
async fn echo(upgrade: OnUpgrade) {
    let Ok(upgraded) = upgrade.await else { return };
    let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
    // Ends when either side closes.
    let _ = tokio::io::copy(&mut read, &mut write).await;
}

async fn answer(request: Request<Incoming>) -> Result<Response<Parts>, Infallible> {
    let (mut head, body) = request.into_parts();
    let upgrade = head.extensions.remove();
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
    let switching = StatusCode::SWITCHING_PROTOCOLS;
    let status = status.filter(|status| !status.is_informational() || *status == switching);
    *reply.status_mut() = status.unwrap_or_default();
    if let Some(upgrade) = upgrade.filter(|_| reply.status() == switching) {
        tokio::spawn(echo(upgrade));
    }
    if body.is_err() {
        reply.headers_mut().insert("broken-body", HeaderValue::from_static("yes"));
    }
    if path.contains("/close") {
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(reply)
}
