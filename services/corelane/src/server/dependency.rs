//! Health of a service's dependencies, such as a database, for operators and load balancers.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The view that one user has of a dependency, such as a lane's view of a database, created by
/// [`ServerHandle::dependency`](crate::ServerHandle::dependency). The dependency is up until it is
/// reported otherwise.
///
/// Views with the same name form one dependency, which is down while any view is down. `/readyz`
/// then shows the reason and the start of the outage, and the `corelane_dependency_up` metric is 0.
/// The server stays ready and still serves requests that do not need the dependency. Otherwise, a
/// shared failure would make all replicas unready at once. Use [`Dependency::required`] if the
/// service cannot work without it. Until the state is known, [`Dependency::pending`] keeps the
/// server unready, because requests would only have to wait.
///
/// A view that has been dropped no longer counts.
///
/// ```
/// # fn main() -> Result<(), corelane::Error> {
/// let server = corelane::Server::builder().bind("127.0.0.1:0".parse().unwrap()).build()?;
/// let database = server.handle().dependency("database");
/// database.down("connection refused");
/// assert!(!database.is_up());
/// database.up();
/// # Ok(())
/// # }
/// ```
pub struct Dependency {
    view: Arc<DependencyView>,
    all: Arc<Dependencies>,
}

struct DependencyView {
    name: &'static str,
    required: AtomicBool,
    down: Mutex<Option<Down>>,
}

#[derive(Clone)]
struct Down {
    since: Instant,
    reason: String,
    pending: bool,
}

impl Dependency {
    /// Reports the dependency as usable.
    pub fn up(&self) {
        if lock(&self.view.down).take().is_some_and(|down| !down.pending) {
            tracing::info!(dependency = self.view.name, "a dependency is up again");
        }
    }

    /// Reports the dependency as unusable. Operators read the reason, so it must not contain
    /// secrets. Further calls change only the reason.
    pub fn down(&self, reason: impl Into<String>) {
        let reason = reason.into();
        let mut down = lock(&self.view.down);
        match down.as_mut() {
            Some(down) if !down.pending => down.reason = reason,
            _ => {
                tracing::warn!(dependency = self.view.name, reason, "a dependency is down");
                *down = Some(Down { since: Instant::now(), reason, pending: false });
            }
        }
    }

    /// Reports that the state is unknown, with the reason. The server is unready until you call
    /// [`up`](Self::up) or [`down`](Self::down), so call one of them within a bounded time.
    pub fn pending(&self, reason: impl Into<String>) {
        let down = Down { since: Instant::now(), reason: reason.into(), pending: true };
        *lock(&self.view.down) = Some(down);
    }

    /// Whether this view is up.
    pub fn is_up(&self) -> bool {
        lock(&self.view.down).is_none()
    }

    /// Makes the server unready while this dependency is down.
    #[must_use]
    pub fn required(self) -> Self {
        self.view.required.store(true, Relaxed);
        self
    }
}

impl fmt::Debug for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependency").field("name", &self.view.name).finish_non_exhaustive()
    }
}

impl Drop for Dependency {
    fn drop(&mut self) {
        lock(&self.all.0).retain(|view| !Arc::ptr_eq(view, &self.view));
    }
}

/// A panic cannot leave inconsistent state here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All dependencies of the service. Probes and state changes take the lock, but requests never do.
#[derive(Default)]
pub(crate) struct Dependencies(Mutex<Vec<Arc<DependencyView>>>);

impl fmt::Debug for Dependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.each()).finish()
    }
}

impl Dependencies {
    pub(crate) fn add(self: &Arc<Self>, name: &'static str) -> Dependency {
        let down = Mutex::default();
        let view = Arc::new(DependencyView { name, required: AtomicBool::new(false), down });
        lock(&self.0).push(Arc::clone(&view));
        Dependency { view, all: Arc::clone(self) }
    }

    /// Whether nothing is pending and no required dependency is down.
    pub(crate) fn allow_ready(&self) -> bool {
        let missing = |view: &Arc<DependencyView>| {
            let required = view.required.load(Relaxed);
            lock(&view.down).as_ref().is_some_and(|down| required || down.pending)
        };
        !lock(&self.0).iter().any(missing)
    }

    pub(crate) fn each(&self) -> Vec<(&'static str, bool)> {
        let mut each: Vec<(&'static str, bool)> = Vec::new();
        for view in lock(&self.0).iter() {
            let up = lock(&view.down).is_none();
            match each.iter_mut().find(|(name, _)| *name == view.name) {
                Some((_, all)) => *all &= up,
                None => each.push((view.name, up)),
            }
        }
        each
    }

    /// One line per dependency that is down or pending, with the reason given by the first view
    /// that reported it.
    pub(crate) fn describe(&self, now: Instant) -> String {
        let mut each: Vec<(&'static str, Down)> = Vec::new();
        for view in lock(&self.0).iter() {
            let Some(down) = lock(&view.down).clone() else { continue };
            match each.iter_mut().find(|(name, _)| *name == view.name) {
                Some((_, first)) if (first.pending, first.since) <= (down.pending, down.since) => {}
                Some((_, first)) => *first = down,
                None => each.push((view.name, down)),
            }
        }
        let mut out = String::new();
        for (name, Down { since, reason, pending }) in each {
            let reason = reason.replace('\n', " ");
            let _ = if pending {
                writeln!(out, "{name}: {reason}")
            } else {
                let seconds = now.saturating_duration_since(since).as_secs();
                writeln!(out, "{name}: down for {seconds} s: {reason}")
            };
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_down_while_any_of_its_users_finds_it_down() {
        let (all, begun) = (Arc::new(Dependencies::default()), Instant::now());
        let (first, second) = (all.add("database"), all.add("database"));
        assert_eq!(all.each(), [("database", true)]);
        second.down("refused\nagain");
        first.up();
        assert_eq!(all.each(), [("database", false)]);
        assert_eq!(all.describe(begun), "database: down for 0 s: refused again\n");
        assert!(all.allow_ready(), "others are still answered");
        let second = second.required();
        assert!(!all.allow_ready());
        drop(second);
        assert_eq!((all.each(), all.allow_ready()), (vec![("database", true)], true));
    }

    #[test]
    fn what_is_pending_keeps_the_server_from_being_ready_until_it_is_known() {
        let (all, begun) = (Arc::new(Dependencies::default()), Instant::now());
        let (first, second) = (all.add("database"), all.add("database"));
        first.pending("not connected yet");
        second.pending("not connected yet");
        assert_eq!((all.each(), all.allow_ready()), (vec![("database", false)], false));
        assert_eq!(all.describe(begun), "database: not connected yet\n");
        second.down("refused");
        assert_eq!(all.describe(begun), "database: down for 0 s: refused\n");
        assert!(!all.allow_ready(), "the first does not know yet");
        first.up();
        assert_eq!((all.each(), all.allow_ready()), (vec![("database", false)], true));
    }
}
