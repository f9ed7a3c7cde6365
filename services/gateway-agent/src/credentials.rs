//! Writes Envoy's filters for API keys and passwords whenever their Secrets change. Envoy itself
//! reads passwords only at startup and cannot read API keys from a file.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::{error, info};

use crate::endpoints::File;
use crate::routes::Update;

/// Interval between reads of the mounted Secrets.
const EVERY: Duration = Duration::from_secs(1);

/// Minimum length of an API key: 22 characters of base64 hold 128 bits.
const SHORTEST: usize = 22;

/// Length of a SHA-1 in base64.
const SHA1: usize = 28;

/// A filter as the chart describes it.
#[derive(Debug, Deserialize)]
struct Filter {
    /// The folder of its mounted Secret.
    folder: PathBuf,
    /// The filter's Envoy configuration, without credentials.
    config: Value,
}

#[derive(Debug)]
struct Kept {
    filter: Filter,
    file: File,
    /// The reason why the file is not up to date; empty if the file is up to date.
    failure: String,
}

/// Filters by name.
#[derive(Debug)]
pub(crate) struct Credentials(Mutex<BTreeMap<String, Kept>>);

impl Credentials {
    /// Reads the chart's description, and writes the filters' files to `folder`.
    pub(crate) fn open(description: &Path, folder: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(description).map_err(|error| error.to_string())?;
        let filters: BTreeMap<String, Filter> =
            serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let kept = |(name, filter): (String, Filter)| {
            let file = File::open(folder.join(format!("{name}.json")));
            (name, Kept { filter, file, failure: String::new() })
        };
        let all = Self(Mutex::new(filters.into_iter().map(kept).collect()));
        all.update();
        Ok(all)
    }

    /// Keeps the files up to date. Never returns.
    pub(crate) async fn run(&self) {
        loop {
            sleep(EVERY).await;
            self.update();
        }
    }

    fn update(&self) {
        for (name, kept) in self.lock().iter_mut() {
            let text = filter(name, &kept.filter);
            let written =
                text.and_then(|text| kept.file.replace(text).map_err(|it| it.to_string()));
            let failure = match written {
                Ok(changed) => {
                    if changed {
                        info!(filter = name, "credentials: written");
                    }
                    String::new()
                }
                Err(failure) => failure,
            };
            if failure != kept.failure && !failure.is_empty() {
                error!(filter = name, "credentials: {failure}; the previous ones stay valid");
            }
            kept.failure = failure;
        }
    }

    /// Returns a line for each filter that has no file.
    pub(crate) fn missing(&self) -> String {
        let mut words = String::new();
        for (name, kept) in self.lock().iter().filter(|(_, kept)| !kept.file.exists()) {
            let _ = writeln!(words, "no credentials of {name}: {}", kept.failure);
        }
        words
    }

    /// The metrics as Prometheus text.
    pub(crate) fn metrics(&self) -> String {
        let name = "corelane_gateway_agent_credentials_current";
        let mut text = format!(
            "# HELP {name} Whether Envoy has the credentials of the Secret\n# TYPE {name} gauge\n"
        );
        for (filter, kept) in self.lock().iter() {
            let current = u8::from(kept.failure.is_empty());
            let _ = writeln!(text, "{name}{{filter=\"{filter}\"}} {current}");
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Envoy's file for a filter. An error does not contain the secret.
fn filter(name: &str, filter: &Filter) -> Result<String, String> {
    let mut config = filter.config.clone();
    if config["@type"].as_str().is_some_and(|it| it.ends_with(".BasicAuth")) {
        config["users"] = json!({"inline_string": users(&filter.folder)?});
    } else {
        config["credentials"] = keys(&filter.folder)?;
    }
    Ok(Update::of_filter(name, &config).text)
}

/// The API key of each client: the files of the folder.
fn keys(folder: &Path) -> Result<Value, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with(".."))
        .collect();
    names.sort();
    let mut known = HashSet::new();
    let mut keys = Vec::new();
    for client in names {
        let key = match fs::read_to_string(folder.join(&client)) {
            Ok(text) => text.trim().to_owned(),
            // The kubelet first removes an entry and then the link to it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{client}: {error}")),
        };
        if key.len() < SHORTEST || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let length = key.len();
            return Err(format!(
                "the key of {client} has {length} bytes; expected {SHORTEST} or more visible ASCII characters"
            ));
        }
        if !known.insert(key.clone()) {
            return Err(format!(
                "{client} has the key of another client; expected a key of its own"
            ));
        }
        keys.push(json!({"client": client, "key": key}));
    }
    Ok(Value::Array(keys))
}

/// Users and password hashes, in htpasswd format.
fn users(folder: &Path) -> Result<String, String> {
    let text = fs::read_to_string(folder.join(".htpasswd"));
    let text = text.map_err(|error| format!(".htpasswd: {error}"))?;
    let mut known = HashSet::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim_end)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let hash = |it: &str| it.strip_prefix("{SHA}").is_some_and(|hash| hash.len() == SHA1);
        match line.split_once(':') {
            Some((name, rest)) if !name.is_empty() && hash(rest) && known.insert(name) => {}
            _ => {
                return Err(format!(
                    ".htpasswd: line {number}: expected USER:{{SHA}}HASH with another user in each line"
                ));
            }
        }
    }
    Ok(text.lines().map(|line| format!("{}\n", line.trim_end())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_without_a_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, key) = (folder.path(), "0123456789abcdef012345");
        let write = |name: &str, text: &str| fs::write(path.join(name), text).expect("written");
        let wrong = |error: String, words: &str| {
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("secret"), "{error}");
        };
        write("shop", &format!("{key}\n"));
        assert_eq!(keys(path), Ok(json!([{"client": "shop", "key": key}])));
        write("ci", "secret");
        wrong(keys(path).expect_err("short"), "the key of ci has 6 bytes; expected 22 or more");
        write("ci", key);
        wrong(keys(path).expect_err("twice"), "shop has the key of another client");
        wrong(users(path).expect_err("none"), ".htpasswd: No such file");
        let ann = format!("ann:{{SHA}}{}", "a".repeat(SHA1));
        for line in ["ann", "bob:secret", ":{SHA}secret", "bob:$apr1$secret", &ann] {
            write(".htpasswd", &format!("# users\n{ann}\r\n{line}"));
            wrong(users(path).expect_err(line), ".htpasswd: line 3: expected USER:{SHA}HASH");
        }
        write(".htpasswd", &format!("{ann}\r\n"));
        assert_eq!(users(path), Ok(format!("{ann}\n")));
    }
}
