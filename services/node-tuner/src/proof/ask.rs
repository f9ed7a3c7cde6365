//! `node-tuner proof`: shows the agents' proofs.

use std::fmt::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use corelane_service::http::{Url, exchange};
use corelane_service::process;
use http_body_util::Empty;
use hyper::StatusCode;
use tokio::time::timeout;

use super::{Check, ContainerProof, NodeProof, PodProof};
use crate::settings::{NAME, Output, Proof, Settings};

/// Time limit per agent, which only has to send results that it already has.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Answers {
    nodes: Vec<NodeProof>,
    /// Agents that did not respond, with the reasons.
    errors: Vec<String>,
}

pub(crate) fn run(settings: &Settings, proof: &Proof) -> ExitCode {
    let answers = process::block_on(ask_all(&proof.agents), false)
        .unwrap_or_else(|error| Answers { nodes: Vec::new(), errors: vec![error.to_string()] });
    let text = match settings.output {
        Output::Table => table(&answers.nodes),
        Output::Json => answers.json(),
    };
    process::print(&text);
    let (code, words) = answers.verdict(proof.allow_none);
    for words in words {
        process::report(NAME, &words);
    }
    ExitCode::from(code)
}

impl Answers {
    fn proven(&self) -> bool {
        self.errors.is_empty() && self.nodes.iter().all(|node| node.proven)
    }

    /// Exit code, and errors that the table does not show.
    fn verdict(&self, allow_none: bool) -> (u8, Vec<String>) {
        let none = self.nodes.iter().all(|node| node.pods.is_empty());
        if !self.errors.is_empty() {
            (1, self.errors.clone())
        } else if none && !allow_none {
            let words = "the selector of these agents (agent.pods) matches no pod on their nodes: nothing is proven; \
                         --allow-none accepts that";
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
            Ok((url, addresses)) => {
                for address in addresses {
                    match ask(&url, address).await {
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

/// All addresses of the URL's host, which for a headless Service are the addresses of its pods.
async fn addresses(agent: &str) -> Result<(Url, Vec<SocketAddr>), String> {
    let url: Url = agent.parse().map_err(|allowed| format!("expected {allowed}"))?;
    let found = timeout(ANSWER, url.addresses()).await;
    let found = found.map_err(|_| "the name was not resolved in time".to_owned())?;
    let mut addresses = found.map_err(|error| error.to_string())?;
    addresses.sort();
    addresses.dedup();
    Ok((url, addresses))
}

async fn ask(url: &Url, address: SocketAddr) -> Result<NodeProof, String> {
    let request = url.request("/proof.json").body(Empty::<Bytes>::new());
    let request = request.expect("the parts are valid");
    let reply = timeout(ANSWER, exchange(address, request)).await;
    let reply = reply.map_err(|_| format!("no reply from {address} in time"))?;
    let reply = reply.map_err(|error| error.to_string())?;
    match reply.status() {
        StatusCode::OK => serde_json::from_slice(reply.body())
            .map_err(|error| format!("the reply of {address} is not a proof: {error}")),
        status => {
            let words = String::from_utf8_lossy(reply.body());
            Err(format!("{address} replied {status}: {}", words.trim()))
        }
    }
}

const WIDTH: usize = 120;

/// Column where the text starts, after the longest state and the longest check name.
const WORDS: usize = 6 + 16 + 22;

pub(crate) fn table(nodes: &[NodeProof]) -> String {
    let mut text = String::new();
    for node in nodes {
        let _ = writeln!(text, "node {}", node.node);
        for pod in &node.pods {
            self::pod(&mut text, pod);
        }
    }
    let pods = nodes.iter().flat_map(|node| &node.pods);
    let (all, proven) = (pods.clone().count(), pods.filter(|pod| pod.proven).count());
    let _ = writeln!(text, "pods proven: {proven} of {all}, nodes: {}", nodes.len());
    text
}

fn pod(text: &mut String, pod: &PodProof) {
    let verdict = if pod.proven { "proven" } else { "NOT PROVEN" };
    let _ = writeln!(text, "  {}/{}: {verdict}", pod.namespace, pod.pod);
    for container in &pod.containers {
        let ContainerProof { container, cpus, checks, cpu_time: _ } = container;
        let cpus = if cpus.is_empty() { "of unknown CPUs" } else { &format!("on CPU {cpus}") };
        let _ = writeln!(text, "    {container} {cpus}");
        for check in checks {
            self::check(text, check);
        }
    }
}

fn check(text: &mut String, check: &Check) {
    let (state, name) = (check.state.text(), check.check.text());
    let mut line = format!("      {state:<16}{name:<22}");
    for word in check.detail.split_whitespace() {
        if line.len() > WORDS && line.len() + word.len() > WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(WORDS);
        }
        line.push_str(word);
        line.push(' ');
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::super::{Name, State};
    use super::*;

    #[test]
    fn a_long_reason_goes_on_below_its_beginning() {
        let words = "a-container-of-another-pod may run on CPU 3; ".repeat(4);
        let found =
            Check { check: Name::CpusExclusive, state: State::Failed, detail: words.clone() };
        let mut text = String::new();
        check(&mut text, &found);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("      failed          cpus-exclusive        a-container"));
        for line in &lines[1..] {
            assert!(line.starts_with(&" ".repeat(WORDS)) && line.len() <= WIDTH, "{line}");
        }
        let again: Vec<_> = text.split_whitespace().skip(2).collect();
        assert_eq!(again, words.split_whitespace().collect::<Vec<_>>());
    }
}
