//! The endpoints that DNS knows.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use domain::base::iana::Rcode;
use domain::base::{Name, Rtype};
use domain::rdata::{AllRecordData, Srv};
use domain::resolv::StubResolver;
use domain::resolv::stub::Answer;
use domain::resolv::stub::conf::{ResolvConf, ServerConf, Transport};

use crate::settings::Settings;
use crate::target::Place;

/// Asks DNS for the endpoints of one service. Each query is sent to the DNS servers: there is no
/// cache.
#[derive(Debug)]
pub(crate) struct Resolver {
    dns: StubResolver,
    place: Place,
    /// Suffixes of the search list. They come first for names with fewer than `ndots` dots.
    search: Vec<String>,
    ndots: usize,
}

/// Endpoints, and how long they are valid.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) valid: Duration,
}

#[derive(Debug)]
pub(crate) struct Missing {
    pub(crate) reason: String,
    /// Whether DNS answered that there are no such records.
    pub(crate) is_certain: bool,
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        Missing { reason: format!("DNS failed: {error}"), is_certain: false }
    }
}

/// The largest TTL.
const FOREVER: Duration = Duration::from_secs(i32::MAX as u64);

impl Resolver {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let mut conf = ResolvConf::new();
        match settings.name_servers.as_slice() {
            [] => {
                let file = File::open("/etc/resolv.conf").map_err(|error| error.to_string());
                let parsed = file
                    .and_then(|mut file| conf.parse(&mut file).map_err(|error| error.to_string()));
                parsed.map_err(|error| format!("/etc/resolv.conf: {error}"))?;
                conf.finalize();
            }
            servers => conf.servers.extend(servers.iter().flat_map(|&server| {
                [Transport::UdpTcp, Transport::Tcp].map(|way| ServerConf::new(server, way))
            })),
        }
        let ndots = conf.options.ndots;
        let search = conf.options.search.as_slice().iter().map(ToString::to_string);
        let search = search.filter(|suffix| suffix != ".").collect();
        let place = settings.target.place.clone();
        Ok(Resolver { dns: StubResolver::from_conf(conf), place, search, ndots })
    }

    pub(crate) async fn resolve(&self) -> Result<Found, Missing> {
        let (mut addresses, valid) = match &self.place {
            Place::Name { host, port, .. } => {
                let (addresses, valid) =
                    self.search(host, async |name| self.hosts(name).await).await?;
                (addresses.into_iter().map(|ip| SocketAddr::new(ip, *port)).collect(), valid)
            }
            Place::Service { host, .. } => self.service(host).await?,
            Place::Fixed(addresses) => (addresses.clone(), FOREVER),
        };
        addresses.sort_unstable();
        addresses.dedup();
        Ok(Found { addresses, valid })
    }

    /// Looks a name up with each suffix of the search list, and without one.
    async fn search<T>(
        &self,
        host: &str,
        look_up: impl AsyncFn(&str) -> Result<Option<T>, Missing>,
    ) -> Result<T, Missing> {
        let mut names = vec![host.to_owned()];
        if !host.ends_with('.') {
            let with_suffix = self.search.iter().map(|suffix| format!("{host}.{suffix}"));
            let is_first = host.matches('.').count() >= self.ndots;
            names.splice(if is_first { 1..1 } else { 0..0 }, with_suffix);
        }
        for name in names {
            if let Some(found) = look_up(&name).await? {
                return Ok(found);
            }
        }
        Err(Missing { reason: format!("DNS has no records of {host}"), is_certain: true })
    }

    /// A and AAAA records. One family is enough.
    async fn hosts(&self, name: &str) -> Result<Option<(Vec<IpAddr>, Duration)>, Missing> {
        let (four, six) = tokio::join!(self.query(name, Rtype::A), self.query(name, Rtype::AAAA));
        let (mut all, mut valid) = (Vec::new(), FOREVER);
        for answer in [&four, &six].into_iter().flatten() {
            for (data, ttl) in records(answer) {
                valid = valid.min(ttl);
                match data {
                    AllRecordData::A(a) => all.push(IpAddr::V4(a.addr())),
                    AllRecordData::Aaaa(aaaa) => all.push(IpAddr::V6(aaaa.addr())),
                    _ => {}
                }
            }
        }
        match all.is_empty() {
            false => Ok(Some((all, valid))),
            true => {
                four?;
                six?;
                Ok(None)
            }
        }
    }

    async fn service(&self, host: &str) -> Result<(Vec<SocketAddr>, Duration), Missing> {
        let look_up = async |name: &str| {
            let answer = self.query(name, Rtype::SRV).await?;
            let found = records(&answer).into_iter().filter_map(|(data, ttl)| match data {
                AllRecordData::Srv(srv) => Some((Srv::target(&srv).to_string(), srv.port(), ttl)),
                _ => None,
            });
            let found: Vec<_> = found.collect();
            Ok((!found.is_empty()).then_some(found))
        };
        let (mut all, mut valid) = (Vec::new(), FOREVER);
        for (name, port, ttl) in self.search(host, look_up).await? {
            let Some((addresses, until)) = self.hosts(&name).await? else { continue };
            all.extend(addresses.into_iter().map(|ip| SocketAddr::new(ip, port)));
            valid = valid.min(ttl).min(until);
        }
        let none = || Missing { reason: format!("DNS has no address of {host}"), is_certain: true };
        if all.is_empty() { Err(none()) } else { Ok((all, valid)) }
    }

    async fn query(&self, name: &str, kind: Rtype) -> Result<Answer, Missing> {
        let wrong = |error| Missing { reason: format!("{name}: {error}"), is_certain: false };
        let absolute = format!("{}.", name.trim_end_matches('.'));
        let question: Name<Vec<u8>> = absolute.parse().map_err(wrong)?;
        let answer = self.dns.query((question, kind)).await?;
        match answer.header().rcode() {
            Rcode::NOERROR | Rcode::NXDOMAIN => Ok(answer),
            code => Err(Missing { reason: format!("DNS failed: {code}"), is_certain: false }),
        }
    }
}

/// Every record of an answer that can be read, with its TTL.
fn records(
    answer: &Answer,
) -> Vec<(AllRecordData<bytes::Bytes, domain::base::ParsedName<bytes::Bytes>>, Duration)> {
    let Ok(section) = answer.answer() else { return Vec::new() };
    let readable = section.limit_to::<AllRecordData<_, _>>().flatten();
    readable.map(|record| (record.data().clone(), record.ttl().into_duration())).collect()
}
