//! The targets, grouped by the text that they parse.

mod cgroups;
mod files;
mod http1;
mod load;
mod proxies;
mod server;

/// A parser of external text and its invariants.
#[derive(Debug)]
pub struct Target {
    /// Unique name.
    pub name: &'static str,
    /// Parses one input, and panics if the parser breaks an invariant.
    pub run: fn(&[u8]),
    /// Named inputs to start from.
    pub seeds: &'static [(&'static str, &'static [u8])],
}

/// All targets.
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

/// Runs a target with text input.
fn text(input: &[u8], run: fn(&str)) {
    if let Ok(input) = std::str::from_utf8(input) {
        run(input);
    }
}
