//! Listening sockets: TCP, Unix and inherited ones.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::stuck::Stuck;
use crate::support::tls::{Authority, name};
use crate::support::{
    Client, Handlers, PATIENCE, Running, TestService, builder, builder_on, own_address,
};
use corelane::{Builder, Drained, Error, Incoming, Lane, Lanes, Listen, Placement, Server};
use http::{Request, Response};
use http_body_util::Full;
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tower::util::BoxCloneSyncService;

fn peers(_lane: &Lane) -> TestService {
    BoxCloneSyncService::new(tower::service_fn(|request: Request<Incoming>| async move {
        let connection = corelane::connection().expect("a connection");
        let client = corelane::client_addr(request.headers());
        let text =
            format!("{} {} {client:?}", connection.peer.is_some(), connection.local.is_some());
        Ok(Response::new(Full::from(text)))
    }))
}

/// A socket path in a temporary directory.
fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("http.sock");
    (folder, path)
}

fn unix(path: &Path) -> Client<UnixStream> {
    let socket = UnixStream::connect(path).expect("connect");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    Client::over(socket)
}

fn of_all(server: &Running, name: &str, lanes: usize) -> f64 {
    (0..lanes).map(|lane| server.metric(&format!("{name}{{lane=\"{lane}\"}}"))).sum()
}

