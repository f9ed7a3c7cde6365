//! One parser of external text each.

mod capacity_mix;
mod cgroup_place;
mod conditions;
mod configuration;
mod cpu_list;
mod div;
mod document;
mod file_path;
mod file_range;
mod framing;
mod load_report;
mod plain_requests;
mod quota;
mod trace_context;
mod work;

/// Parses one input, and panics if an invariant is violated.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also its folder in `seeds`.
pub const TARGETS: &[(&str, Target)] = &[
    ("capacity_mix", |input| text(input, capacity_mix::run)),
    ("cgroup_place", |input| text(input, cgroup_place::run)),
    ("conditions", conditions::run),
    ("configuration", |input| text(input, configuration::run)),
    ("cpu_list", |input| text(input, cpu_list::run)),
    ("div", |input| text(input, div::run)),
    ("document", document::run),
    ("file_path", |input| text(input, file_path::run)),
    ("file_range", file_range::run),
    ("framing", framing::run),
    ("load_report", load_report::run),
    ("plain_requests", plain_requests::run),
    ("quota", |input| text(input, quota::run)),
    ("trace_context", |input| text(input, trace_context::run)),
    ("work", |input| text(input, work::run)),
];

/// For targets whose input is text.
fn text(input: &[u8], run: fn(&str)) {
    if let Ok(input) = std::str::from_utf8(input) {
        run(input);
    }
}
