//! Certificates of the Gateway's listeners, and Envoy's filter chains for them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::grants::Grants;
use super::objects::{Listener, Reference};
use super::secrets::{Found, Name};
use super::status::Verdict;
use crate::routes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Mounted,
    Secret(Name),
}

/// Certificates for one hostname, or for all hostnames without their own chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) hostname: Option<String>,
    pub(crate) certificates: Vec<Source>,
}

#[derive(Debug)]
pub(crate) struct References<'a> {
    pub(crate) namespace: &'a str,
    /// The Secret that pods mount. The agent does not read it.
    pub(crate) mounted: Option<&'a str>,
    pub(crate) grants: Grants<'a>,
}

impl References<'_> {
    pub(crate) fn wanted(&self, listeners: &[Listener]) -> BTreeSet<Name> {
        let of_tls = listeners.iter().filter(|it| it.protocol == "HTTPS");
        let all = of_tls.flat_map(|it| &it.tls.certificate_refs);
        let secret = |it: &Reference| match self.source(it) {
            Ok(Source::Secret(name)) => Some(name),
            _ => None,
        };
        all.filter_map(secret).collect()
    }

    /// A listener's certificates, or the reason why the first unusable certificate cannot be used.
    pub(crate) fn certificates(
        &self,
        listener: &Listener,
        found: &Found,
    ) -> Result<Vec<Source>, Verdict> {
        if listener.tls.certificate_refs.is_empty() {
            return Err(invalid("HTTPS requires one at least"));
        }
        let mut all = Vec::new();
        for reference in &listener.tls.certificate_refs {
            let source = self.source(reference)?;
            if let Source::Secret(name) = &source {
                let missing = || Err("it was not read yet".to_owned());
                let certificate = found.get(name).cloned().unwrap_or_else(missing);
                certificate.map_err(|words| invalid(&format!("{name}: {words}")))?;
            }
            if !all.contains(&source) {
                all.push(source);
            }
        }
        Ok(all)
    }

    /// Checks permission before anything reads the Secret.
    fn source(&self, reference: &Reference) -> Result<Source, Verdict> {
        let group = reference.group.as_deref().unwrap_or("");
        let kind = reference.kind.as_deref().unwrap_or("Secret");
        let namespace = reference.namespace.as_deref().unwrap_or(self.namespace);
        let name = reference.name.as_str();
        if (group, kind) != ("", "Secret") {
            return Err(invalid(&format!("{name}: kind {kind} is not Secret")));
        }
        if !self.grants.permit(("Gateway", self.namespace), kind, (namespace, name)) {
            let words = "no ReferenceGrant of its namespace permits it";
            let words = format!("certificateRefs: {namespace}/{name}: {words}");
            return Err(Verdict::no("RefNotPermitted", &words));
        }
        match namespace == self.namespace && self.mounted == Some(name) {
            true => Ok(Source::Mounted),
            false => Ok(Source::Secret(format!("{namespace}/{name}"))),
        }
    }
}

fn invalid(words: &str) -> Verdict {
    Verdict::no("InvalidCertificateRef", &format!("certificateRefs: {words}"))
}

/// Copies the filter chain of the chart's listeners for each hostname. The original chain serves
/// all other names with the chart's certificate, unless a listener without a hostname has its own
/// certificate. Envoy replaces chains without closing connections on unchanged chains.
pub(crate) fn listeners(prototypes: &[Value], chains: &[Chain], folder: &Path) -> Vec<Value> {
    let listener = |prototype: &Value| {
        let mut listener = prototype.clone();
        let usual = prototype["filter_chains"][0].clone();
        let named = chains.iter().filter_map(|chain| {
            let mut copy = with_certificates(&usual, &chain.certificates, folder);
            copy["name"] = json!(chain.hostname.as_deref()?);
            copy["filter_chain_match"] = json!({"server_names": [chain.hostname]});
            Some(copy)
        });
        let mut all: Vec<_> = named.collect();
        let rest = chains.iter().find(|it| it.hostname.is_none());
        all.push(match rest {
            Some(chain) => with_certificates(&usual, &chain.certificates, folder),
            None => usual.clone(),
        });
        listener["filter_chains"] = Value::Array(all);
        listener
    };
    prototypes.iter().map(listener).collect()
}

/// Replaces the certificates wherever they are in the chain: QUIC wraps the TLS settings.
fn with_certificates(chain: &Value, sources: &[Source], folder: &Path) -> Value {
    match chain {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("tls_certificate_sds_secret_configs", Value::Array(mounted)) => {
                    let of = |source: &Source| match source {
                        Source::Mounted => mounted.first().cloned().unwrap_or_default(),
                        Source::Secret(name) => {
                            let file = json!({"path": routes::certificate_path(folder, name)});
                            let config =
                                json!({"resource_api_version": "V3", "path_config_source": file});
                            json!({"name": name, "sds_config": config})
                        }
                    };
                    (key.clone(), sources.iter().map(of).collect())
                }
                _ => (key.clone(), with_certificates(value, sources, folder)),
            })
            .collect(),
        Value::Array(items) => {
            items.iter().map(|it| with_certificates(it, sources, folder)).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostname_has_a_copy_of_the_chain_with_its_certificates() {
        let mounted = json!({"name": "ingress", "sds_config": {}});
        let tls = json!({"tls_certificate_sds_secret_configs": [mounted]});
        let chain = json!({"transport_socket": {"downstream_tls_context": tls}, "filters": ["f"]});
        let prototype = json!({"name": "ingress_tls", "filter_chains": [chain]});
        let named = Chain {
            hostname: Some("a.io".to_owned()),
            certificates: vec![Source::Secret("shop/a".to_owned()), Source::Mounted],
        };
        let rest = Chain { hostname: None, certificates: vec![Source::Secret("b/c".to_owned())] };
        let of = |chains: &[Chain]| {
            let found = listeners(std::slice::from_ref(&prototype), chains, Path::new("/run"));
            found[0]["filter_chains"].clone()
        };
        assert_eq!(of(&[]), json!([chain]));
        let found = of(std::slice::from_ref(&named));
        let configs = |chain: &Value| {
            let tls = &chain["transport_socket"]["downstream_tls_context"];
            tls["tls_certificate_sds_secret_configs"].clone()
        };
        assert_eq!(found[0]["filter_chain_match"], json!({"server_names": ["a.io"]}));
        assert_eq!(found[0]["filters"], chain["filters"]);
        assert_eq!(configs(&found[0])[0]["name"], "shop/a");
        let source = &configs(&found[0])[0]["sds_config"]["path_config_source"];
        assert_eq!(*source, json!({"path": "/run/certificates/shop_a.json"}));
        assert_eq!(configs(&found[0])[1], mounted);
        assert_eq!(found[1], chain);
        let found = of(&[named, rest]);
        assert_eq!(configs(&found[1])[0]["name"], "b/c");
        assert_eq!(found[1]["filter_chain_match"], Value::Null);
    }
}