#[rstest]
fn every_placement_serves_every_listener(
    #[values(Placement::Hashed, Placement::LeastLoaded)] placement: Placement,
    #[values(1, 2)] lanes: usize,
) {
    let (_folder, path) = place();
    // Private ports, because the test expects them to be closed afterwards.
    let number = if placement == Placement::Hashed { 10 } else { 20 } + lanes as u8;
    let builder = builder_on(own_address(number))
        .bind((own_address(number), 0).into())
        .listen(Listen::unix(&path))
        .placement(placement)
        .lanes(Lanes::Count(lanes));
    let server = builder.build().expect("the server starts");
    let addresses = server.local_addrs().expect("addresses");
    assert_eq!((addresses.len(), addresses[0]), (2, server.local_addr().expect("an address")));
    let (handle, admin) = (server.handle(), server.admin_addr().expect("an address"));
    let thread = std::thread::spawn(move || server.serve(peers));
    let mut clients = Vec::new();
    for _ in 0..8 {
        for address in &addresses {
            let mut client = Client::connect(*address);
            assert_eq!(client.get("/").text(), "true true Some(127.0.0.1)");
            clients.push(client);
        }
        let mut client = unix(&path);
        assert_eq!(client.get("/").text(), "false false None");
        // Bodies, pipelining and hyper work in the same way on every transport.
        client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc");
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        for _ in 0..3 {
            assert_eq!(client.read_answer().text(), "false false None");
        }
    }
    let metrics = Client::connect(admin).get("/metrics").text();
    let accepted = (0..lanes).map(|lane| {
        let series = format!("corelane_connections_accepted_total{{lane=\"{lane}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
        line.and_then(|value| value.parse::<f64>().ok()).expect("a number")
    });
    assert_eq!(accepted.sum::<f64>(), 24.0);
    drop(clients);
    handle.drain();
    let drained = crate::support::end_of(thread).expect("a clean end");
    assert_eq!(drained, Drained { cut: 0 });
    assert!(!path.exists(), "it removes its socket");
    for address in addresses {
        let refused = TcpStream::connect(address).expect_err("closed");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}

/// Maximum attempts to get a round in which every lane keeps its CPU.
const ROUNDS: usize = 20;

fn two_lanes(path: &Path) -> Builder {
    builder().listen(Listen::unix(path)).lanes(Lanes::Count(2)).routes(["/block"])
}

/// Sends one request per connection and counts the responses from lane 0.
fn answers_of_lane_0(clients: &mut [Client<UnixStream>]) -> usize {
    clients.iter_mut().map(|client| client.get("/").text()).filter(|lane| lane == "0").count()
}

#[test]
fn connections_that_stay_are_spread_by_a_common_listener() {
    let answers = || {
        let (_folder, path) = place();
        let _server = Running::start(two_lanes(&path), Stuck::default().factory());
        let mut clients: Vec<_> = (0..40).map(|_| unix(&path)).collect();
        answers_of_lane_0(&mut clients)
    };
    // Each lane takes about half, because either lane may wake first. A lane without CPU time takes
    // no connections.
    assert!((0..ROUNDS).any(|_| (10..=30).contains(&answers())), "one lane always takes most");
}

#[test]
fn a_lane_that_is_stuck_takes_nothing_from_a_common_listener() {
    let ((_folder, path), stuck) = (place(), Stuck::default());
    let server = Running::start(two_lanes(&path), stuck.factory());
    let mut holder = unix(&path);
    holder.send_get("/block");
    server.wait_until("blocked", || stuck.blocked().len() == 1);
    let busy = *stuck.blocked().first().expect("one is blocked");
    let mut clients: Vec<_> = (0..40).map(|_| unix(&path)).collect();
    let expected = if busy == 0 { 0 } else { 40 };
    assert_eq!(answers_of_lane_0(&mut clients), expected);
    stuck.release(busy);
    assert_eq!(holder.read_answer().status, 200);
}

#[test]
fn a_unix_socket_parks_drains_and_speaks_tls_like_others() {
    let (_folder, path) = place();
    let authority = Authority::new();
    let builder = builder()
        .listen(Listen::unix(&path))
        .tls(authority.ready())
        .park_after(Some(std::time::Duration::from_millis(100)));
    let handlers = Handlers::new();
    let server = Running::start(builder, handlers.factory());
    let config = std::sync::Arc::new(authority.client(&["http/1.1"], None));
    let session = rustls::ClientConnection::new(config, name()).expect("a session");
    let socket = UnixStream::connect(&path).expect("connect");
    let mut client = Client::over(rustls::StreamOwned::new(session, socket));
    for _ in 0..2 {
        assert_eq!(client.get("/hello").text(), "hello");
        let parked = || of_all(&server, "corelane_connections_parked", 1) == 1.0;
        server.wait_until("parked", parked);
    }
    client.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    server.handle.drain();
    server.wait_until("closed", || !path.exists());
    handlers.gate.add_permits(1);
    let answer = client.read_answer();
    assert_eq!((answer.text().as_str(), answer.closes()), ("through", true));
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
}

#[test]
fn the_mode_of_a_unix_socket_is_what_was_set() {
    for mode in [0o600, 0o666] {
        let (_folder, path) = place();
        let listen = Listen::unix(&path);
        let listen = if mode == 0o600 { listen } else { listen.mode(mode) };
        let server = Server::builder().listen(listen).build().expect("a server");
        let bits = path.metadata().expect("a socket").permissions().mode() & 0o777;
        assert_eq!(bits, mode);
        assert!(server.local_addr().is_err(), "it has no address of TCP");
        drop(server);
        assert!(!path.exists(), "never served, and removed all the same");
    }
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced() {
    let (_folder, path) = place();
    let build = || Server::builder().listen(Listen::unix(&path)).build();
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists());
    let server = build().expect("it was stale");
    let error = build().expect_err("in use");
    let Error::Listen { listen, source } = &error else { panic!("{error}") };
    assert_eq!(*listen, format!("unix:{}", path.display()));
    assert_eq!(source.kind(), io::ErrorKind::AddrInUse);
    // Another process owns the path now.
    std::fs::remove_file(&path).expect("removed");
    let other = UnixListener::bind(&path).expect("a socket");
    drop(server);
    assert!(path.exists(), "a socket of others stays");
    drop(other);
    std::fs::remove_file(&path).expect("removed");
    // A regular file must never be deleted.
    std::fs::write(&path, "precious").expect("written");
    assert!(build().is_err());
    assert_eq!(std::fs::read_to_string(&path).expect("text"), "precious");
}

#[test]
fn a_listener_of_a_proxy_does_not_change_the_others() {
    let (_folder, path) = place();
    let builder: Builder = builder().listen(Listen::unix(&path).proxy_protocol(true));
    let server = Running::start(builder.trusted_proxies(["unix".parse().expect("a proxy")]), peers);
    assert_eq!(server.get("/").text(), "true true Some(127.0.0.1)");
    let mut client = unix(&path);
    client.send("PROXY TCP6 2001:db8::1 2001:db8::2 5000 80\r\n");
    assert_eq!(client.get("/").text(), "true true Some(2001:db8::1)");
    let mut client = unix(&path);
    client.send("PROXY UNKNOWN\r\n");
    client.send("GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    assert_eq!(client.read_answer().text(), "false false Some(192.0.2.1)");
}

#[test]
fn settings_that_cannot_work_are_named() {
    let free: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let many = (0..65).fold(Server::builder(), |builder, _| builder.bind(free));
    let long = Server::builder().listen(Listen::unix("/tmp/".to_owned() + &"x".repeat(103)));
    for (builder, part) in [(many, "at most 64"), (long, "1 to 107 bytes")] {
        let error = builder.validate().expect_err(part);
        assert!(error.is_setting() && error.to_string().contains("listen: "), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let error = Server::builder().listen(Listen::inherited("web")).build().expect_err("none");
    assert!(error.to_string().contains("inherited:web: no such socket among 0"), "{error}");
}

/// Helper process: serves inherited sockets until SIGTERM.
#[test]
#[ignore = "started by a test below"]
fn serves_what_it_inherited() {
    let builder = Server::builder()
        .listen(Listen::inherited("second"))
        .listen(Listen::inherited("0"))
        .lanes(Lanes::Count(2))
        .drain(corelane::Drain { settle: std::time::Duration::ZERO, ..Default::default() });
    let server = builder.build().expect("a server");
    let again = Server::builder().listen(Listen::inherited("second")).build();
    let again = again.expect_err("taken").to_string();
    println!("{:?} {again}", server.local_addrs().expect("addresses"));
    println!("{:?}", server.serve(peers).expect("a clean end"));
}

#[test]
fn inherited_sockets_are_served_and_left_to_others() {
    let (_folder, path) = place();
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = tcp.local_addr().expect("an address");
    let socket = UnixListener::bind(&path).expect("a listener");
    let ours = (tcp.try_clone().expect("a copy"), socket.try_clone().expect("a copy"));
    // The shell passes the sockets as descriptors 3 and 4.
    let mut process = Command::new("sh")
        .arg("-c")
        .arg("exec 3<&0 4<&2 0</dev/null 2>&1; LISTEN_PID=$$ exec \"$0\" \"$@\"")
        .arg(std::env::current_exe().expect("this program"))
        .args(["serves_what_it_inherited", "--ignored", "--nocapture", "--test-threads=1"])
        .env("LISTEN_FDS", "2")
        .env("LISTEN_FDNAMES", "first:second")
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stderr(Stdio::from(OwnedFd::from(tcp)))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("127.0.0.1:") {
        assert!(output.read_line(&mut said).expect("text") > 0, "{said}");
    }
    assert!(said.contains(&format!("[{address}]")) && said.contains("is in use"), "{said}");
    for _ in 0..4 {
        assert_eq!(Client::connect(address).get("/").text(), "true true Some(127.0.0.1)");
        assert_eq!(unix(&path).get("/").text(), "false false None");
    }
    kill_process(Pid::from_child(&process), Signal::TERM).expect("it runs");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(process.wait().expect("it ends").success(), "{rest}");
    assert!(rest.contains("Drained { cut: 0 }"), "{rest}");
    // The processes that still hold the sockets accept the next connections.
    let (tcp, socket) = ours;
    let mut late = TcpStream::connect(address).expect("it still listens");
    late.write_all(b"late").expect("written");
    tcp.set_nonblocking(false).expect("blocking");
    let mut heard = [0; 4];
    tcp.accept().expect("a connection").0.read_exact(&mut heard).expect("read");
    assert_eq!(&heard, b"late");
    assert!(path.exists());
    socket.set_nonblocking(false).expect("blocking");
    let _late = UnixStream::connect(&path).expect("it still listens");
    socket.accept().expect("a connection");
}
