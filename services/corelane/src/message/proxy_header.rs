//! The PROXY protocol header, versions 1 and 2 (haproxy.org, proxy-protocol.txt), which a proxy
//! sends before its client's first byte.

use std::net::SocketAddr;

use ppp::{v1, v2};

/// Longest header to read. A version 1 header has at most 107 bytes. A version 2 header exceeds 232
/// bytes only if it contains extra fields, which are ignored.
pub(crate) const LONGEST: usize = 4096;

/// Longest version 1 header.
const LONGEST_TEXT: usize = 107;

/// Bytes of version 2 up to and including the length of the rest.
const FIXED: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proxied {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

/// Result of parsing the bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// All bytes belong to an incomplete header.
    Partial,
    /// The first `length` bytes are a header. `proxied` is `None` if the header does not name a
    /// client, as in the proxy's own health checks.
    Whole {
        /// Length of the header in bytes.
        length: usize,
        proxied: Option<Proxied>,
    },
    /// The bytes do not start with a valid header.
    Invalid,
}

/// Parses the header at the start of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let signature = v2::PROTOCOL_PREFIX;
    let same = bytes.len().min(signature.len());
    if bytes[..same] == signature[..same] { parse_binary(bytes) } else { parse_text(bytes) }
}

fn parse_text(bytes: &[u8]) -> Parsed {
    let prefix = b"PROXY ";
    let same = bytes.len().min(prefix.len());
    if bytes[..same] != prefix[..same] {
        return Parsed::Invalid;
    }
    let start = &bytes[..bytes.len().min(LONGEST_TEXT)];
    let Some(end) = memchr::memchr(b'\n', start) else {
        return if start.len() < LONGEST_TEXT { Parsed::Partial } else { Parsed::Invalid };
    };
    let length = end + 1;
    // The crate would stop at a carriage return before the end.
    if memchr::memchr(b'\r', start) != end.checked_sub(1) {
        return Parsed::Invalid;
    }
    let proxied = match v1::Header::try_from(&start[..length]).map(|header| header.addresses) {
        Ok(v1::Addresses::Tcp4(it)) => Some(Proxied {
            source: (it.source_address, it.source_port).into(),
            destination: (it.destination_address, it.destination_port).into(),
        }),
        Ok(v1::Addresses::Tcp6(it)) => Some(Proxied {
            source: (it.source_address, it.source_port).into(),
            destination: (it.destination_address, it.destination_port).into(),
        }),
        Ok(v1::Addresses::Unknown) => None,
        Err(_) => return Parsed::Invalid,
    };
    Parsed::Whole { length, proxied }
}

fn parse_binary(bytes: &[u8]) -> Parsed {
    let Some(fixed) = bytes.get(..FIXED) else { return Parsed::Partial };
    let length = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > LONGEST {
        return Parsed::Invalid;
    }
    let header = match v2::Header::try_from(bytes) {
        Ok(header) => header,
        Err(v2::ParseError::Incomplete(_) | v2::ParseError::Partial(..)) => return Parsed::Partial,
        Err(_) => return Parsed::Invalid,
    };
    if header.command == v2::Command::Local {
        return Parsed::Whole { length, proxied: None };
    }
    let proxied = match (header.protocol, header.addresses) {
        (v2::Protocol::Stream, v2::Addresses::IPv4(it)) => Some(Proxied {
            source: (it.source_address, it.source_port).into(),
            destination: (it.destination_address, it.destination_port).into(),
        }),
        (v2::Protocol::Stream, v2::Addresses::IPv6(it)) => Some(Proxied {
            source: (it.source_address, it.source_port).into(),
            destination: (it.destination_address, it.destination_port).into(),
        }),
        // HTTP needs a stream protocol.
        (v2::Protocol::Datagram, _) => return Parsed::Invalid,
        _ => None,
    };
    Parsed::Whole { length, proxied }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxied(source: &str, destination: &str) -> Option<Proxied> {
        let parse = |text: &str| text.parse().expect("an address");
        Some(Proxied { source: parse(source), destination: parse(destination) })
    }

    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [v2::PROTOCOL_PREFIX, &[0x20 | command, family], &length, rest].concat()
    }

    /// Asserts that the header is recognised at its last byte, whether or not more bytes follow.
    fn check(header: &[u8], proxied: Option<Proxied>) {
        for end in 0..header.len() {
            assert_eq!(parse(&header[..end]), Parsed::Partial, "{end} of {header:?}");
        }
        let whole = Parsed::Whole { length: header.len(), proxied };
        assert_eq!(parse(header), whole);
        assert_eq!(parse(&[header, b"GET / HTTP/1.1\r\n"].concat()), whole);
    }

    #[test]
    fn both_versions_name_the_client() {
        let four = proxied("192.0.2.1:5000", "198.51.100.2:80");
        let six = proxied("[2001:db8::1]:5000", "[2001:db8::2]:80");
        check(b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\n", four);
        check(b"PROXY TCP6 2001:db8::1 2001:db8::2 5000 80\r\n", six);
        let ports = [0x13, 0x88, 0, 80];
        let addresses = [[192, 0, 2, 1], [198, 51, 100, 2], ports].concat();
        check(&binary(1, 0x11, &addresses), four);
        let tlvs = [&addresses[..], &[0x04, 0, 2, 0, 0], &[0xee, 0, 1, 7]].concat();
        check(&binary(1, 0x11, &tlvs), four);
        let mut addresses = [0; 36];
        addresses[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
        addresses[16..20].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
        (addresses[15], addresses[31]) = (1, 2);
        addresses[32..].copy_from_slice(&ports);
        check(&binary(1, 0x21, &addresses), six);
    }

    #[test]
    fn a_proxy_that_speaks_for_itself_names_nobody() {
        check(b"PROXY UNKNOWN\r\n", None);
        check(b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None);
        check(&binary(0, 0, &[]), None);
        check(&binary(0, 0x11, &[0; 12]), None);
        check(&binary(1, 0, &[1, 2, 3]), None);
        check(&binary(1, 0x31, &[0; 216]), None);
    }

    #[test]
    fn everything_else_is_invalid() {
        let long = [b"PROXY TCP4 ", &[b'1'; 100][..]].concat();
        let texts: [&[u8]; 9] = [
            b"GET / HTTP/1.1\r\n",
            b"PROXY\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\n",
            b"PROXY TCP4 192.0.2.1 \r198.51.100.2 5000 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 65536\r\n",
            b"PROXY TCP4 2001:db8::1 2001:db8::2 5000 80\r\n",
            b"PROXY UDP4 192.0.2.1 198.51.100.2 5000 80\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 5000\r\n",
            &long,
        ];
        for text in texts {
            assert_eq!(parse(text), Parsed::Invalid, "{}", String::from_utf8_lossy(text));
        }
        let short = binary(1, 0x11, &[0; 11]);
        let other_version = [v2::PROTOCOL_PREFIX, &[0x11, 0x11, 0, 0]].concat();
        let endless = [v2::PROTOCOL_PREFIX, &[0x21, 0x11, 0xff, 0xff]].concat();
        for bytes in
            [short, other_version, endless, binary(2, 0x11, &[0; 12]), binary(1, 0x12, &[0; 12])]
        {
            assert_eq!(parse(&bytes), Parsed::Invalid, "{bytes:?}");
        }
    }
}
