//! Health of reads and writes, for operators.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use corelane::{Dependency, ServerHandle};

use super::fault::Fault;
use crate::projects::store::StoreError;

/// A full disk, for instance, affects only writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    Read,
    Write,
}

/// Whether the database is usable. Changes are logged once.
#[derive(Debug)]
pub(super) struct Health {
    path: PathBuf,
    read: View,
    write: View,
    /// Tracked separately, because access to other pages still works.
    damage: View,
}

#[derive(Debug)]
struct View {
    dependency: Dependency,
    down: AtomicBool,
}

impl View {
    fn up(&self) {
        if self.down.load(Relaxed) {
            self.down.store(false, Relaxed);
            self.dependency.up();
        }
    }

    /// The order is the reverse of `up`. The flag is set after the dependency has been marked down,
    /// so the next success marks the dependency up again.
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

    pub(super) fn works(&self, access: Access) {
        self.view(access).up();
    }

    /// Records that a check of the whole file found no damage.
    pub(super) fn sound(&self) {
        self.damage.up();
    }

    /// Returns the error for the request.
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
            // These errors are only counted, because they can occur with every request.
            StoreError::TimedOut | StoreError::Locked | StoreError::Exhausted => {}
        }
        tells
    }

    /// Whether the last read or write failed for a reason other than damage.
    pub(super) fn is_down(&self) -> bool {
        self.read.down.load(Relaxed) || self.write.down.load(Relaxed)
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.damage.down.load(Relaxed)
    }
}
