//! RFC 9112 section 9, RFC 9110 sections 7.6 and 7.8: connection handling.

use super::case::{Case, may, must, problem, reply, should};

pub(crate) fn cases() -> Vec<Case> {
    [persistence(), pipelines(), long_pipelines(), upgrades()].into_iter().flatten().collect()
}

/// The invalid request follows more requests than the server tracks.
fn long_pipelines() -> Vec<Case> {
    let behind = |what, first: &str, requests: usize, last: &str| {
        let (begin, end) = (format!("{first} HTTP/1.1\r\nHost: t\r\n\r\n"), last.to_owned());
        let get = "GET /ping HTTP/1.1\r\nHost: t\r\n\r\n".repeat(requests);
        let case = must("9112 6.3", what, &[begin, get, end].concat());
        (0..=requests).fold(case, |case, _| case.says("pong"))
    };
    let absolute = "GET http://t/ping";
    let (long, head) = ("a".repeat(40_000), "HEAD / HTTP/1.1\r\nHost : t\r\n\r\n");
    let large = format!("GET / HTTP/1.1\r\nHost: t\r\nA: {long}\r\n\r\n");
    vec![
        behind(
            "a refusal behind 64 requests is whole",
            absolute,
            63,
            "GET / HTTP/1.1\r\nHost : t\r\n\r\n",
        )
        .refused_with(400, "bad-request"),
        behind(
            "a refusal behind 300 requests is whole",
            absolute,
            299,
            "GET / HTTP/1.1\r\nA : b\r\n\r\n",
        )
        .refused_with(400, "bad-request"),
        behind("a head that is too large behind 64 requests is told why", absolute, 63, &large)
            .refused_with(431, "request-header-fields-too-large"),
        behind(
            "another version behind 64 requests is told why",
            absolute,
            63,
            "GET / HTTP/2.0\r\n\r\n",
        )
        .refused_with(505, "http-version-not-supported"),
        behind("a HEAD behind 64 requests is refused without a body", absolute, 63, head)
            .gives(reply(400).has("connection", "close").bodiless())
            .closes(),
    ]
}

