//! Route templates: the bounded set of path labels in metrics.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};

pub(crate) const OTHER: &str = "other";

/// Maximum number of templates. It is limited because each template needs counters in every lane.
pub(crate) const MAX_ROUTES: usize = 64;

/// Default and maximum number of templates that are learnt from the service.
pub(crate) const LEARNT_ROUTES: usize = 64;
pub(crate) const MAX_LEARNT_ROUTES: usize = 512;

/// A server's templates: those in its settings, then [`OTHER`], then learnt templates.
#[derive(Debug)]
pub(crate) struct Routes {
    given: matchit::Router<usize>,
    names: Vec<String>,
    learnt: Box<[OnceLock<String>]>,
}

impl Routes {
    pub(crate) fn new(templates: &[String], learnt: usize) -> Result<Self, String> {
        if templates.len() > MAX_ROUTES {
            return Err(format!(
                "routes: {} templates, expected at most {MAX_ROUTES}",
                templates.len()
            ));
        }
        let mut given = matchit::Router::new();
        for (index, template) in templates.iter().enumerate() {
            given
                .insert(template, index)
                .map_err(|error| format!("routes: template {template:?}: {error}"))?;
        }
        let names = templates.iter().cloned().chain([OTHER.to_owned()]).collect();
        Ok(Routes { given, names, learnt: (0..learnt).map(|_| OnceLock::new()).collect() })
    }

    /// Index of [`OTHER`], which follows the configured templates and precedes the learnt
    /// templates.
    pub(crate) fn other(&self) -> usize {
        self.names.len() - 1
    }

    /// Number of rows of a per-route table at startup, and the number of rows added when a template
    /// is learnt.
    pub(crate) fn rows(&self) -> (usize, usize) {
        (self.names.len(), self.learnt.len())
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        let given = self.names.get(index);
        let learnt = || self.learnt.get(index.checked_sub(self.names.len())?)?.get();
        given.or_else(learnt).map_or(OTHER, String::as_str)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let learnt = self.learnt.iter().map_while(OnceLock::get);
        self.names.iter().chain(learnt).map(String::as_str)
    }

    /// `None` if there is no room.
    fn learn(&self, template: &str) -> Option<usize> {
        // If several lanes learn templates at the same time, each slot keeps the template that came
        // first.
        let mut slots = self.learnt.iter();
        let slot = slots.position(|slot| slot.get_or_init(|| template.to_owned()) == template)?;
        Some(self.names.len() + slot)
    }
}

/// One lane's view of the templates. A lane learns only from its own requests, so lanes do not
/// share state.
#[derive(Debug)]
pub(crate) struct LaneRoutes {
    all: Arc<Routes>,
    has_given: bool,
    has_learnt: Cell<bool>,
    learnt: RefCell<Learnt>,
}

#[derive(Debug, Default)]
struct Learnt {
    matcher: matchit::Router<usize>,
    known: Vec<usize>,
    is_full: bool,
}

impl LaneRoutes {
    pub(crate) fn new(all: Arc<Routes>) -> Self {
        let (has_given, has_learnt, learnt) =
            (all.other() > 0, Cell::default(), RefCell::default());
        LaneRoutes { all, has_given, has_learnt, learnt }
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        self.all.name(index)
    }

    pub(crate) fn all(&self) -> &Arc<Routes> {
        &self.all
    }

    /// Index of a template. The lane learns templates that are not in the settings.
    pub(crate) fn index_of(&self, template: &str) -> usize {
        let given = self.all.names[..self.all.other()].iter().position(|name| name == template);
        given.unwrap_or_else(|| self.learn(template))
    }

    pub(crate) fn find(&self, path: &str) -> usize {
        let other = self.all.other();
        if self.has_given
            && let Ok(found) = self.all.given.at(path)
        {
            return *found.value;
        }
        if !self.has_learnt.get() {
            return other;
        }
        self.learnt.borrow().matcher.at(path).map_or(other, |found| *found.value)
    }

    /// Route index of a request whose path matched `index` and whose service names this template.
    /// Templates from the settings take precedence.
    #[inline]
    pub(crate) fn settle(&self, index: usize, template: &str) -> usize {
        let other = self.all.other();
        if index < other || (index > other && self.all.name(index) == template) {
            return index;
        }
        self.learn(template)
    }

    fn learn(&self, template: &str) -> usize {
        let mut learnt = self.learnt.borrow_mut();
        let Some(index) = self.all.learn(template) else {
            if !self.all.learnt.is_empty() && !std::mem::replace(&mut learnt.is_full, true) {
                let most = self.all.learnt.len();
                tracing::warn!(template, most, "no room for more routes: they count as other");
            }
            return self.all.other();
        };
        if !learnt.known.contains(&index) {
            learnt.known.push(index);
            self.has_learnt.set(true);
            // A template that conflicts with another one can still name its requests, but only
            // after the service has been called.
            if let Err(error) = learnt.matcher.insert(template, index) {
                tracing::debug!(template, %error, "a route is not matched before its call");
            }
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(templates: &[&str], learnt: usize) -> LaneRoutes {
        let templates: Vec<_> = templates.iter().copied().map(String::from).collect();
        LaneRoutes::new(Arc::new(Routes::new(&templates, learnt).expect("templates are valid")))
    }

    #[test]
    fn paths_map_to_templates() {
        let routes = lane(&["/", "/div/{n}", "/static/{*path}"], 0);
        let name = |path| routes.name(routes.find(path)).to_owned();
        assert_eq!(name("/"), "/");
        assert_eq!(name("/div/4"), "/div/{n}");
        assert_eq!(name("/div/4/5"), OTHER);
        assert_eq!(name("/static/a/b.css"), "/static/{*path}");
        assert_eq!(name("/nope"), OTHER);
        assert!(Routes::new(&["/{".to_owned()], 0).is_err_and(|e| e.contains("/{")));
    }

    #[test]
    fn templates_of_the_service_are_learnt_by_each_lane_and_named_alike() {
        let one = lane(&["/div/{n}"], 2);
        let two = LaneRoutes::new(Arc::clone(&one.all));
        assert_eq!(one.settle(one.find("/a/1"), "/a/{x}"), 2);
        assert_eq!((one.find("/a/2"), two.find("/a/2")), (2, 1), "the other lane learns itself");
        assert_eq!(two.settle(1, "/b"), 3);
        assert_eq!((two.settle(1, "/a/{x}"), one.name(3)), (2, "/b"));
        assert_eq!(one.settle(1, "/c"), 1, "no room");
        assert_eq!(one.settle(one.find("/div/4"), "/div/{*rest}"), 0, "a given template stays");
        assert_eq!(one.all.names().collect::<Vec<_>>(), ["/div/{n}", OTHER, "/a/{x}", "/b"]);
    }

    #[test]
    fn a_template_that_contradicts_another_names_its_requests() {
        let routes = lane(&[], 4);
        assert_eq!((routes.settle(0, "/a/{x}"), routes.settle(0, "/a/{y}")), (1, 2));
        assert_eq!(routes.find("/a/1"), 1);
        assert_eq!(routes.settle(1, "/a/{y}"), 2);
    }
}
