//! A runtime for clients of HTTP/2.

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

/// Runs a test on this thread, and what it spawns on a worker: a client goes on while the test blocks.
///
/// A runtime of several threads would do the same, and have tokio, and with it hyper and all that needs them, built
/// once more than the programs need it: `rt-multi-thread` is no feature of theirs.
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

/// A client that may send a request, and its connection until that ends.
pub(crate) async fn http2(
    server: &Running,
) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let socket = TcpStream::connect(server.address).await.expect("connect");
    let (client, connection) = h2::client::handshake(socket).await.expect("handshake");
    let connection = tokio::spawn(connection);
    (client.ready().await.expect("ready"), connection)
}

/// A request without a body.
pub(crate) fn get(target: &str) -> Request<()> {
    Request::get(format!("http://test{target}")).body(()).expect("a request")
}
