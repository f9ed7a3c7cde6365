//! The agent's loop: repeats `audit`, `apply` or `restore`, and proves pinning.
//!
//! An exiting agent restores its node only if no other agent will take over.

mod changes;
mod leaving;
mod metrics;
mod pass;
mod status;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use corelane_service::http::Answer;
use corelane_service::kubernetes::ClientError;
use corelane_service::process::{self, Termination};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;
use tracing::{info, warn};

use self::pass::Passes;
use self::status::{Facts, Operation, Status};
use crate::kubernetes::{Kubernetes, words};
use crate::proof::{self, Examiner, Pod, Strangers};
use crate::settings::{Mode, NAME, Settings};

#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("{0}")]
    Runtime(#[from] io::Error),
    #[error("Kubernetes: {0}")]
    Kubernetes(#[from] ClientError),
    #[error("a pass ended early: {0}")]
    Pass(#[from] JoinError),
    #[error("no other agent takes over, but the node could not be restored: {0}")]
    Left(String),
}

pub(crate) fn run(settings: Settings) -> ExitCode {
    match process::block_on(keep(&settings), false).map_err(AgentError::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process::report(NAME, &format!("agent: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn keep(settings: &Settings) -> Result<(), AgentError> {
    let mut termination = Termination::new()?;
    let agent = &settings.agent;
    let no_proof = match agent.node.is_empty() {
        true => "pods need Kubernetes: agent.node is empty",
        false => "the API server has not listed the pods yet",
    };
    let status = Arc::new(Status::new(agent.mode, &settings.profile, no_proof));
    if agent.mode == Mode::Restore && !agent.node.is_empty() && !agent.taint.is_empty() {
        status.facts().tainted = Some("the API server has not been queried yet".to_owned());
    }
    let listener = TcpListener::bind(agent.listen).await;
    let listener = listener.map_err(|error| AgentError::Listen(agent.listen, error))?;
    let mode = agent.mode.text();
    info!(mode, profile = settings.profile, node = agent.node, "agent: started");
    let told = Arc::clone(&status);
    tokio::spawn(corelane_service::http::serve(listener, move |path| answer(path, &told)));
    let passed = Notify::new();
    let talks = Talks {
        examiner: Examiner::new(settings),
        mode: agent.mode,
        status: &status,
        passed: &passed,
    };
    let mut kubernetes = match agent.node.is_empty() {
        true => None,
        false => Some(Kubernetes::new(agent).await?),
    };
    let talking = async {
        match &mut kubernetes {
            Some(kubernetes) => talks.run(kubernetes).await,
            None => pending().await,
        }
    };
    let passes = tokio::select! {
        passes = tune(settings, &status, &passed, &mut termination) => passes?,
        never = talking => match never {},
    };
    leaving::leave(passes, kubernetes).await
}

/// Runs passes, which do not need the API server, until a signal. Waits for the current pass, so that
/// no setting is half written.
async fn tune(
    settings: &Settings,
    status: &Status,
    passed: &Notify,
    termination: &mut Termination,
) -> Result<Passes, AgentError> {
    let all = settings.clone();
    let mut passes = spawn_blocking(move || Passes::new(&all)).await?;
    let mut warned = false;
    loop {
        let (passes_again, outcome) = spawn_blocking(move || {
            let outcome = passes.next();
            (passes, outcome)
        })
        .await?;
        passes = passes_again;
        let left = {
            let mut facts = status.facts();
            facts.passed(outcome.pass, &outcome.changes);
            if !settings.agent.node.is_empty() {
                facts.tell(outcome.messages);
            }
            facts.left_tuned()
        };
        if let (Some(settings), false) = (left, warned) {
            warn!("{}", left_tuned(settings));
        }
        warned = left.is_some();
        passed.notify_one();
        tokio::select! {
            () = sleep(settings.agent.interval) => {}
            () = termination.wait() => return Ok(passes),
        }
    }
}

/// The message of an agent in audit mode that finds a journal.
fn left_tuned(settings: usize) -> String {
    format!(
        "The node is still tuned, though this agent only audits: the journal has {settings} settings. \
         Mode restore writes their originals back; mode apply keeps them tuned."
    )
}

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

fn answer(path: &str, status: &Arc<Status>) -> Answer {
    let fine = || (StatusCode::OK, PLAIN, "ok\n".to_owned());
    match path {
        "/healthz" => fine(),
        "/readyz" => status.facts().ready().map_or_else(|words| not_yet(&words), |()| fine()),
        "/metrics" => (StatusCode::OK, metrics::CONTENT_TYPE, metrics::text(status)),
        "/audit" => audit(&status.facts(), false),
        "/audit.json" => audit(&status.facts(), true),
        "/proof" => proven(&status.facts(), false),
        "/proof.json" => proven(&status.facts(), true),
        _ => (StatusCode::NOT_FOUND, PLAIN, "not found\n".to_owned()),
    }
}

fn not_yet(words: &str) -> Answer {
    (StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{words}\n"))
}

fn audit(facts: &Facts, as_json: bool) -> Answer {
    let Some(pass) = &facts.pass else { return not_yet("the first pass has not ended") };
    if as_json {
        // The output of `audit --output json`, plus fields that only an agent can report.
        let mut value: Value = serde_json::from_str(&pass.report.json()).unwrap_or_default();
        value["mode"] = json!(facts.mode.text());
        value["journal"] = json!(pass.journalled);
        value["error"] = json!(pass.error);
        return (StatusCode::OK, JSON, format!("{value:#}\n"));
    }
    let mut text = pass.report.table();
    if let Some(settings) = facts.left_tuned() {
        text += &format!("{}\n", left_tuned(settings));
    }
    if let Some(error) = &pass.error {
        text += &format!("The last pass failed: {error}\n");
    }
    (StatusCode::OK, PLAIN, text)
}

fn proven(facts: &Facts, as_json: bool) -> Answer {
    match (&facts.proof, as_json) {
        (Err(reason), _) => not_yet(reason),
        (Ok(proof), true) => {
            let text = serde_json::to_string_pretty(proof).expect("a proof has names for keys");
            (StatusCode::OK, JSON, text + "\n")
        }
        (Ok(proof), false) => (StatusCode::OK, PLAIN, proof::table(std::slice::from_ref(proof))),
    }
}

/// Calls the API server after each pass.
#[derive(Debug)]
pub(crate) struct Talks<'a> {
    pub(crate) examiner: Examiner,
    pub(crate) mode: Mode,
    pub(crate) status: &'a Status,
    pub(crate) passed: &'a Notify,
}

impl Talks<'_> {
    /// Retries failures after the next pass.
    pub(crate) async fn run(&self, kubernetes: &mut Kubernetes) -> Infallible {
        let mut strangers = None;
        loop {
            self.answer(Operation::DaemonSet, kubernetes.check_owner().await);
            self.taint(kubernetes).await;
            self.tell(kubernetes).await;
            self.prove(kubernetes, &mut strangers).await;
            self.answer(Operation::DeletionCosts, kubernetes.deletion_costs().await);
            self.passed.notified().await;
        }
    }

    async fn tell(&self, kubernetes: &mut Kubernetes) {
        let messages = std::mem::take(&mut self.status.facts().messages);
        let told = kubernetes.tell(messages).await;
        self.answer(Operation::Events, told);
    }

    /// An agent in audit mode leaves the taint alone, and an agent in restore mode removes it.
    async fn taint(&self, kubernetes: &Kubernetes) {
        let prepared = match (self.mode, self.status.facts().prepared()) {
            (Mode::Audit, _) | (_, None) => return,
            (Mode::Restore, _) => true,
            (Mode::Apply, Some(prepared)) => prepared,
        };
        let outcome = kubernetes.taint(prepared).await;
        self.untainted(&outcome);
        if self.answer(Operation::Taint, outcome) == Some(true) {
            let words = if prepared { "taken off" } else { "put on" };
            info!("the taint of nodes that are not prepared is {words}");
        }
    }

    /// Records that the taint was removed. While this agent is restoring the node, nothing adds the
    /// taint again, so losing the API server later has no effect.
    fn untainted(&self, outcome: &kube::Result<bool>) {
        let mut facts = self.status.facts();
        if facts.tainted.is_some() {
            facts.tainted = outcome.as_ref().err().map(words);
        }
    }

    async fn prove(&self, kubernetes: &Kubernetes, strangers: &mut Option<Strangers>) {
        let pods: Option<Vec<Pod>> = self.answer(Operation::Pods, kubernetes.pods().await);
        let proof = match pods {
            Some(pods) => {
                let (examiner, before) = (self.examiner.clone(), strangers.take());
                let examined = spawn_blocking(move || examiner.examine(&pods, before.as_ref()));
                examined.await.map_err(|error| error.to_string()).map(|(proof, found)| {
                    *strangers = Some(found);
                    proof
                })
            }
            None => Err("the API server does not list the pods".to_owned()),
        };
        self.status.facts().proof = proof;
    }

    /// Counts and logs a failure. Returns the response, if any.
    fn answer<T>(&self, operation: Operation, outcome: kube::Result<T>) -> Option<T> {
        match outcome {
            Ok(answer) => Some(answer),
            Err(error) => {
                *self.status.facts().api_errors.entry(operation).or_default() += 1;
                warn!("API server: {}: {}", operation.text(), words(&error));
                None
            }
        }
    }
}
