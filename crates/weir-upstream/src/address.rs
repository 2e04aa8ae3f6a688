//! Where the connections of a target are opened to, unless its host is a name.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use weir_config::Target;

/// Pause before another attempt while the queue of a listener is full.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// The address of a target; `None` if it has to be resolved.
    pub(crate) fn of(target: &Target) -> Option<Self> {
        if let Some(path) = target.socket_path() {
            return Some(Self::Unix(path.to_owned()));
        }
        let ip: IpAddr = target.host.parse().ok()?;
        Some(Self::Tcp(SocketAddr::new(ip, target.port)))
    }
}

/// The host of a target in metrics and spans (`server.address` of OpenTelemetry); of a Unix domain socket
/// its path.
pub(crate) fn server_address(target: &Target) -> &str {
    target.socket_path().and_then(Path::to_str).unwrap_or(&target.host)
}

/// Connects to a Unix domain socket. While the queue of its listener is full, the kernel does not wait as
/// with TCP but reports `EAGAIN` (connect(2)): the attempt is repeated. Timeouts are those of the caller.
///
/// # Errors
/// No process listens there, or this one may not connect.
pub(crate) async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(FULL_PAUSE).await;
            }
            connected => return connected,
        }
    }
}
