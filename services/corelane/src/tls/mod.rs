//! TLS on the port that serves clients: certificates, their reload, the handshake.
//!
//! rustls with the *ring* provider, because that builds with a C compiler alone.

mod certificate;
mod handshake;
mod reload;
mod settings;

pub(crate) use handshake::accept;
pub(crate) use reload::{Reload, Termination, Watch};
pub use settings::Tls;
