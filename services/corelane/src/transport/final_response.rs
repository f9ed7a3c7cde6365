//! Responses that end a connection, written without hyper.

use std::io;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::base::settings::Limits;
use crate::message::framing::{Fault, Spoken};
use crate::message::problem::Problem;
use crate::request::lane_state::LaneState;
use crate::request::refusal::{header_too_large, too_many_headers};

/// A complete HTTP/1.1 response that announces the end of its connection.
pub(crate) fn final_response(lane: &LaneState, problem: Problem, with_body: bool) -> Vec<u8> {
    let (status, mut headers, body) = problem.into_parts();
    lane.sign(&mut headers);
    let mut out = Vec::with_capacity(512);
    // RFC 9110 section 6.6.1: a 4xx carries the date.
    let date = httpdate::fmt_http_date(SystemTime::now());
    let length = body.len();
    let start = format!(
        "HTTP/1.1 {status}\r\ndate: {date}\r\nconnection: close\r\ncontent-length: {length}\r\n"
    );
    out.extend_from_slice(start.as_bytes());
    for (name, value) in &headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    if with_body {
        out.extend_from_slice(&body);
    }
    out
}

/// The response to a head that hyper rejected with `status`. `fault` is the cause, if known. `None`
/// if the client does not speak HTTP and gets no response.
pub(crate) fn refused_head(
    limits: &Limits,
    status: StatusCode,
    fault: Option<Fault>,
) -> Option<Problem> {
    match fault {
        Some(Fault::HeadTooLarge) => Some(header_too_large(limits.header_bytes, false)),
        Some(Fault::Ambiguous(reason)) => {
            Some(Problem::new(StatusCode::BAD_REQUEST, "ambiguous-framing").detail(reason))
        }
        Some(Fault::Invalid(Spoken::Other)) => None,
        Some(Fault::Invalid(Spoken::OtherVersion)) => {
            // RFC 9110 section 15.6.6: give the reason and the supported versions.
            let problem = Problem::from(StatusCode::HTTP_VERSION_NOT_SUPPORTED);
            Some(problem.detail(
                "a request line may name HTTP/1.1 or HTTP/1.0 only; HTTP/2 is supported too, \
                 and begins with its connection preface",
            ))
        }
        // The head's size was checked earlier.
        None if status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            Some(too_many_headers(limits.headers))
        }
        None if status != StatusCode::BAD_REQUEST => Some(Problem::from(status)),
        Some(Fault::Invalid(Spoken::Http1)) | None => {
            let problem = Problem::from(StatusCode::BAD_REQUEST);
            Some(problem.detail("the request is not valid HTTP/1.1"))
        }
    }
}

pub(crate) const FINAL_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends a final response regardless of the request, and closes the connection.
pub(crate) async fn dismiss(lane: &LaneState, mut socket: TcpStream, problem: Problem) {
    let final_response = async {
        say(lane, &mut socket, problem, true).await?;
        // Read until the client closes. If the socket were closed while input is unread, the
        // connection would be reset and the response could be lost (RFC 9112 section 9.6).
        let mut unread = [0; 1024];
        while socket.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // The socket is closed in either case.
    let _ = tokio::time::timeout(FINAL_RESPONSE_TIMEOUT, final_response).await;
}

pub(crate) async fn say(
    lane: &LaneState,
    io: &mut (impl AsyncWriteExt + Unpin),
    problem: Problem,
    with_body: bool,
) -> io::Result<()> {
    io.write_all(&final_response(lane, problem, with_body)).await?;
    io.flush().await?;
    io.shutdown().await
}
