//! The targets, by what they read.

mod cgroups;
mod files;
mod http1;
mod load;
mod proxies;
mod server;

/// A reader of outside text, and what always holds for it.
#[derive(Debug)]
pub struct Target {
    /// Unique among the targets.
    pub name: &'static str,
    /// Reads one input; panics where the reader breaks one of its promises.
    pub run: fn(&[u8]),
    /// Inputs to begin with, each with a name that describes it.
    pub seeds: &'static [(&'static str, &'static [u8])],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    cgroups::CGROUP_PLACE,
    cgroups::CPU_LIST,
    cgroups::QUOTA,
    files::FILE_PATH,
    files::FILE_RANGE,
    http1::FRAMING,
    http1::PLAIN_REQUESTS,
    http1::TRACE_CONTEXT,
    load::CAPACITY_MIX,
    load::LOAD_REPORT,
    proxies::CLIENT_ADDRESS,
    proxies::PROXY_HEADER,
    server::CONDITIONS,
    server::CONFIGURATION,
    server::DIV,
    server::DOCUMENT,
    server::WORK,
];

/// For targets whose input is text.
fn text(input: &[u8], run: fn(&str)) {
    if let Ok(input) = std::str::from_utf8(input) {
        run(input);
    }
}
