//! The page `/`: what the admin port has.

use std::fmt::{self, Write};

use super::{Escaped, HEAD, Phase};

/// The pages of the server, and what each shows.
const PAGES: [(&str, &str); 4] = [
    (
        "/lanes",
        "The lanes: how busy each is, what it serves, and what each route is expected to cost. JSON for programs",
    ),
    ("/metrics", "All metrics, in the OpenMetrics text format"),
    ("/readyz", "Whether the replica takes requests, and which dependencies are down"),
    ("/healthz", "Whether the process is alive"),
];

/// The page, with links to `pages` of the service.
pub(in crate::server::admin) fn render<'a>(
    phase: &str,
    ready: bool,
    pages: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<String, fmt::Error> {
    let mut out = HEAD.to_owned();
    let phase = Phase { phase, ready };
    write!(
        out,
        "<title>Admin port</title>\n</head>\n<body>\n<header><h1>Admin port</h1>{phase}</header>\n\
         <main>\n<ul class=\"pages\">\n"
    )?;
    for (path, about) in PAGES.into_iter().chain(pages) {
        let (to, path, about) = (Escaped(&path[1..]), Escaped(path), Escaped(about));
        writeln!(
            out,
            "<li class=\"card\"><a href=\"{to}\"><code>{path}</code></a><p class=\"note\">{about}</p></li>"
        )?;
    }
    out.push_str("</ul>\n</main>\n</body>\n</html>\n");
    Ok(out)
}
