//! RFC 9112 sections 2 to 5: request lines, targets, fields.

use super::case::{Case, Expected, may, must, problem, reply, should};

const BAD: &str = "bad-request";

pub(crate) fn cases() -> Vec<Case> {
    [parsing(), request_lines(), targets(), hosts(), fields()].into_iter().flatten().collect()
}

#[rustfmt::skip]
fn parsing() -> Vec<Case> {
    vec![
        should("9110 6.2", "a request is answered in HTTP/1.1", "GET /ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(200).body("pong").has("(version)", "HTTP/1.1")),
        should("9112 2.2", "one empty line before the request line is ignored",
            "\r\nGET /ping HTTP/1.1\r\nHost: t\r\n\r\n").says("pong"),
        should("9112 2.2", "several empty lines before the request line are ignored",
            "\r\n\r\n\r\nGET /ping HTTP/1.1\r\nHost: t\r\n\r\n").says("pong"),
        should("9112 2.2", "an empty line between a body and the next request is ignored",
            "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab\r\n")
            .then("GET /ping HTTP/1.1\r\nHost: t\r\n\r\n").says("ab").says("pong"),
        may("9112 2.2", "a request line that ends with LF alone is refused", "GET /ping HTTP/1.1\nHost: t\r\n\r\n")
            .refused_with(400, "ambiguous-framing"),
        may("9112 2.2", "a field that ends with LF alone is refused", "GET /ping HTTP/1.1\r\nHost: t\nA: b\r\n\r\n")
            .refused_with(400, "ambiguous-framing"),
        may("9112 2.2", "a head that ends with LF alone is refused", "GET /ping HTTP/1.1\r\nHost: t\r\n\n")
            .refused_with(400, "ambiguous-framing"),
        may("9112 2.2", "an LF before the request line is refused", "\nGET /ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, "ambiguous-framing"),
        may("9112 2.2", "a whole head with LF alone is refused", "GET /ping HTTP/1.1\nHost: t\n\n")
            .refused_with(400, "ambiguous-framing"),
        must("9112 2.2", "a CR alone in a value is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA: b\rc\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 2.2", "a CR alone before a line's end is refused",
            "GET /ping HTTP/1.1\r\nHost: t\r\nA: b\r\r\n\r\n").refused_with(400, BAD),
        must("9112 2.2", "a CR alone in the request line is refused", "GET /ping\rHTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 2.2", "white space between the request line and the first field is refused",
            "GET /ping HTTP/1.1\r\n Host: t\r\n\r\n").refused_with(400, BAD),
        must("9112 2.2", "a line of white space before the first field is refused",
            "GET /ping HTTP/1.1\r\n \r\nHost: t\r\n\r\n").refused_with(400, BAD),
        should("9112 2.2", "what is not HTTP is answered 400", "hello, are you there?\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 2.2", "bytes that no method has are answered 400", "\u{16}\u{3}\u{1}\u{2}\u{0}\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 2.2", "bytes of another protocol get no HTTP response",
            "DESCRIBE /film RTSP/1.0\r\nCSeq: 1\r\n\r\n").closes()
            .departs("A client of another protocol (RTSP, SIP, a damaged HTTP/2 preface) cannot read an HTTP/1.1 response and could misinterpret it. Corelane closes the connection."),
    ]
}

fn version_not_supported() -> Expected {
    problem(505, "http-version-not-supported")
        .has("connection", "close")
        .mentions("\"detail\":\"a request line may name HTTP/1.1 or HTTP/1.0 only")
        .mentions("HTTP/2 is supported too")
}

#[rustfmt::skip]
fn request_lines() -> Vec<Case> {
    vec![
        should("9112 3.2", "two spaces in the request line are refused", "GET  /ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "two spaces before the version are refused", "GET /ping  HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "a tab in the request line is refused", "GET\t/ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "a space before the method is refused", " GET /ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "a space behind the version is refused", "GET /ping HTTP/1.1 \r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "a space in the target is refused", "GET /pi ng HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "a request line without a version is refused", "GET /ping\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 3.1", "methods are case-sensitive", "get /target HTTP/1.1\r\nHost: t\r\n\r\n").says("get /target"),
        must("9112 3.1", "a method may be any token", "BREW!#$ /target HTTP/1.1\r\nHost: t\r\n\r\n")
            .says("BREW!#$ /target"),
        must("9112 3.1", "a method that is not a token is refused", "G@T /ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 3.1", "HEAD in lower case is not HEAD", "head /ping HTTP/1.1\r\nHost: t\r\n\r\n").says("pong"),
        must("9112 2.3", "the version's name is case-sensitive", "GET /ping http/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 2.3", "a version has one digit on each side", "GET /ping HTTP/1.10\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 2.3", "a version has a point", "GET /ping HTTP/11\r\nHost: t\r\n\r\n").refused_with(400, BAD),
        should("9110 15.6.6", "HTTP/2.0 in a request line is answered 505, which says why and what is supported",
            "GET /ping HTTP/2.0\r\nHost: t\r\n\r\n").gives(version_not_supported()).closes(),
        should("9110 15.6.6", "HTTP/0.9 in a request line is answered 505, which says why and what is supported",
            "GET /ping HTTP/0.9\r\n\r\n").gives(version_not_supported()).closes(),
        should("9110 6.2", "HTTP/1.2 gets 400", "GET /ping HTTP/1.2\r\nHost: t\r\n\r\n").refused_with(400, BAD)
            .departs("HTTP/1.2 does not exist, so a client that sends it is probing for parser differences. hyper's parser accepts only 1.0 and 1.1."),
        should("9112 3", "a target of 8,000 bytes is served",
            &format!("GET /target?{} HTTP/1.1\r\nHost: t\r\n\r\n", "q".repeat(7992))).gives(reply(200)),
        must("9112 3", "a target that is too long is answered 414",
            &format!("GET /{} HTTP/1.1\r\nHost: t\r\n\r\n", "q".repeat(9000))).gives(problem(414, "uri-too-long")),
    ]
}

#[rustfmt::skip]
fn targets() -> Vec<Case> {
    let target = "request-target";
    vec![
        must("9112 3.2.1", "the query belongs to the target", "GET /target?a=b&c HTTP/1.1\r\nHost: t\r\n\r\n")
            .says("GET /target?a=b&c"),
        must("9112 3.2.1", "percent-encoding is left as it is", "GET /target?%41%2f HTTP/1.1\r\nHost: t\r\n\r\n")
            .says("GET /target?%41%2f"),
        must("9112 3.2.2", "an absolute target is accepted", "GET http://t/ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .says("pong"),
        must("9112 3.2.2", "an absolute target without a path asks for /", "GET http://t HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(404)),
        must("9112 3.2.2", "the authority of an absolute target takes the place of Host",
            "GET http://real:81/see/host HTTP/1.1\r\nHost: other\r\n\r\n").says("\"real:81\""),
        must("9112 3.2", "an absolute target needs a Host as well", "GET http://t/ping HTTP/1.1\r\n\r\n")
            .gives(problem(400, "host")),
        must("9110 7.4", "https is not served without TLS", "GET https://t/ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(421, "misdirected-request")),
        may("9110 7.4", "another scheme is refused", "GET ftp://t/ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(400, target)),
        should("9110 4.2.4", "user information in the target is an error",
            "GET http://me@t/ping HTTP/1.1\r\nHost: t\r\n\r\n").gives(problem(400, target)),
        must("9110 4.2.1", "an empty host in the target is an error", "GET http:///ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 3.2.3", "only CONNECT has a host and port for a target", "GET t:80 HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(400, target)),
        must("9112 3.2.3", "a host alone is no target", "GET ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(400, target)),
        must("9112 3.2.3", "CONNECT does not take a path", "CONNECT /ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(400, target)),
        must("9112 3.2.3", "CONNECT needs a port", "CONNECT t HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(400, target)),
        must("9112 3.2.4", "OPTIONS takes *", "OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n").says("the server"),
        must("9112 3.2.4", "no other method takes *", "GET * HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(400, target)),
        should("9112 3.2", "a fragment in the target is refused", "GET /target#a HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, "ambiguous-framing"),
        should("9112 3.2", "a fragment behind a query is refused", "GET /target?b#a HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, "ambiguous-framing"),
        should("9112 3.2", "a NUL in the target is refused", "GET /\u{0} HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "bytes that are not UTF-8 are refused", "GET /\u{ff} HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(400, BAD),
        should("9112 3.2", "a target that begins with neither / nor a scheme is refused",
            "GET ?a HTTP/1.1\r\nHost: t\r\n\r\n").refused_with(400, BAD),
    ]
}

#[rustfmt::skip]
fn hosts() -> Vec<Case> {
    let refused = || problem(400, "host");
    vec![
        must("9112 3.2", "HTTP/1.1 without Host is refused", "GET /ping HTTP/1.1\r\n\r\n").gives(refused()),
        must("9112 3.2", "two Host fields are refused", "GET /ping HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            .gives(refused()),
        must("9112 3.2", "two equal Host fields are refused", "GET /ping HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n")
            .gives(refused()),
        must("9112 3.2", "two Host fields are refused in HTTP/1.0",
            "GET /ping HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n").gives(refused()).closes(),
        must("9112 3.2", "an empty Host is valid", "GET /ping HTTP/1.1\r\nHost:\r\n\r\n").says("pong"),
        must("9112 3.2", "an IPv6 address is a valid Host", "GET /ping HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n")
            .says("pong"),
        must("9112 3.2", "a Host with a space is refused", "GET /ping HTTP/1.1\r\nHost: a b\r\n\r\n")
            .gives(refused()),
        must("9112 3.2", "two hosts in one field are refused", "GET /ping HTTP/1.1\r\nHost: a, b\r\n\r\n")
            .gives(refused()),
        must("9112 3.2", "a Host with user information is refused", "GET /ping HTTP/1.1\r\nHost: me@a\r\n\r\n")
            .gives(refused()),
        must("9112 3.2", "a Host with a path is refused", "GET /ping HTTP/1.1\r\nHost: a/b\r\n\r\n").gives(refused()),
        must("9112 3.2", "a Host with a port that is no number is refused",
            "GET /ping HTTP/1.1\r\nHost: a:8x\r\n\r\n").gives(refused()),
        must("9112 3.2", "a Host with a bracket that is not closed is refused",
            "GET /ping HTTP/1.1\r\nHost: [::1\r\n\r\n").gives(refused()),
        must("9112 3.2", "a Host with obs-text is refused", "GET /ping HTTP/1.1\r\nHost: \u{e9}\r\n\r\n")
            .gives(refused()),
        must("9112 3.2", "HTTP/1.0 needs no Host", "GET /ping HTTP/1.0\r\n\r\n").says("pong").closes(),
    ]
}

#[rustfmt::skip]
fn fields() -> Vec<Case> {
    vec![
        must("9110 5.1", "field names are case-insensitive", "GET /see/a HTTP/1.1\r\nhOST: t\r\nA: b\r\n\r\n")
            .says("\"b\""),
        must("9112 5.1", "a space before the colon is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA : b\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 5.1", "a tab before the colon is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA\t: b\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 5.1", "a field line without a colon is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 5.1", "a field without a name is refused", "GET /ping HTTP/1.1\r\nHost: t\r\n: b\r\n\r\n")
            .refused_with(400, BAD),
        must("9110 5.1", "a name that is not a token is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA(b): c\r\n\r\n")
            .refused_with(400, BAD),
        must("9110 5.1", "a name with obs-text is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA\u{e9}: c\r\n\r\n")
            .refused_with(400, BAD),
        must("9110 5.5", "white space around a value is no part of it",
            "GET /see/a HTTP/1.1\r\nHost: t\r\nA: \t b c \t \r\n\r\n").says("\"b c\""),
        must("9112 5.1", "a value needs no white space before it", "GET /see/a HTTP/1.1\r\nHost: t\r\nA:b\r\n\r\n")
            .says("\"b\""),
        must("9110 5.5", "a value may be empty", "GET /see/a HTTP/1.1\r\nHost: t\r\nA:\r\n\r\n").says("\"\""),
        must("9110 5.5", "a value of white space is empty", "GET /see/a HTTP/1.1\r\nHost: t\r\nA: \t \r\n\r\n")
            .says("\"\""),
        should("9110 5.5", "obs-text in a value is opaque", "GET /see/a HTTP/1.1\r\nHost: t\r\nA: \u{e9}\r\n\r\n")
            .says("\"\\xe9\""),
        must("9110 5.5", "a NUL in a value is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA: b\u{0}c\r\n\r\n")
            .refused_with(400, BAD),
        may("9110 5.5", "another control character in a value is refused",
            "GET /ping HTTP/1.1\r\nHost: t\r\nA: b\u{7f}\r\n\r\n").refused_with(400, BAD),
        must("9112 5.2", "a folded line is refused", "GET /ping HTTP/1.1\r\nHost: t\r\nA: b\r\n c\r\n\r\n")
            .refused_with(400, BAD),
        must("9112 5.2", "a line folded with a tab is refused",
            "GET /ping HTTP/1.1\r\nHost: t\r\nA: b\r\n\tc\r\n\r\n").refused_with(400, BAD),
        must("9110 5.3", "fields of one name keep their order",
            "GET /see/a HTTP/1.1\r\nHost: t\r\nA: 1\r\nB: x\r\na: 2\r\n\r\n").says("\"1\" \"2\""),
        must("9110 5.4", "a header that is too large is answered 4xx",
            &format!("GET /ping HTTP/1.1\r\nHost: t\r\nA: {}\r\n\r\n", "b".repeat(40_000)))
            .refused_with(431, "request-header-fields-too-large"),
        must("9110 5.4", "too many fields are answered 4xx",
            &format!("GET /ping HTTP/1.1\r\nHost: t\r\n{}\r\n", "A: b\r\n".repeat(200)))
            .refused_with(431, "request-header-fields-too-large"),
    ]
}
