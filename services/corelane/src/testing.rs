//! A server for testing a service.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::base::error::{BoxError, Error};
use crate::load::lane::Lane;
use crate::request::service::HttpService;
use crate::server::builder::Builder;
use crate::server::control::ServerHandle;
use crate::server::run::Server;
use crate::server::threads::Drained;

/// Interval between two checks of a server that is starting.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A server on free ports of `127.0.0.1`, with its own threads. Dropping it drains the server.
///
/// It uses the [`Builder`]'s settings, except that it picks free ports, leaves signals to the test
/// runner, and sets [`Drain::settle`](crate::Drain::settle) to 0. Several test servers can run side
/// by side.
///
/// ```
/// use std::convert::Infallible;
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
///
/// use bytes::Bytes;
/// use corelane::testing::TestServer;
/// use corelane::{Incoming, Lanes, Server};
/// use http::{Request, Response};
/// use http_body_util::Full;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TestServer::start(Server::builder().lanes(Lanes::Count(1)), |_lane| {
///     tower::service_fn(|_request: Request<Incoming>| async {
///         Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello")))
///     })
/// })?;
/// let mut client = TcpStream::connect(server.address())?;
/// client.write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
/// let mut reply = String::new();
/// client.read_to_string(&mut reply)?;
/// assert!(reply.ends_with("hello"));
/// assert_eq!(server.drain()?.cut, 0);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// Dropping it panics if requests were cut or the server failed, unless the test is already
/// panicking. [`TestServer::drain`] returns that outcome instead.
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    admin: SocketAddr,
    handle: ServerHandle,
    thread: Option<JoinHandle<Result<Drained, Error>>>,
}

impl TestServer {
    /// Starts a server like [`Server::serve`] and waits until its lanes accept connections.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Builder::build`] and [`Server::serve`].
    pub fn start<F, S>(builder: Builder, factory: F) -> Result<TestServer, Error>
    where
        F: Fn(&Lane) -> S + Send + Sync + 'static,
        S: HttpService,
    {
        TestServer::run(builder, |server| server.serve(factory))
    }

    /// Starts a server like [`Server::try_serve`] and waits until its lanes accept connections.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Builder::build`] and [`Server::try_serve`].
    pub fn try_start<F, T, S, E>(builder: Builder, factory: F) -> Result<TestServer, Error>
    where
        F: Fn(Lane) -> T + Send + Sync + 'static,
        T: Future<Output = Result<S, E>> + 'static,
        E: Into<BoxError>,
        S: HttpService,
    {
        TestServer::run(builder, |server| server.try_serve(factory))
    }

    fn run(
        builder: Builder,
        serve: impl FnOnce(Server) -> Result<Drained, Error> + Send + 'static,
    ) -> Result<TestServer, Error> {
        let server = builder.for_test().build()?;
        let (address, handle) = (server.local_addr()?, server.handle());
        let admin = server.admin_addr().expect("a test has an admin port");
        let thread = Some(thread::spawn(move || serve(server)));
        let mut started = TestServer { address, admin, handle, thread };
        let lanes = || started.handle.shared.lanes.iter();
        while !lanes().all(|lane| lane.is_listening()) {
            if started.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(started.end().expect_err("a server without lanes has failed"));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(started)
    }

    /// The service's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the admin port, which serves the probes and metrics.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// The server's handle, which gives access to its phase and its dependencies.
    pub fn handle(&self) -> &ServerHandle {
        &self.handle
    }

    /// Drains the server and waits for it to end.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Server::serve`].
    pub fn drain(mut self) -> Result<Drained, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Drained, Error> {
        self.handle.drain();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(Drained { cut: 0 }),
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let ended = self.end();
        if !thread::panicking() {
            assert_eq!(ended.map_err(|error| error.to_string()), Ok(Drained { cut: 0 }));
        }
    }
}
