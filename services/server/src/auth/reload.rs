//! Reload of the tokens without a restart.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::tokens::{self, Tokens};
use super::{Auth, Source};

/// How the reload of a file ended.
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
    /// Looks at the file for as long as the process lives, from a thread of its own: a volume that
    /// hangs holds nobody else. The whole file is compared, so that a symlink that is swapped, as
    /// that of a Kubernetes volume, is noticed like a file that is written in place.
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

    /// Acts on what the file holds if it is new. What was refused once is not refused again.
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
