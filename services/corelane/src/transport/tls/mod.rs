//! TLS for clients: certificates and their reload.
//!
//! It uses rustls with the *ring* provider, which needs only a C compiler to build.

mod certificate;
mod reload;
mod settings;

pub(crate) use reload::{Reload, Termination, Watch};
pub use settings::Tls;
