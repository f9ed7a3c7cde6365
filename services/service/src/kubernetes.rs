//! A Kubernetes API client.

use std::path::Path;
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

const CONNECT: Duration = Duration::from_secs(5);

/// Reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The program does not run in a pod.
    #[error("not in a pod with a service account's token, and no kubeconfig: {0}")]
    InCluster(#[from] InClusterError),
    /// The kubeconfig is invalid.
    #[error("{0}")]
    File(#[from] KubeconfigError),
    /// The configuration lacks something that a client needs.
    #[error("{0}")]
    Client(#[from] kube::Error),
}

/// The error's message with its causes.
pub fn message(error: &kube::Error) -> String {
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

/// Creates a client for the API server of the pod's own cluster or of a kubeconfig, without sending
/// a request. `silence` is the maximum pause within a response. The client does not retry, because
/// only its callers know when a retry makes sense.
///
/// # Errors
///
/// There is no valid configuration.
pub async fn client(kubeconfig: Option<&Path>, silence: Duration) -> Result<Client, ClientError> {
    let mut config = match kubeconfig {
        Some(file) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?
        }
        // The address comes from the environment, so DNS is not needed.
        None => Config::incluster_env()?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(silence);
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}
