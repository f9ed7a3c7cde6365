//! Checks settings and opens sockets before a server starts.

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
use crate::server::settings::Settings;
use crate::server::shared::Shared;
use crate::slow::settings::SlowLanes;
use crate::transport::tls::Termination;

/// Maximum number of listeners. Each listener needs descriptors on every lane.
const MAX_LISTENS: usize = 64;

impl Builder {
    /// Checks bounds and route templates, without looking at the machine.
    /// [`Tls::check`](crate::Tls::check) checks the TLS files.
    ///
    /// # Errors
    ///
    /// Lists every setting that is out of bounds, one per line.
    pub fn validate(&self) -> Result<(), Error> {
        let Settings { lane, moving, placement, listens, backlog, lanes, .. } = &self.0;
        let mut wrong =
            settings::check(&lane.requests.limits, &lane.requests.timeouts, &lane.drain);
        let mut need = |holds: bool, rule: &str| {
            if !holds {
                wrong.push(rule.to_owned());
            }
        };
        need(
            (*moving, *placement) != (Moving::Active, Placement::LeastLoaded),
            "moving = \"active\" needs placement = \"hashed\", because placement = \"least-loaded\" leaves lanes even",
        );
        let ratio = match lane.requests.traces {
            Traces::Record { ratio } => ratio,
            _ => 0.0,
        };
        need((0.0..=1.0).contains(&ratio), "traces: a ratio from 0 to 1");
        need(
            lane.park_after.is_none_or(|idle| idle >= settings::LEAST_PARK_AFTER),
            "park_after: at least 100ms, or none",
        );
        need(listens.len() <= MAX_LISTENS, &format!("listen: at most {MAX_LISTENS}"));
        need((1..=MAX_BACKLOG).contains(backlog), &format!("backlog: 1 to {MAX_BACKLOG}"));
        let count = if let Lanes::Count(n) = lanes { *n } else { 1 };
        need((1..=MAX_LANES).contains(&count), &format!("lanes: 1 to {MAX_LANES}"));
        need(
            self.0.learnt_routes <= MAX_LEARNT_ROUTES,
            &format!("learnt_routes: 0 to {MAX_LEARNT_ROUTES}"),
        );
        wrong.extend(lane.slow_lanes.iter().flat_map(SlowLanes::check));
        let costs = lane.costs.iter().map(|(template, _)| {
            let error = Routes::new(std::slice::from_ref(template), 0).err();
            error.map(|error| format!("cost: {error}"))
        });
        wrong.extend(costs.flatten());
        wrong.extend(self.0.tls.as_ref().and_then(|tls| tls.check_bounds().err()));
        wrong.extend(
            listens.iter().filter_map(Listen::fault).map(|fault| format!("listen: {fault}")),
        );
        let own = self.0.pages.iter().filter(|page| admin::is_own(page.path));
        wrong.extend(
            own.map(|page| format!("admin_route: {} is a page of the server itself", page.path)),
        );
        wrong.extend(self.0.registries.iter().filter_map(registry::reserved).map(|name| {
            format!("registry: {name} begins with corelane_, which is reserved for the server")
        }));
        wrong.extend(Routes::new(&self.0.routes, 0).err());
        if wrong.is_empty() { Ok(()) } else { Err(Error::Setting(wrong.join("\n"))) }
    }

    /// Number of lanes that the server would start on this machine: the number set by
    /// [`Builder::lanes`], or, with [`Lanes::Auto`], the CPUs that affinity, cpuset and quota
    /// currently allow.
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
    /// The CPUs cannot be read, or the lanes do not fit on them.
    pub fn planned_lanes(&self) -> Result<usize, Error> {
        Ok(self.plan()?.1.lanes.len())
    }

    fn plan(&self) -> Result<(CpuView, CpuPlan), Error> {
        let view = CpuView::read().map_err(Error::system("reading the affinity mask"))?;
        let plan = plan(&view, self.0.lanes, self.0.pin).map_err(Error::Lanes)?;
        Ok((view, plan))
    }

    /// Checks the settings, raises the soft limit on open files and binds all listeners. From then
    /// on, clients can connect, and they are served once [`Server::serve`] runs.
    ///
    /// # Errors
    ///
    /// A setting is out of bounds, a certificate or its key is unusable, or there are too few CPUs
    /// for the lanes. It also fails if the limit on open files is too low or an address cannot be
    /// bound.
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
