//! The listening sockets of a server as a group: steering of handshakes, and rejection of new ones
//! before the sockets are closed.

mod program;

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::{sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt::AttachReusePortCbpf};
use socket2::{SockFilter, SockRef};
use tokio::time::{Instant, sleep_until};

use super::listener::{Port, SocketFile};

/// Second descriptors of the listening sockets of TCP, for each address in the order in which they
/// joined its `SO_REUSEPORT` group. A socket closes with its last descriptor, so they are dropped
/// before the lanes close theirs. Inherited sockets are not among them: another process would get
/// their filters too.
#[derive(Debug, Default)]
pub(crate) struct ListenerGroup {
    groups: Mutex<Vec<Vec<TcpListener>>>,
    /// The files of Unix sockets.
    files: Mutex<Vec<SocketFile>>,
    /// Whether steering is enabled.
    steering: bool,
    /// Whether steering is active.
    steered: AtomicBool,
    warned: AtomicBool,
}

impl ListenerGroup {
    /// A group without sockets; `steering` as in [`Builder::steering`](crate::Builder::steering).
    pub(crate) fn new(steering: bool) -> Self {
        ListenerGroup { steering, ..Self::default() }
    }

    /// Takes the file of a Unix socket, or duplicates the descriptor of each listener of an
    /// address.
    pub(crate) fn add(&self, port: &mut Port) -> std::io::Result<()> {
        if let Some(file) = port.file.take() {
            lock(&self.files).push(file);
        } else if !port.is_inherited() {
            self.add_group(&port.sockets)?;
        }
        Ok(())
    }

    fn add_group(&self, listeners: &[TcpListener]) -> std::io::Result<()> {
        let copies = listeners.iter().map(TcpListener::try_clone).collect::<Result<_, _>>()?;
        lock(&self.groups).push(copies);
        Ok(())
    }

    /// Drops the descriptors, and removes the files of Unix sockets.
    pub(crate) fn release(&self) {
        lock(&self.groups).clear();
        lock(&self.files).clear();
    }

