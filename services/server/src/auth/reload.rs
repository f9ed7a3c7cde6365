//! Reloads the tokens without a restart.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::tokens::{self, Tokens};
use super::{Auth, Source};

/// The result of a reload.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reload {
    Success,
    Failure,
}

impl Reload {
    pub(super) const ALL: [(Reload, &'static str); 2] =
        [(Reload::Success, "success"), (Reload::Failure, "failure")];
}

impl Auth {
    /// Watches the file on a separate thread, so that a volume that hangs blocks nothing else. The
    /// whole content is compared, so that a swapped symlink of a Kubernetes volume is noticed like
    /// a write in place.
    pub(crate) fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        let Some(source) = &self.source else { return Ok(()) };
        let (every, mut seen) = (source.every, Ok(source.text.clone()));
        tracing::info!(
            file = %source.file.display(), tokens = self.current().len(), "tokens loaded"
        );
        let auth = Arc::clone(self);
        let watch = move || {
            loop {
                std::thread::sleep(every);
                auth.look(&mut seen);
            }
        };
        std::thread::Builder::new().name("tokens".to_owned()).spawn(watch).map(drop)
    }

    /// Applies the file's content if it is new. Content that was rejected is not checked again.
    fn look(&self, seen: &mut Result<String, String>) {
        let Some(source) = &self.source else { return };
        let read = tokens::read(&source.file);
        if read == *seen {
            return;
        }
        let parsed = read.as_deref().map_err(Clone::clone).and_then(Tokens::parse);
        let file = source.file.display();
        match parsed {
            Ok(tokens) => {
                tracing::info!(%file, tokens = tokens.len(), "tokens reloaded");
                self.replace(tokens);
                source.note(Reload::Success);
            }
            Err(error) => {
                tracing::error!(%file, error, "tokens not reloaded: the former ones stay active");
                source.note(Reload::Failure);
            }
        }
        *seen = read;
    }
}

impl Source {
    fn note(&self, reload: Reload) {
        self.reloads[reload as usize].fetch_add(1, Relaxed);
        self.up_to_date.store(matches!(reload, Reload::Success), Relaxed);
    }
}
