//! Request smuggling (RFC 9112 sections 6.1, 6.3 and 11.2): ambiguous bytes are rejected, and
//! nothing after them is parsed as a request.

use super::case::{Case, must, reply, should};

const BAD: &str = "bad-request";
const AMBIGUOUS: &str = "ambiguous-framing";

/// Must never be answered.
const HIDDEN: &str = "GET /ping HTTP/1.1\r\nHost: t\r\n\r\n";

fn post(fields: &str, body: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: t\r\n{fields}\r\n{body}")
}

pub(crate) fn cases() -> Vec<Case> {
    [both_fields(), codings(), disguises(), elsewhere()].into_iter().flatten().collect()
}

#[rustfmt::skip]
fn both_fields() -> Vec<Case> {
    let chunks = format!("0\r\n\r\n{HIDDEN}");
    let refused = |what, fields: &str| {
        must("9112 6.3", what, &post(fields, &chunks)).refused_with(400, AMBIGUOUS)
    };
    vec![
        refused("CL.TE: a length, then chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
        refused("TE.CL: chunks, then a length", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"),
        refused("a length of 0 and chunks", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n"),
        refused("chunks and a length that is not valid", "Transfer-Encoding: chunked\r\nContent-Length: x\r\n"),
        refused("both fields with others between",
            "content-LENGTH: 4\r\nA: b\r\nC: d\r\ntransfer-ENCODING: chunked\r\n"),
        refused("a length and a coding that is no coding", "Content-Length: 4\r\nTransfer-Encoding: identity\r\n"),
        must("9112 6.3", "both fields in the second request of a connection",
            &format!("{HIDDEN}{}", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", &chunks))).says("pong")
            .refused_with(400, AMBIGUOUS),
        must("9112 6.3", "both fields in GET",
            &format!("GET /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"))
            .refused_with(400, AMBIGUOUS),
        must("9112 6.3", "both fields in parts", "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Len")
            .then("gth: 4\r\nTransfer-E").then("ncoding: chunked\r\n\r\n0\r\n\r\n").refused_with(400, AMBIGUOUS),
        must("9112 6.3", "a HEAD with both fields is refused without a body",
            "HEAD /ping HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            .gives(reply(400).has("connection", "close").bodiless()).closes(),
    ]
}

#[rustfmt::skip]
fn codings() -> Vec<Case> {
    let chunks = format!("0\r\n\r\n{HIDDEN}");
    let refused = |what, status, slug, value: &str| {
        let fields = format!("Transfer-Encoding:{value}\r\n");
        must("9112 6.3", what, &post(&fields, &chunks)).refused_with(status, slug)
    };
    vec![
        should("9112 6.1", "an unknown coding is answered 501",
            &post("Transfer-Encoding: gzip, chunked\r\n", &chunks)).refused_with(501, "not-implemented"),
        should("9112 6.1", "an unknown coding in a field of its own is answered 501",
            &post("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", &chunks))
            .refused_with(501, "not-implemented"),
        must("9112 6.1", "chunked twice is refused", &post("Transfer-Encoding: chunked, chunked\r\n", &chunks))
            .refused_with(400, AMBIGUOUS),
        must("9112 6.1", "chunked in two fields is refused",
            &post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", &chunks))
            .refused_with(400, AMBIGUOUS),
        must("9112 6.1", "HTTP/1.0 with chunks is refused",
            "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").refused_with(400, BAD),
        refused("a coding other than chunked is refused", 400, BAD, " identity"),
        refused("chunked that is not last is refused", 400, BAD, " chunked, identity"),
        refused("an empty coding is refused", 400, BAD, ""),
        refused("chunked with a parameter is refused", 400, BAD, " chunked;a=b"),
        refused("chunked in quotes is refused", 400, BAD, " \"chunked\""),
        refused("a word that begins like chunked is refused", 400, BAD, " chunkedx"),
        refused("a word that ends like chunked is refused", 400, BAD, " xchunked"),
        refused("a comma behind chunked is refused", 400, BAD, " chunked,"),
        refused("a comma before chunked is refused", 400, AMBIGUOUS, " , chunked"),
        refused("a vertical tab before chunked is refused", 400, BAD, "\u{b}chunked"),
        refused("a vertical tab behind chunked is refused", 400, BAD, " chunked\u{b}"),
        refused("a form feed before chunked is refused", 400, BAD, "\u{c}chunked"),
        refused("a NUL before chunked is refused", 400, BAD, " \u{0}chunked"),
        refused("a NEL before chunked is refused", 400, BAD, " \u{85}chunked"),
        refused("a no-break space before chunked is refused", 400, BAD, " \u{a0}chunked"),
        refused("a backspace in chunked is refused", 400, BAD, " chu\u{8}nked"),
        must("9112 6.1", "a tab before chunked is white space", &post("Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n"))
            .says(""),
        must("9112 6.1", "white space behind chunked is none of it",
            &post("Transfer-Encoding: chunked \t\r\n", "0\r\n\r\n")).says(""),
    ]
}

/// Fields that some parsers accept as framing and others ignore.
#[rustfmt::skip]
fn disguises() -> Vec<Case> {
    let refused = |what, fields: &str| {
        must("9112 5.1", what, &post(fields, &format!("0\r\n\r\n{HIDDEN}"))).refused_with(400, BAD)
    };
    vec![
        refused("a space before the colon of Transfer-Encoding", "Transfer-Encoding : chunked\r\n"),
        refused("a tab before the colon of Transfer-Encoding", "Transfer-Encoding\t: chunked\r\n"),
        refused("a space before the colon of Content-Length", "Content-Length : 4\r\n"),
        refused("a NUL before the colon of Transfer-Encoding", "Transfer-Encoding\u{0}: chunked\r\n"),
        refused("a vertical tab before the colon of Content-Length", "Content-Length\u{b}: 4\r\n"),
        refused("a space before Transfer-Encoding", "A: b\r\n Transfer-Encoding: chunked\r\n"),
        refused("a Transfer-Encoding whose value is folded", "Transfer-Encoding:\r\n chunked\r\n"),
        refused("a Content-Length whose value is folded", "Content-Length:\r\n 4\r\n"),
        refused("a Transfer-Encoding behind a CR alone", "A: b\rTransfer-Encoding: chunked\r\n"),
        must("9112 2.2", "a Transfer-Encoding behind an LF alone",
            &post("A: b\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")).refused_with(400, AMBIGUOUS),
        must("9112 2.2", "a Content-Length that ends with LF alone", &post("Content-Length: 5\n", "hello"))
            .refused_with(400, AMBIGUOUS),
        must("9110 5.1", "an underscore is no hyphen", &post("Content_Length: 40\r\n", "")).says(""),
        must("9110 8.6", "a longer name is another field",
            &post("X-Content-Length: 40\r\nContent-Length2: 40\r\nTransfer-Encodings: chunked\r\n", "")).says(""),
        must("9112 6.3", "a length among similar names counts",
            &post("Content-Lengt: 40\r\nContent-Length: 2\r\nT: b\r\n", "ab")).says("ab"),
    ]
}

#[rustfmt::skip]
fn elsewhere() -> Vec<Case> {
    vec![
        must("9112 6.3", "a request within a body is a body",
            &post(&format!("Content-Length: {}\r\n", HIDDEN.len()), HIDDEN)).says(HIDDEN),
        must("9112 6.3", "a head that would be refused within a body is a body",
            &post("Content-Length: 35\r\n", "Content-Length: 1\nContent-Length: 2"))
            .says("Content-Length: 1\nContent-Length: 2"),
        must("9112 7.1", "a request within a chunk is a chunk",
            &post("Transfer-Encoding: chunked\r\n", &format!("{:x}\r\n{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len())))
            .says(HIDDEN),
        must("9112 9.3", "a body that nobody reads is no request",
            &format!("POST /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n{HIDDEN}", HIDDEN.len()))
            .says("ignored Some(31)"),
        must("9112 9.3", "a chunked body that nobody reads is no request",
            &format!("POST /404 HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{HIDDEN}\r\n0\r\n\r\n", HIDDEN.len()))
            .gives(reply(404)),
        must("9112 11.1", "a value cannot end a response's head",
            "GET /target?a%0d%0aB:%20c HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(200).body("GET /target?a%0d%0aB:%20c").lacks("b")),
    ]
}
