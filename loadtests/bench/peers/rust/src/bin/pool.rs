//! The classic server that lanes are compared with. It has an accept loop, one queue behind a mutex
//! and a condition variable, and N worker threads. Without workers, one thread does everything.
//! Each connection carries one request.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use memchr::memmem;
use peers::{HELLO, Options, Work};

/// Maximum size of a request in one piece. A larger request ends the connection.
const REQUEST: usize = 4096;

/// A silent client must not block a worker forever.
const PATIENCE: Duration = Duration::from_secs(10);

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
        answer(socket);
    }
}

/// This thread accepts connections; each of the `threads` workers handles one connection at a time.
fn pooled(listener: &TcpListener, threads: usize) -> io::Result<()> {
    let queue: Queue<TcpStream> = Queue::new();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    answer(queue.pop());
                }
            });
        }
        loop {
            let (socket, _) = listener.accept()?;
            queue.push(socket);
        }
    })
}

/// The shared queue: first in, first out, for many producers and consumers.
#[derive(Debug)]
struct Queue<T> {
    waiting: Mutex<VecDeque<T>>,
    added: Condvar,
}

impl<T> Queue<T> {
    /// An empty queue.
    fn new() -> Self {
        Queue { waiting: Mutex::new(VecDeque::new()), added: Condvar::new() }
    }

    /// Adds to the end, and wakes one waiting thread.
    fn push(&self, item: T) {
        // A panic while the lock is held leaves the queue valid.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(item);
        self.added.notify_one();
    }

    /// Takes from the front, and waits while the queue is empty.
    fn pop(&self) -> T {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(item) = waiting.pop_front() {
                return item;
            }
            waiting = self.added.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads a request, answers it and closes the connection. Client errors are ignored.
fn answer(mut socket: TcpStream) {
    let mut buffer = [0; REQUEST];
    let _ = socket.set_read_timeout(Some(PATIENCE));
    if let Some(head) = read_head(&mut socket, &mut buffer) {
        let _ = socket.write_all(reply(head).as_bytes());
    }
}

/// The head of a request without a body, once it is complete.
fn read_head<'a>(socket: &mut TcpStream, buffer: &'a mut [u8; REQUEST]) -> Option<&'a [u8]> {
    let mut length = 0;
    loop {
        match socket.read(&mut buffer[length..]) {
            Ok(0) | Err(_) => return None,
            Ok(more) => length += more,
        }
        if let Some(end) = memmem::find(&buffer[..length], b"\r\n\r\n") {
            return Some(&buffer[..end]);
        }
    }
}

fn reply(head: &[u8]) -> String {
    match body(head) {
        Some(body) => with_status("200 OK", &body),
        None => with_status("404 Not Found", ""),
    }
}

fn body(head: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(head).ok()?.lines().next()?;
    let target = line.strip_prefix("GET ")?.strip_suffix(" HTTP/1.1")?;
    match target.split_once('?') {
        None if target == "/hello" => Some(HELLO.to_owned()),
        Some(("/work", query)) => Some(Work::parse(query)?.reply()),
        _ => None,
    }
}

fn with_status(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
