//! The fleet.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::fleet::POSTGRES;
use crate::config::tls::UPSTREAM_TLS;
use crate::config::{Advertise, Fleet, Peers, Postgres, PostgresServer};
use percent_encoding::percent_decode_str;
use url::Url;
use weir_document::finding::{Fault, codes};

/// Port of PostgreSQL.
const PORT: u16 = 5432;
/// Minimum length of the shared secret in bytes (RFC 2104 section 3: the length of the hash).
const MIN_KEY_BYTES: usize = 32;
/// What a URL of an admin listener looks like.
const ADVERTISE: &str = "write `https://10.0.0.7:9080`";
/// What a URL looks like.
const EXAMPLE: &str = "write `postgres://weir@db.example.com:5432/weir`";

/// The parts of a URL.
struct Place {
    server: PostgresServer,
    user: String,
    database: String,
}

impl Resolver<'_> {
    /// `fleet`.
    pub(super) fn fleet(&mut self, root: &Fields<'_>) -> Option<Fleet> {
        let fields = root.object("fleet", Fleet::SHAPE)?;
        let postgres = self.postgres(&fields.object("postgres", &POSTGRES)?)?;
        let peers = self.peers(&fields)?;
        Some(Fleet::read(&fields, postgres, peers))
    }

    /// How nodes query each other, `Some(None)` for not at all; `None` with a finding.
    fn peers(&mut self, fields: &Fields<'_>) -> Option<Option<Peers>> {
        let (key, advertise) = match (fields.get("key"), fields.get("advertise")) {
            (Some(key), Some(advertise)) => (key, advertise),
            (None, None) => return Some(None),
            (key, advertise) => {
                let node = key.or(advertise)?;
                self.report
                    .error(codes::MISSING_KEY, node.at, "`key` and `advertise` need each other")
                    .help("nodes query each other at their URLs, with requests signed by the key");
                return None;
            }
        };
        let secret = fields.line("key")?.to_owned();
        if secret.len() < MIN_KEY_BYTES {
            let message = format!("the key needs at least {MIN_KEY_BYTES} bytes");
            let help = "`openssl rand -base64 32` makes one; all nodes have the same";
            self.fault(key, Fault::value(message).help(help));
            return None;
        }
        let plain = fields.bool("plain") == Some(true);
        let url = match advertised(advertise.text()?.trim_end(), plain) {
            Ok(url) => url,
            Err(fault) => {
                self.fault(advertise, fault);
                return None;
            }
        };
        let tls = fields.object("tls", &UPSTREAM_TLS);
        let tls = match url.https || tls.is_some() {
            true => Some(self.upstream_tls(tls, fields.node().at)?),
            false => None,
        };
        Some(Some(Peers { key: secret, advertise: url, tls }))
    }

    fn postgres(&mut self, fields: &Fields<'_>) -> Option<Postgres> {
        let mut found: Option<(Vec<PostgresServer>, String, String)> = None;
        for node in fields.many("url") {
            let Place { server, user, database } = match place(node.text()?.trim_end()) {
                Ok(place) => place,
                Err(fault) => {
                    self.fault(node, fault);
                    return None;
                }
            };
            match &mut found {
                None => found = Some((vec![server], user, database)),
                Some((servers, of, at)) if (&*of, &*at) == (&user, &database) => {
                    servers.push(server)
                }
                Some(_) => {
                    let message = "all URLs must have the same user and database";
                    self.report.error(codes::CONFLICT, node.at, message);
                    return None;
                }
            }
        }
        let (servers, user, database) = found?;
        let tls = self.postgres_tls(fields, &servers)?;
        let password = fields.line("password").map(str::to_owned);
        Some(Postgres { servers, user, database, password, tls })
    }

    /// The TLS of connections, `Some(None)` for none; `None` with a finding.
    fn postgres_tls(
        &mut self,
        fields: &Fields<'_>,
        servers: &[PostgresServer],
    ) -> Option<Option<crate::config::UpstreamTls>> {
        let tls = fields.object("tls", &UPSTREAM_TLS);
        let plain = fields.bool("plain") == Some(true);
        if let (true, Some(own)) = (plain, &tls) {
            let message = "`plain` and `tls` exclude each other";
            self.report.error(codes::CONFLICT, own.node().at, message);
            return None;
        }
        let is_near = servers.iter().all(|server| is_local(&server.host));
        if plain || (tls.is_none() && is_near) {
            return Some(None);
        }
        self.upstream_tls(tls, fields.node().at).map(Some)
    }
}

