//! How a connection ends: our side first, then the client's.

use super::{Activity, Connection};

impl Connection {
    /// Our side is closed. Whether bytes of the client may be unread, or come yet: closing then
    /// resets the connection, and the reply may be lost with it (RFC 9112 section 9.6).
    pub(crate) fn leave(&self) -> bool {
        let unread = self.had_body.get() || self.activity.get() == Activity::Header;
        // It did not ask for the end, and may have sent more before it hears of it; over HTTP/2 it
        // sends frames for as long as the connection is open.
        let told = self.told.get();
        let surprised =
            if self.multiplexed.get() { told } else { !told && !self.tracker.is_last() };
        self.enter(Activity::Leaving);
        unread || surprised
    }

    /// Whether our side is closed, and nothing but the client's is waited for.
    pub(crate) fn is_leaving(&self) -> bool {
        self.activity.get() == Activity::Leaving
    }

    /// Waits for the client's side no longer.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }
}
