//! The loop: what `audit`, `apply` or `restore` do, again and again, and the proof of pinning.
//!
//! Nothing is restored when it ends: the next agent of the node takes over what is there.

mod changes;
mod http;
mod metrics;
mod pass;
mod status;
mod talks;

use std::future::pending;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::sleep;
use tracing::{info, warn};

use self::pass::Passes;
use self::status::Status;
use self::talks::Talks;
use crate::kubernetes::{ClientError, Kubernetes};
use crate::proof::Examiner;
use crate::settings::{Mode, Settings};

/// Why it did not even begin, or could not go on.
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
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(AgentError::from)
        // At its end the runtime waits for the pass under way: nothing is half written.
        .and_then(|runtime| runtime.block_on(keep(&settings)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not `eprintln!`, which panics when nobody reads standard error any more.
            let _ = writeln!(io::stderr(), "node-tuner: agent: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn keep(settings: &Settings) -> Result<(), AgentError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let agent = &settings.agent;
    let no_proof = match agent.node.is_empty() {
        true => "no pods are known without Kubernetes: agent.node is empty",
        false => "the API server has not told of any pods yet",
    };
    let status = Arc::new(Status::new(agent.mode, &settings.profile, no_proof));
    if agent.mode == Mode::Restore && !agent.node.is_empty() && !agent.taint.is_empty() {
        status.facts().tainted = Some("the API server was not asked yet".to_owned());
    }
    let listener = TcpListener::bind(agent.listen).await;
    let listener = listener.map_err(|error| AgentError::Listen(agent.listen, error))?;
    let mode = agent.mode.text();
    info!(mode, profile = settings.profile, node = agent.node, "agent: begun");
    let told = Arc::clone(&status);
    tokio::spawn(corelane_service::serve(listener, move |path| http::answer(path, &told)));
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
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("agent: ended; settings stay as they are");
    Ok(())
}

/// Passes for ever. The API server has no part in them.
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

/// What is said where an agent only looks and finds a journal.
fn left_tuned(settings: usize) -> String {
    format!(
        "The node is still tuned, though this agent only audits: the journal has {settings} settings. \
         Mode restore writes their originals back; mode apply goes on."
    )
}
