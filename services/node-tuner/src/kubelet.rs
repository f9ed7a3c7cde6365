//! The kubelet's configuration, from its file or its /configz endpoint.

use std::path::Path;

use serde_json::Value as Json;

use crate::catalogue::Value;
use crate::cpus::Cpus;

#[derive(Clone, Debug)]
pub(crate) struct Kubelet(Json);

impl Kubelet {
    pub(crate) fn read(path: &Path) -> Result<Kubelet, String> {
        let says = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| says(&error))?;
        let value: Json = serde_saphyr::from_str(&text).map_err(|error| says(&error))?;
        match value.get("kubeletconfig").unwrap_or(&value) {
            Json::Object(fields) => Ok(Kubelet(Json::Object(fields.clone()))),
            _ => Err(says(&"not a KubeletConfiguration")),
        }
    }

    pub(crate) fn text(&self, field: &str) -> String {
        match self.0.get(field) {
            None | Some(Json::Null) => "unset".to_owned(),
            Some(Json::Array(items)) => items.iter().map(plain).collect::<Vec<_>>().join(","),
            Some(Json::Object(map)) => {
                let pairs = map.iter().map(|(key, value)| format!("{key}={}", plain(value)));
                pairs.collect::<Vec<_>>().join(",")
            }
            Some(value) => plain(value),
        }
    }

    /// Whether a field equals or includes the desired value.
    pub(crate) fn has(&self, field: &str, wanted: &Value) -> bool {
        let text = self.text(field);
        match wanted {
            Value::Names(names) => {
                let there: Vec<&str> = text.split(',').collect();
                names.iter().all(|name| there.iter().any(|it| covers(it, name)))
            }
            Value::Cpus(cpus) => Cpus::from_list(&text).as_ref() == Some(cpus),
            wanted => text == wanted.text(),
        }
    }
}

/// Whether a name, or a pattern ending with a star, covers a name, as in the kubelet.
fn covers(pattern: &str, name: &str) -> bool {
    pattern == name || pattern.strip_suffix('*').is_some_and(|start| name.starts_with(start))
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Kubelet, String> {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("kubelet");
        std::fs::write(&path, text).expect("written");
        Kubelet::read(&path)
    }

    #[test]
    fn fields_are_compared_by_what_they_mean() {
        let file = "cpuManagerPolicy: static\nreservedSystemCPUs: 0,1\nallowedUnsafeSysctls: [net.core.*]\n\
                    cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n";
        let configz = r#"{"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-1",
            "allowedUnsafeSysctls": ["net.core.somaxconn"], "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}}"#;
        for text in [file, configz] {
            let kubelet = read(text).expect(text);
            let names = |it: &str| Value::Names(vec![it.to_owned()]);
            let cpus = |it: &str| Value::Cpus(Cpus::from_list(it).expect("a list"));
            assert!(kubelet.has("cpuManagerPolicy", &Value::Word("static".to_owned())));
            assert!(kubelet.has("reservedSystemCPUs", &cpus("0-1")));
            assert!(!kubelet.has("reservedSystemCPUs", &cpus("0-2")));
            assert!(kubelet.has("allowedUnsafeSysctls", &names("net.core.somaxconn")));
            assert!(!kubelet.has("allowedUnsafeSysctls", &names("net.ipv4.tcp_tw_reuse")));
            assert!(kubelet.has("cpuManagerPolicyOptions", &names("full-pcpus-only=true")));
            assert_eq!(kubelet.text("topologyManagerPolicy"), "unset");
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for text in ["[1]", "text", "a: [", ""] {
            read(text).expect_err(text);
        }
    }
}
