//! Tests of the tracker alone, and in parallel to hyper.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// The position and reason of the cut for a stream in these parts.
fn cut(parts: &[&[u8]]) -> Option<(usize, &'static str)> {
    let mut framing = Framing::new();
    let mut before = 0;
    for part in parts {
        if let Some(cut) = framing.follow(part) {
            return Some((before + cut.at, cut.reason));
        }
        before += part.len();
    }
    None
}

const STREAMS: &[&str] = &[
    "\r\nGET / HTTP/1.1\r\nHost: t\r\nCookie: a\r\nTE: b\r\n\r\nHEAD /a HTTP/1.0\r\n\r\n",
    "POST / HTTP/1.1\r\nContent-Length: 05 \r\n\r\nab\ncdPUT / HTTP/1.1\r\ncontent-length:0\r\n\r\n",
    "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\n\n\n\r\n0\r\nA: b\r\n\r\nG / HTTP/1.1\r\n\r\n",
    "G#T /a#b HTTP/1.1\r\n\r\n",
    "GET /a HTTP/1.1\n\r\n",
    "GET /a HTTP/1.1\r\nA: b\n\r\n",
    "GET /a HTTP/1.1\r\nA: b\r\n\n",
    "GET / HTTP/1.1\r\n\r\n\nGET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "GET / HTTP/1.1\r\nContent-Length: 1\nA: b\r\n\r\na",
    "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
    "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\na",
    "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000001\r\na\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;\0\r\na\r\n0\r\n\r\n",
    "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n",
];

#[test]
fn the_verdict_does_not_depend_on_how_the_bytes_come() {
    for (index, stream) in STREAMS.iter().enumerate() {
        let bytes = stream.as_bytes();
        let whole = cut(&[bytes]);
        assert_eq!(whole.is_some(), index >= 3, "{stream:?}");
        for at in 0..bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(cut(&[first, second]), whole, "{stream:?} in two parts at {at}");
        }
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(cut(&single), whole, "{stream:?} byte by byte");
    }
}

#[test]
fn the_protocol_of_a_request_line_is_told() {
    let cases = [
        ("GET / HTTP/1.1\r\n", Spoken::Http1),
        ("GET / HTTP/1.0\r\n", Spoken::Http1),
        ("GET / HTTP/1.2\r\n", Spoken::Http1),
        ("GET / http/1.1\r\n", Spoken::Http1),
        ("GET /\r\n", Spoken::Http1),
        ("GET / \r\n", Spoken::Http1),
        ("what is that then\r\n", Spoken::Http1),
        ("PRI * HTTP/2.0\r\n", Spoken::OtherVersion),
        ("GET / HTTP/0.9\r\n", Spoken::OtherVersion),
        ("INVITE sip:me SIP/2.0\r\n", Spoken::Other),
        ("INVALID CONNECTION PREFACE\r\n", Spoken::Other),
    ];
    for (line, spoken) in cases {
        for at in 0..line.len() {
            let mut framing = Framing::new();
            for part in [&line[..at], &line[at..]] {
                assert_eq!(framing.follow(part.as_bytes()), None);
            }
            assert_eq!(framing.spoken(), spoken, "{line:?} in two parts at {at}");
        }
    }
}

#[test]
fn a_head_request_is_told_from_others() {
    for (head, asks) in [("HEAD /", true), ("HEADS /", false), ("head /", false), ("GET /", false)]
    {
        for at in 0..head.len() {
            let mut framing = Framing::new();
            for part in [&head[..at], &head[at..]] {
                assert_eq!(framing.follow(part.as_bytes()), None);
            }
            assert_eq!(framing.asks_head(0), asks, "{head:?} in two parts at {at}");
        }
    }
    let mut framing = Framing::new();
    framing.follow(b"HEAD / HTTP/1.1\r\n\r\n");
    framing.follow(b"GET / HTTP/1.1\r\n");
    assert!(!framing.asks_head(1), "the HEAD before is dispatched");
}

