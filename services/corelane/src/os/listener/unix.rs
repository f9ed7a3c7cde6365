//! Unix sockets in the file system.

use std::fs::{Permissions, remove_file, set_permissions, symlink_metadata};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// This process's Unix socket file. Dropping it removes the file unless another file has replaced
/// it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(SocketFile { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity)
            && let Err(error) = remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a Unix socket");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

pub(super) fn bind(path: &Path, mode: u32, backlog: i32) -> io::Result<(TcpListener, SocketFile)> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = SocketFile::of(path)?;
    // Regardless of the umask, no client can connect before the socket listens.
    set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(backlog)?;
    Ok((OwnedFd::from(socket).into(), file))
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match symlink_metadata(path) {
        Ok(file) if file.file_type().is_socket() => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => remove_file(path),
            // `bind` reports a path that is in use.
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
