//! Reads the state of Envoy's subscriptions from its admin interface.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use corelane_service::http::ExchangeError;
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::admin::{Admin, AdminError};

const READ: Duration = Duration::from_secs(30);

/// Time limit for the first endpoints and health checks of new clusters.
const WARM: Duration = Duration::from_secs(30);

/// First and longest pause between queries; Envoy usually needs only milliseconds.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Clusters,
    RateLimits,
    Listeners,
    Routes,
}

impl Kind {
    /// In the order in which they are applied.
    pub(crate) const ALL: [Self; 4] =
        [Self::Clusters, Self::RateLimits, Self::Listeners, Self::Routes];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::RateLimits => "rate limits",
            Self::Listeners => "listeners",
            Self::Routes => "routes",
        }
    }

    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Clusters => "all_clusters.json",
            Self::RateLimits => "rate_limits.json",
            Self::Listeners => "all_listeners.json",
            Self::Routes => "all_routes.json",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Clusters => "cluster_manager.cds",
            Self::RateLimits => "extension_config_discovery.http_filter.corelane.route_rate_limits",
            Self::Listeners => "listener_manager.lds",
            Self::Routes => "http.ingress.rds.ingress",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Subscription {
    /// Version that Envoy uses; empty before the first version.
    pub(crate) version: String,
    pub(crate) rejected: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Applied,
    Rejected,
    /// Envoy is not running and will read the file when it starts.
    Absent,
}

#[derive(Debug)]
pub(crate) struct Envoy(Admin);

impl Envoy {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self(Admin { address })
    }

    pub(crate) async fn subscription(
        &self,
        kind: Kind,
    ) -> Result<Option<Subscription>, AdminError> {
        let names = ["version_text", "update_rejected"].map(|it| format!("{}.{it}", kind.prefix()));
        let [version, rejected] = &names;
        let found = self.texts(&names).await?;
        Ok(found.map(|found| Subscription {
            version: found.get(version).cloned().unwrap_or_default(),
            rejected: found.get(rejected).and_then(|it| it.parse().ok()).unwrap_or(0),
        }))
    }

    pub(crate) async fn settled(
        &self,
        kind: Kind,
        version: &str,
        before: u64,
    ) -> Result<Outcome, AdminError> {
        let until = Instant::now() + READ;
        let mut pause = PAUSES.0;
        loop {
            match self.subscription(kind).await? {
                None => return Ok(Outcome::Absent),
                Some(it) if it.version == version => return Ok(Outcome::Applied),
                Some(it) if it.rejected > before => return Ok(Outcome::Rejected),
                Some(_) if Instant::now() >= until => return Err(self.0.silent()),
                Some(_) => sleep(pause).await,
            }
            pause = pause.mul_f64(1.5).min(PAUSES.1);
        }
    }

    /// Waits until all clusters can receive requests. A cluster that times out must not hold back
    /// the other clusters.
    pub(crate) async fn warmed(&self) -> Result<(), AdminError> {
        let names = ["cluster_manager.warming_clusters".to_owned()];
        let until = Instant::now() + WARM;
        let mut pause = PAUSES.0;
        while let Some(found) = self.texts(&names).await? {
            if found.get(&names[0]).is_none_or(|it| it == "0") {
                return Ok(());
            }
            if Instant::now() >= until {
                warn!("routes: Envoy has clusters without a first health check after {WARM:?}");
                return Ok(());
            }
            sleep(pause).await;
            pause = pause.mul_f64(1.5).min(PAUSES.1);
        }
        Ok(())
    }

    pub(crate) async fn idle(&self, clusters: &[String]) -> bool {
        let active = |it: &String| {
            ["upstream_rq_active", "upstream_rq_pending_active"]
                .map(|n| format!("cluster.{it}.{n}"))
        };
        let names: Vec<_> = clusters.iter().flat_map(active).collect();
        match self.texts(&names).await {
            Ok(Some(found)) => found.values().all(|it| it == "0"),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    async fn texts(&self, names: &[String]) -> Result<Option<HashMap<String, String>>, AdminError> {
        match self.0.texts(names, Instant::now() + READ).await {
            Ok(found) => Ok(Some(found)),
            Err(AdminError::Exchange(ExchangeError::Connect(..))) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
