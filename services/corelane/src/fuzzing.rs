//! Exposes the parsers of external text to the fuzz targets in `services/fuzz`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use http::{HeaderMap, HeaderValue};

use crate::base::settings::{ForwardedHeader, Limits};
use crate::load::report;
use crate::message::forwarded::Trust;
use crate::message::framing::Framing;
use crate::message::proxy_header::{self, Parsed};
use crate::message::trace_context::TraceContext;
use crate::os::cpu::Throttling;
use crate::os::cpu::cgroup::{self, Weight};

/// Parses a list of CPUs, such as `cpuset.cpus`.
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    cgroup::cpu_list(text)
}

/// CPUs allowed by cgroup v2's `cpu.max`.
pub fn cpu_max(text: &str) -> Option<f64> {
    cgroup::cpu_max(text)
}

/// CPUs allowed by cgroup v1's two quota files.
pub fn cfs_quota(quota: &str, period: &str) -> Option<f64> {
    cgroup::cfs_quota(quota, period)
}

/// Whether `cpuset.cpus.partition` contains a valid partition.
pub fn is_partition(text: &str) -> bool {
    cgroup::is_partition(text)
}

/// Returns periods, throttled periods and throttled nanoseconds from `cpu.stat`.
pub fn throttling(text: &str) -> Option<(u64, u64, u128)> {
    let counted = Throttling::parse(text)?;
    Some((counted.periods, counted.throttled_periods, counted.throttled.as_nanos()))
}

/// CPU counts, from 1 to `most`, for which `text` could be the `cpu.weight` or `cpu.shares` of a
/// container that requests that many CPUs.
pub fn requests(text: &str, most: usize) -> [Vec<usize>; 2] {
    [Weight::read_weight(text), Weight::read_shares(text)].map(|weight| {
        let fits = |&cpus: &usize| weight.is_some_and(|weight| weight.requests(cpus));
        (1..=most).filter(fits).collect()
    })
}

/// A controller's directories, from the contents of `/proc/self/cgroup` and `/proc/self/mountinfo`.
pub fn directories(members: &str, mountinfo: &str, controller: &str) -> Option<Vec<PathBuf>> {
    let (members, mounts) = (cgroup::memberships(members), cgroup::mounts(mountinfo));
    cgroup::locate(&members, &mounts, controller).map(|location| location.directories)
}

/// One lane's load reports as TEXT and JSON, from its counters `[elapsed, busy, waits, finished,
/// failed, in_flight, expected]` with times in nanoseconds.
pub fn load_reports(samples: impl Iterator<Item = [u64; 7]>) -> Vec<[String; 2]> {
    report::of_one_lane(samples)
}

/// Tracks an HTTP/1 connection that receives its bytes in these non-empty pieces. If the input must
/// be cut, returns the number of bytes that may pass, the bytes to append, and the reason.
pub fn follow<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> Option<(usize, &'static [u8], String)> {
    let mut framing = Framing::new(Limits::default().header_bytes);
    let mut before = 0;
    for mut piece in pieces {
        while !piece.is_empty() {
            match framing.follow(piece) {
                Ok(passed) => {
                    before += passed;
                    piece = &piece[passed..];
                }
                Err(cut) => return Some((before + cut.at, cut.tail, format!("{:?}", cut.fault))),
            }
        }
    }
    None
}

/// The trace context of a request with a `traceparent` field and any number of `tracestate` fields,
/// in the form that a handler passes on.
pub fn trace_context<'a>(
    parent: &str,
    states: impl Iterator<Item = &'a str>,
) -> Option<(String, Option<String>)> {
    let mut headers = HeaderMap::new();
    headers.append("traceparent", HeaderValue::from_str(parent).ok()?);
    for state in states {
        headers.append("tracestate", HeaderValue::from_str(state).ok()?);
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let context = TraceContext::read(&headers)?;
    Some((text(&context.traceparent()), context.tracestate().map(text)))
}

/// The part of the PROXY protocol header at the start of `bytes` that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The header continues.
    Partial,
    /// The header's length, the client's address, and the server address that the client connected
    /// to.
    Whole(usize, Option<[SocketAddr; 2]>),
    /// There is no valid header.
    Invalid,
}

/// Parses the PROXY protocol header.
pub fn proxy_header(bytes: &[u8]) -> ProxyHeader {
    match proxy_header::parse(bytes) {
        Parsed::Partial => ProxyHeader::Partial,
        Parsed::Whole { length, proxied } => {
            let addresses = proxied.map(|proxied| [proxied.source, proxied.destination]);
            ProxyHeader::Whole(length, addresses)
        }
        Parsed::Invalid => ProxyHeader::Invalid,
    }
}

/// The client of a request that `peer` sent with these `Forwarded` or `X-Forwarded-For` lines, if
/// 10.0.0.0/8 is trusted. `None` if a line cannot be a field value.
pub fn client_addr<'a>(
    peer: IpAddr,
    forwarded: bool,
    lines: impl Iterator<Item = &'a [u8]>,
) -> Option<IpAddr> {
    let (header, name) = match forwarded {
        true => (ForwardedHeader::Forwarded, "forwarded"),
        false => (ForwardedHeader::XForwardedFor, "x-forwarded-for"),
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(name, HeaderValue::from_bytes(line).ok()?);
    }
    let proxies = vec!["10.0.0.0/8".parse().ok()?];
    Trust { proxies, header }.client(Some(peer), &headers)
}
