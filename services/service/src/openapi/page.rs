//! Renders the document as HTML, without scripts or external resources.

use std::fmt::{self, Display, Write};

use serde_json::Value;

/// Blocks scripts and external resources: the page has none.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; padding: 0 1em; max-width: 60em;
  color: #222; background: #fff; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin: 2em 0 .3em; }
code { font: .95em ui-monospace, monospace; }
table { border-collapse: collapse; margin: .5em 0; }
th, td { padding: .2em .8em .2em 0; border-bottom: 1px solid #ddd; text-align: left;
  vertical-align: top; }
th { font-weight: 600; }
</style>
";

/// Text with the markup characters of HTML escaped.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
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

/// The whole page.
pub(super) fn render(document: &Value) -> String {
    let mut out = HEAD.to_owned();
    // Writing into a string cannot fail.
    let _ = writeln!(out, "<title>{}</title>\n</head>\n<body>", text(&document["info"]["title"]));
    let _ = body(&mut out, document);
    out.push_str("</body>\n</html>\n");
    out
}

fn body(out: &mut String, document: &Value) -> fmt::Result {
    let info = &document["info"];
    writeln!(out, "<h1>{} {}</h1>", text(&info["title"]), text(&info["version"]))?;
    writeln!(out, "<p>{}</p>", text(&info["description"]))?;
    writeln!(
        out,
        "<p><a href=\"/openapi.json\">/openapi.json</a> says the same, and the schemas, to programs.</p>"
    )?;
    for (path, item) in members(&document["paths"]) {
        for (method, operation) in members(item) {
            self::operation(out, document, path, method, operation)?;
        }
    }
    Ok(())
}

fn operation(
    out: &mut String,
    document: &Value,
    path: &str,
    method: &str,
    operation: &Value,
) -> fmt::Result {
    let method = method.to_uppercase();
    writeln!(out, "<h2><code>{} {}</code></h2>", Escaped(&method), Escaped(path))?;
    writeln!(out, "<p>{}.", text(&operation["summary"]))?;
    if operation.get("description").is_some() {
        writeln!(out, "{}.", text(&operation["description"]))?;
    }
    if operation.get("security").is_some() {
        writeln!(out, "Needs a bearer token.")?;
    }
    writeln!(out, "</p>\n<table>")?;
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "<tr><th><code>{}</code><td>{}{}<td>{}<td><code>{}</code></tr>",
            text(&parameter["name"]),
            text(&parameter["in"]),
            if parameter["required"] == true { "" } else { ", optional" },
            text(&parameter["description"]),
            Escaped(&parameter["schema"].to_string()),
        )?;
    }
    for (media_type, content) in members(&operation["requestBody"]["content"]) {
        let schema = content["schema"]["$ref"].as_str().unwrap_or_default();
        let schema = schema.rsplit('/').next().unwrap_or_default();
        writeln!(
            out,
            "<tr><th>body<td>{}<td colspan=\"2\">{}</tr>",
            Escaped(media_type),
            Escaped(schema)
        )?;
    }
    for (status, reply) in members(&operation["responses"]) {
        let reply = resolved(document, reply);
        let types: Vec<_> = members(&reply["content"]).map(|(media_type, _)| media_type).collect();
        writeln!(
            out,
            "<tr><th>{}<td>{}<td colspan=\"2\">{}</tr>",
            Escaped(status),
            Escaped(&types.join(", ")),
            text(&reply["description"])
        )?;
    }
    writeln!(out, "</table>")
}

/// The target of a reference in this document.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let reference = value["$ref"].as_str().and_then(|to| to.strip_prefix('#'));
    reference.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn text(value: &Value) -> Escaped<'_> {
    Escaped(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(Escaped("<b a=\"'\">&").to_string(), "&lt;b a=&quot;&#39;&quot;&gt;&amp;");
    }
}