#[rustfmt::skip]
fn persistence() -> Vec<Case> {
    let get = |fields: &str| format!("GET /ping HTTP/1.1\r\nHost: t\r\n{fields}\r\n");
    vec![
        should("9112 9.3", "a connection of HTTP/1.1 is kept", &get("A: kept\r\n"))
            .gives(reply(200).lacks("connection")),
        must("9112 9.6", "close ends the connection after the response", &get("Connection: close\r\n"))
            .gives(reply(200).has("connection", "close")).closes(),
        must("9112 9.6", "nothing behind a request with close is answered",
            &format!("{}{}", get("Connection: close\r\nA: b\r\n"), get("A: c\r\n"))).says("pong").closes(),
        must("9110 7.6.1", "connection options are case-insensitive", &get("Connection: CLOSE\r\n")).says("pong")
            .closes(),
        must("9110 7.6.1", "close may stand among other options", &get("Connection: a, close ,b\r\n")).says("pong")
            .closes(),
        must("9110 7.6.1", "close may stand in any Connection field", &get("Connection: a\r\nConnection: close\r\n"))
            .says("pong").closes(),
        must("9112 9.3", "close wins over keep-alive", &get("Connection: keep-alive, close\r\n")).says("pong")
            .closes(),
        must("9112 9.3", "close wins over a later keep-alive",
            &get("Connection: close\r\nConnection: keep-alive\r\n")).says("pong").closes(),
        must("9110 7.6.1", "an unknown option is ignored", &get("Connection: closed\r\n")).says("pong"),
        must("9112 9.3", "HTTP/1.0 closes by default", "GET /ping HTTP/1.0\r\nHost: t\r\n\r\n").says("pong").closes(),
        may("9112 9.3", "HTTP/1.0 keeps the connection when asked",
            "GET /ping HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\n\r\n")
            .gives(reply(200).body("pong").has("connection", "keep-alive")),
        must("9112 9.6", "a service may end the connection", "GET /close HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(200).body("bye").has("connection", "close")).closes(),
        should("9110 6.2", "a response to HTTP/1.0 has version 1.0", "GET /target HTTP/1.0\r\n\r\n")
            .gives(reply(200).has("(version)", "HTTP/1.0")).closes()
            .departs("hyper responds with the request's HTTP version. Only the number differs, and old clients expect it."),
        should("9112 9.6", "a response to HTTP/1.0 does not announce the close",
            "GET /target?last HTTP/1.0\r\n\r\n").gives(reply(200).lacks("connection")).closes()
            .departs("hyper omits Connection, because HTTP/1.0 connections close by default."),
    ]
}

#[rustfmt::skip]
fn pipelines() -> Vec<Case> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n");
    vec![
        must("9112 9.3.2", "pipelined requests are answered in their order",
            &[get("/target?1"), get("/ping"), get("/target?3")].concat()).says("GET /target?1").says("pong")
            .says("GET /target?3"),
        must("9112 9.3.2", "pipelined requests may have bodies",
            &format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\naPOST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\n\r\n{}", get("/ping")))
            .says("a").says("b").says("pong"),
        must("9112 9.3.2", "a request behind a streamed response is answered after it",
            &[get("/stream"), get("/ping")].concat()).says("abcd").says("pong"),
        must("9112 9.3.2", "a HEAD in between has no body",
            &["HEAD /ping HTTP/1.1\r\nHost: t\r\n\r\n", &get("/target?1")].concat())
            .gives(reply(200).has("content-length", "4").bodiless()).says("GET /target?1"),
        must("9112 9.3.2", "requests before one that is refused are answered",
            &[&get("/target?1"), "GET / HTTP/1.1\r\nHost : t\r\n\r\n", &get("/ping")].concat()).says("GET /target?1")
            .refused_with(400, "bad-request"),
        must("9112 9.3.2", "a request may end in the middle of the next",
            &format!("{}GET /target?2 HT", get("/ping"))).says("pong").then("TP/1.1\r\nHost: t\r\n\r\n")
            .says("GET /target?2"),
    ]
}

#[rustfmt::skip]
fn upgrades() -> Vec<Case> {
    let get = |fields: &str| format!("GET /ping HTTP/1.1\r\nHost: t\r\n{fields}\r\n");
    let switch = |fields: &str| format!("GET /switch HTTP/1.1\r\nHost: t\r\n{fields}\r\n");
    let switched = || reply(101).has("upgrade", "echo").has("connection", "upgrade");
    let required = || reply(426).has("upgrade", "echo").has("connection", "upgrade");
    vec![
        must("9110 7.8", "after 101 both sides use the other protocol",
            &switch("Connection: upgrade\r\nUpgrade: echo\r\n"))
            .gives(switched().lacks("content-length").lacks("transfer-encoding"))
            .then("HTTP/1.1 299 Echo\r\nContent-Length: 6\r\n\r\nechoed").gives(reply(299).body("echoed")).end()
            .closes(),
        must("9110 7.8", "the name of the option is case-insensitive, and it may stand in a list",
            &switch("Connection: keep-alive, UpGrade\r\nUpgrade: echo\r\n")).gives(switched()).end().closes(),
        must("9110 7.8", "Upgrade that Connection does not name is ignored", &switch("Upgrade: echo\r\n"))
            .gives(required()),
        must("9110 15.5.22", "a service that requires an upgrade names the protocol", &switch("A: b\r\n"))
            .gives(required()),
        may("9110 7.8", "Upgrade of a request with a body is ignored",
            &(switch("Connection: upgrade\r\nUpgrade: echo\r\nContent-Length: 1\r\n") + "x")).gives(required()),
        must("9110 15.2.2", "101 is no response to a request without Upgrade", "GET /101 HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(problem(500, "internal-server-error")),
        may("9110 7.8", "an unknown protocol in Upgrade is ignored",
            &get("Connection: upgrade\r\nUpgrade: shell\r\n")).gives(reply(200).body("pong").lacks("upgrade")),
        may("9113 3.1", "h2c in Upgrade is ignored",
            &get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"))
            .says("pong"),
        must("9110 7.8", "Upgrade in HTTP/1.0 is ignored",
            "GET /ping HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").says("pong").closes(),
        must("9113 3.4", "the preface of HTTP/2 later on a connection is not HTTP/1.1", &get("A: first\r\n"))
            .says("pong").then("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").refused_with(505, "http-version-not-supported"),
        must("9113 3.4", "a damaged preface closes the connection", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
            .refused_with(505, "http-version-not-supported"),
    ]
}
