//! Free ports, and placeholders of commands that are known only at start.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};

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
    /// Further ports by their names.
    pub(super) ports: &'n [(String, u16)],
    pub(super) data: Option<&'n Path>,
    pub(super) backend: Option<&'n Address>,
    /// The scenario's folder.
    pub(super) folder: Option<&'n Path>,
    /// The folder of all servers of a run.
    pub(super) shared: Option<&'n Path>,
}

/// Address and data folder of a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) authority: Option<String>,
    pub(super) data: Option<PathBuf>,
    /// Further ports by their names.
    pub(super) ports: Vec<(String, u16)>,
}

impl Placeholders<'_> {
    /// The text with the values inserted.
    pub(super) fn fill(&self, text: &str) -> String {
        let shown = |path: &Path| path.display().to_string();
        let backend = self.backend.and_then(|backend| backend.authority.clone());
        let backend_data = self.backend.and_then(|backend| backend.data.as_deref());
        let values = [
            (PORT, self.port.map(|port| port.to_string())),
            (DATA, self.data.map(shown)),
            (BACKEND, backend),
            (BACKEND_DATA, backend_data.map(shown)),
            (FOLDER, self.folder.map(shown)),
            (SHARED, self.shared.map(shown)),
        ];
        let known = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let port = |(name, port): &(String, u16)| (format!("${{port.{name}}}"), port.to_string());
        let backends = self.backend.map(|backend| &backend.ports[..]).unwrap_or_default();
        let backend = |(name, port): &(String, u16)| {
            (format!("${{backend.{name}}}"), local(*port).to_string())
        };
        let all = known.chain(self.ports.iter().map(port)).chain(backends.iter().map(backend));
        all.fold(text.to_owned(), |text, (name, value)| text.replace(&name, &value))
    }

    /// Writes the files of a server into its data folder: each name has a template. A template that
    /// is no text is copied.
    pub(super) fn write(&self, files: &[(String, String)]) -> Result<(), String> {
        let Some(data) = self.data else { return Ok(()) };
        for (name, template) in files {
            let template = self.fill(template);
            let wrong = |error: std::io::Error| format!("{template}: {error}");
            let content = std::fs::read(&template).map_err(wrong)?;
            let content = match String::from_utf8(content) {
                Ok(text) => self.fill(&text).into_bytes(),
                Err(other) => other.into_bytes(),
            };
            std::fs::write(data.join(name), content).map_err(wrong)?;
        }
        Ok(())
    }
}

/// The absolute path of a folder; the current one if empty.
pub(super) fn absolute(folder: &Path) -> PathBuf {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Free ports for names.
pub(super) fn named_ports(names: &[String]) -> Result<Vec<(String, u16)>, String> {
    names.iter().map(|name| Ok((name.clone(), free_port()?))).collect()
}

/// A free port.
pub(super) const PORT: &str = "${port}";
/// The server's data folder.
pub(super) const DATA: &str = "${data}";
/// Address of the backend.
const BACKEND: &str = "${backend}";
/// The backend's data folder.
const BACKEND_DATA: &str = "${backend.data}";
/// The scenario's folder.
const FOLDER: &str = "${folder}";
/// The folder of all servers.
const SHARED: &str = "${shared}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_others_stay() {
        let backend = Address {
            authority: Some("127.0.0.1:9".to_owned()),
            data: Some("/b".into()),
            ports: vec![("bad".to_owned(), 10)],
        };
        let names = Placeholders {
            port: Some(81),
            ports: &[("tls".to_owned(), 82)],
            data: Some(Path::new("/d")),
            backend: Some(&backend),
            folder: Some(Path::new("/f")),
            shared: Some(Path::new("/s")),
        };
        assert_eq!(
            names.fill("--port=${port} ${data}/x http://${backend} ${HOME} ${port.tls} $host"),
            "--port=81 /d/x http://127.0.0.1:9 ${HOME} 82 $host"
        );
        assert_eq!(names.fill("${backend.data}/s ${folder}/t ${shared}"), "/b/s /f/t /s");
        assert_eq!(names.fill("${backend} ${backend.bad}"), "127.0.0.1:9 127.0.0.1:10");
        assert_eq!(Placeholders::default().fill("${port}"), "${port}");
    }

    #[test]
    fn files_are_written_from_their_templates() {
        let folder = tempfile::tempdir().unwrap();
        let template = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::fs::write(template("conf.in"), "listen ${port} $host").unwrap();
        std::fs::write(template("bytes.in"), [0xff, b'$']).unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let names = Placeholders { port: Some(81), data: Some(&data), ..Placeholders::default() };
        let file = |name: &str, from: &str| (name.to_owned(), template(from));
        names.write(&[file("a.conf", "conf.in"), file("b", "bytes.in")]).unwrap();
        assert_eq!(std::fs::read(data.join("a.conf")).unwrap(), b"listen 81 $host");
        assert_eq!(std::fs::read(data.join("b")).unwrap(), [0xff, b'$']);
        let wrong = names.write(&[file("c", "missing.in")]).unwrap_err();
        assert!(wrong.contains("missing.in"), "{wrong}");
    }
}
