//! The server's end of a connection according to sock_diag(7).

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, netlink, recv, send, socket,
};

const BY_FAMILY: u16 = 20;

const INFO: u16 = 2;

/// Offsets in a response: netlink(7) header, `struct inet_diag_msg`, attributes.
const MESSAGE: usize = 16;
const STATE: usize = MESSAGE + 1;
const UNREAD: usize = MESSAGE + 56;
const ATTRIBUTES: usize = MESSAGE + 72;

const LISTENS: u8 = 10;

const RECEIVED: usize = 128;

pub(crate) struct FarEnd {
    netlink: OwnedFd,
    request: Vec<u8>,
    lane: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    /// Bytes received since the connection opened.
    received: u64,
    /// Bytes in the server's receive queue.
    unread: u32,
}

impl FarEnd {
    /// Looks up a new connection served by `lane`.
    pub(crate) fn of(server: SocketAddr, client: SocketAddr, lane: PathBuf) -> FarEnd {
        let (SocketAddr::V4(server), SocketAddr::V4(client)) = (server, client) else {
            panic!("not IPv4")
        };
        let netlink = socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(netlink::SOCK_DIAG));
        let netlink = netlink.expect("sock_diag(7)");
        let far_end = FarEnd { netlink, request: request(server, client), lane };
        // The connection may be open for the client slightly before it is open for the server.
        while far_end.held().is_none() {
            std::thread::yield_now();
        }
        far_end
    }

    /// True once the server has read `sent` bytes and is waiting, or has closed the connection.
    pub(crate) fn is_quiet(&self, sent: u64) -> bool {
        let all_read = |held: Held| held.received >= sent && held.unread == 0;
        self.held().is_none_or(all_read) && self.lane_sleeps()
    }

    /// `None` once the connection is gone.
    fn held(&self) -> Option<Held> {
        send(&self.netlink, &self.request, SendFlags::empty()).expect("a question to the kernel");
        let mut reply = [0; 1024];
        let (_, length) = recv(&self.netlink, &mut reply, RecvFlags::empty()).expect("its reply");
        let reply = &reply[..length];
        // Without a match the kernel returns the listening socket.
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
        // Closed by both sides.
        None
    }

    fn lane_sleeps(&self) -> bool {
        let stat = fs::read_to_string(self.lane.join("stat")).expect("the state of a thread");
        // Thread names may contain parentheses (proc_pid_stat(5)).
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    }
}

/// Looks up a socket by its two addresses: netlink(7) header and `struct inet_diag_req_v2`.
fn request(server: SocketAddrV4, client: SocketAddrV4) -> Vec<u8> {
    let address = |ip: &Ipv4Addr| [&ip.octets()[..], &[0; 12]].concat();
    let family = u8::try_from(AddressFamily::INET.as_raw()).expect("a small number");
    let protocol = u8::try_from(ipproto::TCP.as_raw().get()).expect("a small number");
    let question = [
        &[family, protocol, 1 << (INFO - 1), 0][..],
        &u32::MAX.to_ne_bytes(),
        &server.port().to_be_bytes(),
        &client.port().to_be_bytes(),
        &address(server.ip()),
        &address(client.ip()),
        &0_u32.to_ne_bytes(),
        &u64::MAX.to_ne_bytes(),
    ]
    .concat();
    let length = u32::try_from(MESSAGE + question.len()).expect("a short message");
    let flags: u16 = 1; // NLM_F_REQUEST
    [&length.to_ne_bytes()[..], &BY_FAMILY.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], &question]
        .concat()
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("a longer reply")
}
