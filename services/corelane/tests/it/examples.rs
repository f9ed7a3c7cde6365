//! Starts every example as a process, sends requests and stops it with SIGTERM.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use crate::support::Client;
use crate::support::tls::Authority;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

/// No machine has this many lanes.
const MOST_LANES: usize = 1024;

/// Killed on drop.
struct Example {
    process: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Example {
    fn start(name: &str) -> Example {
        Example::start_with(name, [])
    }

    fn start_with<'a>(name: &str, more: impl IntoIterator<Item = &'a OsStr>) -> Example {
        let mut command = Command::new(program(name));
        let started = command.arg("127.0.0.1:0").args(more).stdout(Stdio::piped()).spawn();
        let mut process = started.expect("the example starts");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        let address = line.trim().strip_prefix("listening on ").and_then(|at| at.parse().ok());
        let address = address.unwrap_or_else(|| panic!("{name} said {line:?}"));
        Example { process, output, address }
    }

    fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Expects status 200 and returns the body.
    fn get(&self, path: &str) -> String {
        let answer = self.connect().get(path);
        assert_eq!(answer.status, 200, "{path}");
        answer.text()
    }

    /// Sends SIGTERM, as Kubernetes does, and waits for the exit. The drain first gives load
    /// balancers time to notice.
    fn terminate(self) {
        self.ask_to_end();
        self.end();
    }

    /// Sends two signals, the second of which aborts the drain.
    fn stop(self) {
        self.ask_to_end();
        self.signal(Signal::INT);
        self.end();
    }

    fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("it runs");
    }

    fn open(&self, path: &str) -> WebSocket<TcpStream> {
        let socket = self.connect().socket;
        let (open, reply) = client(format!("ws://test{path}"), socket).expect("a WebSocket");
        assert_eq!(reply.status(), 101);
        open
    }

    /// Expects a clean exit and returns the remaining output.
    fn end(mut self) -> String {
        let mut rest = String::new();
        // The output ends when the process exits.
        self.output.read_to_string(&mut rest).expect("text");
        let status: ExitStatus = self.process.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{rest}");
        rest
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Cargo puts examples in `examples/`, next to `deps/` with this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("a target folder");
    let program = folder.join("examples").join(name);
    assert!(
        program.exists(),
        "{name} is not built: cargo test builds all examples, and so does cargo build --examples"
    );
    program
}

#[test]
fn hello() {
    let example = Example::start("hello");
    assert_eq!(example.get("/"), "Hello, World!\n");
    example.stop();
}

#[test]
fn axum_router() {
    let example = Example::start("axum_router");
    assert_eq!(example.get("/greet/Ada"), "Hello, Ada!\n");
    assert_eq!(example.get("/checksum/0"), "cbf29ce484222325\n");
    let left = example.get("/left");
    let seconds: f64 = left.strip_suffix(" s left\n").and_then(|s| s.parse().ok()).expect("a time");
    assert!(seconds > 0.0 && seconds <= 60.0, "{left}");
    assert_eq!(example.connect().get("/nothing").status, 404);
    example.stop();
}

#[test]
fn per_lane_state() {
    let example = Example::start("per_lane_state");
    // Each lane has its own counter, so with one response more than there are lanes, some lane has
    // reached two.
    let twice = |_| example.get("/a").ends_with("was asked 2 times for /a\n");
    assert!((0..=MOST_LANES).any(twice));
    assert!(example.get("/b").ends_with("was asked 1 times for /b\n"));
    example.stop();
}

