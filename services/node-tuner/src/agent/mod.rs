//! The loop that repeats `audit`, `apply` or `restore`, and proves pinning.
//!
//! Nothing is restored when it ends, because the next agent of the node continues.

mod changes;
mod http;
mod metrics;
mod pass;
mod status;
mod talks;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use corelane_service::process::{self, Termination};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;
use tracing::{info, warn};

use self::pass::Passes;
use self::status::Status;
use self::talks::Talks;
use crate::kubernetes::{ClientError, Kubernetes};
use crate::proof::Examiner;
use crate::settings::{Mode, NAME, Settings};

/// Why the agent could not start or continue.
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
}

/// Runs until SIGTERM.
pub(crate) fn run(settings: Settings) -> ExitCode {
    // Waits for the current pass, so that no setting is half written.
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
    tokio::spawn(corelane_service::http::serve(listener, move |path| http::answer(path, &told)));
    let passed = Notify::new();
    let talks = Talks {
        examiner: Examiner::new(settings),
        mode: agent.mode,
        status: &status,
        passed: &passed,
    };
    let kubernetes = match agent.node.is_empty() {
        true => None,
        false => Some(Kubernetes::new(agent).await?),
    };
    let talking = async {
        match kubernetes {
            Some(kubernetes) => talks.run(kubernetes).await,
            None => pending().await,
        }
    };
    tokio::select! {
        outcome = tune(settings, &status, &passed) => outcome?,
        () = talking => {}
        () = termination.wait() => {}
    }
    info!("agent: stopped; settings are not changed");
    Ok(())
}

/// Runs passes until the process ends. They do not need the API server.
async fn tune(settings: &Settings, status: &Status, passed: &Notify) -> Result<(), AgentError> {
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
        sleep(settings.agent.interval).await;
    }
}

/// The message of an agent in audit mode that finds a journal.
fn left_tuned(settings: usize) -> String {
    format!(
        "The node is still tuned, though this agent only audits: the journal has {settings} settings. \
         Mode restore writes their originals back; mode apply keeps them tuned."
    )
}
