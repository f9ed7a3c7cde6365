//! Tests the tracker alone, and in parallel with hyper.

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

const ALLOWED: usize = 100;

/// The end of each message in a stream of these parts, and the position and reason of the cut.
fn followed_in(parts: &[&[u8]]) -> (Vec<usize>, Option<(usize, Fault)>) {
    let mut framing = Framing::new(ALLOWED);
    let (mut ends, mut before) = (vec![], 0);
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            match framing.follow(rest) {
                Ok(passed) => {
                    before += passed;
                    rest = &rest[passed..];
                }
                Err(cut) => return (ends, Some((before + cut.at, cut.fault))),
            }
            if framing.is_between() {
                ends.push(before);
            }
        }
    }
    (ends, None)
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

fn long_streams() -> Vec<String> {
    let head = |bytes: usize| {
        let before = "POST / HTTP/1.1\r\nContent-Length: 2\r\na: ";
        format!("{before}{}\r\n\r\n", "b".repeat(bytes - before.len() - 4))
    };
    let short = "GET / HTTP/1.1\r\n\r\n";
    vec![
        format!("{}ab{}ab", head(ALLOWED), head(ALLOWED)),
        format!("\r\n{}ab", head(ALLOWED - 2)),
        format!("{}ab", head(ALLOWED + 1)),
        format!("{short}{}ab", head(ALLOWED + 1)),
        format!("{}ab{}", head(ALLOWED), head(ALLOWED + 1)),
        format!("\r\n{}ab", head(ALLOWED - 1)),
        "\r\n".repeat(ALLOWED / 2),
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(ALLOWED)),
        "G".repeat(ALLOWED),
    ]
}

#[test]
fn the_verdict_does_not_depend_on_how_the_bytes_come() {
    let streams = STREAMS.iter().map(|stream| ((*stream).to_owned(), 3));
    let long = long_streams().into_iter().map(|stream| (stream, 2));
    let streams = streams.enumerate().chain(long.enumerate());
    for (index, (stream, passed)) in streams {
        let bytes = stream.as_bytes();
        let whole = followed_in(&[bytes]);
        assert_eq!(whole.1.is_some(), index >= passed, "{stream:?}");
        if index >= passed && passed == 2 {
            assert!(matches!(whole.1, Some((_, Fault::HeadTooLarge))), "{stream:?}");
        }
        for at in 0..bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(followed_in(&[first, second]), whole, "{stream:?} in two parts at {at}");
        }
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(followed_in(&single), whole, "{stream:?} byte by byte");
    }
}

#[test]
fn hyper_gets_one_message_at_a_time() {
    let get = "GET / HTTP/1.1\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    let (ends, cut) = followed_in(&[[get.repeat(100), post.repeat(2)].concat().as_bytes()]);
    let (get, post) = (get.len(), post.len());
    let expected = (1..=100).map(|n| n * get).chain([100 * get + post, 100 * get + 2 * post]);
    assert_eq!((ends, cut), (expected.collect(), None));
}

#[test]
fn an_invalid_request_line_is_refused_at_its_end_and_its_protocol_told() {
    let cases = [
        ("GET / HTTP/1.1\r\n", None),
        ("GET / HTTP/1.0\r\n", None),
        // hyper rejects these heads.
        ("GET HTTP/1.1\r\n", None),
        ("GET  / a HTTP/1.1\r\n", None),
        ("GET HTTP/2.0\r\n", Some(Spoken::Http1)),
        ("GET/ HTTP/1.1\r\n", Some(Spoken::Http1)),
        ("GET\r(\r\n", Some(Spoken::Http1)),
        ("GET / HTTP/1.2\r\n", Some(Spoken::Http1)),
        ("GET / http/1.1\r\n", Some(Spoken::Http1)),
        ("GET / HTTP/1.10\r\n", Some(Spoken::Http1)),
        ("GET / HTTP/1.1 and so on\r\n", Some(Spoken::Http1)),
        ("GET / HTTP/2.0 and so on\r\n", Some(Spoken::Http1)),
        ("GET / HTTP/2.0\t\tx\r\n", Some(Spoken::Http1)),
        ("GET / HTTP/1.1andmanymoreletters\r\n", Some(Spoken::Http1)),
        ("GET /\r\n", Some(Spoken::Http1)),
        ("GET / \r\n", Some(Spoken::Http1)),
        ("what is that then\r\n", Some(Spoken::Http1)),
        ("hello\r\n", Some(Spoken::Http1)),
        ("\x16", Some(Spoken::Http1)),
        (" ", Some(Spoken::Http1)),
        ("G@", Some(Spoken::Http1)),
        ("PRI * HTTP/2.0\r\n", Some(Spoken::OtherVersion)),
        ("GET / HTTP/0.9\r\n", Some(Spoken::OtherVersion)),
        ("INVITE sip:me SIP/2.0\r\n", Some(Spoken::Other)),
        ("INVALID CONNECTION PREFACE\r\n", Some(Spoken::Other)),
        ("INVALID HTTP/ABLE X\r\n", Some(Spoken::Other)),
        ("INVALID CONNECTION PREFACEOFANOTHER\r\n", Some(Spoken::Other)),
    ];
    for (line, spoken) in cases {
        for at in 0..line.len() {
            let (first, second) = line.as_bytes().split_at(at);
            let (_, cut) = followed_in(&[first, second]);
            let expected = spoken.map(Fault::Invalid);
            assert_eq!(cut.map(|(_, fault)| fault), expected, "{line:?} in two parts at {at}");
        }
    }
}

#[test]
fn a_head_request_is_told_from_others() {
    for (head, asks) in [("HEAD /", true), ("HEADS /", false), ("head /", false), ("GET /", false)]
    {
        for at in 0..head.len() {
            let mut framing = Framing::new(ALLOWED);
            for part in [&head[..at], &head[at..]] {
                assert_eq!(framing.follow(part.as_bytes()), Ok(part.len()));
            }
            assert_eq!(framing.asks_head(), asks, "{head:?} in two parts at {at}");
        }
    }
    let mut framing = Framing::new(ALLOWED);
    for (part, asks) in [("HEAD / HTTP/1.1\r\n\r\n", true), ("\r\n", false), ("GET / HT", false)] {
        assert_eq!(framing.follow(part.as_bytes()), Ok(part.len()));
        assert_eq!(framing.asks_head(), asks, "after {part:?}");
    }
}

/// Pseudo-random numbers with a fixed seed (splitmix64).
struct RandomPieces(u64);

impl RandomPieces {
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

/// Method and target of the requests that hyper parses.
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

/// The start of each message according to the tracker, and the bytes passed on to hyper.
fn followed(bytes: &[u8]) -> (Vec<usize>, Vec<u8>) {
    let mut framing = Framing::new(usize::MAX);
    let mut begins = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        let before = framing.state;
        if let Err(cut) = framing.follow(&[*byte]) {
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
    let mut random = RandomPieces(1);
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
