//! RFC 9112 sections 6 to 8: message bodies.

use super::case::{Case, may, must, reply, should};

const BAD: &str = "bad-request";

pub(crate) fn cases() -> Vec<Case> {
    [lengths(), chunks(), broken_chunks(), trailers(), incomplete()].into_iter().flatten().collect()
}

#[rustfmt::skip]
fn lengths() -> Vec<Case> {
    let post = |length: &str, rest: &str| {
        format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length:{length}\r\n\r\n{rest}")
    };
    vec![
        must("9112 6.3", "Content-Length says how long the body is", &post(" 5", "hello")).says("hello"),
        must("9112 6.3", "a request with neither field has no body", "POST /echo HTTP/1.1\r\nHost: t\r\n\r\n")
            .says(""),
        must("9112 6.3", "a length of 0 is no body", &post(" 0", "")).says(""),
        must("9112 6.3", "what follows the body is the next request",
            &post(" 5", "helloGET /ping HTTP/1.1\r\nHost: t\r\n\r\n")).says("hello").says("pong"),
        must("9112 6.3", "a body may come in parts", &post(" 5", "he")).then("l").then("lo").says("hello"),
        must("9110 8.6", "zeros before a length are digits", &post(" 0005", "hello")).says("hello"),
        must("9112 6.3", "GET may have a body", "GET /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab")
            .says("ab"),
        must("9110 9.1", "an unknown method may have a body",
            "BREW /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab").says("ab"),
        must("9112 6.3", "a length with a plus sign is refused", &post(" +5", "hello")).refused_with(400, BAD),
        must("9112 6.3", "a negative length is refused", &post(" -5", "hello")).refused_with(400, BAD),
        must("9112 6.3", "a hexadecimal length is refused", &post(" 0x5", "hello")).refused_with(400, BAD),
        must("9112 6.3", "a length with a point is refused", &post(" 5.0", "hello")).refused_with(400, BAD),
        must("9112 6.3", "an empty length is refused", &post("", "hello")).refused_with(400, BAD),
        must("9112 6.3", "a length with a space in it is refused", &post(" 1 0", "hello")).refused_with(400, BAD),
        must("9112 6.3", "a length in quotes is refused", &post(" \"5\"", "hello")).refused_with(400, BAD),
        must("9112 6.3", "a list of different lengths is refused", &post(" 5, 6", "hello")).refused_with(400, BAD),
        must("9110 8.6", "a length beyond 64 bits is refused, not wrapped", &post(" 18446744073709551621", "hello"))
            .refused_with(400, BAD),
        must("9112 6.3", "two different lengths are refused", &post(" 5\r\nContent-Length: 6", "hello!"))
            .refused_with(400, "ambiguous-framing"),
        may("9112 6.3", "two equal lengths are refused, not merged", &post(" 5\r\nContent-Length: 5", "hello"))
            .refused_with(400, "ambiguous-framing"),
        may("9112 6.3", "a list of equal lengths is refused, not merged", &post(" 5, 5", "hello"))
            .refused_with(400, BAD),
        must("9110 8.6", "a length that is too large is refused before the body comes", &post(" 99999999999", ""))
            .gives(reply(413).has("content-type", "application/problem+json")).closes(),
    ]
}

