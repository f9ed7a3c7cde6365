//! Translates HTTPRoute and GRPCRoute objects that are attached to this gateway into Envoy's routes
//! and clusters.

mod attach;
mod backends;
#[cfg(test)]
mod cases;
mod certificates;
mod filters;
mod grants;
mod hostnames;
mod hosts;
mod listeners;
mod matches;
mod objects;
mod policies;
mod prototypes;
mod rules;
mod secrets;
mod status;
mod store;
mod tell;
mod translate;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Client;
use serde::Deserialize;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use self::certificates::listeners;
use self::hosts::merged;
use self::listeners::Pods;
use self::prototypes::Prototypes;
use self::secrets::Secrets;
use self::store::{Objects, Store};
use self::tell::tell;
use self::translate::World;
use crate::routes::{Desired, Status};
use crate::settings::Endpoints;

/// Time to wait for further changes, because a release often changes several objects.
const GATHER: Duration = Duration::from_millis(20);

pub(crate) struct RouteObjects {
    client: Client,
    gateway: (String, String),
    service: String,
    pods: Pods,
    folder: PathBuf,
    status: Arc<Status>,
}

impl RouteObjects {
    pub(crate) fn new(client: &Client, settings: &Endpoints, status: Arc<Status>) -> Option<Self> {
        let Endpoints { objects: settings, folder, .. } = settings;
        let gateway = settings.gateway.as_ref()?;
        let default = || client.default_namespace().to_owned();
        let namespace = gateway.namespace.clone().unwrap_or_else(default);
        let port = |it: Option<u64>| it.and_then(|it| u16::try_from(it).ok());
        let pods = Pods {
            http: port(settings.gateway_http_port),
            https: port(settings.gateway_https_port),
            secret: settings.gateway_secret.clone(),
        };
        Some(Self {
            client: client.clone(),
            gateway: (namespace, gateway.name.clone()),
            service: settings.gateway_service.clone().unwrap_or_default(),
            pods,
            folder: folder.clone(),
            status,
        })
    }

    /// Sends the merged routes of values and objects when either changes, once both are known.
    /// Never returns.
    pub(crate) async fn run(
        self,
        mut values: Receiver<Option<Arc<Desired>>>,
        newest: Sender<Option<Arc<Desired>>>,
    ) {
        let (store, mut changes) = Store::new(&self.client, &self.gateway.0);
        let mut secrets = Secrets::new(&self.client);
        let (statuses, told) = channel(Vec::new());
        let follow = async {
            let mut served = None;
            loop {
                tokio::select! {
                    change = changes.next() => self.note(change),
                    () = secrets.changed() => {}
                    _ = values.changed() => {}
                }
                let until = Instant::now() + GATHER;
                while let Ok(change) = timeout_at(until, changes.next()).await {
                    self.note(change);
                }
                let Some(known) = values.borrow_and_update().clone() else { continue };
                if !store.is_complete() {
                    continue;
                }
                let objects = store.objects();
                let mut world = self.world(&objects);
                secrets.follow(&world.wanted_secrets());
                let Some(found) = secrets.found() else { continue };
                world.secrets = found;
                match self.merged(&known, &world, &mut served) {
                    Ok((desired, said)) => {
                        replace(&newest, Some(Arc::new(desired)));
                        replace(&statuses, said);
                    }
                    Err(error) => self.note(Some(Err(format!("prototypes.json: {error}")))),
                }
            }
        };
        tokio::join!(follow, tell(&self.client, told));
    }

    fn world<'a>(&'a self, objects: &'a Objects) -> World<'a> {
        let gateway = (self.gateway.0.as_str(), self.gateway.1.as_str());
        let (service, pods) = (self.service.as_str(), self.pods.clone());
        World { gateway, service, pods, ..objects.world() }
    }

    /// Merges the routes of values and objects, and returns the objects' status.
    fn merged(
        &self,
        values: &Desired,
        world: &World<'_>,
        served: &mut Option<bool>,
    ) -> serde_json::Result<(Desired, Vec<translate::Status>)> {
        let mut prototypes = Prototypes::deserialize(&values.prototypes)?;
        prototypes.folder.clone_from(&self.folder);
        if served.replace(world.is_served()) != Some(world.is_served()) {
            self.say(world.is_served());
        }
        let (more, said) = world.translate(&prototypes);
        let mut desired = values.clone();
        desired.virtual_hosts = merged(&desired.virtual_hosts, &more.hosts);
        if let Some(prototypes) = &values.listeners {
            desired.listeners = Some(listeners(prototypes, &more.chains, &self.folder));
            let read = world.secrets.iter().filter(|(name, _)| more.uses(name));
            let read = read.filter_map(|(name, it)| Some((name.clone(), it.clone().ok()?)));
            desired.certificates = read.collect();
        }
        desired.certificates.extend(more.authorities);
        desired.clusters.extend(more.clusters);
        Ok((desired, said))
    }

    fn note(&self, change: Option<Result<(), String>>) {
        if let Some(Err(words)) = change {
            warn!("route objects: {words}");
            self.status.failed(&words);
        }
    }

    fn say(&self, served: bool) {
        let (namespace, gateway) = &self.gateway;
        match served {
            true => info!(namespace, gateway, "route objects: the Gateway is served"),
            false => warn!(
                namespace,
                gateway,
                controller = status::CONTROLLER,
                "route objects: there is no such Gateway with a class of this controller, so no routes of objects"
            ),
        }
    }
}

fn replace<T: PartialEq>(to: &Sender<T>, value: T) {
    to.send_if_modified(|known| {
        let changed = *known != value;
        *known = value;
        changed
    });
}
