//! `node-tuner proof`: asks agents what they have found.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use corelane_service::exchange;
use http_body_util::Empty;
use hyper::header::HOST;
use hyper::{Request, StatusCode, Uri};
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::{NodeProof, table};
use crate::settings::{Output, Proof, Settings};

/// Longest time for one agent: it only sends what it has found before.
const ANSWER: Duration = Duration::from_secs(10);

/// What all agents have said.
#[derive(Debug, Default)]
struct Answers {
    nodes: Vec<NodeProof>,
    /// Agents that could not be asked, and why.
    errors: Vec<String>,
}

/// Asks agents, and shows what they have found.
pub(crate) fn run(settings: &Settings, proof: &Proof) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answers = match runtime {
        Ok(runtime) => runtime.block_on(ask_all(&proof.agents)),
        Err(error) => Answers { nodes: Vec::new(), errors: vec![error.to_string()] },
    };
    let text = match settings.output {
        Output::Table => table::table(&answers.nodes),
        Output::Json => answers.json(),
    };
    // Nobody may read it any more.
    let _ = io::stdout().write_all(text.as_bytes());
    let (code, words) = answers.verdict(proof.allow_none);
    for words in words {
        let _ = writeln!(io::stderr(), "node-tuner: {words}");
    }
    ExitCode::from(code)
}

impl Answers {
    fn proven(&self) -> bool {
        self.errors.is_empty() && self.nodes.iter().all(|node| node.proven)
    }

    /// The exit code, and what is wrong beside what the table says.
    fn verdict(&self, allow_none: bool) -> (u8, Vec<String>) {
        let none = self.nodes.iter().all(|node| node.pods.is_empty());
        if !self.errors.is_empty() {
            (1, self.errors.clone())
        } else if none && !allow_none {
            let words = "no pod is on the nodes of these agents that their selector (agent.pods) \
                         takes: nothing is proven; --allow-none takes it as well";
            (2, vec![words.to_owned()])
        } else {
            (if self.proven() { 0 } else { 2 }, Vec::new())
        }
    }

    fn json(&self) -> String {
        let value = serde_json::json!({
            "proven": self.proven(),
            "nodes": self.nodes,
            "errors": self.errors,
        });
        format!("{value:#}\n")
    }
}

async fn ask_all(agents: &[String]) -> Answers {
    let mut answers = Answers::default();
    for agent in agents {
        match addresses(agent).await {
            Ok((uri, addresses)) => {
                for address in addresses {
                    match ask(&uri, address).await {
                        Ok(node) => answers.nodes.push(node),
                        Err(error) => answers.errors.push(format!("{agent}: {error}")),
                    }
                }
            }
            Err(error) => answers.errors.push(format!("{agent}: {error}")),
        }
    }
    answers.nodes.sort_by(|one, other| one.node.cmp(&other.node));
    answers
}

/// All addresses that the name in a URL has: those of a headless Service are its pods.
async fn addresses(agent: &str) -> Result<(Uri, Vec<SocketAddr>), String> {
    let uri: Uri = agent.parse().map_err(|error| format!("no URL: {error}"))?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err("allowed is http://NAME:PORT".to_owned());
    };
    let port = uri.port_u16().unwrap_or(80);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found = timeout(ANSWER, lookup_host((host, port))).await;
    let found = found.map_err(|_| "its name was not found in time".to_owned())?;
    let mut addresses: Vec<_> = found.map_err(|error| error.to_string())?.collect();
    addresses.sort();
    addresses.dedup();
    Ok((uri, addresses))
}

async fn ask(uri: &Uri, address: SocketAddr) -> Result<NodeProof, String> {
    let request = Request::get("/proof.json")
        .header(HOST, uri.authority().map_or("", |it| it.as_str()))
        .body(Empty::<Bytes>::new())
        .expect("the parts are valid");
    let reply = timeout(ANSWER, exchange(address, request)).await;
    let reply = reply.map_err(|_| format!("no answer from {address} in time"))?;
    let reply = reply.map_err(|error| error.to_string())?;
    match reply.status() {
        StatusCode::OK => serde_json::from_slice(reply.body())
            .map_err(|error| format!("what {address} says is no proof: {error}")),
        status => {
            let words = String::from_utf8_lossy(reply.body());
            Err(format!("{address} answered {status}: {}", words.trim()))
        }
    }
}
