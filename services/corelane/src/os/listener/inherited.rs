//! Listening sockets inherited at the start of the process (sd_listen_fds(3)).

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use libc::{AF_INET, AF_UNIX, SOCK_STREAM};
use listenfd::ListenFd;
use socket2::SockRef;

/// Sockets that have not been taken yet, and the names of all sockets. The environment is read
/// once.
static INHERITED: Mutex<Option<(ListenFd, Vec<String>)>> = Mutex::new(None);

/// Takes the listening socket with this name or index, or the first socket if the name is empty.
pub(super) fn take(name: &str) -> io::Result<TcpListener> {
    let mut inherited = INHERITED.lock().unwrap_or_else(PoisonError::into_inner);
    let (sockets, names) = inherited.get_or_insert_with(|| {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        (ListenFd::from_env(), names.split(':').map(str::to_owned).collect())
    });
    let index = index(name, names).filter(|&index| index < sockets.len()).ok_or_else(|| {
        let count = sockets.len();
        io::Error::new(ErrorKind::NotFound, format!("no such socket among {count} inherited ones"))
    })?;
    let socket = socket(sockets, index)?.ok_or_else(|| {
        io::Error::new(ErrorKind::AddrInUse, "the inherited socket is in use by this process")
    })?;
    if !SockRef::from(&socket).is_listener()? {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "the inherited socket does not listen",
        ));
    }
    let socket = TcpListener::from(socket);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn index(name: &str, names: &[String]) -> Option<usize> {
    if name.is_empty() {
        return Some(0);
    }
    names.iter().position(|it| it == name).or_else(|| name.parse().ok())
}

/// Takes a stream socket of either family, or returns `None` if it has already been taken.
fn socket(sockets: &mut ListenFd, index: usize) -> io::Result<Option<OwnedFd>> {
    let tcp = sockets.take_custom(index, AF_INET, SOCK_STREAM, "TCP socket");
    tcp.or_else(|_| sockets.take_custom(index, AF_UNIX, SOCK_STREAM, "TCP or Unix stream socket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_named_or_numbered() {
        let names = ["web", "1", ""].map(str::to_owned);
        let cases = [("web", Some(0)), ("", Some(0)), ("1", Some(1)), ("2", Some(2)), ("no", None)];
        for (name, want) in cases {
            assert_eq!(index(name, &names), want, "{name:?}");
        }
        assert_eq!(index("0", &[]), Some(0));
    }
}