#[test]
fn graceful() {
    let example = Example::start("graceful");
    assert_eq!(example.get("/"), "hello\n");
    let (mut slow, mut client) = (example.connect(), example.connect());
    slow.send_get("/slow");
    client.send("POST /drain HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.read_answer().text(), "draining\n");
    let answer = slow.read_answer();
    assert_eq!((answer.status, answer.text().as_str()), (200, "done\n"));
    assert!(answer.closes(), "{answer:?}");
    assert!(example.end().ends_with("drained; 0 requests were cut\n"));
}

#[test]
fn graceful_by_a_signal() {
    let example = Example::start("graceful");
    assert_eq!(example.get("/"), "hello\n");
    example.terminate();
}

#[test]
fn multipart() {
    let example = Example::start("multipart");
    let send = |path: &str, file: usize| {
        let head =
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n";
        let body = [head, &"x".repeat(file), "\r\n--b--\r\n"].concat();
        let mut client = example.connect();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: multipart/form-data; boundary=b\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        ));
        // The server rejects the length before the body is sent.
        if path == "/upload" {
            client.send(body);
        }
        client.read_answer()
    };
    // This body exceeds both the server's and axum's limit.
    let answer = send("/upload", 3_000_000);
    assert_eq!((answer.status, answer.text().as_str()), (200, "a.bin: 3000000 bytes\n"));
    assert_eq!(send("/note", 3_000_000).status, 413);
    example.stop();
}

#[test]
fn tls_with_files() {
    let authority = Authority::new();
    let files = authority.ready();
    let example = Example::start_with("tls", [files.certificate.as_ref(), files.key.as_ref()]);
    let answer = authority.connect(example.address).get("/");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello over HTTP/1.1\n"));
    example.stop();
}

fn text(socket: &mut WebSocket<TcpStream>) -> String {
    socket.read().expect("a message").into_text().expect("text").to_string()
}

fn ends_with_1001(mut socket: WebSocket<TcpStream>) {
    let closed = socket.read().expect("a close");
    let Message::Close(Some(frame)) = closed else { panic!("{closed:?}") };
    assert_eq!(frame.code, CloseCode::Away);
    // Answers the close frame and reads to the end.
    while socket.read().is_ok() {}
}

#[test]
fn websocket() {
    let example = Example::start("websocket");
    let mut echo = example.open("/echo");
    echo.send(Message::text("hello")).expect("sent");
    assert_eq!(text(&mut echo), "hello");
    // More members than lanes.
    let lanes = std::thread::available_parallelism().expect("CPUs").get();
    let mut members: Vec<_> = (0..=lanes).map(|_| example.open("/room")).collect();
    for said in ["first", "second"] {
        members[0].send(Message::text(said)).expect("sent");
        for member in &mut members {
            assert_eq!(text(member), said);
        }
    }
    example.ask_to_end();
    members.into_iter().chain([echo]).for_each(ends_with_1001);
    assert!(example.end().ends_with("drained; 0 connections were cut\n"));
}

#[test]
fn sse() {
    let example = Example::start("sse");
    let mut client = example.connect();
    client.send_get("/ticks");
    client.read_until(b"event: tick\ndata: 0\n\n");
    client.read_until(b"event: tick\ndata: 1\n\n");
    example.ask_to_end();
    client.read_until(b"event: bye\nretry: 1000\ndata: draining\n\n");
    client.read_until(b"\r\n0\r\n\r\n");
    assert!(example.end().ends_with("drained; 0 replies were cut\n"));
}

#[test]
fn connect_info() {
    let example = Example::start("connect_info");
    assert_eq!(example.get("/peer"), "127.0.0.1\n");
    assert_eq!(example.get("/connection"), "Http1, no TLS\n");
    assert_eq!(example.get("/client"), "127.0.0.1\n");
    let mut client = example.connect();
    client.send("GET /client HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n");
    assert_eq!(client.read_answer().text(), "203.0.113.9\n");
    example.stop();
}

#[test]
fn unix_socket() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("http.sock");
    let place = format!("unix:{}", path.display());
    let example = Example::start_with("unix_socket", [place.as_ref()]);
    assert_eq!(example.get("/"), "hello, 127.0.0.1\n");
    let mut client = Client::over(UnixStream::connect(&path).expect("connect"));
    assert_eq!(client.get("/").text(), "hello, neighbour\n");
    drop(client);
    example.stop();
    assert!(!path.exists());
}
