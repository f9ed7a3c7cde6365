//! The pages of the admin port for people. They load nothing from elsewhere, and need no script.

mod human;
pub(super) mod index;
pub(super) mod lanes;

use std::fmt::{self, Display, Write};

/// Files of the pages: path, media type and content.
pub(super) const FILES: [(&str, &str, &str); 2] = [
    ("/style.css", "text/css; charset=utf-8", include_str!("style.css")),
    ("/live.js", "text/javascript; charset=utf-8", include_str!("live.js")),
];

/// Only the files of the admin port, and what its pages fetch from it.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Links are relative, so that pages work behind a proxy that adds a prefix, such as that of `kubectl proxy`.
/// The icon: four lanes.
const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<link rel=\"stylesheet\" href=\"style.css\">
<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
%3Cpath stroke='%231769c5' stroke-width='2' d='M1 3h9M1 7h13M1 11h6M1 15h11'/%3E%3C/svg%3E\">
";

/// Escapes text for HTML.
struct Escaped<T>(T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.to_string().chars() {
            match char {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Whether the replica serves, for the top of a page.
struct Phase<'a> {
    phase: &'a str,
    ready: bool,
}

impl Display for Phase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, ready) = if self.ready { ("good", "ready") } else { ("bad", "not ready") };
        write!(f, "<span id=\"phase\" class=\"badge {class}\">{}, {ready}</span>", self.phase)
    }
}

/// Terms and what they are.
fn facts<'a>(out: &mut String, facts: impl IntoIterator<Item = (&'a str, String)>) -> fmt::Result {
    out.push_str("<dl class=\"facts\">\n");
    for (name, fact) in facts {
        writeln!(out, "<div><dt>{name}</dt><dd>{fact}</dd></div>")?;
    }
    out.push_str("</dl>\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        let text = Escaped("/<b class=\"a\">'&'").to_string();
        assert_eq!(text, "/&lt;b class=&quot;a&quot;&gt;&#39;&amp;&#39;");
    }
}
