//! The accept loop, with workers and without.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::http;
use crate::queue::Queue;

/// A blocking listening socket.
pub(crate) fn listener(address: SocketAddr, backlog: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog.into())?;
    Ok(socket.into())
}

/// One thread for everything: other connections wait in the kernel's accept queue.
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
