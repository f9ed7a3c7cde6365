//! A raw client that frames responses according to RFC 9112 section 6.3.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct Wire {
    socket: TcpStream,
    buffer: Vec<u8>,
    ended: bool,
}

#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) version: String,
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        let mut values: Vec<_> = named.map(|(_, value)| value.as_str()).collect();
        if name == "(version)" {
            values.push(&self.version);
        }
        values
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.values(name).first().copied()
    }
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr, patience: Duration) -> Wire {
        let socket = TcpStream::connect(address).expect("connect");
        socket.set_read_timeout(Some(patience)).expect("a time-out");
        socket.set_nodelay(true).expect("a socket option");
        Wire { socket, buffer: Vec::new(), ended: false }
    }

    /// Sends Latin-1. Errors are ignored, because the response shows whether the server closed the
    /// connection.
    pub(crate) fn send(&mut self, text: &str) {
        let bytes: Vec<u8> =
            text.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
        let _ = self.socket.write_all(&bytes);
    }

    pub(crate) fn end(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    pub(crate) fn expect_close(&mut self) -> Result<(), String> {
        while self.fill()? {}
        if self.buffer.is_empty() {
            return Ok(());
        }
        Err(format!("it goes on with {:?}", String::from_utf8_lossy(&self.buffer)))
    }

    pub(crate) fn read_reply(&mut self, bodiless: bool) -> Result<Received, String> {
        let head = self.read_head()?;
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap_or_default();
        let mut words = start.splitn(3, ' ');
        let (Some(version), Some(status), Some(_)) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("no status line: {start:?}"));
        };
        let status = status.parse().map_err(|_| format!("no status: {start:?}"))?;
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        let mut received = Received {
            version: version.to_owned(),
            status,
            fields: fields.collect(),
            body: String::new(),
        };
        if !(bodiless || matches!(status, 100..200 | 204 | 304)) {
            received.body = self.read_body(&received)?;
        }
        Ok(received)
    }

    fn read_head(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).take(end).collect();
                return String::from_utf8(head).map_err(|_| "a head that is not text".to_owned());
            }
            if !self.fill()? {
                let so_far = String::from_utf8_lossy(&self.buffer);
                return Err(format!("closed without a reply, after {so_far:?}"));
            }
        }
    }

    fn read_body(&mut self, received: &Received) -> Result<String, String> {
        let bytes = if received.value("transfer-encoding") == Some("chunked") {
            self.read_chunks()?
        } else if let Some(length) = received.value("content-length") {
            self.take(length.parse().map_err(|_| format!("a length: {length:?}"))?)?
        } else {
            while self.fill()? {}
            std::mem::take(&mut self.buffer)
        };
        String::from_utf8(bytes).map_err(|_| "a body that is not text".to_owned())
    }

    fn read_chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut whole = Vec::new();
        loop {
            let line = self.take_line()?;
            let size = usize::from_str_radix(&line, 16).map_err(|_| format!("size {line:?}"))?;
            if size == 0 {
                while !self.take_line()?.is_empty() {}
                return Ok(whole);
            }
            whole.extend(self.take(size)?);
            if !self.take_line()?.is_empty() {
                return Err("no line end after a chunk".to_owned());
            }
        }
    }

    fn take_line(&mut self) -> Result<String, String> {
        let end = loop {
            match self.buffer.windows(2).position(|window| window == b"\r\n") {
                Some(end) => break end,
                None if self.fill()? => {}
                None => return Err("closed within a line".to_owned()),
            }
        };
        let line = self.take(end + 2)?;
        Ok(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.buffer.len() < length {
            if !self.fill()? {
                return Err("closed within a body".to_owned());
            }
        }
        Ok(self.buffer.drain(..length).collect())
    }

    /// Reads more bytes, or returns false at the end.
    fn fill(&mut self) -> Result<bool, String> {
        let mut chunk = [0; 4096];
        if self.ended {
            return Ok(false);
        }
        match self.socket.read(&mut chunk) {
            Ok(n) => {
                self.buffer.extend_from_slice(&chunk[..n]);
                self.ended = n == 0;
                Ok(n > 0)
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                Err("the connection was reset".to_owned())
            }
            Err(_) => {
                let so_far = String::from_utf8_lossy(&self.buffer);
                Err(format!("neither more nor a close, after {so_far:?}"))
            }
        }
    }
}
