//! The classic server that lanes are compared with: an accept loop, one queue behind a mutex and a
//! condition variable, and N worker threads; with `--threads 0` one thread that does it all. Each
//! connection carries one request.

mod http;
mod queue;
mod serve;

use std::io;

use clap::Parser;
use peers::Options;

fn main() -> io::Result<()> {
    let options = Options::parse();
    let listener = options.listener()?;
    listener.set_nonblocking(false)?;
    match options.threads {
        0 => serve::alone(&listener),
        threads => serve::pooled(&listener, threads),
    }
}
