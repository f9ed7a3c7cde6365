//! Called services, and how their endpoints and TLS files are kept up to date.

use std::fmt;
use std::future::pending;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use corelane::Dependency;
use corelane::prometheus_client::collector::Collector;
use corelane::prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::connect::TlsState;
use crate::error::StartError;
use crate::metrics::{self, Shown, Totals};
use crate::resolve::{Found, Missing, Resolver};
use crate::settings::{Settings, Tls};
use crate::shared::{Budget, Known, Shared, lock};
use crate::target::Place;
use crate::tls;

/// Time for which endpoints remain in use after DNS has removed all records.
const DISTRUST: Duration = Duration::from_secs(30);

/// The services that this process calls. Register it as a collector, so that `/metrics` shows its
/// metrics.
///
/// ```no_run
/// use axum::Router;
/// use axum::routing::get;
/// use corelane::Server;
/// use corelane_client::{Calls, Client, Error};
///
/// async fn front_page(orders: Client) -> Result<String, Error> {
///     let reply = orders.get("/orders/7").await?;
///     Ok(format!("{} {}", reply.status(), String::from_utf8_lossy(reply.body())))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let calls = Calls::new();
/// let target = "http://orders.shop:8080".parse::<corelane_client::Target>()?;
/// let orders = calls.service("orders", target)?;
/// let server = Server::builder().bind("127.0.0.1:8080".parse()?).collector(calls).build()?;
/// server.serve(move |_lane| {
///     let orders = orders.lane();
///     Router::new().route("/", get(move || front_page(orders.clone())))
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<Vec<Arc<Shared>>>>);

impl Calls {
    /// No services yet.
    pub fn new() -> Self {
        Calls::default()
    }

    /// Sets up a service to call, under a name for metrics and errors. A thread keeps its endpoints
    /// and TLS files up to date until the last [`Client`] is dropped.
    ///
    /// # Errors
    ///
    /// The TLS files or `/etc/resolv.conf` are unusable, the name is taken, or the thread cannot be
    /// started.
    pub fn service(&self, name: &str, settings: impl Into<Settings>) -> Result<Callee, StartError> {
        let wrong = |reason: String| StartError { service: name.to_owned(), reason };
        let mut all = lock(&self.0);
        if all.iter().any(|shared| &*shared.name == name) {
            return Err(wrong("this name is taken".to_owned()));
        }
        let callee = Callee::start(name, settings.into()).map_err(wrong)?;
        all.push(Arc::clone(&callee.shared));
        Ok(callee)
    }
}

impl Collector for Calls {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let all = lock(&self.0).clone();
        let shown = all.iter().map(|shared| Shown {
            name: &shared.name,
            totals: &shared.totals,
            budget: shared.budget.retries(),
        });
        metrics::encode(&mut out, &shown.collect::<Vec<_>>())
    }
}

/// A called service, for all lanes of the process. Each lane calls it through its own [`Client`].
#[derive(Clone, Debug)]
pub struct Callee {
    shared: Arc<Shared>,
    known: watch::Receiver<Known>,
    tls: Option<TlsState>,
}

impl Callee {
    fn start(name: &str, settings: Settings) -> Result<Self, String> {
        let scheme = settings.target.scheme;
        let loaded = match (&settings.tls, scheme.is_tls()) {
            (None, true) => return Err("https and h2 need Settings::tls".to_owned()),
            (Some(_), false) => return Err("Settings::tls needs https or h2".to_owned()),
            (None, false) => None,
            (Some(tls), true) => {
                let contents = tls::Contents::read(tls)?;
                let config = tls::config(tls, &contents, scheme.is_http2())?;
                Some((tls.clone(), contents, watch::Sender::new(Arc::new(config))))
            }
        };
        let first = match &settings.target.place {
            Place::Fixed(addresses) => Known::Endpoints(addresses.as_slice().into()),
            _ => Known::Pending,
        };
        let shared = Arc::new(Shared {
            name: name.into(),
            totals: Totals::default(),
            budget: Budget::new(),
            hurry: Notify::new(),
            known: watch::Sender::new(Known::Pending),
            dependency: Mutex::default(),
            settings,
        });
        shared.publish(first);
        let callee = Callee {
            known: shared.known.subscribe(),
            tls: loaded.as_ref().map(|(.., config)| config.subscribe()),
            shared,
        };
        let is_fixed = matches!(callee.shared.settings.target.place, Place::Fixed(_));
        if !is_fixed || loaded.is_some() {
            callee.keep_up_to_date(loaded)?;
        }
        Ok(callee)
    }

    /// Starts the thread that queries DNS and rereads TLS files.
    fn keep_up_to_date(
        &self,
        loaded: Option<(Tls, tls::Contents, watch::Sender<Arc<rustls::ClientConfig>>)>,
    ) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
        let resolver = {
            let _entered = runtime.enter();
            Resolver::new(&shared.settings)?
        };
        let run = move || {
            let renewals = async {
                let Some((tls, contents, current)) = loaded else { return pending().await };
                let is_http2 = shared.settings.target.scheme.is_http2();
                tls::watch(&tls, is_http2, Ok(contents), &current).await;
            };
            runtime.block_on(async {
                tokio::select! {
                    () = shared.known.closed() => {}
                    () = refresh(&shared, &resolver) => {}
                    () = renewals => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(format!("call-{}", self.shared.name)).spawn(run);
        thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
    }

    /// Creates the client of one lane. Call this once for each lane, in the factory of the service.
    pub fn lane(&self) -> Client {
        Client::new(Arc::clone(&self.shared), self.known.clone(), self.tls.clone())
    }

    /// Reports the dependency as down while no endpoint of the service is known. This does not make
    /// the server unready, unless the dependency is [required](Dependency::required).
    pub fn report(&self, dependency: Dependency) {
        *lock(&self.shared.dependency) = Some(dependency);
        self.shared.tell(&self.shared.known.borrow());
    }
}

/// Asks DNS whenever the last answer has expired. Endpoints remain in use while DNS fails.
async fn refresh(shared: &Shared, resolver: &Resolver) {
    if matches!(shared.settings.target.place, Place::Fixed(_)) {
        return pending().await;
    }
    let (least, most) = shared.settings.refresh.clone().into_inner();
    let (mut gone_since, mut is_failing) = (None::<Instant>, false);
    loop {
        let wait = match resolver.resolve().await {
            Ok(Found { addresses, valid }) => {
                shared.totals.resolved.fetch_add(1, Relaxed);
                (gone_since, is_failing) = (None, false);
                shared.publish(Known::Endpoints(addresses.into()));
                valid.clamp(least, most.max(least))
            }
            Err(Missing { reason, is_certain }) => {
                shared.totals.unresolved.fetch_add(1, Relaxed);
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(service = &*shared.name, reason, "no endpoints in DNS");
                }
                let now = Instant::now();
                gone_since = is_certain.then(|| gone_since.unwrap_or(now));
                let is_gone = gone_since.is_some_and(|since| now - since >= DISTRUST);
                if is_gone || !matches!(*shared.known.borrow(), Known::Endpoints(_)) {
                    shared.publish(Known::Nothing(reason.into()));
                }
                least
            }
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = shared.hurry.notified() => sleep(least).await,
        }
    }
}
