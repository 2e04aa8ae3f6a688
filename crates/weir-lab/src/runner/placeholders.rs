//! Free ports, and placeholders of commands that are known only at start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::Path;

/// Ports outside of the system's ephemeral range, which starts at 32768
/// (`net.ipv4.ip_local_port_range`), so that no other process gets the port before the server.
const PORTS: Range<u16> = 20_000..32_000;
/// Largest number of attempts.
const MAX_PORT_ATTEMPTS: usize = 200;

/// A port of this machine without a listener.
pub(super) fn free_port() -> Result<u16, String> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(PORTS))
        .take(MAX_PORT_ATTEMPTS)
        .find(is_free)
        .ok_or_else(|| format!("no port is free: {MAX_PORT_ATTEMPTS} from {PORTS:?} were tried"))
}

/// An address of this machine.
pub(super) fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Values of `${…}` in the command, environment and settings of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Placeholders<'n> {
    pub(super) port: Option<u16>,
    pub(super) data: Option<&'n Path>,
    pub(super) backend: Option<&'n str>,
}

impl Placeholders<'_> {
    /// The text with the values inserted.
    pub(super) fn fill(&self, text: &str) -> String {
        let port = self.port.map(|port| port.to_string());
        let data = self.data.map(|data| data.display().to_string());
        let values = [(PORT, port), (DATA, data), (BACKEND, self.backend.map(str::to_owned))];
        let known = values.into_iter().filter_map(|(name, value)| Some((name, value?)));
        known.fold(text.to_owned(), |text, (name, value)| text.replace(name, &value))
    }
}

/// A free port.
pub(super) const PORT: &str = "${port}";
/// The server's data folder.
pub(super) const DATA: &str = "${data}";
/// Address of the backend.
const BACKEND: &str = "${backend}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_others_stay() {
        let names = Placeholders {
            port: Some(81),
            data: Some(Path::new("/d")),
            backend: Some("127.0.0.1:9"),
        };
        assert_eq!(
            names.fill("--port=${port} ${data}/x http://${backend} ${HOME}"),
            "--port=81 /d/x http://127.0.0.1:9 ${HOME}"
        );
        assert_eq!(Placeholders::default().fill("${port}"), "${port}");
    }
}
