//! TLS for clients: certificates, their reload, and the handshake.
//!
//! It uses rustls with the *ring* provider, which needs only a C compiler to build.

mod certificate;
mod handshake;
mod reload;
mod settings;

pub(crate) use handshake::accept;
pub(crate) use reload::{Reload, Termination, Watch};
pub use settings::Tls;
