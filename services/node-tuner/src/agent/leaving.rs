//! What an exiting agent leaves behind.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::AgentError;
use super::pass::{Outcome, Passes};
use crate::kubernetes::{Departure, Kubernetes, words};

// Together with the search for a successor, these limits fit into the grace period of 30 s.

/// Another program may hold the journal's lock.
const RESTORING: Duration = Duration::from_secs(10);

/// The permissions may be gone.
const TELLING: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_secs(1);

/// Restores the node if no other agent will take over.
pub(super) async fn leave(
    passes: Passes,
    kubernetes: Option<Kubernetes>,
) -> Result<(), AgentError> {
    let departure = match &kubernetes {
        Some(kubernetes) => kubernetes.departure().await,
        None => Departure::Replaced,
    };
    let why = match departure {
        Departure::Last(why) => why,
        Departure::Replaced => {
            info!("agent: stopped; settings are not changed");
            return Ok(());
        }
        Departure::Unknown(why) => {
            warn!("agent: stopped; if no other agent takes over, the node stays tuned: {why}");
            return Ok(());
        }
    };
    info!("agent: no other agent takes over, because {why}: restoring the node");
    let outcome = restore(passes).await?;
    if let Some(mut kubernetes) = kubernetes {
        let told = timeout(TELLING, async {
            kubernetes.taint(true).await?;
            kubernetes.tell(outcome.messages).await
        });
        match told.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!("API server: {}", words(&error)),
            Err(_) => warn!("API server: no answer within {TELLING:?}"),
        }
    }
    match outcome.pass.error {
        Some(error) => Err(AgentError::Left(error)),
        None => {
            info!("agent: stopped; the node is restored");
            Ok(())
        }
    }
}

async fn restore(mut passes: Passes) -> Result<Outcome, AgentError> {
    passes.restore_from_now_on();
    let deadline = Instant::now() + RESTORING;
    loop {
        let (again, outcome) = spawn_blocking(move || {
            let outcome = passes.next();
            (passes, outcome)
        })
        .await?;
        if outcome.pass.error.is_none() || Instant::now() + PAUSE > deadline {
            return Ok(outcome);
        }
        passes = again;
        sleep(PAUSE).await;
    }
}
