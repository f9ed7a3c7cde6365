//! Rejects new handshakes on all listening sockets of a server before the sockets close.

mod program;

use std::net::TcpListener;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::{SockFilter, SockRef};
use tokio::time::{Instant, sleep_until};

use super::listener::{Port, SocketFile};

/// Duplicate descriptors of the listening TCP sockets. A socket closes with its last descriptor, so
/// these descriptors are dropped before the lanes close their own. Inherited sockets are excluded,
/// because a filter would also affect other processes.
#[derive(Debug, Default)]
pub(crate) struct ListenerGroup {
    sockets: Mutex<Vec<TcpListener>>,
    files: Mutex<Vec<SocketFile>>,
}

impl ListenerGroup {
    /// Takes a Unix socket's file, or duplicates the descriptors of an address's listeners.
    pub(crate) fn add(&self, port: &mut Port) -> std::io::Result<()> {
        if let Some(file) = port.file.take() {
            lock(&self.files).push(file);
        } else if !port.is_inherited() {
            self.copy(&port.sockets)?;
        }
        Ok(())
    }

    fn copy(&self, listeners: &[TcpListener]) -> std::io::Result<()> {
        let copies: Vec<_> =
            listeners.iter().map(TcpListener::try_clone).collect::<Result<_, _>>()?;
        lock(&self.sockets).extend(copies);
        Ok(())
    }

    pub(crate) fn release(&self) {
        lock(&self.sockets).clear();
        lock(&self.files).clear();
    }

    /// Blocks new handshakes and waits for current handshakes, for [`HANDSHAKE_GRACE`] or until
    /// `deadline`. After that, the accept queues do not grow. Has no effect if the kernel rejects
    /// the filter.
    pub(crate) async fn finish_handshakes(&self, deadline: Instant) {
        // A Unix client connects in one step and then waits in the accept queue.
        lock(&self.files).clear();
        match self.refuse_handshakes() {
            Ok(()) => sleep_until(deadline.min(Instant::now() + HANDSHAKE_GRACE)).await,
            Err(error) => tracing::warn!(%error, "drain: connections in handshake may be lost"),
        }
    }

    /// Makes every listener drop new handshakes. Connections accepted from now on inherit the
    /// filter, which passes all of their segments.
    fn refuse_handshakes(&self) -> std::io::Result<()> {
        let filter = program::no_new_handshake();
        let filter = filter.iter().map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k));
        let filter: Vec<_> = filter.collect();
        for socket in lock(&self.sockets).iter() {
            SockRef::from(socket).attach_filter(&filter)?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time for current handshakes: one round trip across a continent. The wait is fixed, because
/// checking for handshakes would take just as long if there are many connections (proc(5),
/// /proc/net/tcp).
const HANDSHAKE_GRACE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::iter::from_fn;
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};
    use std::time::Instant;

    use super::*;
    use crate::os::listener::bind_lanes;

    fn bind_on(address: Ipv4Addr, lanes: usize) -> (Vec<TcpListener>, SocketAddr) {
        let free = (address, 0).into();
        let listeners = bind_lanes(free, 128, lanes).expect("listeners");
        let address = listeners[0].local_addr().expect("an address");
        (listeners, address)
    }

    fn take(listeners: &[TcpListener], n: usize) -> Vec<(TcpStream, SocketAddr)> {
        let mut taken = Vec::new();
        let begun = Instant::now();
        // A client sees its connection as open a moment before the queue contains it.
        while taken.len() < n {
            assert!(begun.elapsed() < Duration::from_secs(60), "{taken:?}");
            let accepted = listeners.iter().flat_map(|listener| from_fn(|| listener.accept().ok()));
            taken.extend(accepted);
        }
        taken
    }

    #[test]
    fn closing_keeps_what_has_begun_and_lets_nothing_begin() {
        // An address that no other test uses, because the port must be closed at the end.
        let (listeners, address) = bind_on(Ipv4Addr::new(127, 255, 0, 1), 2);
        let group = ListenerGroup::default();
        group.copy(&listeners).expect("descriptors");
        let mut clients: Vec<_> =
            (0..16).map(|_| TcpStream::connect(address).expect("connect")).collect();
        group.refuse_handshakes().expect("a filter");
        for _ in 0..4 {
            let late = TcpStream::connect_timeout(&address, Duration::from_millis(50));
            assert_eq!(late.expect_err("no answer").kind(), ErrorKind::TimedOut);
        }
        let mut accepted = take(&listeners, clients.len());
        assert_eq!(accepted.len(), clients.len());
        let mut inherited = 0;
        for (socket, peer) in &mut accepted {
            let client = clients.iter_mut().find(|c| c.local_addr().ok() == Some(*peer));
            client.expect("its client").write_all(b"x").expect("written");
            socket.set_nonblocking(false).expect("blocking");
            inherited += socket.read(&mut [0]).expect("read");
        }
        assert_eq!(inherited, clients.len(), "connections work as before");
        group.release();
        drop(listeners);
        let refused = TcpStream::connect(address).expect_err("closed");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
