//! Code that the peers share: their command line, and the replies that need no framework.

#[cfg(feature = "frameworks")]
pub mod frameworks;

use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::process::exit;
use std::time::Duration;

use clap::Parser;
use serde::Deserialize;
use socket2::{Domain, Protocol, Socket, Type};

/// The body of `GET /hello`, as in the reference service.
pub const HELLO: &str = "Hello, World!";

/// Idle timeout for peers with such a setting: Corelane's default.
pub const IDLE: Duration = Duration::from_secs(75);

/// Length of the accept queue: Corelane's default.
pub const BACKLOG: u16 = 4096;

/// Maximum length of n in `GET /div/{n}`, as in the reference service.
const LONGEST: usize = 1000;

/// The command line of every peer.
#[derive(Clone, Copy, Debug, Parser)]
pub struct Options {
    /// Address to serve.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Threads that serve requests.
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Length of the accept queue, where the peer opens its socket itself.
    #[arg(long, default_value_t = BACKLOG)]
    pub backlog: u16,
}

impl Options {
    /// For a peer with one thread and no setting for more.
    pub fn with_one_thread(self) -> Options {
        if self.threads != 1 {
            eprintln!("this peer has one thread: --threads {} is not possible", self.threads);
            exit(64);
        }
        self
    }

    /// A non-blocking listening socket.
    pub fn listener(&self) -> io::Result<TcpListener> {
        let socket = self.socket()?;
        self.listening(socket)
    }

    /// The same, as one of several sockets on this address. The kernel spreads connections over
    /// them by a hash (socket(7), SO_REUSEPORT).
    pub fn listener_of_many(&self) -> io::Result<TcpListener> {
        let socket = self.socket()?;
        socket.set_reuse_port(true)?;
        self.listening(socket)
    }

    fn socket(&self) -> io::Result<Socket> {
        let socket =
            Socket::new(Domain::for_address(self.listen), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    fn listening(&self, socket: Socket) -> io::Result<TcpListener> {
        socket.bind(&self.listen.into())?;
        socket.listen(self.backlog.into())?;
        Ok(socket.into())
    }
}

/// The reply to `GET /div/{n}`: half of n, exact for decimals of any length; `None` if n is not a
/// decimal.
pub fn half(n: &str) -> Option<String> {
    let digits = n.strip_prefix('-').unwrap_or(n);
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let all = || whole.bytes().chain(fraction.bytes());
    if n.len() > LONGEST || whole.is_empty() || !all().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut rest = 0;
    // The half of an odd last digit needs one more digit.
    let halves = all().chain([b'0']).map(|byte| {
        let value = 10 * rest + (byte - b'0');
        rest = value % 2;
        char::from(b'0' + value / 2)
    });
    let mut found = String::with_capacity(n.len() + 3);
    found.extend(halves);
    let fraction = found.split_off(whole.len());
    let (whole, fraction) = (found.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if digits.len() < n.len() && (whole, fraction) != ("0", "") { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Some([sign, whole, point, fraction].concat())
}

/// The query of `GET /work?ops=N`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Work {
    /// How many iterations to run.
    pub ops: u64,
}

impl Work {
    /// Parses the target `/work?ops=N`, or `/work/NAME?ops=N`, for peers without a router.
    pub fn of(target: &str) -> Option<Work> {
        let (path, query) = target.split_once('?')?;
        (path == "/work" || path.starts_with("/work/")).then(|| Work::parse(query))?
    }

    /// Parses `ops=N`, for peers without a query parser.
    pub fn parse(query: &str) -> Option<Work> {
        Some(Work { ops: query.strip_prefix("ops=")?.parse().ok()? })
    }

    /// The body of the reply, computed with the reference service's loop.
    pub fn reply(self) -> String {
        let mut state = 1u64;
        for _ in 0..self.ops {
            state = black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407),
            );
        }
        format!("{state:016x}\n")
    }
}
