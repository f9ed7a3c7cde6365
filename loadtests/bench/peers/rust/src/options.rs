//! The command line of every peer.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::process::exit;

use clap::Parser;
use socket2::{Domain, Protocol, Socket, Type};

use crate::BACKLOG;

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
