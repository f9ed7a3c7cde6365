//! Client information that proxies send.

use std::net::IpAddr;

use corelane::fuzzing::{ProxyHeader, client_addr, proxy_header};

use super::Target;

const LONGEST: usize = 4096;

/// The PROXY protocol header is partial up to its last byte and complete after that, whatever
/// follows.
pub(super) const PROXY_HEADER: Target = Target {
    name: "proxy_header",
    run: header,
    seeds: &[
        ("four", b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\nGET / HTTP/1.1\r\n"),
        ("six", b"PROXY TCP6 2001:db8::1 2001:db8::2 5000 80\r\n"),
        ("unknown", b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"),
        (
            "binary_four",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11\xc0\0\x02\x01\xc6\x33\x64\x02\x13\x88\0\x50\x04\0\x02\0\0GET",
        ),
        (
            "binary_six",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\
            \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\x13\x88\0\x50",
        ),
        ("local", b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"),
    ],
};

fn header(input: &[u8]) {
    let whole = proxy_header(input);
    let end = match whole {
        ProxyHeader::Partial => {
            assert!(input.len() < LONGEST, "it waits forever");
            input.len()
        }
        ProxyHeader::Whole(length, addresses) => {
            assert!(length <= input.len() && length <= LONGEST, "{length}");
            assert_eq!(proxy_header(&input[..length]), whole, "without what follows");
            if let Some([source, destination]) = addresses {
                assert_eq!(source.is_ipv4(), destination.is_ipv4());
            }
            length
        }
        // The header was partial and never became complete.
        ProxyHeader::Invalid => {
            let from = (0..=input.len()).find(|&end| proxy_header(&input[..end]) == whole);
            let from = from.unwrap_or(input.len());
            assert!((from..input.len()).all(|end| proxy_header(&input[..end]) == whole));
            from
        }
    };
    assert!((0..end).all(|end| proxy_header(&input[..end]) == ProxyHeader::Partial));
}

/// The client behind proxies. Text written by a client never hides what a proxy appends.
///
/// The first byte selects the header. The rest of the input contains the header's lines.
pub(super) const CLIENT_ADDRESS: Target = Target {
    name: "client_address",
    run: client,
    seeds: &[
        ("several_lines", b"x1.1.1.1, 10.0.0.2\n198.51.100.1:80\n[2001:db8::5]:80, 10.1.1.1"),
        ("forwarded", b"ffor=1.1.1.1;by=a, for=\"[2001:db8::5]:80\";proto=https\nfor=unknown"),
        ("open_quote", b"ffor=\"1.1.1.1, for=198.51.100.1"),
    ],
};

fn client(input: &[u8]) {
    let Some((field, rest)) = input.split_first() else { return };
    let (forwarded, lines) = (*field == b'f', || rest.split(|&byte| byte == b'\n'));
    let (proxy, stranger) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 9]));
    let Some(found) = client_addr(proxy, forwarded, lines()) else { return };
    assert_eq!(client_addr(stranger, forwarded, lines()), Some(stranger), "it is not trusted");
    // The nearest proxy names its peer, on its own line or at the end of the last line.
    let named: &[u8] = if forwarded { b"for=192.0.2.9" } else { b"192.0.2.9" };
    assert_eq!(client_addr(proxy, forwarded, lines().chain([named])), Some(stranger));
    let joined = [rest.rsplit(|&byte| byte == b'\n').next().unwrap_or(rest), b", ", named].concat();
    let lines = lines().chain([&joined[..]]);
    assert_eq!(client_addr(proxy, forwarded, lines), Some(stranger), "{found} is farther");
}