    /// Steers handshakes by the CPU of each lane, if steering is enabled. Call it whenever lanes
    /// are pinned again. Falls back to the kernel's hash if the kernel rejects the program, or if a
    /// lane would get nothing because it has no CPU of its own.
    pub(crate) fn set_cpus(&self, cpus: &[Option<usize>]) {
        if !self.steering || lock(&self.groups).is_empty() {
            return; // disabled, or the listeners are closing
        }
        let steered = match program::by_receiving_cpu(cpus) {
            Some(program) => self.attach(&program).map_err(|error| error.to_string()),
            None => Err("not every lane is pinned to a CPU of its own".to_owned()),
        };
        match steered {
            Ok(()) => self.steered.store(true, Ordering::Relaxed),
            Err(reason) => {
                self.leave_to_hash();
                if !self.warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        reason,
                        "steering is not active: connections are placed by the hash"
                    );
                }
            }
        }
    }

    /// Whether handshakes go to the lane of the CPU that received them.
    pub(crate) fn is_steered(&self) -> bool {
        self.steered.load(Ordering::Relaxed)
    }

    /// Blocks new handshakes and waits for current ones, for [`HANDSHAKE_GRACE`] or until
    /// `deadline`. After that nothing is added to the accept queues. Has no effect if the kernel
    /// rejects the filter.
    pub(crate) async fn finish_handshakes(&self, deadline: Instant) {
        // Closing a listener changes the indices of the others.
        self.leave_to_hash();
        // A client of a Unix socket connects in one step, and waits in the accept queue.
        lock(&self.files).clear();
        match self.refuse_handshakes() {
            Ok(()) => sleep_until(deadline.min(Instant::now() + HANDSHAKE_GRACE)).await,
            Err(error) => tracing::warn!(%error, "drain: connections in handshake may be lost"),
        }
    }

    /// Makes every listener drop new handshakes. Connections that are accepted from now on inherit
    /// the filter, which passes all their segments.
    fn refuse_handshakes(&self) -> std::io::Result<()> {
        let filter: Vec<_> = program::no_new_handshake()
            .into_iter()
            .map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k))
            .collect();
        for socket in lock(&self.groups).iter().flatten() {
            SockRef::from(socket).attach_filter(&filter)?;
        }
        Ok(())
    }

    fn leave_to_hash(&self) {
        if self.steered.swap(false, Ordering::Relaxed)
            && let Err(error) = self.attach(&program::by_hash())
        {
            tracing::warn!(%error, "steering: cannot replace the BPF program");
        }
    }

    /// Sets the program of each group, through any of its sockets.
    fn attach(&self, program: &[sock_filter]) -> std::io::Result<()> {
        let mut program = program.to_vec();
        let len = u16::try_from(program.len()).map_err(std::io::Error::other)?;
        // The kernel copies the program before the call returns.
        let program = sock_fprog { len, filter: program.as_mut_ptr() };
        for socket in lock(&self.groups).iter().filter_map(|group| group.first()) {
            setsockopt(&socket.as_fd(), AttachReusePortCbpf, &program)?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time for current handshakes: a round trip across a continent. It is not shortened if there are
/// none, because their list (proc(5), /proc/net/tcp) takes as long to read with many connections.
const HANDSHAKE_GRACE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};
    use std::time::Instant;

    use super::*;
    use rustix::thread::{CpuSet, sched_setaffinity};

    use crate::os::cpu::CpuView;
    use crate::os::listener::bind_lanes;

    fn bind(lanes: usize) -> (Vec<TcpListener>, SocketAddr) {
        bind_on(Ipv4Addr::LOCALHOST, lanes)
    }

    fn bind_on(address: Ipv4Addr, lanes: usize) -> (Vec<TcpListener>, SocketAddr) {
        let free = (address, 0).into();
        let listeners = bind_lanes(free, 128, lanes).expect("listeners");
        let address = listeners[0].local_addr().expect("an address");
        (listeners, address)
    }

    /// Accepts `n` connections and returns them by listener.
    fn take(listeners: &[TcpListener], n: usize) -> Vec<Vec<(TcpStream, SocketAddr)>> {
        let mut taken: Vec<_> = listeners.iter().map(|_| Vec::new()).collect();
        let begun = Instant::now();
        // A connection is open for the client a moment before it is in a queue.
        while taken.iter().map(Vec::len).sum::<usize>() < n {
            assert!(begun.elapsed() < Duration::from_secs(60), "{taken:?}");
            for (listener, taken) in listeners.iter().zip(&mut taken) {
                taken.extend(std::iter::from_fn(|| listener.accept().ok()));
            }
        }
        taken
    }

    /// Accepts `n` connections and returns how many each listener accepted.
    fn count(listeners: &[TcpListener], n: usize) -> Vec<usize> {
        take(listeners, n).iter().map(Vec::len).collect()
    }

    /// Connects `n` times from a thread pinned to `cpu`. On loopback the sending CPU also receives.
    fn connect_from(cpu: usize, address: SocketAddr, n: usize) -> Vec<TcpStream> {
        let client = std::thread::spawn(move || {
            let mut mask = CpuSet::new();
            mask.set(cpu);
            sched_setaffinity(None, &mask).expect("pinned");
            (0..n).map(|_| TcpStream::connect(address).expect("connect")).collect()
        });
        client.join().expect("no panic")
    }

    #[test]
    fn the_kernel_steers_by_the_receiving_cpu() {
        let cpus = CpuView::read().expect("the affinity mask").affinity;
        let (a, b) = (cpus[0], cpus[cpus.len() - 1]);
        if a == b {
            return; // one CPU: there is nothing to choose from
        }
        let (listeners, address) = bind(2);
        let group = ListenerGroup::new(true);
        group.add_group(&listeners).expect("descriptors");
        // Lanes in the order of their CPUs, swapped, and a lane on another CPU.
        for (pins, from_a, from_b) in
            [([a, b], [9, 0], [0, 9]), ([b, a], [0, 9], [9, 0]), ([a, 1000], [9, 0], [4, 5])]
        {
            group.set_cpus(&pins.map(Some));
            assert!(group.is_steered());
            let clients = connect_from(a, address, 9);
            assert_eq!(count(&listeners, 9), from_a, "from CPU {a} to {pins:?}");
            let others = connect_from(b, address, if pins[1] == 1000 { 64 } else { 9 });
            let taken = count(&listeners, others.len());
            if pins[1] == 1000 {
                assert!(
                    taken.iter().all(|&n| n > 0),
                    "a CPU without a lane is left to the hash: {taken:?}"
                );
            } else {
                assert_eq!(taken, from_b, "from CPU {b} to {pins:?}");
            }
            drop((clients, others));
        }
        group.set_cpus(&[Some(a), None]);
        assert!(!group.is_steered());
        let _clients = connect_from(a, address, 64);
        let taken = count(&listeners, 64);
        assert!(taken.iter().all(|&n| n > 0), "back to the hash: {taken:?}");
    }

    #[test]
    fn a_kernel_that_refuses_leaves_the_hash() {
        // A socket without SO_REUSEPORT does not accept the program (EINVAL).
        let lone = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let group = ListenerGroup::new(true);
        group.add_group(&[lone]).expect("descriptors");
        group.set_cpus(&[Some(0)]);
        assert!(!group.is_steered());
    }

    #[test]
    fn closing_keeps_what_has_begun_and_lets_nothing_begin() {
        // Nobody else uses it: the port is expected to be closed in the end.
        let (listeners, address) = bind_on(Ipv4Addr::new(127, 255, 0, 1), 2);
        let group = ListenerGroup::new(false);
        group.add_group(&listeners).expect("descriptors");
        let mut clients: Vec<_> =
            (0..16).map(|_| TcpStream::connect(address).expect("connect")).collect();
        group.refuse_handshakes().expect("a filter");
        for _ in 0..4 {
            let late = TcpStream::connect_timeout(&address, Duration::from_millis(50));
            assert_eq!(late.expect_err("no answer").kind(), ErrorKind::TimedOut);
        }
        let mut accepted: Vec<_> = take(&listeners, clients.len()).into_iter().flatten().collect();
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
