//! RFC 9110: methods, status codes, Date, Expect.

use super::case::{Case, may, must, problem, reply, should};

pub(crate) fn cases() -> Vec<Case> {
    [methods(), statuses(), expectations()].into_iter().flatten().collect()
}

#[rustfmt::skip]
fn methods() -> Vec<Case> {
    vec![
        must("9110 9.3.2", "HEAD has no body", "HEAD /ping HTTP/1.1\r\nHost: t\r\n\r\n").gives(reply(200).bodiless()),
        should("9110 9.3.2", "HEAD has the fields of GET", "HEAD /target HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(200).has("content-length", "12").has("date", "*").bodiless()),
        must("9110 9.3.2", "HEAD of an error has no body", "HEAD /none HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(404).bodiless()),
        must("9110 9.3.2", "HEAD of a refused request has no body", "HEAD /ping HTTP/1.1\r\n\r\n")
            .gives(reply(400).bodiless()),
        must("9110 9.3.2", "HEAD of a stream has no body", "HEAD /stream HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(200).bodiless()),
        must("9110 9.3.2", "HEAD that is not valid HTTP has no body", "HEAD /ping HTTP/1.1\r\nHost : t\r\n\r\n")
            .gives(reply(400).has("connection", "close").bodiless()).closes(),
        may("9110 9.3.2", "HEAD may have a body to ignore",
            "HEAD /ping HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\nab").gives(reply(200).bodiless()),
        must("9110 15.5.6", "405 lists what is allowed", "DELETE /only-get HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(405).has("allow", "GET")),
        should("9110 9.1", "the service responds to an unknown method", "BREW /only-get HTTP/1.1\r\nHost: t\r\n\r\n")
            .gives(reply(405).has("allow", "GET"))
            .departs("Only the service knows its methods. The reference service responds with 405 and Allow, which is more specific than 501."),
        should("9112 3", "the service responds to a long method",
            &format!("{} /only-get HTTP/1.1\r\nHost: t\r\n\r\n", "M".repeat(300)))
            .gives(reply(405).has("allow", "GET"))
            .departs("The reason is the same as for an unknown method. The header limit bounds the length."),
        may("9110 9.3.8", "TRACE is not implemented", "TRACE /ping HTTP/1.1\r\nHost: t\r\nCookie: secret\r\n\r\n")
            .gives(problem(501, "not-implemented")),
        may("9110 9.3.6", "CONNECT is not implemented, and what follows is no request",
            "CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n\r\nGET /ping HTTP/1.1\r\nHost: t\r\n\r\n")
            .refused_with(501, "not-implemented"),
    ]
}

#[rustfmt::skip]
fn statuses() -> Vec<Case> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n");
    vec![
        must("9110 6.6.1", "a response has a date", &get("/target?dated")).gives(reply(200).has("date", "*")),
        must("9110 6.6.1", "a 4xx has a date", &get("/none")).gives(reply(404).has("date", "*")),
        must("9110 6.6.1", "a service's own date is kept, once", &get("/dated"))
            .gives(reply(200).has("date", "Sun, 06 Nov 1994 08:49:37 GMT")),
        must("9110 15.3.5", "204 has no body", &get("/204")).gives(reply(204).has("etag", "\"1\"")),
        must("9110 8.6", "204 has no length", &get("/204-with-length"))
            .gives(reply(204).lacks("content-length").lacks("transfer-encoding")),
        must("9110 15.3.5", "204 has no body although the service gives one", &get("/204-with-body"))
            .gives(reply(204).lacks("transfer-encoding")),
        must("9110 15.3.6", "205 has no content", &get("/205")).gives(reply(205).body("")),
        must("9110 15.4.5", "304 has no body", &get("/304")).gives(reply(304).has("etag", "\"1\"")),
        must("9110 15.4.5", "304 has no body although the service gives one", &get("/304-with-body"))
            .gives(reply(304).lacks("transfer-encoding")),
    ]
}

#[rustfmt::skip]
fn expectations() -> Vec<Case> {
    let post = |path: &str, expect: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: {expect}\r\n\r\n{body}"
        )
    };
    vec![
        must("9110 10.1.1", "100 comes before the body", &post("/echo", "100-continue", "")).gives(reply(100))
            .then("ab").says("ab"),
        must("9110 10.1.1", "the expectation is case-insensitive", &post("/echo", "100-Continue", ""))
            .gives(reply(100)).then("ab").says("ab"),
        must("9110 10.1.1", "100 comes before a chunked body",
            "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
            .gives(reply(100)).then("1\r\na\r\n0\r\n\r\n").says("a"),
        must("9110 10.1.1", "100 does not come in HTTP/1.0",
            "POST /echo HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nab").says("ab").closes(),
        should("9110 10.1.1", "a response to a request with an unread body does not announce whether the connection closes",
            "POST /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            .gives(reply(200).lacks("connection")).closes()
            .departs("hyper writes the head before it knows whether it can skip the rest of the body. If it cannot, it closes the connection after the response."),
        must("9110 10.1.1", "a body that the service does not want is not asked for",
            &post("/none", "100-continue", "")).gives(reply(404)).closes(),
        must("9110 10.1.1", "a body that is too large is not asked for",
            "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
            .gives(problem(413, "body-too-large")).closes(),
        must("9110 10.1.1", "without a body there is nothing to go on with",
            "GET /ping HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n\r\n").says("pong"),
        may("9110 10.1.1", "another expectation is answered 417", &post("/echo", "200-ok", "ab"))
            .gives(problem(417, "expectation-failed")),
        may("9110 10.1.1", "another expectation beside 100-continue is answered 417",
            &post("/echo", "100-continue, gold", "ab")).gives(problem(417, "expectation-failed")),
    ]
}
