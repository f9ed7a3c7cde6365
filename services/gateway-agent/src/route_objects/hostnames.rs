//! Host names: `*` covers every host, and `*.example` every host below `example`.

pub(crate) const EVERY: &str = "*";

pub(crate) fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => name.ends_with(suffix),
        None => pattern == name,
    }
}

/// Specificity of a pattern. Of all patterns that cover a host, Envoy picks the highest rank.
fn rank(pattern: &str) -> (bool, usize) {
    (!pattern.starts_with('*'), pattern.len())
}

pub(crate) fn best<'a>(patterns: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    patterns.into_iter().filter(|it| covers(it, name)).max_by_key(|it| rank(it))
}

fn common<'a>(one: &'a str, two: &'a str) -> Option<&'a str> {
    match (covers(one, two), covers(two, one)) {
        (true, _) => Some(two),
        (_, true) => Some(one),
        _ => None,
    }
}

/// Hosts of a route on a listener. A route without hostnames gets all hosts of the listener.
pub(crate) fn intersection(listener: Option<&str>, route: &[String]) -> Vec<String> {
    let listener = listener.filter(|it| !it.is_empty()).unwrap_or(EVERY);
    match route {
        [] => vec![listener.to_owned()],
        names => names.iter().filter_map(|it| common(listener, it)).map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_most_specific_name() {
        let names = ["*", "*.example", "*.shop.example", "shop.example"];
        for (host, wanted) in [
            ("shop.example", "shop.example"),
            ("a.shop.example", "*.shop.example"),
            ("a.b.shop.example", "*.shop.example"),
            ("mail.example", "*.example"),
            ("example", "*"),
            ("*.b.shop.example", "*.shop.example"),
        ] {
            assert_eq!(best(names, host), Some(wanted), "{host}");
        }
        assert_eq!(best(["*.example"], "example"), None);
    }

    #[test]
    fn a_route_has_the_hosts_that_its_listener_has_too() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        for (listener, route, wanted) in [
            (None, &[][..], &["*"][..]),
            (Some("*.io"), &[], &["*.io"]),
            (None, &["a.io", "*.b.io"], &["a.io", "*.b.io"]),
            (
                Some("*.b.io"),
                &["b.io", "a.b.io", "*.io", "*.a.b.io"],
                &["a.b.io", "*.b.io", "*.a.b.io"],
            ),
            (Some("a.b.io"), &["*.b.io", "*.a.b.io", "c.io"], &["a.b.io"]),
        ] {
            assert_eq!(
                intersection(listener, &names(route)),
                names(wanted),
                "{listener:?} {route:?}"
            );
        }
    }
}
