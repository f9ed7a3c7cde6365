//! Reads replicas' admin ports.

use std::path::Path;
use std::time::{Duration, Instant};

use corelane_service::http::Url;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::lanes::{self, Reading, View};
use crate::checkout;
use crate::exposition::Exposition;
use crate::get::get;

#[derive(Clone, Debug)]
pub(super) struct Target {
    name: String,
    admin: Url,
}

impl Target {
    pub(super) fn of(admin: Url) -> Target {
        let name = format!("{}:{}", admin.host(), admin.port());
        Target { name, admin }
    }

    async fn read(self) -> Result<Reading, String> {
        let view = text(&self.admin, "/lanes").await?;
        let view: Value =
            serde_json::from_str(&view).map_err(|error| format!("/lanes: {error}"))?;
        let metrics = Exposition::read(&text(&self.admin, "/metrics").await?);
        Ok(Reading { at: Instant::now(), view, metrics })
    }
}

async fn text(admin: &Url, path: &str) -> Result<String, String> {
    let reply = get(admin, path).await.map_err(|error| error.to_string())?;
    match reply.status() {
        StatusCode::OK => Ok(String::from_utf8_lossy(reply.body()).into_owned()),
        status => Err(format!("{path} replies {status}")),
    }
}

#[derive(Deserialize)]
struct Topology {
    replicas: Vec<Replica>,
}

#[derive(Deserialize)]
struct Replica {
    name: String,
    admin_port: u16,
}

pub(super) fn of_instance(folder: Option<&Path>) -> Result<Vec<Target>, String> {
    let folders = match folder {
        Some(folder) => vec![folder.to_owned()],
        None => {
            [".corelane", ".run"].map(|place| Path::new(place).join(checkout::instance())).into()
        }
    };
    let file =
        folders.iter().map(|folder| folder.join("topology.json")).find(|file| file.is_file());
    let file = file.ok_or_else(|| {
        let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        format!("nothing is up in {}: name replicas with --admin", folders.join(" or "))
    })?;
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read(&file).map_err(|error| wrong(&error))?;
    let topology: Topology = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
    let target = |replica: Replica| {
        let admin = format!("http://127.0.0.1:{}", replica.admin_port).parse().ok()?;
        Some(Target { name: replica.name, admin })
    };
    Ok(topology.replicas.into_iter().filter_map(target).collect())
}

#[derive(Debug)]
pub(super) struct Sources(Vec<(Target, Option<Reading>)>);

impl Sources {
    pub(super) fn new(targets: Vec<Target>) -> Self {
        Sources(targets.into_iter().map(|target| (target, None)).collect())
    }

    /// Waits, reads all replicas and returns the difference from the previous read. The first call
    /// reads twice.
    pub(super) async fn watch(&mut self, pause: Duration) -> View {
        if self.0.iter().all(|(_, before)| before.is_none()) {
            for (index, reading) in self.read().await {
                self.0[index].1 = reading.ok();
            }
        }
        sleep(pause).await;
        let mut replicas = Vec::new();
        for (index, reading) in self.read().await {
            let (target, before) = &mut self.0[index];
            replicas.push(lanes::replica(&target.name, before.as_ref(), reading.as_ref()));
            *before = reading.ok();
        }
        View { replicas }
    }

    async fn read(&self) -> Vec<(usize, Result<Reading, String>)> {
        let mut tasks = JoinSet::new();
        for (index, (target, _)) in self.0.iter().enumerate() {
            let target = target.clone();
            tasks.spawn(async move { (index, target.read().await) });
        }
        let mut readings = tasks.join_all().await;
        readings.sort_by_key(|(index, _)| *index);
        readings
    }
}