/// Parses `postgres://USER@HOST:PORT/DATABASE`.
fn place(text: &str) -> Result<Place, Fault> {
    let fault = |message: &str| Fault::value(message.to_owned()).help(EXAMPLE);
    let url = Url::parse(text).map_err(|error| fault(&format!("not a URL: {error}")))?;
    if !matches!(url.scheme(), "postgres" | "postgresql") {
        return Err(fault("not a URL of PostgreSQL"));
    }
    if url.password().is_some() {
        let fault = Fault::value("a password does not belong into the URL");
        return Err(fault.help("write `password: \"file:postgres.password\"`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        let fault = Fault::value("parameters are not supported in the URL");
        return Err(fault.help("TLS is set by `tls`; all other settings are built in"));
    }
    let decoded = |text: &str| {
        percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| fault("not UTF-8"))
    };
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| fault("no host"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let (user, database) = (decoded(url.username())?, decoded(url.path().trim_start_matches('/'))?);
    if user.is_empty() || database.is_empty() || database.contains('/') {
        return Err(fault("the URL needs a user and a database"));
    }
    let server = PostgresServer { host: decoded(host)?, port: url.port().unwrap_or(PORT) };
    Ok(Place { server, user, database })
}

/// Parses `http[s]://HOST:PORT`; http only for this machine, unless `plain`.
fn advertised(text: &str, plain: bool) -> Result<Advertise, Fault> {
    let fault = |message: &str| Fault::value(message.to_owned()).help(ADVERTISE);
    let url = Url::parse(text).map_err(|error| fault(&format!("not a URL: {error}")))?;
    let https = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(fault("neither an http nor an https URL")),
    };
    let is_bare = url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| fault("no host"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // `Url` leaves out the default port of the scheme.
    let port = url.port_or_known_default().filter(|port| *port != 0);
    let (true, Some(port)) = (is_bare, port) else {
        return Err(fault("the URL has a scheme, a host and a port only"));
    };
    if !https && !plain && !is_local(host) {
        let fault = Fault::value("requests to other machines need https");
        return Err(fault.help("set `admin.tls` and write https, or set `plain: true`"));
    }
    Ok(Advertise { https, host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertised_urls_are_bare_and_leave_the_machine_encrypted() {
        let of = |text: &str, plain| advertised(text, plain).map(|url| url.to_string()).ok();
        for (text, plain, shown) in [
            ("https://10.0.0.7:9080", false, "https://10.0.0.7:9080"),
            ("https://a.example.com/", false, "https://a.example.com:443"),
            ("https://[2001:db8::1]:9080", false, "https://[2001:db8::1]:9080"),
            ("http://127.0.0.1:9080", false, "http://127.0.0.1:9080"),
            ("http://[::1]:9080", false, "http://[::1]:9080"),
            ("http://10.0.0.7:9080", true, "http://10.0.0.7:9080"),
        ] {
            assert_eq!(of(text, plain).as_deref(), Some(shown), "{text}");
        }
        for text in [
            "",
            "10.0.0.7:9080",
            "http://10.0.0.7:9080",
            "ftp://10.0.0.7:9080",
            "https://10.0.0.7:0",
            "https://a@10.0.0.7:9080",
            "https://10.0.0.7:9080/v1",
            "https://10.0.0.7:9080/?a",
        ] {
            assert_eq!(of(text, false), None, "{text}");
        }
    }

    #[test]
    fn urls_have_user_host_and_database() {
        let of = |text: &str| place(text).map(|place| (place.server, place.user, place.database));
        let server = |host: &str, port| PostgresServer { host: host.to_owned(), port };
        let names = |user: &str, database: &str| (user.to_owned(), database.to_owned());
        for (text, host, port, (user, database)) in [
            ("postgres://weir@db/weir", "db", 5432, names("weir", "weir")),
            ("postgresql://a%40b@10.0.0.1:6432/x%20y", "10.0.0.1", 6432, names("a@b", "x y")),
            ("postgres://weir@[::1]:5433/weir", "::1", 5433, names("weir", "weir")),
        ] {
            assert_eq!(of(text).ok(), Some((server(host, port), user, database)), "{text}");
        }
        for text in [
            "",
            "weir",
            "mysql://weir@db/weir",
            "postgres://db/weir",
            "postgres://weir@db",
            "postgres://weir@db/",
            "postgres://weir@/weir",
            "postgres://weir:secret@db/weir",
            "postgres://weir@db/weir?sslmode=disable",
            "postgres://weir@db:99999/weir",
            "postgres://weir@db/a/b",
        ] {
            assert!(place(text).is_err(), "{text}");
        }
    }
}
