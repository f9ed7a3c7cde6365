//! The accept loop, with workers and without.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::http;
use crate::queue::Queue;

/// One thread for everything: who is not accepted yet waits in the kernel's accept queue.
pub(crate) fn alone(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (socket, _) = listener.accept()?;
        http::answer(socket);
    }
}

/// This thread accepts; `threads` workers answer, one connection at a time each.
pub(crate) fn pooled(listener: &TcpListener, threads: usize) -> io::Result<()> {
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
