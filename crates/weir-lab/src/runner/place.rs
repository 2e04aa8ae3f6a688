//! Ports, and texts of commands with what is known only when they are started.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

/// A port of this machine that nothing listens on now.
pub(super) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let addr = listener.and_then(|listener| listener.local_addr());
    addr.map(|addr| addr.port()).map_err(|error| format!("no port is free: {error}"))
}

/// An address of this machine.
pub(super) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// What `${…}` of a server's command, environment and settings stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names<'n> {
    pub(super) port: Option<u16>,
    pub(super) data: Option<&'n Path>,
    pub(super) backend: Option<&'n str>,
}

impl Names<'_> {
    /// The text with them filled in.
    pub(super) fn fill(&self, text: &str) -> String {
        let port = self.port.map(|port| port.to_string());
        let data = self.data.map(|data| data.display().to_string());
        let values = [(PORT, port), (DATA, data), (BACKEND, self.backend.map(str::to_owned))];
        let mut out = text.to_owned();
        for (name, value) in values {
            if let Some(value) = value {
                out = out.replace(name, &value);
            }
        }
        out
    }
}

/// A free port.
pub(super) const PORT: &str = "${port}";
/// A folder of its own.
pub(super) const DATA: &str = "${data}";
/// Address of the backend.
const BACKEND: &str = "${backend}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_others_stay() {
        let names =
            Names { port: Some(81), data: Some(Path::new("/d")), backend: Some("127.0.0.1:9") };
        assert_eq!(
            names.fill("--port=${port} ${data}/x http://${backend} ${HOME}"),
            "--port=81 /d/x http://127.0.0.1:9 ${HOME}"
        );
        assert_eq!(Names::default().fill("${port}"), "${port}");
    }
}
