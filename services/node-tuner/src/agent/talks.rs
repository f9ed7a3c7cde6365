//! The parts that need the API server: events, the taint, and the pods to prove.
//!
//! Only these wait while it is unreachable.

use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::status::{Operation, Status};
use crate::kubernetes::{Kubernetes, words};
use crate::proof::{Examiner, Pod, Strangers};
use crate::settings::Mode;

/// Calls the API server after each pass.
#[derive(Debug)]
pub(crate) struct Talks<'a> {
    pub(crate) examiner: Examiner,
    pub(crate) mode: Mode,
    pub(crate) status: &'a Status,
    pub(crate) passed: &'a Notify,
}

impl Talks<'_> {
    /// Never returns: failures are retried after the next pass.
    pub(crate) async fn run(&self, mut kubernetes: Kubernetes) {
        let mut strangers = None;
        loop {
            self.taint(&kubernetes).await;
            self.tell(&mut kubernetes).await;
            self.prove(&kubernetes, &mut strangers).await;
            self.passed.notified().await;
        }
    }

    async fn tell(&self, kubernetes: &mut Kubernetes) {
        let messages = std::mem::take(&mut self.status.facts().messages);
        let told = kubernetes.tell(messages).await;
        self.answer(Operation::Events, told);
    }

    /// An agent in audit mode does not change the taint. One in restore mode removes it.
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

    /// Once removed, nobody adds the taint while this agent restores, so an API server that becomes
    /// unreachable later changes nothing.
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

    /// Counts and logs a failure. Returns the reply, if there is one.
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
