//! One request and its whole reply, on a new connection.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Maximum size of a reply. These programs request short ones.
const BODY_BYTES: usize = 1024 * 1024;

/// Why there is no complete reply.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The connection failed.
    #[error("cannot connect to {0}: {1}")]
    Connect(SocketAddr, io::Error),
    /// The connection ended early, or the reply is not HTTP.
    #[error("no whole reply from {0}: {1}")]
    Reply(SocketAddr, Box<dyn std::error::Error + Send + Sync>),
}

/// Sends a request over HTTP/1.1 and reads the reply, of at most 1 MiB.
///
/// It has no time limit. Dropping the future closes the connection.
///
/// # Errors
///
/// There is no complete reply.
pub async fn exchange<B>(
    address: SocketAddr,
    request: Request<B>,
) -> Result<Response<Bytes>, ExchangeError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
{
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| ExchangeError::Connect(address, error))?;
    let failed = |error| ExchangeError::Reply(address, error);
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(error.into()))?;
    let whole = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, BODY_BYTES).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    // The connection makes progress only while it is polled. The request also reports its errors.
    let moved = async {
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        reply = whole => reply.map_err(failed),
        never = moved => never,
    }
}
