//! All objects that the agent reads, as last sent by the API server.

use std::fmt::Debug;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::{BoxStream, SelectAll, select_all};
use futures_util::{StreamExt, future};
use kube::core::{ApiResource, GroupVersionKind, Object};
use kube::runtime::reflector;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Error, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_of};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

use super::attach::Route;
use super::objects::{
    GROUP, Gateway, GatewayClass, Kind, Namespace, Policy, ReferenceGrant, RouteObject, Service,
};
use super::secrets::WATCH_SECONDS;
use super::translate::World;
use crate::endpoints::Pauses;

/// A change to any object, or the reason why a kind cannot be read.
pub(crate) type Changes = SelectAll<BoxStream<'static, Result<(), String>>>;

pub(crate) struct Store {
    classes: reflector::Store<GatewayClass>,
    gateways: reflector::Store<Gateway>,
    http: reflector::Store<RouteObject>,
    grpc: reflector::Store<RouteObject>,
    grants: reflector::Store<ReferenceGrant>,
    policies: reflector::Store<Policy>,
    services: reflector::Store<Service>,
    namespaces: reflector::Store<Namespace>,
    missing: Arc<AtomicUsize>,
}

pub(crate) struct Objects {
    classes: Vec<Arc<GatewayClass>>,
    gateways: Vec<Arc<Gateway>>,
    http: Vec<Arc<RouteObject>>,
    grpc: Vec<Arc<RouteObject>>,
    grants: Vec<Arc<ReferenceGrant>>,
    policies: Vec<Arc<Policy>>,
    services: Vec<Arc<Service>>,
    namespaces: Vec<Arc<Namespace>>,
}

pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// Gateway API before 1.4 does not define this kind.
const OPTIONAL: &str = "backendtlspolicies";

struct Reader<'a> {
    client: &'a Client,
    changes: Vec<BoxStream<'static, Result<(), String>>>,
    missing: Arc<AtomicUsize>,
}

impl Reader<'_> {
    fn read<P, U>(
        &mut self,
        kind: ApiResource,
        namespace: Option<&str>,
    ) -> reflector::Store<Object<P, U>>
    where
        P: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        U: Clone + Debug + Default + DeserializeOwned + Send + Sync + 'static,
    {
        let api: Api<Object<P, U>> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
            None => Api::all_with(self.client.clone(), &kind),
        };
        let writer = Writer::new(kind.clone());
        let store = writer.as_reader();
        let config = watcher::Config::default().timeout(WATCH_SECONDS);
        let events = watch_of(api, config).backoff(Pauses::default());
        let plural = kind.plural;
        let missing = Arc::clone(&self.missing);
        missing.fetch_add(1, Ordering::Relaxed);
        let mut first = true;
        let changes = reflector::reflector(writer, events.modify(slim)).filter_map(move |event| {
            future::ready(match event {
                Ok(Event::Init | Event::InitApply(_)) => None,
                Ok(Event::InitDone) if mem::take(&mut first) => {
                    missing.fetch_sub(1, Ordering::Relaxed);
                    Some(Ok(()))
                }
                Ok(_) => Some(Ok(())),
                Err(error) if plural == OPTIONAL && is_undefined(&error) => mem::take(&mut first)
                    .then(|| {
                        missing.fetch_sub(1, Ordering::Relaxed);
                        Ok(())
                    }),
                Err(error) => Some(Err(format!("{plural}: {error}"))),
            })
        });
        self.changes.push(changes.boxed());
        store
    }
}

fn is_undefined(error: &Error) -> bool {
    matches!(error, Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

fn slim<K: ResourceExt>(object: &mut K) {
    object.managed_fields_mut().clear();
    object.annotations_mut().clear();
}

impl Store {
    pub(crate) fn new(client: &Client, namespace: &str) -> (Self, Changes) {
        let missing = Arc::new(AtomicUsize::new(0));
        let mut reader = Reader { client, changes: Vec::new(), missing: Arc::clone(&missing) };
        let store = Self {
            classes: reader.read(resource(GROUP, "v1", "GatewayClass", "gatewayclasses"), None),
            gateways: reader.read(resource(GROUP, "v1", "Gateway", "gateways"), Some(namespace)),
            http: reader.read(resource(GROUP, "v1", "HTTPRoute", "httproutes"), None),
            grpc: reader.read(resource(GROUP, "v1", "GRPCRoute", "grpcroutes"), None),
            grants: reader
                .read(resource(GROUP, "v1beta1", "ReferenceGrant", "referencegrants"), None),
            policies: reader
                .read(resource(GROUP, "v1", "BackendTLSPolicy", "backendtlspolicies"), None),
            services: reader.read(resource("", "v1", "Service", "services"), None),
            namespaces: reader.read(resource("", "v1", "Namespace", "namespaces"), None),
            missing,
        };
        (store, select_all(reader.changes))
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn objects(&self) -> Objects {
        Objects {
            classes: self.classes.state(),
            gateways: self.gateways.state(),
            http: self.http.state(),
            grpc: self.grpc.state(),
            grants: self.grants.state(),
            policies: self.policies.state(),
            services: self.services.state(),
            namespaces: self.namespaces.state(),
        }
    }
}

impl Objects {
    pub(crate) fn world(&self) -> World<'_> {
        let http = self.http.iter().map(|object| Route { kind: Kind::Http, object });
        let grpc = self.grpc.iter().map(|object| Route { kind: Kind::Grpc, object });
        World {
            classes: self.classes.iter().map(Arc::as_ref).collect(),
            gateways: self.gateways.iter().map(Arc::as_ref).collect(),
            routes: http.chain(grpc).collect(),
            grants: self.grants.iter().map(Arc::as_ref).collect(),
            policies: self.policies.iter().map(Arc::as_ref).collect(),
            services: self.services.iter().map(Arc::as_ref).collect(),
            namespaces: self.namespaces.iter().map(Arc::as_ref).collect(),
            ..World::default()
        }
    }
}
