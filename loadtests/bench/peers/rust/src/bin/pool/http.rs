//! One request and its reply; then the connection ends, as in the servers of this design.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use memchr::memmem;
use peers::{HELLO, Work};

/// Maximum size of a request in one piece. A larger one ends the connection.
const REQUEST: usize = 4096;

/// A silent client must not block a worker forever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a request, answers it and closes. Errors of the client are ignored.
pub(crate) fn answer(mut socket: TcpStream) {
    let mut buffer = [0; REQUEST];
    let _ = socket.set_read_timeout(Some(PATIENCE));
    if let Some(head) = read_head(&mut socket, &mut buffer) {
        let _ = socket.write_all(reply(head).as_bytes());
    }
}

/// The head of a request without a body, once it is complete.
fn read_head<'a>(socket: &mut TcpStream, buffer: &'a mut [u8; REQUEST]) -> Option<&'a [u8]> {
    let mut length = 0;
    loop {
        match socket.read(&mut buffer[length..]) {
            Ok(0) | Err(_) => return None,
            Ok(more) => length += more,
        }
        if let Some(end) = memmem::find(&buffer[..length], b"\r\n\r\n") {
            return Some(&buffer[..end]);
        }
    }
}

fn reply(head: &[u8]) -> String {
    match body(head) {
        Some(body) => with_status("200 OK", &body),
        None => with_status("404 Not Found", ""),
    }
}

fn body(head: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let target = line.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    match target.split_once('?') {
        None if target == "/hello" => Some(HELLO.to_owned()),
        Some(("/work", query)) => Some(Work::parse(query)?.reply()),
        _ => None,
    }
}

fn with_status(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routes_are_those_of_the_reference_service() {
        assert_eq!(body(b"GET /hello HTTP/1.1\r\nHost: a"), Some("Hello, World!".to_owned()));
        assert_eq!(body(b"GET /work?ops=0 HTTP/1.1"), Some("0000000000000001\n".to_owned()));
        for wrong in ["GET /work HTTP/1.1", "GET /work?ops=x HTTP/1.1", "POST /hello HTTP/1.1"] {
            assert_eq!(body(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(reply(b"GET / HTTP/1.1").starts_with("HTTP/1.1 404 "));
    }
}
