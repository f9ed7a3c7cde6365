//! The classic server that lanes are compared with. It has an accept loop, one queue behind a mutex
//! and a condition variable, and N worker threads; or one thread for everything. Each connection
//! has one request.

mod http;
mod queue;
mod serve;

use std::io;

use clap::{Parser, Subcommand};
use peers::BACKLOG;

#[derive(Debug, Parser)]
#[command(about = "An accept loop, a shared queue and N worker threads; /hello and /work?ops=N")]
struct Options {
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Serves requests.
    Serve {
        /// Address to serve.
        #[arg(long)]
        listen: SocketAddr,
        /// Worker threads in addition to the one that accepts; 0 answers in the accept loop itself.
        #[arg(long, default_value_t = 1)]
        threads: usize,
        /// Length of the accept queue; the kernel caps it at net.core.somaxconn.
        #[arg(long, default_value_t = BACKLOG)]
        backlog: u16,
    },
    /// The same queue and workers without sockets: takes requests out and puts them back, so that
    /// the length of the queue is constant. Prints the duration as JSON.
    Offline {
        #[command(flatten)]
        plan: offline::Plan,
    },
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let listener = options.listener()?;
    listener.set_nonblocking(false)?;
    match options.threads {
        0 => serve::alone(&listener),
        threads => serve::pooled(&listener, threads),
    }
}
