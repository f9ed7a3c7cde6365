//! Decides which of the Gateway's listeners the pods can serve.

use serde_json::{Value, json};

use super::certificates::{References, Source};
use super::objects::{GROUP, Kind, Listener, Reference};
use super::secrets::Found;
use super::status::Verdict;

#[derive(Clone, Debug, Default)]
pub(crate) struct Pods {
    /// Service port for plaintext requests; `None` if these requests are redirected.
    pub(crate) http: Option<u16>,
    pub(crate) https: Option<u16>,
    /// The chart's Secret, which pods mount. The agent does not read it.
    pub(crate) secret: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Served<'a> {
    pub(crate) listener: &'a Listener,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) certificates: Vec<Source>,
    pub(crate) accepted: Verdict,
    pub(crate) resolved: Verdict,
    pub(crate) conflicted: Verdict,
}

impl Served<'_> {
    pub(crate) fn programmed(&self) -> bool {
        self.accepted.status && self.resolved.status
    }

    pub(crate) fn tls(&self) -> bool {
        self.listener.protocol == "HTTPS"
    }

    pub(crate) fn status(&self, attached: usize, generation: i64) -> Value {
        let kind = |it: &Kind| json!({"group": GROUP, "kind": it.name()});
        let programmed = match self.programmed() {
            true => Verdict::yes("Programmed"),
            false => Verdict::no("Invalid", "see the other conditions"),
        };
        json!({
            "name": self.listener.name,
            "supportedKinds": self.kinds.iter().map(kind).collect::<Vec<_>>(),
            "attachedRoutes": attached,
            "conditions": [
                self.accepted.condition("Accepted", generation),
                programmed.condition("Programmed", generation),
                self.resolved.condition("ResolvedRefs", generation),
                self.conflicted.condition("Conflicted", generation),
            ],
        })
    }
}

pub(crate) fn served<'a>(
    all: &'a [Listener],
    pods: &Pods,
    references: &References<'_>,
    secrets: &Found,
) -> Vec<Served<'a>> {
    let judge = |listener: &'a Listener| {
        let conflict = all.iter().find_map(|other| conflict(listener, other));
        let accepted = match &conflict {
            Some(conflict) => Verdict::no(conflict.reason, &conflict.message),
            None => accepted(listener, pods),
        };
        let (kinds, known) = kinds(listener);
        let mut certificates = Vec::new();
        let resolved = match (known, listener.protocol == "HTTPS") {
            (false, _) => {
                let words = "allowedRoutes.kinds has more than HTTPRoute and GRPCRoute";
                Verdict::no("InvalidRouteKinds", words)
            }
            (true, true) => match references.certificates(listener, secrets) {
                Ok(all) => {
                    certificates = all;
                    Verdict::yes("ResolvedRefs")
                }
                Err(verdict) => verdict,
            },
            (true, false) => Verdict::yes("ResolvedRefs"),
        };
        let conflicted = conflict.unwrap_or_else(|| Verdict::no("NoConflicts", ""));
        Served { listener, kinds, certificates, accepted, resolved, conflicted }
    };
    all.iter().map(judge).collect()
}

fn accepted(listener: &Listener, pods: &Pods) -> Verdict {
    let port = match listener.protocol.as_str() {
        "HTTP" => pods.http,
        "HTTPS" => pods.https,
        _ => return Verdict::no("UnsupportedProtocol", "supported are HTTP and HTTPS"),
    };
    match port {
        Some(port) if port == listener.port => {}
        Some(port) => {
            let words = format!("the Service of the gateway has port {port} for this protocol");
            return Verdict::no("PortUnavailable", &words);
        }
        None => {
            let words = "the gateway serves no requests by this protocol";
            return Verdict::no("PortUnavailable", words);
        }
    }
    match listener.tls.mode.as_deref() {
        None | Some("Terminate") => Verdict::yes("Accepted"),
        Some(_) => Verdict::no("UnsupportedValue", "tls.mode: supported is Terminate"),
    }
}

/// Neither of two conflicting listeners is served.
fn conflict(listener: &Listener, other: &Listener) -> Option<Verdict> {
    let name = |it: &Listener| it.hostname.clone().unwrap_or_default();
    if std::ptr::eq(listener, other) || listener.port != other.port {
        None
    } else if listener.protocol != other.protocol {
        let words = format!("the listener {} has another protocol on the same port", other.name);
        Some(Verdict { status: true, ..Verdict::no("ProtocolConflict", &words) })
    } else if name(listener) == name(other) {
        let words = format!("the listener {} has the same port and hostname", other.name);
        Some(Verdict { status: true, ..Verdict::no("HostnameConflict", &words) })
    } else {
        None
    }
}

fn kinds(listener: &Listener) -> (Vec<Kind>, bool) {
    let wanted = &listener.allowed_routes.kinds;
    let named = |kind: &Kind| {
        let group = |it: Option<&str>| it.unwrap_or(GROUP) == GROUP;
        let same =
            |it: &Reference| group(it.group.as_deref()) && it.kind.as_deref() == Some(kind.name());
        wanted.iter().filter(|it| same(it)).count()
    };
    if !["HTTP", "HTTPS"].contains(&listener.protocol.as_str()) {
        return (Vec::new(), true);
    }
    if wanted.is_empty() {
        return (Kind::ALL.to_vec(), true);
    }
    let known = Kind::ALL.iter().map(named).sum::<usize>() == wanted.len();
    (Kind::ALL.into_iter().filter(|kind| named(kind) > 0).collect(), known)
}
