//! The test client and its responses.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::PATIENCE;

/// The client's end of a connection, plain TCP by default.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) socket: S,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).expect("connect");
        // Otherwise, on newer kernels, the buffer grows to up to 32 MiB (tcp_rmem).
        socket2::SockRef::from(&socket).set_recv_buffer_size(256 << 10).expect("a buffer");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Client::over(socket)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(socket: S) -> Self {
        Client { socket, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).expect("write");
    }

    pub(crate) fn send_get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.send_get(target);
        self.read_answer()
    }

    pub(crate) fn read_answer(&mut self) -> Answer {
        self.try_read_answer(false).expect("a whole reply")
    }

    /// A HEAD response has no body despite its Content-Length.
    pub(crate) fn read_head_answer(&mut self) -> Answer {
        self.try_read_answer(true).expect("a whole head")
    }

    /// `None` if the server closes before the response is complete.
    pub(crate) fn try_get(&mut self, target: &str) -> Option<Answer> {
        let head = format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n");
        self.socket.write_all(head.as_bytes()).ok()?;
        self.try_read_answer(false)
    }

    /// `None` if the server closes before the response is complete.
    fn try_read_answer(&mut self, bodiless: bool) -> Option<Answer> {
        let end = loop {
            match self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.fill()?,
            }
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).expect("an ASCII head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let mut answer = Answer { status, head, body: Vec::new() };
        let announced = answer.header("content-length").map_or(0, |n| n.parse().expect("a length"));
        let length = if bodiless { 0 } else { announced };
        while self.buffer.len() < end + length {
            self.fill()?;
        }
        answer.body = self.buffer[end..end + length].to_vec();
        self.buffer.drain(..end + length);
        Some(answer)
    }

    /// Reads until `end` appears.
    pub(crate) fn read_until(&mut self, end: &[u8]) -> String {
        let at = loop {
            match self.buffer.windows(end.len()).position(|window| window == end) {
                Some(at) => break at + end.len(),
                None => self.fill().expect("more bytes"),
            }
        };
        String::from_utf8(self.buffer.drain(..at).collect()).expect("text")
    }

    fn fill(&mut self) -> Option<()> {
        let mut chunk = [0; 4096];
        match self.socket.read(&mut chunk) {
            Ok(0) => None,
            Ok(n) => {
                self.buffer.extend_from_slice(&chunk[..n]);
                Some(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("the server did not answer in time: {error}"),
        }
    }

    /// Reads slowly but steadily, up to `limit`. Returns the byte count and the last bytes.
    pub(crate) fn read_slowly(&mut self, limit: usize) -> (usize, Vec<u8>) {
        let (mut total, mut tail) = (0, Vec::new());
        let mut chunk = vec![0; 256 << 10];
        let mut since_pause = 0;
        while total < limit {
            match self.socket.read(&mut chunk) {
                Ok(n) if n > 0 => {
                    total += n;
                    since_pause += n;
                    tail = chunk[..n].to_vec();
                }
                _ => break,
            }
            // TLS returns one record per read.
            if since_pause >= chunk.len() {
                std::thread::sleep(Duration::from_millis(16));
                since_pause = 0;
            }
        }
        (total, tail)
    }

    /// Reads until the server closes the connection.
    pub(crate) fn read_to_close(&mut self) -> Vec<u8> {
        while self.fill().is_some() {}
        std::mem::take(&mut self.buffer)
    }
}
