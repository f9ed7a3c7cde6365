//! Whether the database can be read and written, for operators.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use corelane::{Dependency, ServerHandle};

use super::fault::Fault;
use crate::projects::store::StoreError;

/// What a connection is for: a full disk, for instance, stops writes alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    Read,
    Write,
}

/// Whether the database can be used; a change is logged once.
#[derive(Debug)]
pub(super) struct Health {
    path: PathBuf,
    read: View,
    write: View,
    /// Kept apart from both: a read or a write of other pages still works.
    damage: View,
}

/// What one kind of access finds, or whether the file is damaged.
#[derive(Debug)]
struct View {
    dependency: Dependency,
    /// Spares the usual request the dependency's lock.
    down: AtomicBool,
}

impl View {
    fn up(&self) {
        if self.down.load(Relaxed) {
            self.down.store(false, Relaxed);
            self.dependency.up();
        }
    }

    /// In reverse order of `up`, whatever runs in between. If the dependency was marked down last, the
    /// flag is set after that, and the next success marks it up.
    fn down(&self, reason: String) {
        self.dependency.down(reason);
        self.down.store(true, Relaxed);
    }
}

impl Health {
    pub(super) fn new(path: PathBuf, server: &ServerHandle) -> Self {
        let view =
            || View { dependency: server.dependency("database"), down: AtomicBool::new(false) };
        Health { path, read: view(), write: view(), damage: view() }
    }

    fn view(&self, access: Access) -> &View {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }

    /// It can be used.
    pub(super) fn works(&self, access: Access) {
        self.view(access).up();
    }

    /// A check of the whole file found no damage.
    pub(super) fn sound(&self) {
        self.damage.up();
    }

    /// It could not be used; returns the error of the request.
    pub(super) fn failed(&self, access: Access, fault: &Fault) -> StoreError {
        let tells = fault.tells();
        match tells {
            StoreError::Unavailable => {
                let view = if fault.is_damage() { &self.damage } else { self.view(access) };
                view.down(format!("{}: {fault}", self.path.display()));
            }
            StoreError::Failed => {
                tracing::error!(path = %self.path.display(), error = %fault, "a statement failed");
            }
            // Counted, and as frequent as the load.
            StoreError::TimedOut | StoreError::Exhausted => {}
        }
        tells
    }

    /// Whether it could not be read or written the last time, except for damage.
    pub(super) fn is_down(&self) -> bool {
        self.read.down.load(Relaxed) || self.write.down.load(Relaxed)
    }

    /// Whether damage was met, and no check since found the file sound.
    pub(super) fn is_damaged(&self) -> bool {
        self.damage.down.load(Relaxed)
    }
}
