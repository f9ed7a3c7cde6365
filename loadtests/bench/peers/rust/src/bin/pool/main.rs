//! The classic server that lanes are compared with. It has an accept loop, one queue behind a mutex
//! and a condition variable, and N worker threads; or, with none, one thread for everything. Each
//! connection has one request.

mod http;
mod queue;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::thread;

use clap::Parser;
use peers::Options;

use crate::queue::Queue;

fn main() -> io::Result<()> {
    let options = Options::parse();
    let listener = options.listener()?;
    listener.set_nonblocking(false)?;
    match options.threads {
        0 => alone(&listener),
        threads => pooled(&listener, threads),
    }
}

/// One thread for everything: other connections wait in the kernel's accept queue.
fn alone(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept()?;
        http::answer(socket);
    }
}

/// This thread accepts; `threads` workers answer, one connection at a time each.
fn pooled(listener: &TcpListener, threads: usize) -> io::Result<()> {
    let queue: Queue<TcpStream> = Queue::new();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    http::answer(queue.pop());
                }
            });
        }
        loop {
            let (socket, _) = listener.accept()?;
            queue.push(socket);
        }
    })
}