fn chunked(body: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

#[rustfmt::skip]
fn chunks() -> Vec<Case> {
    vec![
        must("9112 7.1", "a chunked body is decoded", &chunked("2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n")).says("abcde"),
        must("9112 7.1", "a size has hexadecimal digits of either case",
            &chunked("A\r\n0123456789\r\nb\r\n0123456789a\r\n0\r\n\r\n")).says("01234567890123456789a"),
        must("9112 7.1", "a size may begin with zeros", &chunked("0002\r\nab\r\n0\r\n\r\n")).says("ab"),
        must("9112 7.1", "the last chunk may have several zeros", &chunked("2\r\nab\r\n000\r\n\r\n")).says("ab"),
        must("9112 7.1", "a body may be the last chunk alone", &chunked("0\r\n\r\n")).says(""),
        must("9112 7.1", "a chunk may hold line ends", &chunked("4\r\n\r\n\r\n\r\n0\r\n\r\n")).says("\r\n\r\n"),
        must("9112 7.1", "a chunk may come in parts", &chunked("5")).then("\r").then("\nhe").then("llo\r\n0\r\n")
            .then("\r\n").says("hello"),
        must("9112 7.1", "coding names are case-insensitive",
            "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n").says(""),
        must("9112 7.1.1", "an extension is ignored", &chunked("2;a\r\nab\r\n0;b=c\r\n\r\n")).says("ab"),
        must("9112 7.1.1", "an extension in quotes is ignored", &chunked("2;a=\"b;c\"\r\nab\r\n0\r\n\r\n"))
            .says("ab"),
        must("9112 7.1.1", "white space around an extension is ignored", &chunked("2 ; a = b\r\nab\r\n0\r\n\r\n"))
            .says("ab"),
        must("9112 7.1", "what follows the body is the next request",
            &chunked("1\r\na\r\n0\r\n\r\nGET /ping HTTP/1.1\r\nHost: t\r\n\r\n")).says("a").says("pong"),
    ]
}

#[rustfmt::skip]
fn broken_chunks() -> Vec<Case> {
    let refused = |what, body: &str| must("9112 7.1", what, &chunked(body)).refused_with(400, BAD);
    vec![
        refused("a size that is no number is refused", "x\r\nab\r\n0\r\n\r\n"),
        refused("an empty size is refused", "\r\nab\r\n0\r\n\r\n"),
        refused("a size with a prefix is refused", "0x2\r\nab\r\n0\r\n\r\n"),
        refused("a negative size is refused", "-2\r\nab\r\n0\r\n\r\n"),
        refused("a size with a plus sign is refused", "+2\r\nab\r\n0\r\n\r\n"),
        refused("white space before a size is refused", " 2\r\nab\r\n0\r\n\r\n"),
        refused("white space behind a size is refused", "2 \r\nab\r\n0\r\n\r\n"),
        refused("a size beyond 64 bits is refused, not wrapped", "10000000000000002\r\nab\r\n0\r\n\r\n"),
        refused("a size of more than 16 digits is refused", "00000000000000002\r\nab\r\n0\r\n\r\n"),
        refused("a size line that ends with LF alone is refused", "2\nab\r\n0\r\n\r\n"),
        refused("a size line that ends with CR alone is refused", "2\rab\r\n0\r\n\r\n"),
        refused("a chunk longer than its size is refused", "2\r\nabc\r\n0\r\n\r\n"),
        refused("a chunk shorter than its size is refused", "3\r\nab\r\n0\r\n\r\n"),
        refused("a chunk that ends with LF alone is refused", "2\r\nab\n0\r\n\r\n"),
        refused("a chunk that ends with CR alone is refused", "2\r\nab\r0\r\n\r\n"),
        refused("an extension with LF alone is refused", "2;a\nab\r\n0\r\n\r\n"),
        refused("an extension with CR alone is refused", "2;a\rb\r\nab\r\n0\r\n\r\n"),
        refused("an extension with a NUL is refused", "2;\u{0}\r\nab\r\n0\r\n\r\n"),
        refused("a last chunk line that ends with LF alone is refused", "2\r\nab\r\n0\n\r\n"),
        refused("an end with LF alone is refused", "2\r\nab\r\n0\r\n\n"),
        must("9112 7.1.1", "an extension without end is refused",
            &chunked(&format!("2;{}\r\nab\r\n0\r\n\r\n", "a".repeat(20_000)))).refused_with(400, BAD),
    ]
}

#[rustfmt::skip]
fn trailers() -> Vec<Case> {
    let post = |trailers: &str| {
        format!(
            "POST /trailers HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n{trailers}\r\n"
        )
    };
    vec![
        must("9112 7.1.2", "trailers come apart from the header", &post("A: b\r\n"))
            .says("Some(\"t\") {\"a\": \"b\"}"),
        must("9110 6.5.1", "a trailer does not replace a field", &post("Host: other\r\n"))
            .says("Some(\"t\") {\"host\": \"other\"}"),
        must("9110 6.5.1", "a length in a trailer is no length", &post("Content-Length: 50\r\n"))
            .says("Some(\"t\") {\"content-length\": \"50\"}"),
        must("9112 7.1.2", "trailers that are ignored are skipped",
            "POST /ignore HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n")
            .says("ignored None"),
        must("9112 7.1.2", "a trailer with white space before the colon is refused", &post("A : b\r\n"))
            .refused_with(400, BAD),
        must("9112 7.1.2", "a trailer that is no field is refused", &post("A\r\n")).refused_with(400, BAD),
        must("9112 7.1.2", "a trailer that ends with LF alone is refused", &post("A: b\nB: c\r\n"))
            .refused_with(400, BAD),
        must("9112 7.1.2", "trailers that end with LF alone are refused", &post("A: b\n\r\nGET /ping HTTP/1.1\r\n"))
            .refused_with(400, BAD),
        must("9112 7.1.2", "a folded trailer is refused", &post("A: b\r\n c\r\n")).refused_with(400, BAD),
    ]
}

#[rustfmt::skip]
fn incomplete() -> Vec<Case> {
    vec![
        must("9112 8", "a head that ends early is no request", "GET /ping HTTP/1.1\r\nHost: t\r\n").end().closes(),
        may("9112 8", "a body that ends early is answered 400",
            "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nab").end().refused_with(400, BAD),
        may("9112 8", "a chunked body that ends early is answered 400", &chunked("5\r\nab")).end()
            .refused_with(400, BAD),
        may("9112 8", "a chunked body without its last chunk is answered 400", &chunked("2\r\nab\r\n")).end()
            .refused_with(400, BAD),
        must("9112 8", "the response to a complete request comes although the client has closed",
            "GET /ping HTTP/1.1\r\nHost: t\r\n\r\n").end().says("pong").closes(),
        should("9112 6.3", "a response whose length is known says it", "GET /target HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(200).has("content-length", "11").lacks("transfer-encoding")),
        must("9112 6.1", "a response of unknown length is chunked", "GET /stream HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(200).body("abcd").has("transfer-encoding", "chunked").lacks("content-length")),
        must("9112 6.1", "HTTP/1.0 gets no chunks", "GET /stream HTTP/1.0\r\n\r\n")
            .gives(reply(200).body("abcd").lacks("transfer-encoding")).closes(),
        must("9112 6.1", "HTTP/1.0 that would keep the connection gets no chunks",
            "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            .gives(reply(200).body("abcd").lacks("transfer-encoding")).closes(),
    ]
}
