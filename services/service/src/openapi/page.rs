//! Renders the document as HTML. Swagger UI replaces this page if it is built in and scripts run.

use std::fmt::{self, Display, Write};

use serde_json::Value;

/// Allows only this server's files, and the pictures in Swagger UI's style sheet.
#[cfg(feature = "openapi-viewer")]
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Blocks scripts and external resources, because the page uses neither.
#[cfg(not(feature = "openapi-viewer"))]
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// Swagger UI's light colours are too faint for text, but its dark colours are not.
#[cfg(feature = "openapi-viewer")]
const VIEWER: &str = "<link rel=\"stylesheet\" href=\"docs/swagger-ui.css\">
<style>
html:not(.dark-mode) .swagger-ui .info .title small { background: #55616e; }
html:not(.dark-mode) .swagger-ui .info .title small.version-stamp { background: #1b7a3d; }
html:not(.dark-mode) .swagger-ui .info :is(a, .url) { color: #1769c5; }
html:not(.dark-mode) .swagger-ui .btn.authorize { color: #1b7a3d; border-color: #1b7a3d; }
html:not(.dark-mode) .swagger-ui .btn.authorize svg { fill: #1b7a3d; }
html:not(.dark-mode) .swagger-ui .opblock .opblock-summary .opblock-summary-method { background: #55616e; }
html:not(.dark-mode) .swagger-ui .opblock.opblock-get .opblock-summary .opblock-summary-method { background: #1769c5; }
html:not(.dark-mode) .swagger-ui .opblock.opblock-post .opblock-summary .opblock-summary-method { background: #1b7a3d; }
html:not(.dark-mode) .swagger-ui .opblock.opblock-put .opblock-summary .opblock-summary-method { background: #8a5300; }
html:not(.dark-mode) .swagger-ui .opblock.opblock-delete .opblock-summary .opblock-summary-method { background: #c2255c; }
</style>
<script src=\"docs/swagger-ui-bundle.js\" defer></script>
<script src=\"docs/start.js\" defer></script>
";

#[cfg(not(feature = "openapi-viewer"))]
const VIEWER: &str = "";

const HEAD: &str = "<!doctype html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<link rel=\"icon\" href=\"data:,\">
<style>
:root { color-scheme: light dark; }
body { margin: 0; }
#plain { font: 1rem/1.5 system-ui, sans-serif; margin: 1.5rem auto; padding: 0 1rem; max-width: 60rem; }
#plain h2 { margin-top: 2.5rem; }
#plain h3 { margin: 1.8rem 0 .3rem; }
#plain code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; }
#plain pre { overflow-x: auto; }
#plain table { border-collapse: collapse; }
#plain :is(th, td) { padding: .25rem 1rem .25rem 0; border-bottom: 1px solid #8886; text-align: left; vertical-align: top; }
#plain th { font-weight: 600; white-space: nowrap; }
</style>
";

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

pub(super) fn render(document: &Value) -> String {
    let mut out = HEAD.to_owned();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "{VIEWER}<title>{}</title>\n</head>\n<body>\n<main id=\"viewer\">\n<div id=\"plain\">\n",
        text(&document["info"]["title"])
    );
    let _ = body(&mut out, document);
    out.push_str("</div>\n</main>\n</body>\n</html>\n");
    out
}

fn body(out: &mut String, document: &Value) -> fmt::Result {
    let info = &document["info"];
    writeln!(out, "<h1>{} {}</h1>", text(&info["title"]), text(&info["version"]))?;
    writeln!(out, "<p>{}</p>", text(&info["description"]))?;
    writeln!(
        out,
        "<p><a href=\"openapi.json\">openapi.json</a> says the same, and the schemas, to programs.</p>"
    )?;
    for tag in document["tags"].as_array().into_iter().flatten() {
        writeln!(out, "<h2>{}</h2>\n<p>{}</p>", text(&tag["name"]), text(&tag["description"]))?;
        operations(out, document, |of| of == Some(&tag["name"]))?;
    }
    operations(out, document, |of| of.is_none())
}

/// Renders operations whose first tag is accepted.
fn operations(
    out: &mut String,
    document: &Value,
    accept: impl Fn(Option<&Value>) -> bool,
) -> fmt::Result {
    for (path, item) in members(&document["paths"]) {
        for (method, operation) in members(item) {
            if accept(operation["tags"].get(0)) {
                self::operation(out, document, path, method, operation)?;
            }
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
    writeln!(out, "<h3><code>{} {}</code></h3>", Escaped(&method), Escaped(path))?;
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
            "<tr><th><code>{}</code><td>{}{}<td>{}<td>{}</tr>",
            text(&parameter["name"]),
            text(&parameter["in"]),
            if parameter["required"] == true { "" } else { ", optional" },
            text(&parameter["description"]),
            Escaped(&wanted(&parameter["schema"])),
        )?;
    }
    for (media_type, content) in members(&operation["requestBody"]["content"]) {
        let schema = content["schema"]["$ref"].as_str().unwrap_or_default();
        let schema = schema.rsplit('/').next().unwrap_or_default();
        write!(
            out,
            "<tr><th>body<td>{}<td colspan=\"2\">{}",
            Escaped(media_type),
            Escaped(schema)
        )?;
        example(out, content)?;
        out.push_str("</tr>\n");
    }
    let (errors, replies): (Vec<_>, Vec<_>) = members(&operation["responses"])
        .map(|(status, reply)| (status, resolved(document, reply)))
        .partition(|(status, _)| status.starts_with(['4', '5']));
    replies.iter().try_for_each(|(status, reply)| self::reply(out, status, reply))?;
    writeln!(out, "</table>\n<details><summary>Errors</summary>\n<table>")?;
    errors.iter().try_for_each(|(status, reply)| self::reply(out, status, reply))?;
    writeln!(out, "</table>\n</details>")
}

fn reply(out: &mut String, status: &str, reply: &Value) -> fmt::Result {
    let types: Vec<_> = members(&reply["content"]).map(|(media_type, _)| media_type).collect();
    write!(
        out,
        "<tr><th>{}<td>{}<td colspan=\"2\">{}",
        Escaped(status),
        Escaped(&types.join(", ")),
        text(&reply["description"])
    )?;
    members(&reply["content"]).try_for_each(|(_, content)| example(out, content))?;
    out.push_str("</tr>\n");
    Ok(())
}

fn example(out: &mut String, content: &Value) -> fmt::Result {
    match content.get("example") {
        None => Ok(()),
        Some(Value::String(text)) => write!(out, "<pre><code>{}</code></pre>", Escaped(text)),
        Some(example) => {
            write!(out, "<pre><code>{}</code></pre>", Escaped(&format!("{example:#}")))
        }
    }
}

/// The expected form of a value. A pattern is for programs; the description gives people the same
/// information.
fn wanted(schema: &Value) -> String {
    let name = schema["format"].as_str().or(schema["type"].as_str()).unwrap_or_default();
    let mut words = vec![name.to_owned()];
    let bounds = ["minimum", "maximum"].map(|bound| schema.get(bound));
    words.extend(match bounds {
        [Some(least), Some(most)] => Some(format!("{least} to {most}")),
        [Some(least), None] => Some(format!("at least {least}")),
        [None, Some(most)] => Some(format!("at most {most}")),
        [None, None] => None,
    });
    words.extend(schema.get("default").map(|value| format!("default {value}")));
    words.retain(|word| !word.is_empty());
    words.join(", ")
}

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
