//! Route templates: the bounded set of path labels in metrics.

/// The label of a path that no template matches.
pub(crate) const OTHER: &str = "other";

/// Maximum number of templates: each needs memory for its counters in every lane.
pub(crate) const MAX_ROUTES: usize = 64;

/// Maps a path to the template that matches it.
#[derive(Debug)]
pub(crate) struct Routes {
    matcher: matchit::Router<usize>,
    /// Names by index; the last is [`OTHER`].
    names: Vec<String>,
}

impl Routes {
    pub(crate) fn new(templates: &[String]) -> Result<Self, String> {
        if templates.len() > MAX_ROUTES {
            return Err(format!("routes: {} templates, allowed are {MAX_ROUTES}", templates.len()));
        }
        let mut matcher = matchit::Router::new();
        for (index, template) in templates.iter().enumerate() {
            matcher
                .insert(template, index)
                .map_err(|error| format!("routes: template {template:?}: {error}"))?;
        }
        let names = templates.iter().cloned().chain([OTHER.to_owned()]).collect();
        Ok(Routes { matcher, names })
    }

    /// Index of the template that matches `path`, or of [`OTHER`].
    pub(crate) fn find(&self, path: &str) -> usize {
        self.matcher.at(path).map_or(self.names.len() - 1, |found| *found.value)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_map_to_templates() {
        let templates = ["/", "/div/{n}", "/static/{*path}"].map(String::from);
        let routes = Routes::new(&templates).expect("templates are valid");
        let name = |path| routes.names()[routes.find(path)].as_str();
        assert_eq!(name("/"), "/");
        assert_eq!(name("/div/4"), "/div/{n}");
        assert_eq!(name("/div/4/5"), OTHER);
        assert_eq!(name("/static/a/b.css"), "/static/{*path}");
        assert_eq!(name("/nope"), OTHER);
        assert!(Routes::new(&["/{".to_owned()]).is_err_and(|e| e.contains("/{")));
    }
}
