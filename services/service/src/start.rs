//! The parts of a service's process, from start to end.

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use corelane::prometheus_client::registry::Registry;
use corelane::{Builder, Drained, HttpService, Lane, Server};
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::Full;

#[cfg(feature = "auth")]
use crate::auth::{Auth, AuthCollector};
#[cfg(feature = "faults")]
use crate::faults::{self, FaultCollector, Faults};
use crate::log::{self, Control, Format};
use crate::settings::Config;
use crate::telemetry::{self, Source};

/// Any error that a service or its start returns.
pub type BoxError = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Logged(pub(crate) BoxError);

/// Time for [`Start::after_drain`]: a pod's grace period ends 5 s after `drain.deadline`.
const AFTER_DRAIN: Duration = Duration::from_secs(4);

/// A service with valid settings, apart from checks that depend on the machine.
pub(crate) struct Ready<C> {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) config: Config<C>,
    pub(crate) builder: Builder,
    /// The warning about the environment that is logged at the start.
    pub(crate) warning: Option<String>,
    pub(crate) shown: String,
    #[cfg(feature = "auth")]
    pub(crate) auth: Arc<Auth>,
    #[cfg(feature = "faults")]
    pub(crate) faults: Arc<Faults>,
}

impl<C> Ready<C> {
    /// Starts the log and runs the service. If log lines are JSON, an error is also JSON, because a
    /// log collector loses other text on standard error.
    pub(crate) fn run<F>(self, serve: F) -> Result<Drained, BoxError>
    where
        F: FnOnce(C, Start) -> Result<Drained, BoxError>,
    {
        let (_flush_at_end, log_level) = log::start(&self.config.log)?.unzip();
        let logs = log_level.is_some() && self.config.log.log_format == Format::Json;
        self.serve(log_level, serve).map_err(|error| {
            if logs {
                tracing::error!(%error, "the service failed");
                return Logged(error).into();
            }
            error
        })
    }

    /// Creates the parts of the service, serves requests, and shuts the parts down in this order.
    fn serve<F>(self, log_level: Option<Control>, serve: F) -> Result<Drained, BoxError>
    where
        F: FnOnce(C, Start) -> Result<Drained, BoxError>,
    {
        let Ready { name, version, config, shown, .. } = self;
        self.warning.inspect(|warning| tracing::warn!("{warning}"));
        let replica = config.runtime.replica_name();
        let registry = Arc::<Mutex<Registry>>::default();
        let builder = named(self.builder, &replica).registry(Arc::clone(&registry)).admin_route(
            "/config",
            "Every setting, with its source",
            move |_request| text(shown.clone()),
        );
        let builder = log_level.into_iter().fold(builder, |builder, level| {
            builder.admin_route(log::LEVEL_PATH, "The log level: PUT changes it", move |request| {
                level.answer(&request)
            })
        });
        #[cfg(feature = "faults")]
        let builder = with_drills(builder, &self.faults);
        let tls = config.runtime.tls_certificate.is_some();
        let source = Source { name, version, replica: &replica, tls };
        let (builder, telemetry) = telemetry::prepare(builder, &config.otlp, &source);
        #[cfg(feature = "auth")]
        let builder = with_tokens(builder, &self.auth);
        let server = builder.build()?;
        let _sent_at_end = telemetry.start(&server)?;
        let start = Start {
            server,
            replica,
            registry,
            aside: OnceLock::new(),
            hooks: Hooks::default(),
            #[cfg(feature = "auth")]
            auth: self.auth,
            #[cfg(feature = "faults")]
            faults: self.faults,
        };
        serve(config.own, start)
    }
}

fn named(builder: Builder, replica: &str) -> Builder {
    // The schema requires printable ASCII, which is a valid header value.
    match HeaderValue::from_str(replica) {
        Ok(name) => builder.replica(name),
        Err(_) => builder,
    }
}

fn text(body: String) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::from(body));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

/// The page always exists, because it shows how to enable faults.
#[cfg(feature = "faults")]
fn with_drills(builder: Builder, faults: &Arc<Faults>) -> Builder {
    let builder = builder.admin_route(
        "/faults",
        "Faults of a drill: PUT replaces them, DELETE removes them",
        faults::handler(Arc::clone(faults)),
    );
    match faults.enabled() {
        true => builder.collector(FaultCollector(Arc::clone(faults))),
        false => builder,
    }
}

#[cfg(feature = "auth")]
fn with_tokens(builder: Builder, auth: &Arc<Auth>) -> Builder {
    if let Err(error) = auth.watch() {
        tracing::error!(%error, "tokens are not reloaded: cannot start a thread");
    }
    builder.collector(AuthCollector(Arc::clone(auth)))
}

/// A service with open sockets, a running log and traces.
///
/// ```no_run
/// use axum::Router;
/// use axum::routing::get;
/// use corelane_service::App;
///
/// # async fn migrate() -> u64 { 3 }
/// let app = App::<()>::new("shop", "1.0.0", "Sells things");
/// app.run(|(), start| {
///     let steps = start.block_on(migrate())?;
///     tracing::info!(steps, replica = start.replica(), "the database is migrated");
///     Ok(start.serve(|_lane| Router::new().route("/", get(|| async { "welcome" })))?)
/// });
/// ```
#[derive(Debug)]
pub struct Start {
    server: Server,
    replica: String,
    registry: Arc<Mutex<Registry>>,
    aside: OnceLock<Aside>,
    hooks: Hooks,
    #[cfg(feature = "auth")]
    auth: Arc<Auth>,
    #[cfg(feature = "faults")]
    faults: Arc<Faults>,
}

