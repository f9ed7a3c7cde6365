//! Tests which heads are plain.

use super::*;

fn limits() -> Limits {
    Limits { headers: 3, uri_bytes: 20, body_bytes: 10, ..Limits::default() }
}

/// The request, the arrived part of its body, and the total length in bytes.
fn read(bytes: &[u8]) -> Option<(Request<()>, Bytes, usize)> {
    let mut head = Head::default();
    let Found::Plain { head: length, body } = head.read(bytes, &limits()) else { return None };
    let (request, came) = head.request(bytes, &mut BytesMut::new(), HeaderMap::new())?;
    Some((request, came, length + body))
}

#[test]
fn a_plain_head_is_read_to_its_end() {
    let first = "POST /a/b?c=%20 HTTP/1.1\r\nHost: h:80\r\nA:b\r\nCONNECTION: Keep-Alive\r\n\r\n";
    let (request, _, length) = read(format!("{first}GET").as_bytes()).expect("plain");
    assert_eq!(length, first.len());
    assert_eq!((request.method(), request.version()), (&Method::POST, Version::HTTP_11));
    assert_eq!(request.uri(), "/a/b?c=%20");
    let fields: Vec<_> = request.headers().iter().collect();
    assert_eq!(fields.len(), 3);
    assert_eq!(request.headers()["host"], "h:80");
    assert_eq!(request.headers()["a"], "b");
}

#[test]
fn a_body_of_a_length_is_a_part_of_its_request() {
    for (length, body) in [("0", ""), ("3", "abc"), ("10", "0123456789")] {
        let head = format!("PUT / HTTP/1.1\r\nHost: h\r\ncontent-length:{length}\r\n\r\n");
        let (request, came, whole) = read(format!("{head}{body}GET").as_bytes()).expect("plain");
        assert_eq!(whole, head.len() + body.len());
        assert_eq!(request.headers()["content-length"], length);
        assert_eq!(came, body);
    }
    let head = "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n";
    let (_, came, whole) = read(format!("{head}ab").as_bytes()).expect("plain");
    assert_eq!((&came[..], whole), (&b"ab"[..], head.len() + 4), "the rest is to come");
}

#[test]
fn a_head_that_is_cut_anywhere_may_become_plain() {
    let get: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
    let post = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n";
    for whole in [get, post] {
        assert!(read(whole).is_some());
        for at in 1..whole.len() {
            assert_eq!(Head::default().read(&whole[..at], &limits()), Found::Partial, "{at}");
        }
    }
}

#[test]
fn what_cannot_become_plain_is_not_waited_for() {
    let long = format!("GET /{}", "a".repeat(limits().header_bytes));
    let other = [
        "\x16\x03\x01",
        "get",
        "GETS",
        "BREW / ",
        "GET / HTTP/1.0",
        "GET /a HTTP|",
        "GET h",
        &long,
        "GET / HTTP/1.1\r\n Ho",
        "GET / HTTP/1.1\r\n(",
        "GET / HTTP/1.1\r\nA: \0",
        "GET / HTTP/1.1\r\rA",
    ];
    for bytes in other {
        let found = Head::default().read(bytes.as_bytes(), &limits());
        assert_eq!(found, Found::Other, "{bytes:?}");
    }
}

