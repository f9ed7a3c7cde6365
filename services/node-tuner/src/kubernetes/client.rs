//! The client of the API server.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Maximum time to connect to the API server.
const CONNECT: Duration = Duration::from_secs(5);

/// Maximum pause within a reply.
const SILENCE: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("not in a pod with a service account's token, and no --agent.kubeconfig: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    #[error("{0}")]
    File(#[from] kube::config::KubeconfigError),
    #[error("{0}")]
    Client(#[from] kube::Error),
}

/// A client for the API server of the pod's own cluster, or of a kubeconfig.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let mut config = match kubeconfig {
        Some(file) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?
        }
        // The address comes from the environment, so DNS is not needed.
        None => Config::incluster_env()?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // The next pass retries.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The message of an error with its causes.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        error => {
            let mut words = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(deeper) = cause {
                let text = deeper.to_string();
                if !words.contains(&text) {
                    words += &format!(": {text}");
                }
                cause = deeper.source();
            }
            words
        }
    }
}

/// Whether the API server replied with this status.
pub(crate) fn refused_with(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Whether a retry would fail too: the error is neither a conflict nor too many requests.
pub(crate) fn refused_for_good(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if (400..500).contains(&status.code) && ![409, 429].contains(&status.code))
}