impl Start {
    /// Runs a future before the lanes start, for example to migrate a database or connect a pool
    /// shared by all lanes. Its tasks and connections continue on a separate thread until the
    /// service has stopped. Per-lane state belongs in the factory of [`Start::try_serve`].
    ///
    /// This also works within `#[tokio::main]`.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn block_on<F>(&self, future: F) -> io::Result<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        block_on(&self.aside, future)
    }

    /// Runs a future after the drain and before the process exits, for example to flush a queue or
    /// release a lease. Futures of several calls run concurrently on the thread of
    /// [`Start::block_on`], along with its tasks. Unfinished futures are dropped with a warning
    /// after 4 s, because a pod's grace period ends 5 s after `drain.deadline`. The futures also
    /// run if the lanes could not start.
    ///
    /// ```no_run
    /// # async fn flush() {}
    /// # corelane_service::App::<()>::new("shop", "1.0.0", "Sells things").run(|(), start| {
    /// start.after_drain(async {
    ///     flush().await;
    ///     tracing::info!("every order is stored");
    /// });
    /// Ok(start.serve(|_lane| axum::Router::new())?)
    /// # });
    /// ```
    pub fn after_drain<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(future));
    }

    /// Serves until the drain is complete. SIGTERM and SIGINT start the drain. `factory` creates
    /// each lane's service on the lane's thread. See [`Server::serve`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Server::serve`].
    pub fn serve<F, S>(self, factory: F) -> Result<Drained, corelane::Error>
    where
        F: Fn(&Lane) -> S + Send + Sync + 'static,
        S: HttpService,
    {
        let Start { server, aside, hooks, .. } = self;
        let drained = server.serve(factory);
        hooks.run(&aside, AFTER_DRAIN);
        drained
    }

    /// Like [`Start::serve`], with a factory that awaits and may fail. See [`Server::try_serve`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Server::try_serve`].
    pub fn try_serve<F, T, S, E>(self, factory: F) -> Result<Drained, corelane::Error>
    where
        F: Fn(Lane) -> T + Send + Sync + 'static,
        T: Future<Output = Result<S, E>> + 'static,
        E: Into<BoxError>,
        S: HttpService,
    {
        let Start { server, aside, hooks, .. } = self;
        let drained = server.try_serve(factory);
        hooks.run(&aside, AFTER_DRAIN);
        drained
    }

    /// The server: its addresses, and a handle to its drain and its dependencies' health.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The name of this replica.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// The service's own metrics. `/metrics` shows them after the platform's metrics, whose names
    /// start with `corelane_`.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bearer tokens in the `auth.tokens` file.
    #[cfg(feature = "auth")]
    pub fn auth(&self) -> Arc<Auth> {
        Arc::clone(&self.auth)
    }

    /// Faults for drills, applied by the layer from [`Faults::lane`]. Empty unless `faults = on`.
    #[cfg(feature = "faults")]
    pub fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.faults)
    }
}

/// Futures to run after the drain.
#[derive(Default)]
struct Hooks(Mutex<Vec<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl Hooks {
    /// Runs all futures, for at most `limit`.
    fn run(self, aside: &OnceLock<Aside>, limit: Duration) {
        let hooks = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if hooks.is_empty() {
            return;
        }
        let ended = block_on(aside, async move {
            // The hooks run as tasks, so that a panic in one task does not stop the other tasks.
            let tasks: Vec<_> = hooks.into_iter().map(tokio::spawn).collect();
            let all = async {
                for task in tasks {
                    let _ = task.await;
                }
            };
            tokio::time::timeout(limit, all).await.is_ok()
        });
        match ended {
            Ok(true) => {}
            Ok(false) => tracing::warn!(?limit, "work after the drain was cut"),
            Err(error) => tracing::error!(%error, "no work after the drain: cannot start a thread"),
        }
    }
}

/// Runs a future on the runtime for work that belongs to no lane. Starts that runtime if it does
/// not exist.
fn block_on<F>(aside: &OnceLock<Aside>, future: F) -> io::Result<F::Output>
where
    F: Future<Output: Send> + Send,
{
    if aside.get().is_none() {
        // If another runtime was started in the meantime, the new runtime shuts down immediately.
        let _ = aside.set(Aside::start()?);
    }
    let aside = aside.get().ok_or(io::ErrorKind::NotFound)?;
    // Does not block on this thread, which may belong to a runtime.
    let ended = thread::scope(|scope| {
        let waiting = thread::Builder::new().name("start".to_owned());
        Ok(waiting.spawn_scoped(scope, || aside.runtime.block_on(future))?.join())
    });
    ended.map(|ended: thread::Result<_>| ended.unwrap_or_else(|panic| resume_unwind(panic)))
}

#[derive(Debug)]
struct Aside {
    runtime: tokio::runtime::Handle,
    /// Shuts down the runtime when dropped.
    _ends: tokio::sync::oneshot::Sender<()>,
}

impl Aside {
    fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (_ends, ended) = tokio::sync::oneshot::channel::<()>();
        let aside = Aside { runtime: runtime.handle().clone(), _ends };
        let thread = thread::Builder::new().name("aside".to_owned());
        thread.spawn(move || {
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        })?;
        Ok(aside)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_after_the_drain_ends_at_its_limit_and_despite_a_panic() {
        let (sender, done) = mpsc::channel();
        let hooks = Hooks::default();
        let add = |hook| hooks.0.lock().expect("no panic").push(hook);
        add(Box::pin(async { panic!("a hook panics") }));
        add(Box::pin(pending()));
        add(Box::pin(async move { sender.send(()).expect("somebody waits") }));
        hooks.run(&OnceLock::new(), Duration::from_millis(50));
        assert_eq!(done.recv(), Ok(()));
    }
}
