//! What the peers share: their command line, and the two replies.

use std::hint::black_box;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::process::exit;
use std::time::Duration;

use clap::Parser;
use serde::Deserialize;
use socket2::{Domain, Protocol, Socket, Type};

/// The body of `GET /hello`, as the reference service has it.
pub const HELLO: &str = "Hello, World!";

/// How long a connection may idle where the peer has such a setting: Corelane's default.
pub const IDLE: Duration = Duration::from_secs(75);

/// Length of the accept queue: Corelane's default.
pub const BACKLOG: u16 = 4096;

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
    /// Reads the command line of a peer that has one thread and no setting for more.
    pub fn of_one_thread() -> Options {
        Options::parse().with_one_thread()
    }

    /// The same of a peer that has options of its own.
    pub fn with_one_thread(self) -> Options {
        if self.threads != 1 {
            eprintln!("this peer has one thread: --threads {} is not possible", self.threads);
            exit(64);
        }
        self
    }

    /// A listening socket that does not block.
    pub fn listener(&self) -> io::Result<TcpListener> {
        let socket =
            Socket::new(Domain::for_address(self.listen), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&self.listen.into())?;
        socket.listen(self.backlog.into())?;
        Ok(socket.into())
    }
}

/// The query of `GET /work?ops=N`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Work {
    /// How many iterations to run.
    pub ops: u64,
}

impl Work {
    /// Reads `ops=N`, for peers without a parser of queries.
    pub fn parse(query: &str) -> Option<Work> {
        Some(Work { ops: query.strip_prefix("ops=")?.parse().ok()? })
    }

    /// The body of the reply. The loop is that of the reference service.
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
