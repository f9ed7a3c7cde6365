//! Server settings as plain data.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;

use crate::balance::settings::{Moving, Placement};
use crate::base::listen::Listen;
use crate::base::settings::{Limits, Timeouts};
use crate::lane::parts::LaneSettings;
use crate::message::forwarded::Trust;
use crate::os::cpu::{Lanes, Pin};
use crate::request::routes::LEARNT_ROUTES;
use crate::server::page::Page;
use crate::slow::settings::SlowLanes;
use crate::transport::tls::Tls;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listens: Vec<Listen>,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) lanes: Lanes,
    pub(crate) pin: Pin,
    pub(crate) placement: Placement,
    pub(crate) moving: Moving,
    pub(crate) backlog: u32,
    pub(crate) lane: LaneSettings,
    pub(crate) tls: Option<Tls>,
    pub(crate) trust: Trust,
    pub(crate) routes: Vec<String>,
    pub(crate) learnt_routes: usize,
    pub(crate) signals: bool,
    pub(crate) pages: Vec<Page>,
    pub(crate) collectors: Vec<Arc<dyn Collector>>,
    pub(crate) registries: Vec<Arc<Mutex<Registry>>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listens: Vec::new(),
            admin: None,
            lanes: Lanes::default(),
            pin: Pin::default(),
            placement: Placement::default(),
            moving: Moving::default(),
            backlog: 4096,
            lane: LaneSettings::default(),
            tls: None,
            trust: Trust::default(),
            routes: Vec::new(),
            learnt_routes: LEARNT_ROUTES,
            signals: true,
            pages: Vec::new(),
            collectors: Vec::new(),
            registries: Vec::new(),
        }
    }
}

impl Settings {
    pub(crate) fn listens(&self) -> Vec<Listen> {
        match self.listens.as_slice() {
            [] => vec![Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 8080)))],
            listens => listens.to_vec(),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.lane.requests.limits
    }

    pub(crate) fn slow_lanes(&self) -> Option<&SlowLanes> {
        self.lane.slow_lanes.as_ref()
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.lane.requests.timeouts
    }
}
