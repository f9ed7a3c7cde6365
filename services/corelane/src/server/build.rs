//! The checks and sockets that precede the start of a server.

use tokio::sync::mpsc::unbounded_channel;

use crate::balance::settings::{Moving, Placement};
use crate::base::error::Error;
use crate::base::listen::Listen;
use crate::base::settings::{self, Traces};
use crate::lane::accept;
use crate::os::cpu::{CpuPlan, CpuView, Cpus, Lanes, MAX_LANES, plan};
use crate::os::listener::{MAX_BACKLOG, bind, open, raise_file_limit};
use crate::request::routes::{MAX_LEARNT_ROUTES, Routes};
use crate::server::admin;
use crate::server::builder::Builder;
use crate::server::control::ServerHandle;
use crate::server::exposition::registry;
use crate::server::run::Server;
use crate::server::shared::Shared;
use crate::transport::tls::Termination;

/// Maximum places to listen. Each takes descriptors on every lane.
const MAX_LISTENS: usize = 64;

impl Builder {
    /// Checks bounds and route templates, without looking at the machine. [`Tls::check`](crate::Tls::check) checks the
    /// files of TLS.
    ///
    /// # Errors
    ///
    /// Names the first setting that is out of bounds.
    pub fn validate(&self) -> Result<(), Error> {
        settings::check(
            &self.0.lane.requests.limits,
            &self.0.lane.requests.timeouts,
            &self.0.lane.drain,
        )
        .map_err(Error::Setting)?;
        if (self.0.moving, self.0.placement) == (Moving::Active, Placement::LeastLoaded) {
            let error =
                "moving: active only with placement hashed, as least-loaded leaves lanes even";
            return Err(Error::Setting(error.to_owned()));
        }
        if let Some(slow_lanes) = &self.0.lane.slow_lanes {
            slow_lanes.check().map_err(Error::Setting)?;
        }
        for (template, _) in &self.0.lane.costs {
            Routes::new(std::slice::from_ref(template), 0)
                .map_err(|error| Error::Setting(format!("cost: {error}")))?;
        }
        if let Traces::Record { ratio } = self.0.lane.requests.traces
            && !(0.0..=1.0).contains(&ratio)
        {
            return Err(Error::Setting("traces: a ratio from 0 to 1".to_owned()));
        }
        if let Some(tls) = &self.0.tls {
            tls.check_bounds().map_err(Error::Setting)?;
        }
        if self.0.lane.park_after.is_some_and(|idle| idle < settings::LEAST_PARK_AFTER) {
            return Err(Error::Setting("park_after: at least 100ms, or none".to_owned()));
        }
        if self.0.listens.len() > MAX_LISTENS {
            return Err(Error::Setting(format!("listen: at most {MAX_LISTENS}")));
        }
        if let Some(fault) = self.0.listens.iter().find_map(Listen::fault) {
            return Err(Error::Setting(format!("listen: {fault}")));
        }
        if !(1..=MAX_BACKLOG).contains(&self.0.backlog) {
            return Err(Error::Setting(format!("backlog: 1 to {MAX_BACKLOG}")));
        }
        if let Lanes::Count(n) = self.0.lanes
            && !(1..=MAX_LANES).contains(&n)
        {
            return Err(Error::Setting(format!("lanes: 1 to {MAX_LANES}")));
        }
        if let Some(page) = self.0.pages.iter().find(|page| admin::is_own(page.path)) {
            return Err(Error::Setting(format!(
                "admin_route: {} is a page of the server itself",
                page.path
            )));
        }
        if let Some(name) = self.0.registries.iter().find_map(registry::reserved) {
            return Err(Error::Setting(format!(
                "registry: {name} begins with corelane_, which is reserved for the server"
            )));
        }
        if self.0.learnt_routes > MAX_LEARNT_ROUTES {
            return Err(Error::Setting(format!("learnt_routes: 0 to {MAX_LEARNT_ROUTES}")));
        }
        Routes::new(&self.0.routes, 0).map(drop).map_err(Error::Setting)
    }

    /// How many lanes the server would have on this machine: the number of [`Builder::lanes`], or what
    /// [`Lanes::Auto`] makes of the CPUs that affinity, cpuset and quota allow now.
    ///
    /// ```
    /// use corelane::{Lanes, Pin, Server};
    ///
    /// let builder = Server::builder().lanes(Lanes::Count(3)).pin(Pin::Off);
    /// assert_eq!(builder.planned_lanes()?, 3);
    /// # Ok::<(), corelane::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The CPUs cannot be read, or the lanes cannot be placed on them.
    pub fn planned_lanes(&self) -> Result<usize, Error> {
        Ok(self.plan()?.1.lanes.len())
    }

    fn plan(&self) -> Result<(CpuView, CpuPlan), Error> {
        let view = CpuView::read().map_err(Error::system("reading the affinity mask"))?;
        let plan = plan(&view, self.0.lanes, self.0.pin).map_err(Error::Lanes)?;
        Ok((view, plan))
    }

    /// Checks the settings, raises the soft limit of open files and binds all listeners. Clients can
    /// connect from then on; they are served once [`Server::serve`] runs.
    ///
    /// # Errors
    ///
    /// A setting is out of bounds, a certificate or its key is unusable, or there are too few CPUs for
    /// the lanes. Or the limit of open files is too low, or an address cannot be bound.
    pub fn build(self) -> Result<Server, Error> {
        self.validate()?;
        let routes = Routes::new(&self.0.routes, self.0.learnt_routes).map_err(Error::Setting)?;
        let (tls, certificates) = self.0.tls.as_ref().map(Termination::load).transpose()?.unzip();
        let (view, plan) = self.plan()?;
        let mut settings = self.0;
        let are_pinned = plan.lanes.iter().all(Option::is_some);
        settings.lane.slow_lanes.take_if(|slow| !slow.unpinned && !are_pinned);
        let (listens, lanes) = (settings.listens(), plan.lanes.len());
        raise_file_limit(settings.lane.requests.limits.connections, lanes, listens.len())?;
        let sockets = accept::listeners(settings.placement, lanes);
        let ports = listens.into_iter().map(|listen| open(listen, settings.backlog, sockets));
        let ports = ports.collect::<Result<_, _>>()?;
        let admin = settings.admin.map(|address| bind(address, 128, false)).transpose()?;
        let (sender, requests) = unbounded_channel();
        let cpus = Cpus::new(settings.lanes, settings.pin, view);
        let shared = Shared::new(plan, cpus, routes, tls, &settings);
        let handle = ServerHandle { requests: sender, shared };
        Ok(Server { settings, ports, admin, certificates, requests, handle })
    }
}