/// Pseudo-random numbers with a fixed seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// HTTP/1.1 messages, some of them damaged.
    fn stream(&mut self) -> Vec<u8> {
        let mut text = String::new();
        for message in 0..1 + self.below(4) {
            if self.below(4) > 0 {
                text += &format!("POST /{message} HTTP/1.1\r\n");
                text += self.pick(&[
                    "\r\n",
                    "Content-Length: 4\r\n\r\nbody",
                    "Host: t\r\nContent-Length:0\r\n\r\n",
                    "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nA: b\r\n\r\n",
                    "TE: x\r\nTransfer-encoding:\tCHUNKED \r\n\r\n2;a\r\n\r\n\r\n0\r\n\r\n",
                ]);
                continue;
            }
            text += self.pick(&["", "", "", "\r\n", "\n"]);
            text += self.pick(&["GET", "POST", "CONNECT", "G#T"]);
            text += &format!(" /{message}");
            text += self.pick(&["", "", "", "#a", "?b"]);
            text += self.pick(&[" HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/1.1\n"]);
            for _ in 0..self.below(4) {
                text += self.pick(&[
                    "Host: t\r\n",
                    "Content-Length: 4\r\n",
                    "content-length:\t004 \r\n",
                    "Content-Length: 0\r\n",
                    "Content-Length: +4\r\n",
                    "Transfer-Encoding: chunked\r\n",
                    "TRANSFER-ENCODING: gzip, Chunked\r\n",
                    "Transfer-Encoding: x\r\n",
                    "Transfer-Encoding : chunked\r\n",
                    "Connection: keep-alive\r\n",
                    "Upgrade: h2c\r\n",
                    "Cookie: a\n",
                    " folded\r\n",
                ]);
            }
            text += self.pick(&["\r\n", "\r\n", "\r\n", "\n"]);
            text += self.pick(&["", "", "body", "4\r\nbody\r\n0\r\n\r\n"]);
            for _ in 0..self.below(3) {
                text += self.pick(&["1\r\na\r\n", "2;b=c\r\n\r\n\r\n", "1 \r\na\r\n", "0\r\n"]);
                text += self.pick(&["", "A: b\r\n\r\n", "\r\n", "A: b\n\r\n"]);
            }
        }
        let mut bytes = text.into_bytes();
        if self.below(3) == 0 {
            let at = self.below(bytes.len());
            bytes[at] = b"\0\r\n :;0aA\x80"[self.below(10)];
        }
        bytes
    }
}

/// The method and target of the requests that hyper parses from `bytes`.
async fn parsed(bytes: Vec<u8>) -> Vec<String> {
    let requests = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        requests.borrow_mut().push(format!("{} {}", request.method(), request.uri()));
        async move {
            let _ = request.into_body().collect().await;
            Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
        }
    });
    let (mut client, server) = tokio::io::duplex(1 << 16);
    client.write_all(&bytes).await.expect("room");
    client.shutdown().await.expect("a pipe");
    let mut builder = http1::Builder::new();
    builder.half_close(true);
    let mut replies = Vec::new();
    let serve = builder.serve_connection(TokioIo::new(server), service);
    let (_, _) = tokio::join!(serve, client.read_to_end(&mut replies));
    requests.take()
}

/// Where messages start according to the tracker, and the bytes that are passed to hyper.
fn followed(bytes: &[u8]) -> (Vec<usize>, Vec<u8>) {
    let mut framing = Framing::new();
    let mut begins = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        let before = framing.state;
        if let Some(cut) = framing.follow(&[*byte]) {
            let mut seen = bytes[..at + cut.at].to_vec();
            seen.extend_from_slice(cut.tail);
            return (begins, seen);
        }
        if before == State::Start && framing.state == State::RequestLine {
            begins.push(at);
        }
    }
    (begins, bytes.to_vec())
}

#[tokio::test]
async fn hyper_sees_messages_only_where_the_tracker_does() {
    let mut random = Random(1);
    let (mut requests, mut later) = (0, 0);
    for _ in 0..20_000 {
        let bytes = random.stream();
        let (begins, seen) = followed(&bytes);
        for (index, request) in parsed(seen).await.iter().enumerate() {
            let text = String::from_utf8_lossy(&bytes);
            let begin = begins.get(index).copied();
            let begin = begin.unwrap_or_else(|| panic!("{request} is hidden in {text:?}"));
            let line = String::from_utf8_lossy(&bytes[begin..]);
            assert!(line.starts_with(request.as_str()), "{request} is not at {begin} of {text:?}");
            requests += 1;
            later += usize::from(index > 0);
        }
    }
    assert!(requests > 10_000 && later > 1_000, "{requests} requests, {later} behind another");
}
