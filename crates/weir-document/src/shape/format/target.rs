//! Targets: `http://host:port`; `unix:/path`, a Unix domain socket; or `srv+http://service`, whose SRV
//! records contain hosts and ports.

use super::checks;
use crate::finding::Fault;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// What the address of a Unix domain socket begins with.
const UNIX: &str = "unix:";
/// Longest path of a Unix domain socket in bytes (`sun_path` without its terminator, unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// Host name or address, IPv6 without brackets; of a service, its domain.
    pub host: String,
    /// Port, by default that of the scheme; 0 for a service, whose records contain the port, and for a
    /// Unix domain socket.
    pub port: u16,
    /// `host` or `host:port` for the Host header (IPv6 in brackets, without the scheme's default
    /// port).
    pub authority: String,
    /// Weight relative to the other targets (default 1); 0 takes no requests.
    pub weight: u32,
    /// The name whose SRV records (RFC 2782) contain hosts and ports (`srv+http://…`).
    pub service: Option<String>,
    /// The address of a Unix domain socket, `unix:/path`; host and authority are then `localhost`.
    pub socket: Option<String>,
}

impl Target {
    /// Display name: the name of the service, the address of the socket, or host and port.
    pub fn name(&self) -> &str {
        self.service.as_deref().or(self.socket.as_deref()).unwrap_or(&self.authority)
    }

    /// The path of a Unix domain socket.
    pub fn socket_path(&self) -> Option<&Path> {
        self.socket.as_deref()?.strip_prefix(UNIX).map(Path::new)
    }
}

/// Scheme of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP/1.1.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
}

/// Parses `http://host:port`, `unix:/path` or `srv+http://service`.
pub fn target(text: &str) -> Result<Target, Fault> {
    let fault = |message: &str| Fault::value(format!("`{text}` {message}"));
    if let Some(path) = text.strip_prefix(UNIX) {
        return socket(text, path).map_err(|message| fault(message).help(SOCKET));
    }
    let (plain, of_service) = match text.strip_prefix("srv+") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (scheme, rest) = if let Some(rest) = plain.strip_prefix("http://") {
        (Scheme::Http, rest)
    } else if let Some(rest) = plain.strip_prefix("https://") {
        (Scheme::Https, rest)
    } else if text.contains("://") {
        return Err(fault("has an unsupported scheme").help("`http://`, `https://` or `unix:`"));
    } else {
        return Err(fault("has no scheme").help(format!("write `http://{text}`")));
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if let Some(at) = rest.find(['/', '?', '#']) {
        let scheme = &text[..text.find("://").unwrap_or(0)];
        return Err(fault("has a path").help(format!(
            "write `{scheme}://{}`, and set the path with `proxy: {{path: …}}`",
            &rest[..at]
        )));
    }
    if rest.contains('@') {
        return Err(Fault::value("the target contains a user name or password")
            .help("use `auth: {basic: {user: …, password: …}}` of the upstream"));
    }
    if of_service {
        return service(scheme, rest).map_err(|message| fault(message).help(SERVICE));
    }
    let default = match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    };
    let (host, port) = split_port(rest).ok_or_else(|| fault("has no valid port"))?;
    let port = port.unwrap_or(default);
    if port == 0 {
        return Err(fault("has port 0"));
    }
    let (host, shown) = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(address) if address.parse::<Ipv6Addr>().is_ok() => (address, host.to_owned()),
        Some(_) => return Err(fault("has no valid IPv6 address")),
        None => {
            checks::host(host).map_err(|_| fault("has no valid host"))?;
            if host.contains('*') || host.contains(':') {
                return Err(fault("has no valid host"));
            }
            (host, host.to_ascii_lowercase())
        }
    };
    let authority = if port == default { shown } else { format!("{shown}:{port}") };
    let host = host.to_ascii_lowercase();
    Ok(Target { scheme, host, port, authority, weight: 1, service: None, socket: None })
}

/// An example of a Unix domain socket.
const SOCKET: &str = "write for example `unix:/run/app.sock`: an absolute path";

/// Parses the path of a Unix domain socket, or returns the error. Requests over it are plain HTTP.
fn socket(text: &str, path: &str) -> Result<Target, &'static str> {
    if !path.starts_with('/') || path.starts_with("//") || path.ends_with('/') {
        return Err("has no absolute path of a socket");
    }
    if path.len() > MAX_SOCKET_PATH {
        return Err("has a path of more than 107 bytes, the limit of Unix domain sockets");
    }
    if path.chars().any(char::is_control) {
        return Err("has a path with control characters");
    }
    let localhost = || "localhost".to_owned();
    Ok(Target {
        scheme: Scheme::Http,
        host: localhost(),
        port: 0,
        authority: localhost(),
        weight: 1,
        service: None,
        socket: Some(text.to_owned()),
    })
}

/// An example of a service.
const SERVICE: &str =
    "write for example `srv+http://_api._tcp.example.com`: SRV records contain hosts and ports";

/// Parses the name of a service, or returns the error. Host header and TLS use its domain, the name
/// without the leading labels that begin with `_`: DNS answers are not authenticated (RFC 9525
/// section 6.1).
fn service(scheme: Scheme, name: &str) -> Result<Target, &'static str> {
    if name.contains(':') {
        return Err("has a port");
    }
    let name = name.to_ascii_lowercase();
    let mut domain = name.as_str();
    while let Some((_, rest)) = domain.split_once('.').filter(|_| domain.starts_with('_')) {
        domain = rest;
    }
    let is_name = checks::host(&name).is_ok() && !name.contains('*');
    if !is_name || domain.starts_with('_') || domain.parse::<IpAddr>().is_ok() {
        return Err("is not a service name");
    }
    let (host, authority) = (domain.to_owned(), domain.to_owned());
    Ok(Target { scheme, host, port: 0, authority, weight: 1, service: Some(name), socket: None })
}

/// `host:port`, `host`, `[::1]:port`; `None` if the port is malformed.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let after = text.rfind(']').map_or(0, |i| i + 1);
    match text[after..].rfind(':') {
        None => Some((text, None)),
        Some(at) => {
            let port = &text[after + at + 1..];
            let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            Some((&text[..after + at], Some(port.parse().ok().filter(|_| digits)?)))
        }
    }
}
