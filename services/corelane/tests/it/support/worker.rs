//! A runtime for HTTP/2 clients.

use std::future::Future;
use std::thread;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Running;

/// Runs the test here and its tasks on a worker, so that clients progress while the test blocks.
///
/// tokio's multi-threaded runtime would need the `rt-multi-thread` feature, which would rebuild
/// tokio, hyper and everything above.
pub(crate) fn with_worker<F: Future>(test: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    let (end, ended) = oneshot::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || runtime.block_on(ended));
        let _end = end;
        handle.block_on(test)
    })
}

/// Returns a client and the connection task.
pub(crate) async fn http2(
    server: &Running,
) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let socket = TcpStream::connect(server.address).await.expect("connect");
    let (client, connection) = h2::client::handshake(socket).await.expect("handshake");
    let connection = tokio::spawn(connection);
    (client.ready().await.expect("ready"), connection)
}

pub(crate) fn get(target: &str) -> Request<()> {
    Request::get(format!("http://test{target}")).body(()).expect("a request")
}
