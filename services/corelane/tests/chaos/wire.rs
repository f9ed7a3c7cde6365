//! The client's end of a connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use crate::recipe::{Recipe, reply_body};

/// Plain TCP or TLS.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Transport for T {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Reply {
        last: bool,
    },
    /// Closed before the first byte of a response.
    End,
}

/// Bytes received and not yet parsed.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Bytes already parsed.
    taken: usize,
    patience: Duration,
}

impl Inbox {
    pub(crate) fn new(patience: Duration) -> Inbox {
        Inbox { bytes: Vec::new(), taken: 0, patience }
    }

    /// Reads a response and compares it with the expected one.
    pub(crate) async fn reply(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        recipe: &Recipe,
    ) -> Result<Heard, String> {
        let head = loop {
            match self.head(io).await? {
                None => return Ok(Heard::End),
                Some(head) if head.starts_with("http/1.1 100 ") => {}
                Some(head) => break head,
            }
        };
        if !head.starts_with("http/1.1 200 ") && !head.starts_with("http/1.0 200 ") {
            return Err(format!("answered {head:?}"));
        }
        let length = length(&head);
        let chunked = field(&head, "transfer-encoding:") == Some("chunked");
        let last = match field(&head, "connection:") {
            Some(said) => said.contains("close"),
            None => head.starts_with("http/1.0"),
        };
        let expected = reply_body(recipe.number, recipe.size);
        let body = if recipe.head_only {
            None
        } else if let Some(length) = length {
            Some(self.exact(io, length).await?)
        } else if chunked {
            Some(self.chunks(io).await?)
        } else if last {
            Some(self.rest(io).await?)
        } else {
            return Err(format!("no length in {head:?}"));
        };
        if body.as_ref().is_some_and(|body| body[..] != expected[..]) {
            let length = body.map(|body| body.len());
            return Err(format!("{length:?} other bytes than the {} expected", expected.len()));
        }
        if recipe.closes() && !last {
            return Err(format!("the last reply does not say so: {head:?}"));
        }
        Ok(Heard::Reply { last })
    }

    /// Reads the error response to invalid bytes, after which the connection closes. `whole`: a
    /// body is expected, because the last request was not a HEAD. Returns `None` if the connection
    /// closes first.
    pub(crate) async fn refusal(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        whole: bool,
    ) -> Result<Option<()>, String> {
        let Some(head) = self.head(io).await? else { return Ok(None) };
        let closes = field(&head, "connection:") == Some("close");
        if !head.starts_with("http/1.1 400 ") || !closes {
            return Err(format!("{head:?} to nonsense"));
        }
        match length(&head) {
            Some(length) if whole => self.exact(io, length).await?,
            _ => self.rest(io).await?,
        };
        Ok(Some(()))
    }

    /// Reads a response head and returns it in lower case, or `None` if the connection closes
    /// first.
    pub(crate) async fn head(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
    ) -> Result<Option<String>, String> {
        loop {
            let unread = &self.bytes[self.taken..];
            if let Some(end) = find(unread, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&unread[..end]).to_ascii_lowercase();
                self.taken += end + 4;
                return Ok(Some(head));
            }
            let begun = !unread.is_empty();
            match self.more(io).await {
                Ok(0) if begun => return Err("the connection ended in a head".to_owned()),
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(format!("{error}, {} bytes of a head", unread_len(self))),
            }
        }
    }

    /// Expects the connection to close without further bytes.
    pub(crate) async fn end(&mut self, io: &mut (impl AsyncRead + Unpin)) -> Result<(), String> {
        match self.more(io).await {
            _ if unread_len(self) > 0 => {
                let said = String::from_utf8_lossy(&self.bytes[self.taken..]).into_owned();
                Err(format!("behind the last reply: {:?}", &said[..said.len().min(300)]))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{error} behind the last reply")),
        }
    }

    async fn exact(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        length: usize,
    ) -> Result<Vec<u8>, String> {
        while self.bytes.len() - self.taken < length {
            if self.body(io).await? == 0 {
                return Err("the connection ended in a body".to_owned());
            }
        }
        let body = self.bytes[self.taken..self.taken + length].to_vec();
        self.taken += length;
        Ok(body)
    }

    async fn chunks(&mut self, io: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        loop {
            let line = loop {
                let unread = &self.bytes[self.taken..];
                match find(unread, b"\r\n") {
                    Some(end) => break String::from_utf8_lossy(&unread[..end]).into_owned(),
                    None if self.body(io).await? == 0 => {
                        return Err("the connection ended in a chunked body".to_owned());
                    }
                    None => {}
                }
            };
            self.taken += line.len() + 2;
            let length = usize::from_str_radix(&line, 16).map_err(|_| format!("chunk {line:?}"))?;
            all.extend(self.exact(io, length).await?);
            if self.exact(io, 2).await? != b"\r\n" {
                return Err("a chunk does not end where it should".to_owned());
            }
            if length == 0 {
                return Ok(all);
            }
        }
    }

    async fn rest(&mut self, io: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, String> {
        while self.body(io).await? > 0 {}
        Ok(self.bytes.split_off(self.taken))
    }

    async fn body(&mut self, io: &mut (impl AsyncRead + Unpin)) -> Result<usize, String> {
        self.more(io).await.map_err(|error| format!("{error} in a body"))
    }

    async fn more(&mut self, io: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.reserve(16 << 10);
        let silence = || format!("nothing came for {:?}", self.patience);
        match timeout(self.patience, io.read_buf(&mut self.bytes)).await {
            Ok(read) => read,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, silence())),
        }
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn length(head: &str) -> Option<usize> {
    field(head, "content-length:").and_then(|length| length.parse().ok())
}

fn unread_len(inbox: &Inbox) -> usize {
    inbox.bytes.len() - inbox.taken
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
