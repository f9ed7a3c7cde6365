//! The server's end of a client's connection, as the kernel reports it (sock_diag(7)).

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, netlink, recv, send, socket,
};

/// `SOCK_DIAG_BY_FAMILY`, a type of message.
const BY_FAMILY: u16 = 20;

/// `INET_DIAG_INFO`, the attribute that carries a `struct tcp_info`.
const INFO: u16 = 2;

/// Offsets in a response: the header of netlink(7), then a `struct inet_diag_msg`, then attributes.
const MESSAGE: usize = 16;
const STATE: usize = MESSAGE + 1;
const UNREAD: usize = MESSAGE + 56;
const ATTRIBUTES: usize = MESSAGE + 72;

/// `TCP_LISTEN`, a state.
const LISTENS: u8 = 10;

/// `tcpi_bytes_received` in a `struct tcp_info`.
const RECEIVED: usize = 128;

/// The server's end of one connection.
pub(crate) struct FarEnd {
    netlink: OwnedFd,
    request: Vec<u8>,
    /// The thread that serves the connection, in `/proc`.
    lane: PathBuf,
}

/// The kernel's data about the server's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    /// Number of bytes that have arrived since the connection was opened.
    received: u64,
    /// Number of bytes that the server has not read.
    unread: u32,
}

impl FarEnd {
    /// Finds the server's end of a connection that has just been opened and that `lane` serves.
    pub(crate) fn of(server: SocketAddr, client: SocketAddr, lane: PathBuf) -> FarEnd {
        let (SocketAddr::V4(server), SocketAddr::V4(client)) = (server, client) else {
            panic!("not IPv4")
        };
        let netlink = socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG));
        let netlink = netlink.expect("sock_diag(7)");
        let far_end = FarEnd { netlink, request: request(server, client), lane };
        // A connection is open for the client a moment earlier than for the server.
        while far_end.held().is_none() {
            std::thread::yield_now();
        }
        far_end
    }

    /// Whether the server has read the `sent` bytes and waits for more, or has closed.
    pub(crate) fn is_quiet(&self, sent: u64) -> bool {
        let all_read = |held: Held| held.received >= sent && held.unread == 0;
        self.held().is_none_or(all_read) && self.lane_sleeps()
    }

    /// Returns `None` if the connection no longer exists.
    fn held(&self) -> Option<Held> {
        send(&self.netlink, &self.request, SendFlags::empty()).expect("a question to the kernel");
        let mut reply = [0; 1024];
        let (_, length) = recv(&self.netlink, &mut reply, RecvFlags::empty()).expect("its reply");
        let reply = &reply[..length];
        // Without a connection the kernel returns the listening socket.
        if u16::from_ne_bytes(part(reply, 4)) != BY_FAMILY || reply[STATE] == LISTENS {
            return None;
        }
        let unread = u32::from_ne_bytes(part(reply, UNREAD));
        let mut at = ATTRIBUTES;
        while at < length {
            if u16::from_ne_bytes(part(reply, at + 2)) == INFO {
                let received = u64::from_ne_bytes(part(reply, at + 4 + RECEIVED));
                return Some(Held { received, unread });
            }
            at += usize::from(u16::from_ne_bytes(part(reply, at))).next_multiple_of(4);
        }
        // The connection was closed by both sides.
        None
    }

    fn lane_sleeps(&self) -> bool {
        let stat = fs::read_to_string(self.lane.join("stat")).expect("the state of a thread");
        // proc_pid_stat(5): the name of a thread may contain parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }
}

/// The request for the socket whose own address is `server` and whose peer is `client`: a header of
/// netlink(7) and a `struct inet_diag_req_v2`.
fn request(server: SocketAddrV4, client: SocketAddrV4) -> Vec<u8> {
    let address = |ip: &Ipv4Addr| [&ip.octets()[..], &[0; 12]].concat();
    let family = u8::try_from(AddressFamily::INET.as_raw()).expect("a small number");
    let protocol = u8::try_from(ipproto::TCP.as_raw().get()).expect("a small number");
    let question = [
        &[family, protocol, 1 << (INFO - 1), 0][..],
        &u32::MAX.to_ne_bytes(), // in any state
        &server.port().to_be_bytes(),
        &client.port().to_be_bytes(),
        &address(server.ip()),
        &address(client.ip()),
        &0_u32.to_ne_bytes(),    // on any interface
        &u64::MAX.to_ne_bytes(), // with any cookie
    ]
    .concat();
    let length = u32::try_from(MESSAGE + question.len()).expect("a short message");
    let flags: u16 = 1; // NLM_F_REQUEST
    [
        &length.to_ne_bytes()[..],
        &BY_FAMILY.to_ne_bytes(),
        &flags.to_ne_bytes(),
        &[0; 8], // sequence and port
        &question,
    ]
    .concat()
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("a longer reply")
}