#[test]
fn a_length_that_another_parser_may_read_otherwise_is_not_plain() {
    let lengths =
        ["", "+3", "-3", "03", "0x3", "3,3", "3 3", "3.0", "3a", " 3", "3 ", "1000000000", "11"];
    for length in lengths {
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
        assert!(read(format!("{head}{}", "a".repeat(20)).as_bytes()).is_none(), "{length:?}");
    }
    let with = |method: &str, fields: &str| {
        let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\nabc");
        read(head.as_bytes()).is_some()
    };
    assert!(with("POST", "Content-Length: 3\r\n") && with("PATCH", "Content-Length: 3\r\n"));
    assert!(!with("POST", "Content-Length: 3\r\nContent-Length: 3\r\n"));
    assert!(!with("POST", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"));
    for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
        assert!(!with(method, "Content-Length: 3\r\n"), "{method}");
    }
}

#[test]
fn whatever_another_parser_may_read_otherwise_is_not_plain() {
    let lines = [
        "get / HTTP/1.1",
        "BREW / HTTP/1.1",
        "CONNECT h:80 HTTP/1.1",
        "TRACE / HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / HTTP/1.0",
        "GET / HTTP/1.2",
        "GET /",
        "GET * HTTP/1.1",
        "GET http://h/ HTTP/1.1",
        "GET /a#b HTTP/1.1",
        "GET /a\\b HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "GET /a\tb HTTP/1.1",
        "GET /aaaaaaaaaaaaaaaaaaaa HTTP/1.1",
        "\r\nGET / HTTP/1.1",
        " GET / HTTP/1.1",
    ];
    for line in lines {
        let head = format!("{line}\r\nHost: h\r\n\r\n");
        assert!(read(head.as_bytes()).is_none(), "{line:?}");
    }
    let fields = [
        "",
        "Host: h\r\nHost: h\r\n",
        "Host: h h\r\n",
        "Host: h@h\r\n",
        "Host : h\r\n",
        "Host:  h\r\n",
        "Host:\th\r\n",
        "Host: h \r\n",
        "Host: h\n",
        "Host: h\r\nA: b\r\n\tc\r\n",
        "Host: h\r\nA: b\r\n c\r\n",
        "Host: h\r\n c\r\n",
        "Host: h\r\nA: b\rc\r\n",
        "Host: h\r\nA: b\0c\r\n",
        "Host: h\r\nA: \u{e9}\r\n",
        "Host: h\r\nA b: c\r\n",
        "Host: h\r\nA\r\n",
        "Host: h\r\n: b\r\n",
        "Host: h\r\nA(: b\r\n",
        "Host: h\r\nContent-Length: 0\r\n",
        "Host: h\r\ntransfer-Encoding: chunked\r\n",
        "Host: h\r\nExpect: 100-continue\r\n",
        "Host: h\r\nUpgrade: h2c\r\n",
        "Host: h\r\nTE: trailers\r\n",
        "Host: h\r\nTrailer: a\r\n",
        "Host: h\r\nConnection: close\r\n",
        "Host: h\r\nConnection: keep-alive, a\r\n",
        "Host: h\r\nA: b\r\nC: d\r\nE: f\r\n",
    ];
    for fields in fields {
        let head = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        assert!(read(head.as_bytes()).is_none(), "{fields:?}");
    }
}

#[test]
fn a_name_is_the_same_from_its_place_as_when_it_was_read() {
    let mut names = Names::default();
    let long = "x".repeat(LONGEST);
    let longer = "X".repeat(LONGEST + 1);
    let all = ["Host", "host", "HOST", "a", "X-Forwarded-For", "TRANSFER-ENCODING"];
    for written in all.iter().chain([&&*long, &&*longer]).cycle().take(30) {
        let (name, meaning) = names.read(written.as_bytes()).expect("a name");
        assert_eq!(name.as_str(), written.to_ascii_lowercase());
        let says = |name: &str| written.eq_ignore_ascii_case(name);
        assert_eq!(meaning == Meaning::Host, says("host"));
        assert_eq!(meaning == Meaning::Message, says("transfer-encoding"));
    }
}

#[test]
fn names_that_share_a_place_are_told_apart() {
    let mut names = Names::default();
    for number in (0..3 * PLACES).chain(0..3 * PLACES) {
        let written = format!("X-{number}");
        let (name, _) = names.read(written.as_bytes()).expect("a name");
        assert_eq!(name.as_str(), written.to_ascii_lowercase());
    }
}

#[test]
fn what_is_no_name_is_none_and_none_takes_its_place() {
    let mut names = Names::default();
    for wrong in ["", "a b", "a(", "\u{e9}", "a\r", &"(".repeat(LONGEST + 1)] {
        assert!(names.read(wrong.as_bytes()).is_none(), "{wrong:?}");
        assert!(names.read(wrong.as_bytes()).is_none(), "{wrong:?}, again");
    }
}
