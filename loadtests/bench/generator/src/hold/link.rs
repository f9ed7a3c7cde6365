//! One connection's byte stream, over TCP or TLS.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Error, RootCertStore};

#[derive(Clone, Debug)]
pub(crate) struct Security {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Security {
    /// Trusts exactly this server certificate. Sessions are not resumed, because each connection
    /// represents another client.
    pub(crate) fn new(certificate: &Path, to: SocketAddr) -> Result<Self, String> {
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", certificate.display());
        let own = CertificateDer::from_pem_file(certificate).map_err(|error| problem(&error))?;
        let mut trusted = RootCertStore::empty();
        trusted.add(own).map_err(|error| problem(&error))?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Security { config: Arc::new(config), name: ServerName::IpAddress(to.ip().into()) })
    }

    fn client(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    socket: TcpStream,
    /// Boxed, because most connections do not use TLS.
    tls: Option<Box<ClientConnection>>,
}

impl Link {
    pub(crate) fn new(socket: TcpStream, security: Option<&Security>) -> Self {
        // Fails only for invalid settings, which are the same for all connections.
        let tls = security.map(|security| security.client().expect("a TLS client"));
        Link { socket, tls: tls.map(Box::new) }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Continues the handshake, if there is one. Returns whether requests may be sent.
    pub(crate) fn shake(&mut self) -> Result<bool, Errno> {
        self.pull()?;
        Ok(self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking()))
    }

    /// Returns false if the connection does not accept all bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> bool {
        let Some(tls) = &mut self.tls else {
            return send(&self.socket, bytes, SendFlags::NOSIGNAL) == Ok(bytes.len());
        };
        tls.writer().write_all(bytes).is_ok() && self.push().is_ok()
    }

    /// Reads available bytes like recv(2): 0 bytes mean the end.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        if self.tls.is_none() {
            return recv(&self.socket, buffer, RecvFlags::empty()).map(|(_, length)| length);
        }
        let pulled = self.pull();
        let Some(tls) = &mut self.tls else { return pulled.map(|()| 0) };
        match tls.reader().read(buffer) {
            Ok(length) => Ok(length),
            Err(error) if error.kind() == ErrorKind::WouldBlock => pulled.and(Err(Errno::AGAIN)),
            // The stream closed without a `close_notify`.
            Err(_) => Ok(0),
        }
    }

    /// Reads records until the socket is empty, and responds where TLS requires it.
    fn pull(&mut self) -> Result<(), Errno> {
        loop {
            let Some(tls) = &mut self.tls else { return Ok(()) };
            let arrived = match tls.read_tls(&mut self.socket) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.push(),
                Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            };
            tls.process_new_packets().map_err(|_| Errno::PROTO)?;
            if arrived == 0 {
                return Ok(());
            }
        }
    }

    fn push(&mut self) -> Result<(), Errno> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            let written = tls.write_tls(&mut self.socket);
            written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        Ok(())
    }
}
